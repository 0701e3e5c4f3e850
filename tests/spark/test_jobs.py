"""The jobs on histories of a few lines whose answers are obvious, and on one with planted faults."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline import jobs
from pipeline.histories import SCHEMAS, History, read_lines, read_parquet, write_parquet
from pipeline.judging import judge_lines
from tests.bench import jobs as second_opinion
from tests.bench.histories import make_history
from tests.spark.sessions import quickly

HERE = {"subject": "s", "topic": "t", "partition": 0}
Line = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def quick(spark: SparkSession) -> Iterator[None]:
    with quickly(spark):
        yield


def frame(spark: SparkSession, kind: str, *rows: Line) -> DataFrame:
    schema = SCHEMAS[kind]
    values = [tuple((HERE | row).get(name) for name in schema.fieldNames()) for row in rows]
    return spark.createDataFrame(values, schema)


def produced(spark: SparkSession, *offsets: int, **more: Any) -> DataFrame:
    return frame(spark, "produced", *({"offset": offset, "time_ms": offset * 10, **more} for offset in offsets))


def delivered(spark: SparkSession, *rows: tuple[str, int, int]) -> DataFrame:
    """Member, offset, time; in this order."""
    lines = [
        {"member": member, "offset": offset, "time_ms": time_ms, "sequence": number}
        for number, (member, offset, time_ms) in enumerate(rows)
    ]
    return frame(spark, "delivered", *lines)


def found(result: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in result.select(*columns).collect()), key=str)


# --- lost ---


def test_nothing_is_lost_if_all_was_delivered(spark: SparkSession) -> None:
    all_of_it = delivered(spark, ("a", 0, 1), ("a", 1, 2), ("b", 2, 3))

    assert found(jobs.lost(produced(spark, 0, 1, 2), all_of_it), "first_offset") == []


def test_lost_records_are_found_at_the_beginning_in_the_middle_and_at_the_end(spark: SparkSession) -> None:
    some = delivered(spark, ("a", 2, 1), ("a", 3, 1), ("a", 6, 1))

    result = jobs.lost(produced(spark, *range(9)), some)

    assert found(result, "first_offset", "last_offset", "records", "produced_from_ms") == [
        (0, 1, 2, 0), (4, 5, 2, 40), (7, 8, 2, 70),
    ]  # fmt: skip


def test_a_partition_nobody_read_is_lost_as_a_whole(spark: SparkSession) -> None:
    result = jobs.lost(produced(spark, 0, 1, 2), delivered(spark))

    assert found(result, "first_offset", "last_offset", "records") == [(0, 2, 3)]


def test_an_offset_nothing_was_produced_to_is_not_lost(spark: SparkSession) -> None:
    """A transaction's marker takes one."""
    result = jobs.lost(produced(spark, 0, 1, 3), delivered(spark, ("a", 0, 1), ("a", 1, 2), ("a", 3, 3)))

    assert found(result, "first_offset") == []


def test_subjects_do_not_help_each_other(spark: SparkSession) -> None:
    both = produced(spark, 0).unionByName(produced(spark, 0, subject="other"))

    assert found(jobs.lost(both, delivered(spark, ("a", 0, 1))), "subject", "first_offset") == [("other", 0)]


# --- duplicated, reordered ---


def test_a_second_delivery_names_the_first(spark: SparkSession) -> None:
    result = jobs.duplicated(delivered(spark, ("a", 0, 1), ("a", 1, 2), ("b", 1, 7), ("b", 2, 8)))

    assert found(result, "offset", "first_member", "first_ms", "again_member", "again_ms") == [(1, "a", 2, "b", 7)]


def test_three_deliveries_are_two_too_many(spark: SparkSession) -> None:
    result = jobs.duplicated(delivered(spark, ("a", 5, 1), ("a", 5, 2), ("b", 5, 3)))

    assert found(result, "first_ms", "again_ms") == [(1, 2), (2, 3)]


def test_a_record_after_a_later_one_is_reordered(spark: SparkSession) -> None:
    result = jobs.reordered(delivered(spark, ("a", 0, 1), ("a", 2, 2), ("a", 1, 2), ("a", 3, 4)))

    assert found(result, "offset", "time_ms", "after_offset", "after_ms") == [(1, 2, 2, 2)]


def test_reading_again_after_a_rebalance_is_no_reordering(spark: SparkSession) -> None:
    again = delivered(spark, ("a", 0, 1), ("a", 1, 2), ("a", 2, 3), ("b", 1, 9), ("b", 2, 10), ("b", 3, 11))

    assert found(jobs.reordered(again), "offset") == []


