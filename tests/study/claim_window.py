"""How long old consumers take from reading a stored offset to claiming its partition: ours and the real ones.

What the old owner stores in between is delivered again. Members come and go in a group of eight partitions, and their
requests to ZooKeeper are read on the way. Only claims that were granted count.

    python -m tests.study.claim_window [SUBJECT …]
"""

from __future__ import annotations

import statistics
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from study import runner
from study.scenarios import load
from study.subjects.table import subjects_named
from zkconsumer.testing.link import Direction, Link

GET_DATA, CREATES = 4, (1, 15)
JOINS = 8
GRANTED_WITHIN_MS = 60
HEAD = """
title = "Members come and go"
duration_s = {duration_s}
[workload]
topics = {{ orders = 8 }}
rate = 300
[group]
members = 2
"""
STEP = '[[event]]\nat = {at}\ndo = "{do}"\nmembers = ["m{number}"]\n'


class Asked(NamedTuple):
    """A request to ZooKeeper for one node."""

    time_ms: float
    operation: int
    path: str


class ZooKeeperTap:
    """Reads what one member asks, off the link."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._unread: dict[int, bytes] = {}
        self._greeted: set[int] = set()
        self._lock = threading.Lock()

    def __call__(self, connection: int, direction: Direction, data: bytes) -> None:
        if direction is Direction.DOWN:
            return
        now_ms = time.time() * 1000
        with self._lock:
            unread = self._unread.get(connection, b"") + data
            while len(unread) >= 4 and len(unread) >= 4 + (size := int.from_bytes(unread[:4], "big")):
                self._take(connection, now_ms, unread[4 : 4 + size])
                unread = unread[4 + size :]
            self._unread[connection] = unread

    def _take(self, connection: int, now_ms: float, frame: bytes) -> None:
        if connection not in self._greeted:  # the first one asks for a session
            self._greeted.add(connection)
            return
        _, operation = struct.unpack_from(">ii", frame)
        if operation in (GET_DATA, *CREATES):
            (length,) = struct.unpack_from(">i", frame, 8)
            self.asked.append(Asked(now_ms, operation, frame[12 : 12 + length].decode()))


def windows_ms(asked: list[Asked], owned: list[dict[str, Any]]) -> list[float]:
    """Of each claim that was granted: since the offset was asked for."""
    found, read = [], {}
    for one in asked:
        partition = one.path.split("/")[-2:]
        key = "/".join(partition)
        if one.operation == GET_DATA and "/offsets/" in one.path:
            read[key] = one.time_ms
        elif one.operation in CREATES and "/owners/" in one.path and key in read:
            since_ms = one.time_ms - read.pop(key)
            if any(
                [line["topic"], str(line["partition"])] == partition
                and -3 <= line["from_ms"] - one.time_ms < GRANTED_WITHIN_MS
                for line in owned
            ):
                found.append(since_ms)
    return found


def main(subjects: str) -> None:
    taps: list[ZooKeeperTap] = []

    def tapped(target: str) -> Link:
        link = Link(target)
        taps.append(ZooKeeperTap())
        link.tap(taps[-1])
        return link

    with tempfile.TemporaryDirectory() as directory, mock.patch.object(runner, "Link", tapped):
        scenario = Path(directory) / "moves.toml"
        steps = [
            STEP.format(at=4 * number + 1 + 2 * late, do=do, number=number + who)
            for number in range(JOINS)
            for late, do, who in ((0, "join", 3), (1, "leave", 2))
        ]
        scenario.write_text(HEAD.format(duration_s=4 * JOINS + 2) + "".join(steps))
        for subject in subjects_named(subjects):
            taps.clear()
            lines = runner.play(load(str(scenario)), subject)
            owned = [line for line in lines if line["kind"] == "owned"]
            found = sorted(each for tap in taps for each in windows_ms(tap.asked, owned))
            print(
                f"{subject.name}: {len(found)} claims, median {statistics.median(found):.1f} ms,"
                f" 95 % below {statistics.quantiles(found, n=20)[18]:.1f} ms, most {found[-1]:.1f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main(",".join(sys.argv[1:]) or "ours,scala-0.8")
