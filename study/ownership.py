"""Who owned what, and what was committed, from sources that are not the member's own opinion. Pure.

Old protocol: ZooKeeper's transaction log. New protocol: the coordinator tells members only, so what members were told,
ended by whatever comes first: given up, or the partition given to another. A dead member owns what it had until then,
as under the old protocol until its session ends; else a crash would count as one rebalance more.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import Any

from zkconsumer.testing.transactions import Operation, Transaction, flatten

Line = dict[str, Any]


def owners_from_log(transactions: Iterable[Transaction], group: str) -> list[Line]:
    """Lines `owned`, one for each life of an owner node."""
    owner_node = re.compile(rf"/consumers/{re.escape(group)}/owners/([^/]+)/(\d+)$")
    living: dict[str, Line] = {}
    found: list[Line] = []
    for transaction in flatten(transactions):
        gone = transaction.removed if transaction.operation is Operation.CLOSE_SESSION else ()
        if transaction.operation is Operation.DELETE and transaction.path is not None:
            gone = (transaction.path,)
        for path in gone:
            if path in living:
                found.append(living.pop(path) | {"until_ms": transaction.time_ms})
        if transaction.operation is Operation.CREATE and transaction.path is not None:
            match = owner_node.search(transaction.path)
            if match is not None:
                thread = (transaction.data or b"").decode(errors="replace")
                member = thread.removeprefix(f"{group}_").rpartition("-")[0]
                living[transaction.path] = {
                    "kind": "owned", "member": member, "topic": match[1], "partition": int(match[2]),
                    "from_ms": transaction.time_ms, "until_ms": None,
                }  # fmt: skip
    return found + list(living.values())


def owners_from_reports(lines: Iterable[Line]) -> list[Line]:
    """Lines `owned` from lines `assigned` and `revoked`."""
    owner: dict[tuple[str, int], Line] = {}
    found: list[Line] = []

    def end(where: tuple[str, int], at_ms: int) -> None:
        found.append(owner.pop(where) | {"until_ms": at_ms})

    order = {"revoked": 0, "assigned": 1}
    reports = [line for line in lines if line["kind"] in order]
    for line in sorted(reports, key=lambda line: (line["time_ms"], order[line["kind"]])):
        where = (line["topic"], line["partition"])
        holder = owner.get(where)
        if line["kind"] == "revoked":
            if holder is not None and holder["member"] == line["member"]:
                end(where, line["time_ms"])
            continue
        if holder is not None:
            if holder["member"] == line["member"]:
                continue
            end(where, line["time_ms"])
        owner[where] = {
            "kind": "owned", "member": line["member"], "topic": line["topic"], "partition": line["partition"],
            "from_ms": line["time_ms"], "until_ms": None,
        }  # fmt: skip
    return found + list(owner.values())


def commits_from_log(transactions: Iterable[Transaction], group: str) -> list[Line]:
    """Lines `committed`, from the offset nodes."""
    offset_node = re.compile(rf"/consumers/{re.escape(group)}/offsets/([^/]+)/(\d+)$")
    found = []
    for transaction in flatten(transactions):
        if transaction.operation in (Operation.CREATE, Operation.SET_DATA) and transaction.path and transaction.data:
            match = offset_node.search(transaction.path)
            if match is not None and transaction.data.isdigit():
                found.append(
                    {
                        "kind": "committed",
                        "topic": match[1],
                        "partition": int(match[2]),
                        "offset": int(transaction.data),
                        "time_ms": transaction.time_ms,
                        "store": "zookeeper",
                    }
                )
    return found


def commit_from_record(key: bytes | None, value: bytes | None, time_ms: int, group: str) -> Line | None:
    """A line `committed` from a record of __consumer_offsets, if it is a commit of this group."""
    if key is None or value is None or struct.unpack_from(">h", key)[0] > 1:
        return None
    stored_group, at = _text(key, 2)
    topic, at = _text(key, at)
    if stored_group != group:
        return None
    return {
        "kind": "committed", "topic": topic, "partition": struct.unpack_from(">i", key, at)[0],
        "offset": struct.unpack_from(">q", value, 2)[0], "time_ms": time_ms, "store": "kafka",
    }  # fmt: skip


def _text(data: bytes, at: int) -> tuple[str, int]:
    length = struct.unpack_from(">h", data, at)[0]
    return data[at + 2 : at + 2 + length].decode(), at + 2 + length
