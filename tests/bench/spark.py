"""Rows a second into Spark: ours against Spark's own Kafka connector, same Spark, same broker, same records.

    python -m tests.bench spark [--quick]

All subjects run in one session, in turn, round by round, after a round that does not count. A bounded read is timed as
a whole. A stream reads what is there in batches of a limited size, and is timed from the end of its first batch to the
end of its last, so that nobody pays for starting a query or joining a group. Receivers have no such limit; they are
timed from the beginning of their first batch, so that what they received meanwhile is no gift.

Latency: records come at a steady rate; of each batch, when it is in the sink, the age of its median record.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import percentile_approx, unix_millis
from pyspark.sql.streaming.query import StreamingQuery

import pipeline
from pipeline.judging import LOG_FILE
from pipeline.tracker import Tracker
from tests.bench.filling import fill
from tests.bench.promises import AtLeast, Promise
from tests.bench.report import Report, Sample
from tests.spark.sessions import end, local_session
from zkconsumer.testing.jars import jars_of
from zkconsumer.testing.kafka import KafkaCluster

BENCH = "spark"
JARS = "spark-sql-kafka"
CONNECTOR, GROUP, RECEIVERS, WRITE_AHEAD = (
    "Spark's Kafka connector",
    "ours, group mode",
    "ours, receiver",
    "ours, write-ahead",
)
BATCH = "ours, batch mode"
STREAMS = (CONNECTOR, GROUP, RECEIVERS, WRITE_AHEAD)
COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
NAMES = [column.split()[0] for column in COLUMNS.split(", ")]
BATCHES = 6
PARTITIONS = 4
MASTER = "local[4]"  # of which a receiver takes one
STARTS_WITHIN_S, READS_WITHIN_S = 60.0, 180.0


@dataclass(frozen=True)
class Size:
    records: int = 2_000_000
    a_second: int = 20_000
    for_s: float = 8.0
    warms_up: bool = True


QUICK = Size(records=60_000, warms_up=False)
ROUNDS, STREAM_ROUNDS = 5, 3  # a query takes seconds to start and to stop


@dataclass(frozen=True)
class Case:
    name: str
    subjects: Sequence[str]
    is_stream: bool
    sink: str
    expected_s: float


NO_OP, PARQUET, COUNT = "no-op", "parquet", "count"
CASES = (
    Case("batch, no-op sink", (CONNECTOR, BATCH), is_stream=False, sink=NO_OP, expected_s=60),
    Case("batch, count", (CONNECTOR, BATCH), is_stream=False, sink=COUNT, expected_s=25),
    Case("batch, Parquet", (CONNECTOR, BATCH), is_stream=False, sink=PARQUET, expected_s=50),
    Case("stream, no-op sink", STREAMS, is_stream=True, sink=NO_OP, expected_s=90),
    Case("stream, Parquet", STREAMS, is_stream=True, sink=PARQUET, expected_s=85),
)
LATENCY = "latency"
QUICK_CASES = tuple(case for case in CASES if case.sink == NO_OP)


def cases(*, quick: bool) -> Mapping[str, float]:
    if quick:
        return {case.name: 15.0 for case in QUICK_CASES}
    return {case.name: case.expected_s for case in CASES} | {LATENCY: 150.0}


def promises() -> Iterator[Promise]:
    """At least as fast: counting rows, to a sink that does nothing with them, and to Parquet."""
    for case in CASES:
        yield AtLeast(BENCH, case.name, GROUP if case.is_stream else BATCH, CONNECTOR, 1.0)


def run(report: Report) -> None:
    size = QUICK if report.quick else Size()
    cases = [case for case in CASES if report.takes(case.name)]
    report.progress(f"Spark {MASTER}, Kafka 1.1.1, {PARTITIONS} partitions, records of 100 bytes")
    with KafkaCluster(version="1.1.1", full_speed=True) as kafka, _session() as spark:
        if cases:
            kafka.create_topic("rows", partitions=PARTITIONS, message_format=2)
            fill(kafka.bootstrap_servers, "rows", size.records, PARTITIONS, 100)
        is_warm = {True: not size.warms_up, False: not size.warms_up}  # streams, and bounded reads
        for case in cases:
            _measure(report, _Reading(spark, kafka, "rows", size.records), case, warms_up=not is_warm[case.is_stream])
            is_warm[case.is_stream] = True
        if report.takes(LATENCY):
            kafka.create_topic("steady", partitions=PARTITIONS, message_format=2)
            _measure_latency(report, _Reading(spark, kafka, "steady", 0), size)


@contextmanager
def _session() -> Iterator[SparkSession]:
    jars = ",".join(map(str, jars_of(JARS)))
    quietly = f"-Dlog4j2.configurationFile={LOG_FILE.as_uri()}"
    own = {"spark.jars": jars, "spark.driver.memory": "2g", "spark.driver.extraJavaOptions": quietly}
    spark = local_session(MASTER, **own)
    try:
        pipeline.register(spark)
        yield spark
    finally:
        Tracker.close_if_any()
        end(spark)


@contextmanager
def _directory() -> Iterator[Path]:
    """Removed once receivers, which outlive their query by a moment, have left it."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            yield Path(directory)
        finally:
            Tracker.close_if_any()


