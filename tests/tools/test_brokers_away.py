"""The tools while brokers do not answer: what was not seen is not taken for nothing there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient

from fetcher.admin import BrokerConnections, parse_bootstrap
from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from tests.conformance.group import Group, fresh
from tests.tools.conftest import Run
from tests.tools.test_offsets_command import Offsets
from zkconsumer.groups.kafka_group import KafkaGroups
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer


class Away(NamedTuple):
    """A group with offsets in both stores, on a broker that was killed: its registration still stands."""

    group: Group
    topic: str
    kafka: KafkaCluster


@pytest.fixture
def away(zookeeper_server: ZooKeeperServer) -> Iterator[Away]:
    with KafkaCluster(version="1.1.1", brokers=1, zookeeper=zookeeper_server) as kafka:
        client = KazooClient(kafka.zookeeper_connect, timeout=60)
        client.start()
        try:
            group, topic = Group(client, fresh("group")), fresh("t")
            kafka.create_topic(topic, partitions=1)
            kafka.produce(topic, [b"m"] * 5, partition=0)
            group.put(f"offsets/{topic}/0", "3")
            with BrokerConnections() as connections:
                groups = KafkaGroups(connections, parse_bootstrap(kafka.bootstrap_servers))
                groups.commit(group.name, {TopicAndPartition(topic, 0): OffsetAndMetadata(3)})
            kafka.broker(0).kill()
            yield Away(group, topic, kafka)
        finally:
            client.stop()
            client.close()


def test_a_broker_that_is_away_is_told_and_stops_changes(run: Run, away: Away, tmp_path: Path) -> None:
    """First killed, its registration still there; then unregistered. One line each; nothing is written."""
    where = ("doctor", "--zookeeper", away.kafka.zookeeper_connect, "--group", away.group.name, "--json")
    offsets = Offsets(run, away.kafka, away.group.name, tmp_path / "journal")
    change = ("set", f"{away.topic}:0=4", "--execute")

    killed = run(*where)
    unknown = offsets(*change)
    insisted = offsets(*change, "--even-if-live")
    from_kafka = offsets("get", "--store", "kafka")
    eventually(lambda: not away.group.client.get_children("/brokers/ids"), timeout_s=60)
    gone = run(*where)
    gone_too = offsets(*change)

    assert (killed.code, {finding["fault"] for finding in json.loads(killed.stdout)}) == (
        3, {"broker-away", "kafka-group-unknown"},
    )  # fmt: skip
    assert (gone.code, [finding["fault"] for finding in json.loads(gone.stdout)]) == (3, ["no-brokers"])
    for refused in (unknown, gone_too):
        assert (refused.code, refused.stderr.count("\n")) == (1, 1)
        assert f"whether group {away.group.name} has members in kafka is not known: " in refused.stderr
    assert (insisted.code, insisted.stderr.startswith(f"refused: [{away.topic},0]: its log cannot be asked")) == (
        1, True,
    )  # fmt: skip
    assert (from_kafka.code, from_kafka.stdout, from_kafka.stderr.count("\n")) == (1, "", 1)
    assert away.group.offsets(away.topic) == {0: "3"}
    assert list((tmp_path / "journal").glob("*")) == []
