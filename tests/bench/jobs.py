"""The jobs over histories (pipeline.jobs) at size, beside DuckDB on the same files, with the same answers.

    python -m tests.bench jobs [--quick] [--case duplicated]

Each job runs from Parquet to a count of what it found, on two cores, nothing kept between runs. Spark is given 3 GB,
and DuckDB what it takes; JVM and session are up before the clock starts. Promised: time grows no faster than the rows.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import duckdb

from tests.bench.histories import make_history
from tests.bench.report import Growth, Measured, Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.histories import History

T = TypeVar("T")

BENCH = "jobs"
SIZES = (10_000_000, 50_000_000)
QUICK_SIZES = (200_000, 400_000)
ROUNDS = 1
SLOPE = 1.1

_PARTITION = "subject, topic, partition"
_COPIES = f'partition by {_PARTITION} order by "offset", time_ms, member, sequence'
_IN_TIME = f"partition by {_PARTITION} order by time_ms, member, sequence"
SQL = {
    "lost": f"""
        select coalesce(sum(n), 0) from (
            select count(*) as n from produced anti join delivered using ({_PARTITION}, "offset"))""",
    "duplicated": f"""
        select count(*) from (select "offset", lag("offset") over ({_COPIES}) as before from delivered)
        where before = "offset" """,
    "reordered": f"""
        select count(*) from (
            select "offset", max("offset") over ({_IN_TIME} rows between unbounded preceding and 1 preceding) as reached
            from (select *, lag("offset") over ({_COPIES}) as before from delivered)
            where before is distinct from "offset")
        where reached > "offset" """,
    "delivered by non-owner": """
        select count(*) from delivered d where not exists (
            select 1 from owned o where o.subject = d.subject and o.topic = d.topic and o.partition = d.partition
            and o.member = d.member and d.time_ms >= o.from_ms - 100
            and (o.until_ms is null or d.time_ms <= o.until_ms + 100))""",
    "pauses": f"""
        select count(*) from (select member, lag(member) over ({_IN_TIME}) as before from delivered)
        where before <> member""",
}
"""The same questions in DuckDB's words: `lost` by an anti join, which is how one writes it there."""


class Answer(NamedTuple):
    seconds: list[float]
    found: int


def run(report: Report) -> None:
    points: dict[tuple[str, str], list[tuple[float, list[float]]]] = {}
    for rows in QUICK_SIZES if report.quick else SIZES:
        with tempfile.TemporaryDirectory(prefix="histories-") as directory:
            answers = _answers(report, rows, Path(directory))
        for (name, subject), answer in answers.items():
            if answer.found != answers[name, "DuckDB"].found:
                raise AssertionError(f"{name}: {subject} found {answer.found}, not {answers[name, 'DuckDB'].found}")
            points.setdefault((name, subject), []).append((rows, answer.seconds))
            case = f"{name}, {rows:,} rows"
            report.add(Measured(BENCH, case, subject, "s", answer.seconds, more_is_better=False))
        for name in dict.fromkeys(name for name, _ in answers):
            report.show_case(BENCH, f"{name}, {rows:,} rows", "DuckDB")
    for (name, subject), found in points.items():
        promised = None if report.quick or subject == "DuckDB" else SLOPE
        report.grow(Growth(BENCH, name, subject, "rows", "s", found, at_most=promised))


def _answers(report: Report, rows: int, directory: Path) -> dict[tuple[str, str], Answer]:
    from pipeline.histories import read_parquet
    from pipeline.judging import local_session

    seconds, _ = _timed(partial(make_history, directory, rows))
    size = sum(file.stat().st_size for file in directory.rglob("*.parquet")) / 1e6
    report.progress(f"  {rows:,} rows, {size:.1f} MB of Parquet, made in {seconds:.0f} s")
    answers: dict[tuple[str, str], Answer] = {}

    def ask(subject: str, name: str, work: Callable[[], int]) -> None:
        samples, found = zip(*(_timed(work) for _ in range(ROUNDS)), strict=True)
        report.progress(f"  {rows:,} rows: {name} on {subject}: {samples[-1]:.1f} s, found {found[-1]:,}")
        answers[name, subject] = Answer(list(samples), found[-1])

    names = [name for name in SQL if report.takes(name)]
    with local_session("bench", memory="3g") as spark:
        spark.range(1_000_000).selectExpr("sum(id)").collect()
        history = read_parquet(spark, directory)
        for name in names:
            ask("Spark", name, partial(on_spark, history, name))
    for name in names:
        ask("DuckDB", name, partial(on_duckdb, directory, name))
    return answers


def on_spark(history: History, name: str) -> int:
    """How many cases this job finds."""
    from pyspark.sql import functions as F

    from pipeline import jobs

    produced, delivered, owned = history["produced"], history["delivered"], history["owned"]
    asked: dict[str, Callable[[], DataFrame]] = {
        "lost": lambda: jobs.lost(produced, delivered).agg(F.coalesce(F.sum("records"), F.lit(0))),
        "duplicated": lambda: jobs.duplicated(delivered).agg(F.count("*")),
        "reordered": lambda: jobs.reordered(delivered).agg(F.count("*")),
        "delivered by non-owner": lambda: jobs.delivered_by_non_owner(delivered, owned).agg(F.count("*")),
        "pauses": lambda: jobs.pauses(delivered).agg(F.count("*")),
    }
    [row] = asked[name]().collect()
    return int(row[0])


def on_duckdb(directory: Path, name: str) -> int:
    """The same, by DuckDB."""
    database = duckdb.connect(config={"temp_directory": str(directory / "spilled")})
    try:
        database.execute("set threads = 2")
        for table in ("produced", "delivered", "owned"):
            database.execute(f"create view {table} as from read_parquet('{directory / table}/*.parquet')")
        row = database.execute(SQL[name]).fetchone()
        assert row is not None
        return int(row[0])
    finally:
        database.close()


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result
