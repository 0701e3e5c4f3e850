"""Where queries of tests write to, and what came of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.conformance.group import Group
from zkconsumer.testing.waiting import eventually


class Sink:
    """Parquet files of one query, its checkpoint, and a directory for what receivers hand over."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._directory = directory
        self.segments = directory / "segments"

    @contextmanager
    def running(self, rows: DataFrame) -> Iterator[StreamingQuery]:
        query = self._writer(rows).start()
        try:
            yield query
        finally:
            query.stop()

    def write_what_is_there(self, rows: DataFrame) -> StreamingQuery:
        query: StreamingQuery = self._writer(rows).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        return query

    def offsets(self) -> Counter[tuple[int, int]]:
        if not (self._directory / "rows" / "_spark_metadata" / "0").exists():
            return Counter()
        rows = self._spark.read.schema("partition int, offset bigint").parquet(str(self._directory / "rows")).collect()
        return Counter((row.partition, row.offset) for row in rows)

    def _writer(self, rows: DataFrame) -> Any:
        return (
            rows.writeStream.format("parquet")
            .option("path", str(self._directory / "rows"))
            .option("checkpointLocation", str(self._directory / "checkpoint"))
        )


class HeldCores:
    """Has both cores of the session, or one, until release(): what is planned meanwhile is not read."""

    def __init__(self, spark: SparkSession, directory: Path, *, cores: int = 2) -> None:
        self._context = spark.sparkContext
        self._cores = cores
        self._go = directory / "go"
        self._thread = InheritableThread(target=self._hold, name="held-cores")

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            eventually(lambda: len(self._jobs()) == 1, "cores are held", 60)
        except BaseException:
            self.release()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def release(self) -> None:
        self._go.touch()
        self._thread.join()

    def has_waiting_job(self) -> bool:
        return len(self._jobs()) == 2

    def _jobs(self) -> list[int]:
        return list(self._context.statusTracker().getActiveJobsIds())

    def _hold(self) -> None:
        path = str(self._go)

        def wait(_: Any) -> None:
            import os
            import time

            while not os.path.exists(path):
                time.sleep(0.05)

        self._context.parallelize(range(self._cores), self._cores).foreach(wait)


def each_once(topic_ends: dict[int, int]) -> Counter[tuple[int, int]]:
    return Counter((partition, offset) for partition, end in topic_ends.items() for offset in range(end))


def stored(group: Group, topic: str) -> dict[int, int]:
    return {partition: int(offset) for partition, offset in group.offsets(topic).items()}


def owners(group: Group, topic: str) -> set[str]:
    """Consumer ids."""
    return {owner.rpartition("-")[0] for owner in group.owners(topic).values()}


def metric(query: StreamingQuery, name: str) -> int:
    return int(_told(query).get(name, -1))


def metrics(query: StreamingQuery) -> dict[str, Any]:
    """What progress tells of receivers."""
    return {"receivers": [], "restarts": 0, "doubled_at_most": -1, **_told(query)}


def _told(query: StreamingQuery) -> dict[str, Any]:
    progress = query.lastProgress
    found: dict[str, Any] = (json.loads(progress.sources[0].latestOffset or "null") or {}) if progress else {}
    return found
