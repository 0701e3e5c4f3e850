"""The jobs over histories (pipeline.jobs) at size, beside DuckDB on the same files, with the same answers.

    python -m tests.bench jobs [--quick] [--case duplicated]

Each job runs from Parquet to a count of what it found, on two cores, nothing kept between runs. Spark is given 3 GB,
DuckDB 8; JVM and session are up before the clock starts. Promised: time grows no faster than the rows.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from tests.bench.histories import make_history
from tests.bench.promises import Promise, Slope
from tests.bench.report import Report, Sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.histories import History

BENCH = "jobs"
SPARK, DUCKDB = "Spark", "DuckDB"
SIZES = (10_000_000, 100_000_000)
QUICK_SIZES = (100_000, 200_000)
WARM_UP_ROWS = 100_000  # each job once, or compiling it would be counted with the smallest size and flatter the slope
ROUNDS = 1  # of minutes each
DUCKDB_MEMORY = "8GB"  # the rest is spilled: none of them may bring the machine down
SLOPE = 1.1
EXPECTED_S = {
    "lost": 150.0,  # with the making of both histories
    "duplicated": 95.0,
    "reordered": 135.0,
    "delivered by non-owner": 40.0,
    "pauses": 80.0,
    "lag": 35.0,
}

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
    "lag": f"""
        with made as (select {_PARTITION}, time_ms // 250 as slot, max("offset") as made from produced group by all),
        read as (select {_PARTITION}, time_ms // 250 as slot, max("offset") as read from delivered group by all),
        seen as (from made full join read using ({_PARTITION}, slot)),
        grid as (
            select {_PARTITION}, lowest, unnest(range(first, last + 1)) as slot
            from (select {_PARTITION}, min("offset") as lowest from produced group by all)
            join (select subject, min(slot) as first, max(slot) as last from seen group by all) using (subject)),
        behind as (
            select coalesce(max(made) over so_far, lowest - 1) - coalesce(max(read) over so_far, lowest - 1) as records
            from grid left join seen using ({_PARTITION}, slot)
            window so_far as (partition by {_PARTITION} order by slot))
        select sum(greatest(records, 0)) from behind""",
}
"""The same questions in DuckDB's words: `lost` by an anti join, which is how one writes it there. Of `lag`, its sum."""


def cases(*, quick: bool) -> Mapping[str, float]:
    return dict.fromkeys(EXPECTED_S, 3.6) if quick else EXPECTED_S


def promises() -> Iterator[Promise]:
    for name in SQL:
        yield Slope(BENCH, name, SPARK, SLOPE)


def run(report: Report) -> None:
    from pipeline.judging import local_session

    names = [name for name in SQL if report.takes(name)]
    with tempfile.TemporaryDirectory(prefix="histories-") as directory:
        histories = {rows: Path(directory) / str(rows) for rows in (QUICK_SIZES if report.quick else SIZES)}
        for rows, place in histories.items():
            report.progress(f"making a history of {rows:,} rows")
            make_history(place, rows)
            size = sum(file.stat().st_size for file in place.rglob("*.parquet")) / 1e6
            report.progress(f"{rows:,} rows: {size:.1f} MB of Parquet")
        with local_session("bench", memory="6g") as spark:
            if not report.quick:
                _warm_up(report, spark, Path(directory) / "warm", names)
            for name in names:
                _measure(report, spark, histories, name)


def _warm_up(report: Report, spark: SparkSession, place: Path, names: Sequence[str]) -> None:
    from pipeline.histories import read_parquet

    report.progress("warming Spark up")
    make_history(place, WARM_UP_ROWS)
    for name in names:
        on_spark(read_parquet(spark, place), name)


def _measure(report: Report, spark: SparkSession, histories: Mapping[int, Path], name: str) -> None:
    """Both engines in turn, size by size; both have to find as many."""
    from pipeline.histories import read_parquet

    with report.case(name, rounds=ROUNDS, against=DUCKDB, grows_by="rows") as case:
        for _ in case.rounds():
            for rows, place in histories.items():
                found: dict[str, int] = {}
                history = read_parquet(spark, place)
                case.sample(SPARK, "s", _timed, SPARK, found, on_spark, history, name, more_is_better=False, size=rows)
                case.sample(DUCKDB, "s", _timed, DUCKDB, found, on_duckdb, place, name, more_is_better=False, size=rows)
                if len(set(found.values())) > 1:
                    raise AssertionError(f"{name}, {rows:,} rows: not the same was found: {found}")


def _timed(engine: str, found: dict[str, int], work: Callable[..., int], *arguments: object) -> Sample:
    start = time.perf_counter()
    found[engine] = work(*arguments)
    return Sample(time.perf_counter() - start, {"found": found[engine]})


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
        "lag": lambda: jobs.lag_over_time(produced, delivered).agg(F.sum("lag")),
    }
    [row] = asked[name]().collect()
    return int(row[0])


def on_duckdb(directory: Path, name: str) -> int:
    """The same, by DuckDB."""
    spilled = str(directory / "spilled")
    database = duckdb.connect(config={"temp_directory": spilled, "memory_limit": DUCKDB_MEMORY, "threads": 2})
    try:
        for table in ("produced", "delivered", "owned"):
            database.execute(f"create view {table} as from read_parquet('{directory / table}/*.parquet')")
        row = database.execute(SQL[name]).fetchone()
        assert row is not None
        return int(row[0])
    finally:
        database.close()