# --- owners ---


def owned(spark: SparkSession, *rows: tuple[str, int, int | None]) -> DataFrame:
    lines = [{"member": member, "from_ms": from_ms, "until_ms": until_ms} for member, from_ms, until_ms in rows]
    return frame(spark, "owned", *lines)


def test_a_zombie_s_delivery_is_found_with_the_true_owner(spark: SparkSession) -> None:
    owners = owned(spark, ("a", 0, 1000), ("b", 1200, None))
    reads = delivered(spark, ("a", 0, 500), ("a", 1, 1050), ("b", 1, 1300), ("a", 2, 1500), ("c", 3, 1160))

    result = jobs.delivered_by_non_owner(reads, owners, slack_ms=100)

    assert found(result, "member", "offset", "time_ms", "owner") == [("a", 2, 1500, "b"), ("c", 3, 1160, None)]


def test_slack_is_what_it_says(spark: SparkSession) -> None:
    owners, reads = (
        owned(spark, ("a", 100, 200)),
        delivered(spark, ("a", 0, 89), ("a", 1, 90), ("a", 2, 210), ("a", 3, 211)),
    )

    assert found(jobs.delivered_by_non_owner(reads, owners, slack_ms=10), "offset") == [(0,), (3,)]


def test_owning_twice_is_owning(spark: SparkSession) -> None:
    owners = owned(spark, ("a", 0, 100), ("b", 100, 300), ("a", 300, None))

    assert found(jobs.delivered_by_non_owner(delivered(spark, ("a", 0, 350)), owners, slack_ms=0), "offset") == []


def test_a_pause_goes_from_the_last_of_the_old_to_the_first_of_the_new(spark: SparkSession) -> None:
    reads = delivered(spark, ("a", 0, 100), ("a", 1, 200), ("b", 2, 950), ("b", 3, 960), ("a", 4, 1000))

    assert found(jobs.pauses(reads), "old_member", "new_member", "last_offset", "first_offset", "pause_ms") == [
        ("a", "b", 1, 2, 750), ("b", "a", 3, 4, 40),
    ]  # fmt: skip


def test_two_members_that_read_at_once_hand_nothing_over(spark: SparkSession) -> None:
    """a stands still until 8000 and wakes up as a zombie beside b, which then keeps the partition."""
    reads = delivered(
        spark,
        ("a", 0, 1000), ("b", 1, 5000), ("b", 2, 7990), ("a", 1, 8000), ("b", 3, 8010), ("a", 2, 8020),
        ("b", 4, 8030), ("b", 5, 9000), ("c", 6, 9100),
    )  # fmt: skip

    assert found(jobs.handovers(jobs.pauses(reads)), "old_member", "new_member", "pause_ms") == [
        ("a", "b", 4000), ("b", "c", 100),
    ]  # fmt: skip


def test_changes_of_owners_close_together_are_one_rebalance(spark: SparkSession) -> None:
    first = owned(spark, ("a", 0, 5000), ("a", 5100, 9000), ("b", 9000, None))
    second = first.selectExpr(
        "subject",
        "'b' as member",
        "topic",
        "1 as partition",
        "from_ms + 20 as from_ms",
        "cast(null as bigint) as until_ms",
    )
    second = second.where("from_ms = 5120")

    result = jobs.rebalances(first.unionByName(second), quiet_ms=1000)

    columns = ("number", "from_ms", "until_ms", "duration_ms", "partitions_stopped", "partitions_moved")
    assert found(result, *columns) == [(1, 0, 0, 0, 0, 0), (2, 5000, 5120, 120, 1, 0), (3, 9000, 9000, 0, 1, 1)]


def test_a_rebalance_lasts_until_every_partition_has_an_owner_again(spark: SparkSession) -> None:
    """However long that takes; and one that nobody takes any more ends it when it is given up."""
    owners = owned(spark, ("a", 0, 5000), ("b", 8000, 20_000))

    columns = ("from_ms", "until_ms", "duration_ms", "partitions_stopped", "partitions_moved")
    assert found(jobs.rebalances(owners, quiet_ms=1000), *columns) == [
        (0, 0, 0, 0, 0), (20_000, 20_000, 0, 1, 0), (5000, 8000, 3000, 1, 1),
    ]  # fmt: skip


