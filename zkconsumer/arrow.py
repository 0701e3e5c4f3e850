"""Records as Arrow record batches: what KafkaStream.arrow_batches() gives. The only file with pyarrow.

Columns that come as views point into what was fetched; Arrow keeps it alive as long as the batch.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from fetcher.cursor import Columns
from fetcher.partition import PartitionTopicInfo

_TOPIC = pa.dictionary(pa.int32(), pa.string())
_TIMESTAMP = pa.timestamp("ms", tz="UTC")


def schema(*, views: bool = True) -> pa.Schema:
    """topic, partition, offset, timestamp (null: none), timestamp_type (-1, 0, 1), key, value."""
    data_type = pa.binary_view() if views else pa.binary()
    return pa.schema(
        [
            pa.field("topic", _TOPIC, nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", _TIMESTAMP),
            pa.field("timestamp_type", pa.int8(), nullable=False),
            pa.field("key", data_type),
            pa.field("value", data_type),
        ]
    )


class ArrowForm:
    """Makes record batches of one schema."""

    def __init__(self, *, views: bool) -> None:
        self._schema = schema(views=views)

    def record_batch(self, info: PartitionTopicInfo, columns: Columns) -> pa.RecordBatch:
        """The rows of one chunk, all of one partition."""
        rows = columns.rows
        topics = pa.DictionaryArray.from_arrays(
            pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(bytes(4 * rows))]), pa.array([info.topic])
        )
        partitions = pa.repeat(pa.scalar(info.partition, pa.int32()), rows)
        data = [pa.py_buffer(buffer).slice(start) for buffer, start in columns.buffers or ()]
        read = (columns.offsets, columns.timestamps, columns.timestamp_types, columns.keys, columns.values)
        arrays = [
            self._array(field.type, rows, column, data, has_buffers=columns.buffers is not None)
            for field, column in zip(list(self._schema)[2:], read, strict=True)
        ]
        return pa.RecordBatch.from_arrays([topics, partitions, *arrays], schema=self._schema)

    @staticmethod
    def _array(kind: pa.DataType, rows: int, column: Any, data: list[pa.Buffer], *, has_buffers: bool) -> pa.Array:
        if not has_buffers:
            return pa.array(column, kind)
        places, bits, nulls = column
        buffers = [None if bits is None else pa.py_buffer(bits), pa.py_buffer(places)]
        if pa.types.is_binary(kind) or pa.types.is_binary_view(kind):
            viewed = pa.Array.from_buffers(pa.binary_view(), rows, [*buffers, *data], nulls)
            return viewed if viewed.type == kind else viewed.cast(kind)
        return pa.Array.from_buffers(kind, rows, buffers, nulls)
