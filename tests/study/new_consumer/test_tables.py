"""The tables of who gets what, lived by real groups on real brokers: the leader shares out what the table says."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from functools import partial

import pytest

from tests.new_consumer_tables import RANGE, ROUND_ROBIN, Row, table
from tests.study.new_consumer.conftest import NewConsumers
from tests.study.new_consumer.polling import polling
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import eventually

TABLES = [
    *[pytest.param("range", row, id=f"range {number}") for number, row in enumerate(RANGE)],
    *[pytest.param("roundrobin", row, id=f"roundrobin {number}") for number, row in enumerate(ROUND_ROBIN)],
]


@pytest.mark.parametrize(("strategy", "row"), TABLES)
def test_a_group_on_a_broker_gets_what_the_table_says(
    cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers, strategy: str, row: Row
) -> None:
    """P1, P2: members' ids begin with their client ids, so that they sort as in the table."""
    names = {short: f"{topic}-{short}" for short in row.partitions}
    for short, partitions in row.partitions.items():
        cluster.create_topic(names[short], partitions=partitions)
    settings = {"group_id": group, "partition_assignment_strategy": strategy, "heartbeat_interval_ms": 100}
    members = {name: new_consumer(client_id=name, **settings) for name in row.members}
    for name, member in members.items():
        member.subscribe([names[short] for short in sorted(row.members[name].topics)])
    lock = threading.Lock()
    has: dict[str, list[str]] = {}

    def note(name: str) -> None:
        mine = members[name].assignment()
        with lock:
            has[name] = sorted(f"{one.topic.rpartition('-')[2]}p{one.partition}" for one in mine)

    expected = table(row.expected)
    with ExitStack() as pollers:
        for name, member in members.items():
            pollers.enter_context(polling(member, after=partial(note, name)))
        eventually(lambda: has == expected, lambda: f"{expected} in the group; it has {has}", timeout_s=90)
