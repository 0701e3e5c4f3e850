"""Group mode: Spark as a member among others, in good times and in bad ones."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from tests.conformance.group import Group
from tests.spark.conftest import Source
from tests.spark.sessions import planners
from tests.spark.sinks import HeldCores, Sink, each_once, metric, owners, stored
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.link import Link
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.waiting import eventually

PATIENT = {"auto.offset.reset": "smallest", "rebalance.max.retries": "100", "rebalance.backoff.ms": "300"}


def test_available_now_writes_all_once_and_commits_the_last_batch(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, sink: Sink
) -> None:
    for partition in range(3):
        kafka.produce(topic, [b"x"] * 100, partition=partition)

    query = sink.write_what_is_there(stream(topics=f"{topic}:2", members=2, maxOffsetsPerTrigger=120))

    assert max(progress.numInputRows for progress in query.recentProgress) == 120
    assert sink.offsets() == each_once({0: 100, 1: 100, 2: 100})
    eventually(lambda: stored(group, topic) == {0: 100, 1: 100, 2: 100}, "the last batch is committed")
    eventually(lambda: group.members() == {}, "ids are gone")

    kafka.produce(topic, [b"x"] * 10, partition=2)
    sink.write_what_is_there(stream(topics=f"{topic}:2"))

    assert sink.offsets() == each_once({0: 100, 1: 100, 2: 110})


def test_a_pattern_takes_in_topics_that_come_later_from_their_beginning(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, batch: Source, sink: Sink
) -> None:
    kafka.produce(topic, [b"x"] * 10, partition=0)
    pattern = {"topics_pattern": f"{topic}|{topic}-late", "auto_offset_reset": "largest"}
    with sink.running(stream(**pattern)):
        eventually(lambda: stored(group, topic) == {0: 10, 1: 0, 2: 0}, "at the end of what was there", 60)
        kafka.create_topic(f"{topic}-late", partitions=4)
        kafka.produce(f"{topic}-late", [b"x"] * 20, partition=3)
        eventually(lambda: stored(group, f"{topic}-late").get(3) == 20, "the new topic is read", 60)
    assert sink.offsets() == Counter((3, offset) for offset in range(20))
    kafka.produce(f"{topic}-late", [b"x"] * 5, partition=3)
    kafka.produce(topic, [b"x"] * 5, partition=0)

    left = batch(**pattern).groupBy("topic").count().collect()

    assert {row.topic: row["count"] for row in left} == {topic: 5, f"{topic}-late": 5}


@pytest.mark.parametrize("storage", ["kafka", "both"])
def test_offsets_are_committed_where_the_options_say(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, batch: Source, sink: Sink, storage: str
) -> None:
    kafka.produce(topic, [b"x"] * 50, partition=0)
    options = {"offsets_storage": "kafka", "dual_commit_enabled": str(storage == "both").lower()}

    sink.write_what_is_there(stream(topics=topic, **options))

    assert batch(topics=topic, **options).count() == 0  # begins where the group stands
    assert stored(group, topic).get(0) == (50 if storage == "both" else None)


def test_partitions_are_shared_with_a_scala_member_and_a_topic_may_grow(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, sink: Sink
) -> None:
    kafka.produce(topic, [b"x"] * 500, partition=0)
    with sink.running(stream(topics=f"{topic}:2")) as query:
        eventually(lambda: stored(group, topic) == {0: 500}, "the first batch is committed", 60)
        with ScalaConsumer(kafka.zookeeper_connect, group.name, {topic: 1}, properties=PATIENT) as scala:
            eventually(lambda: owners(group, topic) > {scala.consumer_id}, "both own some", 60)
            kafka.add_partitions(topic, 5)
            eventually(lambda: len(group.owners(topic)) == 5, "all five are owned", 60)
            for partition in range(5):
                kafka.produce(topic, [b"x"] * 200, partition=partition)
            ends = {0: 700, 1: 200, 2: 200, 3: 200, 4: 200}
            eventually(lambda: metric(query, "owned_partitions") in range(1, 5), "progress tells what is owned", 60)
            everything = sum(ends.values())
            eventually(lambda: sum(sink.offsets().values()) + scala.number_delivered >= everything, "all came", 120)
            outside = Counter((one.partition, one.offset) for one in scala.delivered())
        assert outside
        assert sink.offsets() + outside == each_once(ends)
        assert metric(query, "doubled_at_most") == 0
    eventually(lambda: group.members() == {}, "ids are gone")


def test_nothing_is_lost_or_doubled_when_zookeeper_is_away_until_the_session_ends(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, sink: Sink, link: Callable[[str], Link]
) -> None:
    address, _, chroot = kafka.zookeeper_connect.partition("/")
    relay = link(address)
    options = {"zookeeper_connect": f"{relay.address}/{chroot}", "zookeeper_session_timeout_ms": 4000}
    with sink.running(stream(topics=topic, **options)) as query:
        kafka.produce(topic, [b"x"] * 100, partition=0)
        eventually(lambda: stored(group, topic) == {0: 100}, "the first batch is committed", 60)

        relay.cut()
        eventually(lambda: group.members() == {}, "the session has ended", 60)
        kafka.produce(topic, [b"x"] * 100, partition=0)
        relay.heal()

        eventually(lambda: stored(group, topic) == {0: 200}, "a member again, which goes on", 60)
        eventually(lambda: metric(query, "sessions_lost") == 1, "progress tells of the lost session", 60)
    assert sink.offsets() == each_once({0: 200})


def test_the_id_and_the_process_are_gone_when_the_query_was_stopped(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, sink: Sink
) -> None:
    kafka.produce(topic, [b"x"] * 10, partition=0)
    with sink.running(stream(topics=topic, zookeeper_session_timeout_ms=20_000)):
        eventually(lambda: len(group.members()) == 1, "a member", 60)
        assert len(planners()) == 1

    eventually(
        lambda: group.members() == {} and group.owners(topic) == {}, "gone long before the session's time-out", 10
    )
    eventually(lambda: planners() == [], "no process is left", 10)


def test_progress_tells_of_lag_owners_and_rebalances(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, sink: Sink
) -> None:
    for partition in range(3):
        kafka.produce(topic, [b"x"] * 100, partition=partition)

    query = sink.write_what_is_there(stream("offset bigint, partition int", topics=topic, maxOffsetsPerTrigger=100))

    told = [json.loads(progress.sources[0].latestOffset) for progress in query.recentProgress if progress.numInputRows]
    assert [one["lag"] for one in told] == [200, 100, 0]
    assert told[-1]["lag_by_partition"] == {f"{topic}/{partition}": 0 for partition in range(3)}
    assert [one["owned_partitions"] for one in told] == [3, 3, 3]
    assert told[0]["rebalances"] >= 1 and told[0]["sessions_lost"] == 0


def test_offsets_that_were_reset_to_the_end_are_kept_for_the_next_run(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, sink: Sink
) -> None:
    kafka.produce(topic, [b"x"] * 10, partition=0)
    with sink.running(stream(topics=topic, auto_offset_reset="largest")):
        eventually(lambda: stored(group, topic) == {0: 10, 1: 0, 2: 0}, "the end is the group's position", 60)
    kafka.produce(topic, [b"x"] * 5, partition=0)

    sink.write_what_is_there(stream(topics=topic, auto_offset_reset="largest"))

    assert sink.offsets() == Counter((0, offset) for offset in range(10, 15))


@pytest.mark.parametrize("handover", ["checkpoint", "group"])
def test_a_partition_may_leave_between_planning_and_reading(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, sink: Sink, held_cores: HeldCores, handover: str
) -> None:
    """With handover=group the batch under way comes twice at most, and is counted."""
    for partition in range(3):
        kafka.produce(topic, [b"x"] * 100, partition=partition)
    options = {"release_timeout_ms": 500, "handover": handover}
    with sink.running(stream(topics=topic, **options)) as query:
        eventually(held_cores.has_waiting_job, "a batch is planned and not read", 60)
        with ScalaConsumer(kafka.zookeeper_connect, group.name, {topic: 1}, properties=PATIENT) as scala:
            eventually(lambda: owners(group, topic) > {scala.consumer_id}, "both own some", 60)
            for partition in range(3):
                kafka.produce(topic, [b"y"] * 50, partition=partition)
            theirs = [p for p, owner in group.owners(topic).items() if owner.startswith(scala.consumer_id)]
            fresh_ones = Counter((p, offset) for p in theirs for offset in range(100, 150))
            twice = Counter((p, offset) for p in theirs for offset in range(100))
            expected = fresh_ones if handover == "checkpoint" else fresh_ones + twice
            scala.wait_until_delivered(expected.total(), 60)
            held_cores.release()
            eventually(lambda: sink.offsets().total() == 300 + 50 * (3 - len(theirs)), "Spark wrote the rest", 60)
            eventually(lambda: metric(query, "lag") == 0, "progress of the last batch", 60)
            assert Counter((one.partition, one.offset) for one in scala.delivered()) == expected
    assert sink.offsets() + expected == each_once(dict.fromkeys(range(3), 150)) + (
        twice if handover == "group" else Counter()
    )
    # All three were let go; two came back and had been touched by nobody.
    assert metric(query, "kept_by_checkpoint") == (300 if handover == "checkpoint" else 0)
    assert metric(query, "doubled_at_most") == (0 if handover == "checkpoint" else twice.total())


def test_what_comes_twice_after_a_lost_session_is_counted(
    kafka: KafkaCluster,
    topic: str,
    group: Group,
    stream: Source,
    sink: Sink,
    held_cores: HeldCores,
    link: Callable[[str], Link],
) -> None:
    """The batch under way could not be handed over: whoever is given the partition reads it too."""
    address, _, chroot = kafka.zookeeper_connect.partition("/")
    relay = link(address)
    kafka.produce(topic, [b"x"] * 100, partition=0)
    options = {"zookeeper_connect": f"{relay.address}/{chroot}", "zookeeper_session_timeout_ms": 4000}
    with sink.running(stream(topics=topic, **options)) as query:
        eventually(held_cores.has_waiting_job, "a batch is planned and not read", 60)
        relay.cut()
        eventually(lambda: group.members() == {}, "the session has ended", 60)
        with ScalaConsumer(kafka.zookeeper_connect, group.name, {topic: 1}, properties=PATIENT) as scala:
            scala.wait_until_delivered(100, 60)
            relay.heal()
            eventually(lambda: owners(group, topic) > {scala.consumer_id}, "both own some", 60)
            held_cores.release()
            eventually(lambda: sink.offsets().total() == 100, "Spark wrote its batch", 60)
            scala.stop()
        kafka.produce(topic, [b"x"] * 10, partition=0)
        eventually(lambda: sink.offsets().total() == 110, "Spark goes on", 60)
        eventually(lambda: metric(query, "doubled_at_most") == 100, "it is counted", 60)
    assert sink.offsets() == each_once({0: 110})


@pytest.mark.parametrize("handover", ["checkpoint", "group"])
def test_what_others_took_of_a_batch_that_could_not_be_handed_over_is_counted_by_the_next_run(
    kafka: KafkaCluster,
    topic: str,
    group: Group,
    stream: Source,
    sink: Sink,
    held_cores: HeldCores,
    tmp_path: Path,
    handover: str,
) -> None:
    """Members and query end at once in mid-batch, as with the machine; another member reads that part meanwhile."""
    kafka.produce(topic, [b"x"] * 100, partition=0)
    # What others read to its end looks as if it had been handed over; the checkpoint knows that it was not.
    told = {"checkpointLocation": tmp_path / "checkpoint"} if handover == "checkpoint" else {}
    rows = stream(topics=topic, zookeeper_session_timeout_ms=4000, handover=handover, **told)
    with sink.running(rows):
        eventually(held_cores.has_waiting_job, "a batch is planned and not read", 60)
        [process] = planners()
        os.kill(process, signal.SIGKILL)
    held_cores.release()
    with ScalaConsumer(kafka.zookeeper_connect, group.name, {topic: 1}, properties=PATIENT) as scala:
        scala.wait_until_delivered(100, 60)
        scala.stop()
    assert sink.offsets() == Counter()

    with sink.running(rows) as query:
        eventually(lambda: metric(query, "doubled_at_most") == 100, "the batch is written all the same", 60)
        kafka.produce(topic, [b"x"] * 10, partition=0)
        eventually(lambda: sink.offsets() == each_once({0: 110}), "it goes on", 60)


def test_the_process_of_the_members_may_be_killed(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, sink: Sink
) -> None:
    """The query fails with a readable line; started again, it goes on where it was."""
    kafka.produce(topic, [b"x"] * 100, partition=0)
    rows = stream(topics=topic, zookeeper_session_timeout_ms=4000)
    with pytest.raises(PySparkException) as error, sink.running(rows) as query:
        eventually(lambda: stored(group, topic) == {0: 100}, "the first batch is committed", 60)
        [process] = planners()
        os.kill(process, signal.SIGKILL)
        query.awaitTermination(60)
    assert "zkconsumer" in str(error.value)
    kafka.produce(topic, [b"x"] * 50, partition=0)

    sink.write_what_is_there(rows)

    assert sink.offsets() == each_once({0: 150})
    eventually(lambda: group.members() == {}, "the id of the one that was killed is gone too", 20)


def test_a_broker_may_be_away_for_a_while(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, sink: Sink
) -> None:
    kafka.produce(topic, [b"x"] * 100, partition=0)
    with sink.running(stream(topics=topic)):
        eventually(lambda: stored(group, topic) == {0: 100}, "the first batch is committed", 60)
        kafka.brokers[0].stop()  # takes seconds, in which the query asks and asks
        kafka.brokers[0].start()
        kafka.produce(topic, [b"x"] * 100, partition=0)
        eventually(lambda: stored(group, topic) == {0: 200}, "it goes on", 60)
    assert sink.offsets() == each_once({0: 200})