@dataclass(frozen=True)
class _Reading:
    """Subjects' frames over one topic. Each stream has a group, a checkpoint and a directory of its own."""

    spark: SparkSession
    kafka: KafkaCluster
    topic: str
    records: int
    start: str = "earliest"

    def bounded(self, subject: str) -> DataFrame:
        if subject == CONNECTOR:
            reader = (
                self.spark.read.format("kafka").options(**self._connector_options()).option("endingOffsets", "latest")
            )
            return reader.load().select(NAMES)
        options = {"starting.offsets": "earliest", **self._options()}
        return self.spark.read.schema(COLUMNS).format("zkconsumer").options(**options).load()

    def stream(self, subject: str, directory: Path, most: int | None) -> DataFrame:
        limit = {} if most is None else {"maxOffsetsPerTrigger": str(most)}
        if subject == CONNECTOR:
            return (
                self.spark.readStream.format("kafka").options(**self._connector_options(), **limit).load().select(NAMES)
            )
        options = self._options()
        if subject == GROUP:
            return self.spark.readStream.schema(COLUMNS).format("zkconsumer").options(**options, **limit).load()
        reset = {"auto.offset.reset": options["auto.offset.reset"]}
        return pipeline.create_stream(
            self.spark,
            options["zookeeper.connect"],
            options["group.id"],
            {self.topic: 2},
            reset,
            write_ahead=subject == WRITE_AHEAD,
            directory=str(directory),
            schema=COLUMNS,
        )

    def _connector_options(self) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.kafka.bootstrap_servers,
            "subscribe": self.topic,
            "startingOffsets": self.start,
        }

    def _options(self) -> dict[str, str]:
        return {
            "zookeeper.connect": self.kafka.zookeeper_connect,
            "group.id": f"group-{time.time_ns()}",
            "topics": f"{self.topic}:2",
            "auto.offset.reset": "smallest" if self.start == "earliest" else "largest",
        }


# --- throughput ---


def _measure(report: Report, reading: _Reading, case: Case, *, warms_up: bool) -> None:
    measure = _stream_rate if case.is_stream else _bounded_rate

    def once(subject: str) -> Sample:
        with _directory() as directory:
            rate, batch_s = measure(reading, subject, directory, case.sink)
        return Sample(rate, {"s/batch": batch_s} if case.is_stream else {})

    with report.case(case.name, rounds=STREAM_ROUNDS if case.is_stream else ROUNDS, against=CONNECTOR) as found:
        for subject in case.subjects if warms_up else ():  # classes, compiled code, Python workers
            report.progress(f"{case.name}, warming up: {subject} {once(subject).value:.3g} M rows/s")
        for _ in found.rounds():
            for subject in case.subjects:
                found.sample(subject, "M rows/s", once, subject)


def _bounded_rate(reading: _Reading, subject: str, directory: Path, sink: str) -> tuple[float, float]:
    start = time.perf_counter()
    rows = reading.bounded(subject)
    counted = reading.records
    if sink == COUNT:
        counted = rows.count()
    elif sink == PARQUET:
        rows.write.parquet(str(directory / "rows"))
    else:
        rows.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - start
    _check(counted, reading.records)
    if sink == PARQUET:
        _check(reading.spark.read.parquet(str(directory / "rows")).count(), reading.records)
    return reading.records / seconds / 1e6, seconds


