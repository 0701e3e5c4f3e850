"""The columns of the source, for Spark and for Arrow.

Only columns that a user's schema names are made: `spark.read.schema("value binary").format("zkconsumer")`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pipeline.errors import UnknownOption

SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, consumer_thread string"
)

_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "consumer_thread": pa.string(),
}
_SPARK_TYPES = dict(column.split(" ") for column in SCHEMA.split(", "))


def arrow_type(column: str) -> pa.DataType:
    return _TYPES[column]


def checked_columns(schema: Any) -> tuple[str, ...]:
    """The columns of a user's schema, in its order; UnknownOption for what the source does not have."""
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if field.name not in _SPARK_TYPES:
            raise UnknownOption(f"the source has no column {field.name}; it has {SCHEMA}")
        if kind != _SPARK_TYPES[field.name]:
            raise UnknownOption(f"column {field.name} is of type {_SPARK_TYPES[field.name]}, not {kind}")
    return tuple(schema.fieldNames())


class RowForm:
    """Makes Spark's batches of what zkconsumer.arrow makes of a chunk."""

    def __init__(self, columns: tuple[str, ...], thread: str | None) -> None:
        self._schema = pa.schema([pa.field(name, _TYPES[name]) for name in columns])
        self._thread = thread

    def spark_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The wanted columns in Spark's types."""
        arrays = [self._column(field, batch) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, field: pa.Field, batch: pa.RecordBatch) -> pa.Array:
        if field.name == "consumer_thread":
            return pa.repeat(pa.scalar(self._thread, pa.string()), batch.num_rows)
        column = batch.column(field.name)
        return column if column.type == field.type else column.cast(field.type)