def test_the_herd_is_counted_around_its_rebalance(spark: SparkSession) -> None:
    windows = jobs.rebalances(owned(spark, ("a", 10_000, None)))
    writes = [{"time_ms": time_ms, "operation": "create"} for time_ms in (8000, 9500, 10_000, 10_900, 12_000)]
    loads = [
        {"time_ms": time_ms, "packets": packets, "watches": watches, "sessions": 1}
        for time_ms, packets, watches in (
            (8000, 1, 99),
            (9200, 10, 3),
            (10_100, 60, 8),
            (10_950, 75, 5),
            (13_000, 500, 4),
        )
    ]

    result = jobs.herd(windows, frame(spark, "transaction", *writes), frame(spark, "load", *loads))

    assert found(result, "writes", "packets", "watches") == [(3, 65, 8)]


# --- lag, commits ---


def test_a_second_without_an_answer_of_zookeeper_is_a_stall(spark: SparkSession) -> None:
    load = frame(spark, "load", *({"time_ms": at} for at in (1000, 1100, 2050, 3050, 3150, 6000)))

    assert found(jobs.stalls(load), "from_ms", "until_ms", "stall_ms") == [(2050, 3050, 1000), (3150, 6000, 2850)]


def test_lag_is_what_is_produced_and_not_yet_delivered(spark: SparkSession) -> None:
    made = frame(
        spark,
        "produced",
        *({"offset": offset, "time_ms": time_ms} for offset, time_ms in ((0, 50), (1, 60), (2, 150), (3, 350))),
    )
    read = delivered(spark, ("a", 0, 120), ("a", 1, 130), ("b", 1, 230), ("b", 2, 240), ("b", 3, 360))

    assert found(jobs.lag_over_time(made, read, every_ms=100), "time_ms", "lag") == [
        (100, 2),
        (200, 1),
        (300, 0),
        (400, 0),
    ]


def test_a_record_waits_from_its_acknowledgement_to_its_first_delivery(spark: SparkSession) -> None:
    """Told of before it was acknowledged: no wait. Delivered to nobody: lost, no wait. Not produced here: nothing."""
    made = produced(spark, 0, 1, 2, 3)  # at 0, 10, 20, 30
    read = delivered(spark, ("a", 0, 25), ("b", 0, 900), ("a", 1, 8), ("b", 3, 1030), ("b", 7, 2000))

    assert found(jobs.waits(made, read), "offset", "member", "produced_ms", "wait_ms") == [
        (0, "a", 0, 25),
        (1, "a", 10, 0),
        (3, "b", 30, 1000),
    ]


def committed(spark: SparkSession, *rows: tuple[int, int]) -> DataFrame:
    return frame(
        spark, "committed", *({"offset": offset, "time_ms": time_ms, "store": "kafka"} for offset, time_ms in rows)
    )


def test_a_commit_that_goes_back_is_found(spark: SparkSession) -> None:
    result = jobs.commits_going_back(committed(spark, (10, 1), (20, 2), (15, 3), (20, 4)))

    assert found(result, "offset", "time_ms", "after_offset", "after_ms") == [(15, 3, 20, 2)]


def test_commits_are_counted_by_store(spark: SparkSession) -> None:
    assert found(jobs.commit_load(committed(spark, (1, 0), (2, 1000), (3, 2000))), "commits", "commits_per_second") == [
        (3, 1.5)
    ]


def test_zookeeper_s_writes_are_counted_by_kind(spark: SparkSession) -> None:
    writes = frame(spark, "transaction", *({"operation": kind} for kind in ("create", "create", "delete")))

    assert found(jobs.zookeeper_load(writes), "subject", "operation", "writes") == [
        ("s", "create", 2), ("s", "delete", 1),
    ]  # fmt: skip


# --- whole histories ---


def sound_history() -> list[Line]:
    """Two members: b takes partition 0 over from a at 2000 ms; everything is read once, in order."""
    lines: list[Line] = [{"kind": "event", "event": "start", "time_ms": 0}]
    for offset in range(40):
        time_ms = offset * 100
        lines.append({"kind": "produced", "offset": offset, "time_ms": time_ms})
        member = "a" if offset < 20 else "b"
        lines.append(
            {"kind": "delivered", "member": member, "offset": offset, "time_ms": time_ms + 5, "sequence": offset}
        )
    lines += [{"kind": "committed", "offset": n, "time_ms": n * 100, "store": "zookeeper"} for n in (10, 20, 30, 40)]
    lines += [
        {"kind": "owned", "member": "a", "from_ms": 0, "until_ms": 1950},
        {"kind": "owned", "member": "b", "from_ms": 1980, "until_ms": None},
    ]
    return [HERE | line for line in lines]


