"""A migration to Kafka undone where some of the group's offsets have to stay, by brokers of every release.

Only those from 2.4 on can delete single offsets. To the others -1 is written, which has to mean "nothing" to everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka import KafkaConsumer, TopicPartition
from kazoo.client import KazooClient

from tests.conformance.group import Group, fresh
from tests.tools.conftest import Run
from tests.tools.stepping import stepped
from tests.tools.test_offsets_command import Offsets
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.tools import consumer_offset_checker

IN_ZOOKEEPER, IN_KAFKA = {0: 3, 1: 4, 2: 5}, {0: 1, 2: 5}


class Begun(NamedTuple):
    """A group that was migrated until all was written: one offset moved, one new, one the same in both stores."""

    offsets: Offsets
    kafka: KafkaCluster
    group: str
    topic: str
    journal: Path


@pytest.fixture(params=["0.8.2.2", "1.1.1", "3.9.1"])
def kafka(request: pytest.FixtureRequest, kafka_of: Callable[[str], KafkaCluster]) -> KafkaCluster:
    return kafka_of(request.param)


@pytest.fixture
def begin(run: Run, kafka: KafkaCluster, tmp_path: Path) -> Callable[[dict[int, int]], Begun]:
    topic = fresh("t")
    kafka.create_topic(topic, partitions=3)
    for partition in range(3):
        kafka.produce(topic, [b"m"] * 5, partition=partition)

    def begin(in_kafka: dict[int, int]) -> Begun:
        name, journal = fresh("group"), tmp_path / "journal"
        offsets = Offsets(run, kafka, name, journal)
        for store, positions in (("kafka", in_kafka), ("zookeeper", IN_ZOOKEEPER)):
            words = [f"{topic}:{partition}={offset}" for partition, offset in positions.items()]
            assert not words or offsets("set", "--store", store, *words, "--execute").code == 0
        with stepped(kafka.zookeeper_connect, name, "kafka", journal, "migrate") as migration:
            migration.reach("verify")
            migration.kill()
        assert offsets.stored("kafka") == IN_ZOOKEEPER
        return Begun(offsets, kafka, name, topic, journal)

    return begin


def test_what_was_there_comes_back_and_what_was_not_goes(begin: Callable[[dict[int, int]], Begun]) -> None:
    """However often the undoing itself is killed, before each of its steps; and what others see then."""
    for step in ("remove", "write 0", "verify", "end"):
        begun = begin(IN_KAFKA)
        with stepped(begun.kafka.zookeeper_connect, begun.group, "kafka", begun.journal, "roll-back") as undoing:
            undoing.reach(step)
            undoing.kill()

        undone = begun.offsets("roll-back", "--store", "kafka")

        assert undone.code == 0, (step, undone)
        assert begun.offsets.stored("kafka") == IN_KAFKA, step
        assert list(begun.journal.glob("*.json")) == [], step
    others_see_nothing_of(1, begun)


def test_a_group_that_had_nothing_has_nothing_again(begin: Callable[[dict[int, int]], Begun]) -> None:
    begun = begin({})

    undone = begun.offsets("roll-back", "--store", "kafka")

    assert undone.stdout == f"3 of 3 offsets of {begun.group} in kafka set back and read back\n"
    assert begun.offsets("get", "--store", "kafka").code == 1
    others_see_nothing_of(0, begun)


def test_renaming_in_kafka_removes_the_old_name(begin: Callable[[dict[int, int]], Begun]) -> None:
    begun = begin(IN_KAFKA)
    assert begun.offsets("resume", "--store", "kafka").code == 0
    new_name = fresh("renamed")

    renamed = begun.offsets("rename", "--store", "kafka", "--to-group", new_name, "--execute")

    assert (renamed.code, renamed.stdout.splitlines()[-1]) == (0, f"removed 3 offsets of {begun.group} from kafka")
    assert begun.offsets("get", "--store", "kafka").code == 1
    others_see_nothing_of(0, begun)


def others_see_nothing_of(partition: int, begun: Begun) -> None:
    """0.8.2.2: its own tool takes ZooKeeper's, changed here to be told apart. Else: a new consumer has no position."""
    where = begun.kafka.zookeeper_connect
    if begun.kafka.version != "0.8.2.2":
        consumer = KafkaConsumer(group_id=begun.group, bootstrap_servers=begun.kafka.bootstrap_servers)
        try:
            assert consumer.committed(TopicPartition(begun.topic, partition)) is None
        finally:
            consumer.close()
        return
    client = KazooClient(where, timeout=60)
    client.start()
    try:
        Group(client, begun.group).put(f"offsets/{begun.topic}/{partition}", "2")
        rows = consumer_offset_checker(where, begun.group, [begun.topic]).stdout.splitlines()
    finally:
        client.stop()
        client.close()
    assert [row.split()[3] for row in rows[1:] if row.split()[2] == str(partition)] == ["2"]
