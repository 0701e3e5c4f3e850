"""Carries out a migration and kills itself before a given step: what a power cut would leave.

python -m tests.tools.killed_migration ZOOKEEPER GROUP STORE JOURNAL-DIR STEP
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from fetcher.admin import BrokerConnections
from zkconsumer.groups.cluster import ZooKeeperCluster
from zkconsumer.groups.kafka_group import KafkaGroups
from zkconsumer.groups.moving import Journal, carry_out, plan_for
from zkconsumer.groups.stores import KafkaStore, Store, ZooKeeperStore
from zkconsumer.zookeeper import ZooKeeper


def main(connect: str, group: str, target: str, journal: str, fatal_step: str) -> None:
    def on_step(step: str) -> None:
        if step == fatal_step:
            os.kill(os.getpid(), signal.SIGKILL)

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
