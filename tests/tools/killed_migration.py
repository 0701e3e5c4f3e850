"""Carries out a migration and kills itself at a given point: what a power cut would leave.

python -m tests.tools.killed_migration ZOOKEEPER GROUP STORE JOURNAL-DIR POINT

A point is a step, before which it dies, or `half of request N` or `request N`: when so much of the Nth request that
writes an offset has gone out, to ZooKeeper or to a broker, whose answer it will never see.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

from fetcher.admin import BrokerConnections
from zkconsumer.groups.cluster import ZooKeeperCluster
from zkconsumer.groups.kafka_group import KafkaGroups
from zkconsumer.groups.moving import Journal, carry_out, plan_for
from zkconsumer.groups.stores import KafkaStore, Store, ZooKeeperStore
from zkconsumer.zookeeper import ZooKeeper

OFFSET_COMMIT = (8).to_bytes(2, "big")  # a broker's request, behind its size
WRITES = {(1).to_bytes(4, "big"), (5).to_bytes(4, "big")}  # ZooKeeper's create and set, behind size and number


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class FatalSocket(socket.socket):
    """A real socket, whose owner dies at a certain request."""

    point = ""
    offsets_path = b""
    seen = 0

    def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]
        text = bytes(data)
        if text[4:6] != OFFSET_COMMIT and not (text[8:12] in WRITES and self.offsets_path in text):
            return super().send(data, flags)
        number, FatalSocket.seen = FatalSocket.seen, FatalSocket.seen + 1
        if self.point == f"half of request {number}":
            super().send(text[: len(text) // 2], flags)
            die()
        sent = super().send(data, flags)
        if self.point == f"request {number}":
            die()
        return sent


def main(connect: str, group: str, target: str, journal: str, point: str) -> None:
    FatalSocket.point, FatalSocket.offsets_path = point, f"/consumers/{group}/offsets/".encode()
    socket.socket = FatalSocket  # type: ignore[misc]

    def on_step(step: str) -> None:
        if step == point:
            die()

    with (
        ZooKeeper(connect, session_timeout_ms=30_000, connection_timeout_ms=30_000) as zookeeper,
        BrokerConnections() as connections,
    ):
        cluster = ZooKeeperCluster(zookeeper)
        old = ZooKeeperStore(zookeeper)
        new = KafkaStore(KafkaGroups(connections, cluster.brokers()), cluster)
        stores: tuple[Store, Store] = (old, new) if target == "kafka" else (new, old)
        source, goal = stores
        carry_out(plan_for(goal, group, source.read(group)), goal, Journal(Path(journal)), batch=1, on_step=on_step)


if __name__ == "__main__":
    main(*sys.argv[1:])
