"""A history judged: every job of pipeline.jobs over it, as plain values that a report can be made of."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from pipeline import jobs
from pipeline.histories import History, read_lines, read_parquet, write_parquet

EVIDENCE_ROWS = 20
LOG_FILE = Path(__file__).with_name("log4j2.properties")
Row = dict[str, Any]


class Finding(NamedTuple):
    """How many bad cases a check found for each subject, and the first few of them."""

    counts: dict[str, int]
    evidence: list[Row]


class Judgement(NamedTuple):
    """Findings by name of the check, tables of figures by name of the job."""

    findings: dict[str, Finding]
    tables: dict[str, list[Row]]


@contextmanager
def local_session(name: str, *, cores: int = 2, small: bool = False, memory: str = "1g") -> Iterator[SparkSession]:
    """Spark in a Java of its own, on loopback only, quiet; at the end that Java is gone too.

    `small` is for histories of some minutes: it compiles nothing, which there takes longer than the work itself.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    java_options = f"-Dlog4j2.configurationFile={LOG_FILE.as_uri()}"
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(1 if small else 4 * cores),
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": memory,
        "spark.ui.showConsoleProgress": "false",
    }
    if small:
        java_options += " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        settings |= {
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.adaptive.enabled": "false",
        }
    builder = SparkSession.Builder().master(f"local[{cores}]").appName(name)
    for key, value in {**settings, "spark.driver.extraJavaOptions": java_options}.items():
        builder = builder.config(key, value)
    with tempfile.TemporaryFile() as said:
        try:
            with _errors_into(said):
                spark = builder.getOrCreate()
            try:
                yield spark
            finally:
                spark.stop()
                _end_java()
        except Exception:
            said.seek(0)
            sys.stderr.write(said.read().decode(errors="replace"))
            raise


@contextmanager
def _errors_into(file: IO[bytes]) -> Iterator[None]:
    """What Java writes to standard error from its start on, greetings among it: wanted only if something goes wrong."""
    sys.stderr.flush()
    terminal = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def _end_java() -> None:
    """SparkSession.stop() leaves its Java machine running until this process ends."""
    gateway: Any = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


def judge_lines(spark: SparkSession, lines: Path, parquet: Path) -> Judgement:
    """Keep a history of JSON lines as Parquet, then judge that."""
    write_parquet(read_lines(spark, lines), parquet)
    return judge(read_parquet(spark, parquet))


def judge(history: History, *, progress: Callable[[str], None] = lambda _: None) -> Judgement:
    """Run every job. Small tables come whole; of bad cases at most EVIDENCE_ROWS a subject."""
    produced, delivered = history["produced"].cache(), history["delivered"].cache()
    owned, committed = history["owned"].cache(), history["committed"].cache()
    starts = F.broadcast(_starts(history["event"]))
    checks = {
        "lost": jobs.lost(produced, delivered),
        "duplicated": _since(starts, jobs.duplicated(delivered), "again_ms"),
        "reordered": _since(starts, jobs.reordered(delivered), "time_ms"),
        "delivered_by_non_owner": _since(starts, jobs.delivered_by_non_owner(delivered, owned), "time_ms"),
        "commits_going_back": _since(starts, jobs.commits_going_back(committed), "time_ms"),
    }
    windows = jobs.rebalances(owned).cache()
    figures = {
        "pauses": jobs.handovers(jobs.pauses(delivered)),
        "waits": _longest(_since(starts, jobs.waits(produced, delivered), "produced_ms")),
        "rebalances": jobs.herd(windows, history["transaction"], history["load"]),
        "lag": jobs.lag_over_time(produced, delivered),
        "commits": jobs.commit_load(committed),
        "zookeeper": jobs.zookeeper_load(history["transaction"]),
        "owned": owned,
        "paused": history["paused"],
        "events": history["event"],
        "stalls": jobs.stalls(history["load"]),
        "sizes": _sizes(produced, delivered),
    }
    findings, tables = {}, {}
    for name, frame in checks.items():
        progress(name)
        findings[name] = _finding(frame, weight="records" if name == "lost" else None)
    for name, frame in figures.items():
        progress(name)
        tables[name] = _sorted([row.asDict() for row in frame.collect()])
    for frame in (produced, delivered, owned, committed, windows):
        frame.unpersist()
    return Judgement(findings, tables)


def _starts(events: DataFrame) -> DataFrame:
    """When the timeline of each subject began; what has no such event has begun with its first line."""
    return events.where(F.col("event") == "start").groupBy("subject").agg(F.min("time_ms").alias("start_ms"))


def _since(starts: DataFrame, cases: DataFrame, column: str) -> DataFrame:
    """Those from the start of the timeline on: the first joins are no part of a scenario."""
    begun = F.col("start_ms").isNull() | (F.col(column) >= F.col("start_ms"))
    return cases.join(starts, "subject", "left").where(begun).drop("start_ms")


def _finding(frame: DataFrame, *, weight: str | None) -> Finding:
    """One pass: each row kept carries its subject's sum."""
    subject = Window.partitionBy("subject")
    first = subject.orderBy("topic", "partition", F.to_json(F.struct("*")))
    rows = (
        frame.withColumn("place", F.row_number().over(first))
        .withColumn("total", (F.sum(weight) if weight else F.count("*")).over(subject))
        .where(F.col("place") <= EVIDENCE_ROWS)
        .drop("place")
        .collect()
    )
    evidence = _sorted([row.asDict() for row in rows])
    counts = {row["subject"]: int(row["total"]) for row in evidence}
    return Finding(counts, [{name: value for name, value in row.items() if name != "total"} for row in evidence])


def _longest(waits: DataFrame) -> DataFrame:
    """The record of each subject that waited longest."""
    record = F.struct("wait_ms", "topic", "partition", "offset", "produced_ms", "member")
    return waits.groupBy("subject").agg(F.max(record).alias("record")).select("subject", "record.*")


def _sizes(produced: DataFrame, delivered: DataFrame) -> DataFrame:
    made = produced.groupBy("subject").agg(F.count("*").alias("produced"))
    read = delivered.groupBy("subject").agg(F.count("*").alias("delivered"))
    return made.join(read, "subject", "full").fillna(0, ["produced", "delivered"])


def _sorted(rows: list[Row]) -> list[Row]:
    """In an order that does not depend on Spark's."""
    return sorted(rows, key=lambda row: [(value is None, str(type(value)), value) for value in row.values()])
