"""Who owned what, from logs and reports of a few lines."""

from __future__ import annotations

import struct
from typing import Any

from study.ownership import commit_from_record, commits_from_log, owners_from_log, owners_from_reports
from zkconsumer.testing.transactions import Operation, Transaction

OWNER = "/chroot/consumers/g/owners/t/3"


def entry(time_ms: int, operation: Operation, path: str | None = None, **more: Any) -> Transaction:
    return Transaction(zxid=time_ms, session=1, cxid=1, time_ms=time_ms, operation=operation, path=path, **more)


def spans(lines: list[dict[str, Any]]) -> list[tuple[str, int, int, int | None]]:
    return [(line["member"], line["partition"], line["from_ms"], line["until_ms"]) for line in lines]


def test_an_owner_node_s_life_is_its_ownership() -> None:
    log = [
        entry(10, Operation.CREATE, OWNER, data=b"g_m-1-0", ephemeral=True),
        entry(20, Operation.DELETE, OWNER),
        entry(30, Operation.CREATE, OWNER, data=b"g_m2-0", ephemeral=True),
        entry(40, Operation.CLOSE_SESSION, removed=(OWNER,)),
        entry(50, Operation.CREATE, OWNER, data=b"g_m3-0", ephemeral=True),
        entry(60, Operation.CREATE, "/chroot/consumers/other/owners/t/3", data=b"other_m-0"),
    ]

    assert spans(owners_from_log(log, "g")) == [("m-1", 3, 10, 20), ("m2", 3, 30, 40), ("m3", 3, 50, None)]


def report(kind: str, time_ms: int, member: str) -> dict[str, Any]:
    return {"kind": kind, "time_ms": time_ms, "member": member, "topic": "t", "partition": 0}


def test_reports_are_ended_by_giving_up_and_by_another_s_turn() -> None:
    lines = [
        report("assigned", 10, "a"), report("revoked", 20, "a"),
        report("assigned", 21, "b"),  # stands still, and is not heard of again before c
        report("assigned", 50, "c"), report("revoked", 60, "b"),
    ]  # fmt: skip

    assert spans(owners_from_reports(lines)) == [("a", 0, 10, 20), ("b", 0, 21, 50), ("c", 0, 50, None)]


def test_commits_are_read_from_offset_nodes() -> None:
    node = "/chroot/consumers/g/offsets/t/3"
    log = [entry(1, Operation.CREATE, node, data=b"5"), entry(2, Operation.SET_DATA, node, data=b"7")]

    assert [(line["time_ms"], line["offset"], line["store"]) for line in commits_from_log(log, "g")] == [
        (1, 5, "zookeeper"), (2, 7, "zookeeper"),
    ]  # fmt: skip


def test_commits_are_read_from_records_of_the_offsets_topic() -> None:
    """Bytes as Kafka's OffsetCommitKey version 1 and OffsetCommitValue version 1 lay them out."""
    key = struct.pack(">hh1sh1si", 1, 1, b"g", 1, b"t", 3)
    value = struct.pack(">hqhqq", 1, 42, 0, 0, 0)

    line = commit_from_record(key, value, 99, "g")

    assert line == {"kind": "committed", "topic": "t", "partition": 3, "offset": 42, "time_ms": 99, "store": "kafka"}
    assert commit_from_record(key, value, 99, "other") is None
    assert commit_from_record(key, None, 99, "g") is None
    assert commit_from_record(struct.pack(">hh1s", 2, 1, b"g"), value, 99, "g") is None
