"""What happened in a run, as tables: their columns written down, JSON lines in, Parquet out.

A history is one file of JSON lines. Each line has a `kind`, which is the table it belongs to, and the columns of that
table; times are milliseconds of one clock, the machine's. `subject` is the consumer under study, so that several can be
judged at once by the same rules. docs/study.md says what each table means.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

_TEXT, _INT, _LONG = StringType(), IntegerType(), LongType()


def _table(**columns: StringType | IntegerType | LongType) -> StructType:
    fields = [StructField("subject", _TEXT), *(StructField(name, kind) for name, kind in columns.items())]
    return StructType(fields)


SCHEMAS: Mapping[str, StructType] = {
    # acknowledged by the broker at this time
    "produced": _table(topic=_TEXT, partition=_INT, offset=_LONG, time_ms=_LONG),
    # handed to the application of a member; sequence counts up within a member
    "delivered": _table(member=_TEXT, topic=_TEXT, partition=_INT, offset=_LONG, time_ms=_LONG, sequence=_LONG),
    # stored for the group; store is zookeeper or kafka
    "committed": _table(topic=_TEXT, partition=_INT, offset=_LONG, time_ms=_LONG, store=_TEXT),
    # a member owned a partition from (included) until (excluded); no until: to the end of the history
    "owned": _table(member=_TEXT, topic=_TEXT, partition=_INT, from_ms=_LONG, until_ms=_LONG),
    # a member's process stood still
    "paused": _table(member=_TEXT, from_ms=_LONG, until_ms=_LONG),
    # what the scenario did: start, join, leave, kill, …, end
    "event": _table(event=_TEXT, member=_TEXT, time_ms=_LONG, detail=_TEXT),
    # what ZooKeeper wrote into its transaction log
    "transaction": _table(zxid=_LONG, session=_LONG, time_ms=_LONG, operation=_TEXT, path=_TEXT),
    # what ZooKeeper said of itself at this time: packets since its start, watches and sessions now
    "load": _table(time_ms=_LONG, packets=_LONG, watches=_LONG, sessions=_LONG),
}


class History:
    """The tables of one run, or of several, by name."""

    def __init__(self, tables: Mapping[str, DataFrame]) -> None:
        missing = SCHEMAS.keys() - tables.keys()
        if missing:
            raise ValueError(f"a history without {', '.join(sorted(missing))}: it has {', '.join(sorted(tables))}")
        self._tables = dict(tables)

    def __getitem__(self, name: str) -> DataFrame:
        return self._tables[name]


def read_lines(spark: SparkSession, *files: Path) -> History:
    """A history from its JSON lines. A line that is no JSON stops the reading: a history has no holes."""
    columns = {field.name: field for schema in SCHEMAS.values() for field in schema}
    everything = StructType([StructField("kind", _TEXT), *columns.values()])
    lines = spark.read.schema(everything).option("mode", "FAILFAST").json([str(file) for file in files]).cache()
    return History(
        {kind: lines.where(lines.kind == kind).select(*schema.fieldNames()) for kind, schema in SCHEMAS.items()}
    )


def write_parquet(history: History, directory: Path) -> None:
    """One folder a table, compressed with zstd."""
    for kind in SCHEMAS:
        history[kind].write.mode("overwrite").option("compression", "zstd").parquet(str(directory / kind))


def read_parquet(spark: SparkSession, directory: Path) -> History:
    """What write_parquet() wrote."""
    return History({kind: spark.read.schema(schema).parquet(str(directory / kind)) for kind, schema in SCHEMAS.items()})