def planted(fault: str) -> list[Line]:
    lines = sound_history()
    reads = [line for line in lines if line["kind"] == "delivered"]
    if fault == "lost":
        lines.remove(reads[7])
    elif fault == "duplicated":
        lines.append(reads[7] | {"sequence": 1000, "time_ms": 1900})
    elif fault == "reordered":
        reads[7]["time_ms"], reads[8]["time_ms"] = reads[8]["time_ms"], reads[7]["time_ms"]
    elif fault == "delivered_by_non_owner":
        reads[30]["member"] = "a"
    elif fault == "commits_going_back":
        lines.append(HERE | {"kind": "committed", "offset": 15, "time_ms": 3500, "store": "zookeeper"})
    return lines


def write(lines: list[Line], path: Path) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


EVIDENCE: dict[str, Line] = {
    "lost": {"first_offset": 7, "last_offset": 7, "records": 1, "produced_from_ms": 700},
    "duplicated": {"offset": 7, "first_ms": 705, "again_ms": 1900, "again_member": "a"},
    "reordered": {"offset": 7, "time_ms": 805, "after_offset": 8, "after_ms": 705},
    "delivered_by_non_owner": {"member": "a", "offset": 30, "time_ms": 3005, "owner": "b"},
    "commits_going_back": {"offset": 15, "time_ms": 3500, "after_offset": 30, "after_ms": 3000},
}


def test_planted_faults_are_each_found_alone_and_with_their_evidence(spark: SparkSession, tmp_path: Path) -> None:
    """All in one history, each fault a subject of its own, beside a sound one."""
    lines = [line | {"subject": fault} for fault in EVIDENCE for line in planted(fault)]
    lines += [line | {"subject": "sound"} for line in sound_history()]

    result = judge_lines(spark, write(lines, tmp_path / "h.jsonl"), tmp_path / "parquet")

    for fault, expected in EVIDENCE.items():
        assert result.findings[fault].counts == {fault: 1}
        [evidence] = result.findings[fault].evidence
        assert {name: evidence[name] for name in expected} == expected
    assert {"subject": "sound", "produced": 40, "delivered": 40} in result.tables["sizes"]
    assert [row["pause_ms"] for row in result.tables["pauses"] if row["subject"] == "sound"] == [100]


def test_what_happened_before_the_timeline_is_no_finding_but_a_loss_is_one(spark: SparkSession, tmp_path: Path) -> None:
    """The first joins are no part of a scenario; here all is over when it begins."""
    start = HERE | {"kind": "event", "event": "start", "time_ms": 60_000}
    lines = [
        line | {"subject": fault}
        for fault in EVIDENCE
        for line in [*(line for line in planted(fault) if line["kind"] != "event"), start]
    ]

    result = judge_lines(spark, write(lines, tmp_path / "h.jsonl"), tmp_path / "parquet")

    assert {name: finding.counts for name, finding in result.findings.items()} == {
        "lost": {"lost": 1}, "duplicated": {}, "reordered": {}, "delivered_by_non_owner": {}, "commits_going_back": {},
    }  # fmt: skip


def test_parquet_keeps_every_table(spark: SparkSession, tmp_path: Path) -> None:
    lines = read_lines(spark, write(sound_history(), tmp_path / "h.jsonl"))
    write_parquet(lines, tmp_path / "parquet")

    again = read_parquet(spark, tmp_path / "parquet")

    for kind, schema in SCHEMAS.items():
        assert again[kind].schema.fieldNames() == schema.fieldNames()
        assert sorted(again[kind].collect(), key=str) == sorted(lines[kind].collect(), key=str)


def test_a_line_that_is_no_json_is_not_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    path = write(sound_history(), tmp_path / "h.jsonl")
    path.write_text(path.read_text() + "{half a li")

    with pytest.raises(Exception, match="FAILED_READ_FILE"):
        read_lines(spark, path)["delivered"].collect()


def test_a_history_names_the_tables_it_lacks(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match=r"without .*committed"):
        History({"produced": produced(spark, 0)})


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made-up")
    make_history(directory, 200_000)
    return directory


@pytest.mark.parametrize("name", second_opinion.SQL)
def test_duckdb_finds_as_many(spark: SparkSession, made_up: Path, name: str) -> None:
    """A second opinion, from other words in another engine, on a history with faults of every kind."""
    found = second_opinion.on_spark(read_parquet(spark, made_up), name)

    assert found == second_opinion.on_duckdb(made_up, name) > 0
