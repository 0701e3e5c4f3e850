"""The figures of a run, one row a subject: what the terminal table, the JSON and the page all show. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from study.happenings import Happening, happenings

Row = Mapping[str, Any]
AWAY_MS = 3000
"""So long after its end ZooKeeper may be away."""
CHECKS = ("lost", "duplicated", "reordered", "delivered_by_non_owner", "commits_going_back")


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one subject. Pauses, rebalances and the herd count from the start of the timeline, not the first joins."""

    subject: str
    title: str
    protocol: str
    produced: int
    delivered: int
    lost: int
    duplicated: int
    reordered: int
    delivered_by_non_owner: int
    commits_going_back: int
    pauses: int
    median_pause_ms: int
    longest_pause_ms: int
    longest_wait_ms: int  # of a record, from its acknowledgement to its first delivery
    rebalances: int
    rebalance_ms: int  # all of them together
    partitions_stopped: int
    partitions_moved: int
    zookeeper_writes: int  # of the herd, all rebalances together
    zookeeper_packets: int
    most_watches: int
    most_lag: int
    commits: int
    commit_store: str
    longest_stall_ms: int  # of the machine: then its own lack of time is what one sees
    happened: tuple[Happening, ...]  # what the scenario did, and the pauses after each of it

    @property
    def verdicts(self) -> dict[str, bool]:
        """By check: True if nothing was found."""
        return {check: not getattr(self, check) for check in CHECKS}

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "verdicts": self.verdicts}


def figures(
    subjects: Mapping[str, tuple[str, str]],
    counts: Mapping[str, Mapping[str, int]],
    tables: Mapping[str, Sequence[Row]],
) -> list[Figures]:
    """`subjects` gives title and protocol by name; `counts` what each check found; `tables` as pipeline.judging."""
    return [_of(name, title, protocol, counts, tables) for name, (title, protocol) in subjects.items()]


def start_ms(tables: Mapping[str, Sequence[Row]], subject: str) -> int:
    """When the timeline of a subject began."""
    times = [row["time_ms"] for row in tables["events"] if row["subject"] == subject and row["event"] == "start"]
    return int(times[0]) if times else 0


def _of(
    name: str, title: str, protocol: str, counts: Mapping[str, Mapping[str, int]], tables: Mapping[str, Sequence[Row]]
) -> Figures:
    start = start_ms(tables, name)

    def mine(table: str) -> list[Row]:
        return [row for row in tables[table] if row["subject"] == name]

    pauses = [row["pause_ms"] for row in mine("pauses") if row["from_ms"] >= start]
    windows = [row for row in mine("rebalances") if row["from_ms"] >= start]
    sizes = (mine("sizes") or [{"produced": 0, "delivered": 0}])[0]
    commits = mine("commits")
    return Figures(
        subject=name,
        title=title,
        protocol=protocol,
        produced=sizes["produced"],
        delivered=sizes["delivered"],
        **{check: counts[check].get(name, 0) for check in CHECKS},
        pauses=len(pauses),
        median_pause_ms=round(median(pauses)) if pauses else 0,
        longest_pause_ms=max(pauses, default=0),
        longest_wait_ms=max((row["wait_ms"] for row in mine("waits")), default=0),
        rebalances=len(windows),
        rebalance_ms=sum(row["duration_ms"] for row in windows),
        partitions_stopped=sum(row["partitions_stopped"] for row in windows),
        partitions_moved=sum(row["partitions_moved"] for row in windows),
        zookeeper_writes=sum(row["writes"] for row in windows),
        zookeeper_packets=sum(row["packets"] for row in windows),
        most_watches=max((row["watches"] for row in windows), default=0),
        most_lag=max((row["lag"] for row in mine("lag") if row["time_ms"] >= start), default=0),
        commits=sum(row["commits"] for row in commits),
        commit_store=", ".join(row["store"] for row in commits),
        longest_stall_ms=max(_stalls(mine("stalls"), mine("events"), start), default=0),
        happened=tuple(happenings(mine("events"), mine("pauses"))),
    )


def _stalls(stalls: Sequence[Row], events: Sequence[Row], start: int) -> list[int]:
    """Those since the start that are not the scenario's doing."""
    away = [row["time_ms"] for row in events if row["event"] == "restart zookeeper"]
    return [
        row["stall_ms"]
        for row in stalls
        if row["until_ms"] >= start and not any(row["from_ms"] - AWAY_MS <= at <= row["until_ms"] for at in away)
    ]
