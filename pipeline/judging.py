"""A history judged: every job of pipeline.jobs over it, as plain values that a report can be made of."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from pipeline import jobs
from pipeline.histories import History, read_lines, read_parquet, write_parquet

EVIDENCE_ROWS = 20
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
def local_session(name: str, *, cores: int = 2) -> Iterator[SparkSession]:
    """Spark in this process's own Java, on loopback only, quiet."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.Builder().master(f"local[{cores}]").appName(name)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def judge_lines(spark: SparkSession, lines: Path, parquet: Path) -> Judgement:
    """Keep a history of JSON lines as Parquet, then judge that."""
    write_parquet(read_lines(spark, lines), parquet)
    return judge(read_parquet(spark, parquet))


def judge(history: History, *, progress: Callable[[str], None] = lambda _: None) -> Judgement:
    """Run every job. Small tables come whole; of bad cases at most EVIDENCE_ROWS a subject."""
    produced, delivered = history["produced"].cache(), history["delivered"].cache()
    owned, committed = history["owned"].cache(), history["committed"].cache()
    checks = {
        "lost": jobs.lost(produced, delivered),
        "duplicated": jobs.duplicated(delivered),
        "reordered": jobs.reordered(delivered),
        "delivered_by_non_owner": jobs.delivered_by_non_owner(delivered, owned),
        "commits_going_back": jobs.commits_going_back(committed),
    }
    windows = jobs.rebalances(owned).cache()
    figures = {
        "pauses": jobs.pauses(delivered),
        "rebalances": jobs.herd(windows, history["transaction"], history["load"]),
        "lag": jobs.lag_over_time(produced, delivered),
        "commits": jobs.commit_load(committed),
        "zookeeper": jobs.zookeeper_load(history["transaction"]),
        "owned": owned,
        "paused": history["paused"],
        "events": history["event"],
        "sizes": _sizes(produced, delivered),
    }
    findings, tables = {}, {}
    for name, frame in checks.items():
        progress(name)
        findings[name] = _finding(frame, weight="records" if name == "lost" else None)
    for name, frame in figures.items():
        progress(name)
        tables[name] = _sorted(frame.collect())
    for frame in (produced, delivered, owned, committed, windows):
        frame.unpersist()
    return Judgement(findings, tables)


def _finding(frame: DataFrame, *, weight: str | None) -> Finding:
    """One pass: rows by subject are few, or the run is worth no more than the first of them."""
    from pyspark.sql import functions as F

    frame = frame.cache()
    number = F.sum(weight) if weight else F.count("*")
    counts = {
        row["subject"]: int(row["number"]) for row in frame.groupBy("subject").agg(number.alias("number")).collect()
    }
    evidence: list[Row] = []
    for subject in sorted(counts):
        rows = frame.where(F.col("subject") == subject).orderBy("topic", "partition").limit(EVIDENCE_ROWS).collect()
        evidence += _sorted(rows)
    frame.unpersist()
    return Finding(counts, evidence)


def _sizes(produced: DataFrame, delivered: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    made = produced.groupBy("subject").agg(F.count("*").alias("produced"))
    read = delivered.groupBy("subject").agg(F.count("*").alias("delivered"))
    return made.join(read, "subject", "full").fillna(0, ["produced", "delivered"])


def _sorted(rows: list[Any]) -> list[Row]:
    """As plain values in an order that does not depend on Spark's."""
    plain = [row.asDict() for row in rows]
    return sorted(plain, key=lambda row: [(value is None, str(type(value)), value) for value in row.values()])
