"""Receivers while Spark is slow, ZooKeeper is away, or their session ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.receiver import MOST_BUFFERED_BYTES
from pipeline.segments import bytes_in
from tests.conformance.group import Group
from tests.spark.conftest import OPTIONS, Source
from tests.spark.sinks import HeldCores, Sink, each_once, metrics, owners, stored
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.link import Link
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.waiting import eventually

LIMIT = 4 * 1024 * 1024
RECORDS, SIZE = 120_000, 1000  # far more than what is buffered, a segment and the limit together


def through(relay: Link, kafka: KafkaCluster) -> str:
    return f"{relay.address}/{kafka.zookeeper_connect.partition('/')[2]}"


@pytest.fixture
def relay(kafka: KafkaCluster, link: Callable[[str], Link]) -> Link:
    """In front of ZooKeeper."""
    return link(kafka.zookeeper_connect.partition("/")[0])


@pytest.mark.parametrize("write_ahead", [True, False], ids=["write-ahead", "no write-ahead"])
def test_while_spark_is_slow_receivers_stand_still_and_stay_members(
    spark: SparkSession,
    kafka: KafkaCluster,
    topic: str,
    group: Group,
    received: Source,
    sink: Sink,
    tmp_path: Path,
    write_ahead: bool,
) -> None:
    """What waits on the disk is bounded, also when others come and go meanwhile."""
    rows = received(
        topic,
        write_ahead=write_ahead,
        directory=str(sink.segments),
        max_waiting_bytes=LIMIT,
        kafka_params={"auto.commit.interval.ms": "500"},
    )

    def waiting() -> int:
        return sum(bytes_in(path) for path in [sink.segments, *sink.segments.glob("*/")] if path.is_dir())

    def received_by_group() -> int:
        return sum(stored(group, topic).values())

    kafka.produce(topic, [b"x"], partition=0)
    with HeldCores(spark, tmp_path, cores=1) as held_cores, sink.running(rows):  # the other one has the receiver
        eventually(lambda: owners(group, topic) == set(group.members()) != set(), "a member that owns", 60)
        [member] = group.members()
        kafka.produce_many(topic, RECORDS, value_size=SIZE)
        eventually(lambda: waiting() >= LIMIT, "enough is waiting", 60)
        eventually(lambda: received_by_group() > 1000, "offsets of what stands in segments are committed", 60)
        for _ in range(2):
            idle = ScalaConsumer(
                kafka.zookeeper_connect, group.name, {topic: 1}, properties=OPTIONS, start_reading=False
            )
            with idle:
                eventually(lambda: len(owners(group, topic)) == 2, "both own some", 60)
            eventually(lambda: owners(group, topic) == {member}, "the receiver owns all again", 60)
        assert list(group.members()) == [member], "never out of the group"
        assert waiting() <= LIMIT + MOST_BUFFERED_BYTES + LIMIT, "and one segment"
        assert received_by_group() < RECORDS, "the rest stays on the brokers"
        held_cores.release()
        eventually(lambda: sink.offsets().total() > RECORDS, "all came", 120)

    assert sink.offsets() == each_once(kafka.end_offsets(topic))


def test_rows_go_on_coming_while_zookeeper_is_away(
    kafka: KafkaCluster, topic: str, group: Group, received: Source, sink: Sink, relay: Link
) -> None:
    """For less than a session."""
    away = {"zookeeper.session.timeout.ms": "40000"}
    rows = received(
        topic, zk_quorum=through(relay, kafka), write_ahead=True, directory=str(sink.segments), kafka_params=away
    )
    with sink.running(rows) as query:
        kafka.produce(topic, [b"x"] * 100, partition=0)
        eventually(lambda: stored(group, topic).get(0) == 100, "committed", 60)
        members = group.members().keys()

        relay.cut()
        kafka.produce(topic, [b"x"] * 100, partition=0)
        eventually(lambda: sink.offsets() == each_once({0: 200}), "rows come all the same", 60)
        assert stored(group, topic)[0] == 100
        relay.heal()

        eventually(lambda: stored(group, topic)[0] == 200, "committed later", 60)
        kafka.produce(topic, [b"x"] * 100, partition=1)
        eventually(lambda: sink.offsets() == each_once({0: 200, 1: 100}), "it goes on", 60)
        eventually(lambda: [one["pid"] for one in metrics(query)["receivers"]] != [], "progress tells of it", 60)
        assert group.members().keys() == members
        assert metrics(query)["restarts"] == metrics(query)["doubled_at_most"] == 0


@pytest.mark.parametrize("write_ahead", [True, False], ids=["write-ahead", "no write-ahead"])
def test_what_others_read_again_after_a_lost_session_is_what_was_not_committed_and_is_counted(
    kafka: KafkaCluster, topic: str, group: Group, received: Source, sink: Sink, relay: Link, write_ahead: bool
) -> None:
    """Rows go on coming while ZooKeeper is away; whoever is given the partition meanwhile reads them too."""
    rows = received(
        topic,
        zk_quorum=through(relay, kafka),
        write_ahead=write_ahead,
        directory=str(sink.segments),
        kafka_params={"zookeeper.session.timeout.ms": "4000", "auto.commit.interval.ms": "500"},
    )
    with sink.running(rows) as query:
        kafka.produce(topic, [b"x"] * 100, partition=0)
        eventually(lambda: stored(group, topic).get(0) == 100, "committed", 60)
        relay.cut()
        kafka.produce(topic, [b"x"] * 50, partition=0)
        eventually(lambda: sink.offsets() == each_once({0: 150}), "rows come while ZooKeeper is away", 60)
        eventually(lambda: group.members() == {}, "the session has ended", 60)
        with ScalaConsumer(kafka.zookeeper_connect, group.name, {topic: 1}, properties=OPTIONS) as scala:
            scala.wait_until_delivered(50, 60)
            delivered = scala.delivered
            scala.stop()
            outside = Counter((one.partition, one.offset) for one in delivered())
        relay.heal()
        eventually(lambda: len(group.members()) == 1 == len(owners(group, topic)), "a member again", 60)
        for partition in range(3):
            kafka.produce(topic, [b"x"] * 10, partition=partition)
        eventually(lambda: sink.offsets() == each_once({0: 160, 1: 10, 2: 10}), "it goes on, nothing is lost", 60)
        eventually(lambda: metrics(query)["doubled_at_most"] == 50, "it is counted", 60)
    assert outside == Counter((0, offset) for offset in range(100, 150))


def test_what_comes_again_after_a_lost_session_without_others_is_dropped(
    kafka: KafkaCluster, topic: str, group: Group, received: Source, sink: Sink, relay: Link
) -> None:
    """And nobody else had it, so it is not counted as doubled."""
    session = {"zookeeper.session.timeout.ms": "4000"}
    with sink.running(received(topic, zk_quorum=through(relay, kafka), kafka_params=session)) as query:
        kafka.produce(topic, [b"x"] * 100, partition=0)
        eventually(lambda: sink.offsets() == each_once({0: 100}), "rows come", 60)
        relay.cut()
        eventually(lambda: group.members() == {}, "the session has ended", 60)
        relay.heal()
        eventually(lambda: len(group.members()) == 1, "a member again", 60)
        kafka.produce(topic, [b"x"] * 10, partition=0)
        eventually(lambda: sink.offsets() == each_once({0: 110}), "it goes on", 60)
        eventually(lambda: metrics(query).get("duplicates_dropped", 0) >= 100, "what came again is dropped", 60)
        eventually(lambda: metrics(query)["doubled_at_most"] == 0, "and counted as nobody else's", 60)
        assert all(one["sessions_lost"] >= 1 for one in metrics(query)["receivers"])


def test_one_that_begins_at_the_end_begins_there_only_once(
    kafka: KafkaCluster, topic: str, group: Group, received: Source, sink: Sink
) -> None:
    """Where that is, is committed before anything was received: what is produced while a receiver is away counts."""
    kafka.produce(topic, [b"x"] * 10, partition=0)
    rows = received(topic, kafka_params={"auto.offset.reset": "largest", "auto.commit.interval.ms": "600000"})
    with sink.running(rows):
        eventually(lambda: stored(group, topic) == {0: 10, 1: 0, 2: 0}, "the end is the group's position", 60)
