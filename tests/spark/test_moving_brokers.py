"""Brokers that come back elsewhere, and leaders that move, while a query runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from pyspark.errors import PySparkException

from tests.conformance.group import Group, fresh
from tests.spark.conftest import Source
from tests.spark.sinks import HeldCores, Sink, each_once, metric, stored
from zkconsumer.testing.kafka import KafkaBroker, KafkaCluster
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer

PATIENCE_S = 90.0


@pytest.fixture
def kafka(zookeeper_server: ZooKeeperServer) -> Iterator[KafkaCluster]:
    """Two brokers that nobody else uses."""
    with KafkaCluster(version="1.1.1", brokers=2, zookeeper=zookeeper_server) as kafka:
        yield kafka


@pytest.fixture
def topic(kafka: KafkaCluster) -> str:
    """Of two partitions, which both brokers hold."""
    name = fresh("moving")
    kafka.create_topic(name, partitions=2, replication_factor=2)
    return name


@pytest.fixture
def move(kafka: KafkaCluster, topic: str) -> Iterator[Callable[[int], None]]:
    """`move(0)`: that broker on another port, with an empty disk; returns when it has all there is."""
    with ExitStack() as closing:

        def move(broker_id: int) -> None:
            before = kafka.broker(broker_id)
            moved = KafkaBroker(kafka.zookeeper_connect, version=before.version, broker_id=before.id)
            closing.callback(moved.close)
            assert moved.open() != before.address
            before.close()
            moved.start()
            kafka.brokers[broker_id] = moved
            for partition in range(2):
                in_sync = lambda p=partition: len(kafka.in_sync_replicas_of(topic, p)) == 2  # noqa: E731
                eventually(in_sync, f"broker {broker_id} has all of partition {partition}", PATIENCE_S)

        yield move


@pytest.mark.timeout(400)
def test_a_query_follows_brokers_that_have_all_moved(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, sink: Sink, move: Callable[[int], None]
) -> None:
    kafka.produce(topic, [b"x"] * 100, partition=0)
    with sink.running(stream(topics=topic)) as query:
        eventually(lambda: stored(group, topic) == {0: 100}, "the first batch is committed", PATIENCE_S)
        move(0)
        move(1)  # no broker is left where the query saw one when it joined
        kafka.produce(topic, [b"x"] * 100, partition=0)
        kafka.produce(topic, [b"x"] * 50, partition=1)
        eventually(lambda: stored(group, topic) == {0: 200, 1: 50}, "it goes on", PATIENCE_S)
        assert metric(query, "doubled_at_most") == 0
    assert sink.offsets() == each_once({0: 200, 1: 50})


@pytest.mark.timeout(400)
def test_a_batch_that_was_planned_is_read_from_where_the_brokers_are_now(
    kafka: KafkaCluster,
    topic: str,
    stream: Source,
    sink: Sink,
    held_cores: HeldCores,
    move: Callable[[int], None],
) -> None:
    """Its tasks were told of brokers that do not answer any more."""
    for partition in range(2):
        kafka.produce(topic, [b"x"] * 100, partition=partition)
    with sink.running(stream(topics=topic)):
        eventually(held_cores.has_waiting_job, "a batch is planned and not read", PATIENCE_S)
        move(0)
        move(1)
        held_cores.release()
        eventually(lambda: sink.offsets() == each_once({0: 100, 1: 100}), "it is read all the same", PATIENCE_S)


@pytest.mark.timeout(400)
def test_a_batch_that_was_planned_waits_for_a_leader_but_not_for_ever(
    kafka: KafkaCluster, topic: str, stream: Source, sink: Sink, held_cores: HeldCores
) -> None:
    """And is read by the query that is started again."""
    kafka.produce(topic, [b"x"] * 100, partition=0)
    rows = stream(topics=topic, leader_timeout_ms=1500)
    with pytest.raises(PySparkException, match=r"leader\.timeout\.ms") as error, sink.running(rows) as query:
        eventually(held_cores.has_waiting_job, "a batch is planned and not read", PATIENCE_S)
        for broker in kafka.brokers:
            broker.stop()
        held_cores.release()
        query.awaitTermination(120)
    assert f"[{topic},0] could not be read from offset 0 on for 1.5 s" in str(error.value)
    assert 'File "' not in str(error.value), "no stack of ours"
    for broker in kafka.brokers:
        broker.start()

    sink.write_what_is_there(rows)

    assert sink.offsets() == each_once({0: 100})