def _stream_rate(reading: _Reading, subject: str, directory: Path, sink: str) -> tuple[float, float]:
    limited = subject in (CONNECTOR, GROUP)
    most = -(-reading.records // BATCHES) if limited else None
    rows = reading.stream(subject, directory / "segments", most)
    writer = rows.writeStream.option("checkpointLocation", str(directory / "checkpoint"))
    if sink == PARQUET:
        writer = writer.format("parquet").option("path", str(directory / "rows"))
    else:
        writer = writer.format("noop")
    query = writer.start()
    try:
        progress = _until_read(query, reading.records)
    finally:
        query.stop()
    if sink == PARQUET:
        _check(reading.spark.read.parquet(str(directory / "rows")).count(), reading.records)
    return _rate(progress, whole_first=not limited)


def _until_read(query: StreamingQuery, records: int) -> list[dict[str, Any]]:
    """The progress of each batch with rows, once all are in the sink."""
    deadline_s = time.monotonic() + READS_WITHIN_S
    while time.monotonic() < deadline_s:
        if error := query.exception():
            raise RuntimeError(str(error))
        found = [json.loads(one.json) for one in query.recentProgress if one.numInputRows]
        if sum(one["numInputRows"] for one in found) >= records:
            _check(sum(one["numInputRows"] for one in found), records)
            return found
        query.awaitTermination(1)
    raise RuntimeError(f"only {sum(one['numInputRows'] for one in found)} of {records} rows came")


def _rate(progress: Sequence[dict[str, Any]], *, whole_first: bool) -> tuple[float, float]:
    """Million rows a second, and the seconds of a batch in the middle."""
    starts = [datetime.fromisoformat(one["timestamp"]).timestamp() for one in progress]
    lengths = [one["durationMs"]["triggerExecution"] / 1000 for one in progress]
    rows = sum(one["numInputRows"] for one in (progress if whole_first else progress[1:]))
    seconds = starts[-1] + lengths[-1] - starts[0] - (0.0 if whole_first else lengths[0])
    return rows / seconds / 1e6, statistics.median(lengths)


def _check(found: int, wanted: int) -> None:
    if found != wanted:
        raise RuntimeError(f"{found} rows instead of {wanted}")


# --- latency ---


def _measure_latency(report: Report, reading: _Reading, size: Size) -> None:
    def once(subject: str) -> Sample:
        with _directory() as directory:
            ages_ms = _latencies_ms(replace(reading, start="latest"), subject, directory, size)
        return Sample(statistics.median(ages_ms), {"oldest, ms": max(ages_ms), "batches": len(ages_ms)})

    with report.case(LATENCY, rounds=STREAM_ROUNDS, against=CONNECTOR) as found:
        for _ in found.rounds():
            for subject in STREAMS:
                found.sample(subject, "ms", once, subject, more_is_better=False)


def _latencies_ms(reading: _Reading, subject: str, directory: Path, size: Size) -> list[float]:
    """Of each batch, the age of its median record."""
    ages_ms: list[float] = []
    has_seen_enough, is_idle = threading.Event(), threading.Event()

    def note(rows: DataFrame, _: int) -> None:
        is_idle.clear()
        try:
            if not has_seen_enough.is_set():
                note_age(rows)
        finally:
            is_idle.set()

    def note_age(rows: DataFrame) -> None:
        [row] = rows.agg(percentile_approx(unix_millis("timestamp"), 0.5).alias("middle")).collect()
        if row.middle is not None:
            ages_ms.append(time.time() * 1000 - row.middle)

    rows = reading.stream(subject, directory / "segments", None)
    with _steady(reading, size.a_second):
        query = rows.writeStream.foreachBatch(note).option("checkpointLocation", str(directory / "checkpoint")).start()
        try:
            _wait_for(lambda: len(ages_ms) >= 3 or query.exception() is not None)
            del ages_ms[:]  # joining is over
            query.awaitTermination(int(size.for_s))
            has_seen_enough.set()
            is_idle.wait(STARTS_WITHIN_S)  # a query that is stopped in the midst of this is loud about it
        finally:
            query.stop()
        if error := query.exception():
            raise RuntimeError(str(error))
    return ages_ms


@contextmanager
def _steady(reading: _Reading, a_second: int) -> Iterator[None]:
    """So many records a second, until the block ends."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": reading.kafka.bootstrap_servers, "linger.ms": 5})
    stopping = threading.Event()

    def produce() -> None:
        start, sent = time.monotonic(), 0
        while not stopping.wait(0.01):
            for _ in range(int((time.monotonic() - start) * a_second) - sent):
                producer.produce(reading.topic, b"x" * 100, partition=sent % PARTITIONS)
                sent += 1
            producer.poll(0)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
        producer.flush(10)


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + STARTS_WITHIN_S
    waiting = threading.Event()
    while not condition():
        if time.monotonic() > deadline_s:
            raise RuntimeError("no batch came in time")
        waiting.wait(0.05)


__all__ = ["cases", "promises", "run"]
