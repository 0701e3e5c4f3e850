"""Parameters of the seeds' tables whose effect can be seen from outside, on real brokers of 1.1.1 and 3.9.1."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from study.new_consumer import NoOffsetForPartitionException
from tests.study.new_consumer.conftest import NewConsumers
from tests.study.new_consumer.polling import TIMEOUT_S, poll_for, poll_until
from tests.study.new_consumer.raw_members import RawMember
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import eventually


def test_automatic_commits_store_what_was_handed_out(
    cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers
) -> None:
    """enable.auto.commit, auto.commit.interval.ms: in a later poll, and when it is closed."""
    cluster.create_topic(topic)
    cluster.produce(topic, [b"0", b"1"])
    only = TopicAndPartition(topic, 0)
    asking = new_consumer(group_id=group)
    often = new_consumer(group_id=group, enable_auto_commit=True, auto_commit_interval_ms=100)
    often.assign([only])
    poll_for(often, 2)
    poll_until([often], lambda: asking.committed(only) == OffsetAndMetadata(2, ""), "the commit of a later poll")
    often.close()

    cluster.produce(topic, [b"2"])
    seldom = new_consumer(group_id=group, enable_auto_commit=True, auto_commit_interval_ms=600_000)
    seldom.assign([only])
    assert [record.value for record in poll_for(seldom, 1)] == ["2"], "it begins at what is stored"
    assert asking.committed(only) == OffsetAndMetadata(2, "")
    seldom.close()
    assert asking.committed(only) == OffsetAndMetadata(3, "")

    cluster.produce(topic, [b"3"])
    never = new_consumer(group_id=group, enable_auto_commit=False, auto_commit_interval_ms=100)
    never.assign([only])
    poll_for(never, 1)
    never.close()
    assert asking.committed(only) == OffsetAndMetadata(3, "")


def test_where_a_group_begins_that_has_stored_nothing(
    cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers
) -> None:
    """auto.offset.reset: the oldest record, only what comes, or an error."""
    cluster.create_topic(topic)
    cluster.produce(topic, [b"old"])
    only = TopicAndPartition(topic, 0)
    earliest, latest, none = (
        new_consumer(group_id=f"{group}-{word}", auto_offset_reset=word) for word in ("earliest", "latest", "none")
    )
    for consumer in (earliest, latest, none):
        consumer.assign([only])

    assert [record.value for record in poll_for(earliest, 1)] == ["old"]
    assert latest.position(only) == 1
    cluster.produce(topic, [b"new"])
    assert [record.value for record in poll_for(latest, 1)] == ["new"]
    with pytest.raises(NoOffsetForPartitionException, match=f"{topic}-0"):
        poll_for(none, 1)
    none.seek(only, 1)
    assert [record.value for record in poll_for(none, 1)] == ["new"], "it can be used on"


def test_aborted_records_are_seen_by_those_only_who_ask_for_them(
    cluster: KafkaCluster, topic: str, new_consumer: NewConsumers
) -> None:
    """isolation.level, and what end_offsets means for each."""
    cluster.create_topic(topic)
    only = TopicAndPartition(topic, 0)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(TIMEOUT_S)
    for value, end in ((b"aborted", producer.abort_transaction), (b"stored", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(TIMEOUT_S)
        end(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"undecided", partition=0)
    producer.flush(TIMEOUT_S)

    everything = new_consumer()
    decided = new_consumer(isolation_level="read_committed")
    for consumer in (everything, decided):
        consumer.assign([only])

    assert [record.value for record in poll_for(everything, 3)] == ["aborted", "stored", "undecided"]
    assert [record.value for record in poll_for(decided, 1)] == ["stored"]
    assert everything.end_offsets([only]) == {only: 5}, "two markers take an offset each"
    assert decided.end_offsets([only]) == {only: 4}, "up to the transaction that is open"
    producer.commit_transaction(TIMEOUT_S)
    assert [record.value for record in poll_for(decided, 1)] == ["undecided"]


def test_a_record_larger_than_a_fetch_is_delivered(
    cluster: KafkaCluster, topic: str, new_consumer: NewConsumers
) -> None:
    """max.partition.fetch.bytes, fetch.max.bytes: the old consumer's stream ends there."""
    cluster.create_topic(topic)
    cluster.produce(topic, [b"x" * 20_000, b"small"])
    consumer = new_consumer(max_partition_fetch_bytes=1_000, fetch_max_bytes=1_000)
    consumer.assign([TopicAndPartition(topic, 0)])

    assert [len(record.value) for record in poll_for(consumer, 2)] == [20_000, 5]


def test_internal_topics_are_left_out_unless_wanted(
    cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers
) -> None:
    """exclude.internal.topics."""
    cluster.create_topic(topic)
    asking = new_consumer(group_id=group)
    asking.assign([TopicAndPartition(topic, 0)])
    asking.commit_sync({TopicAndPartition(topic, 0): OffsetAndMetadata(0)})  # now __consumer_offsets is there
    pattern = f"{topic}|__consumer_offsets"
    found = {}
    for exclude in (True, False):
        consumer = new_consumer(
            group_id=f"{group}-{exclude}",
            exclude_internal_topics=exclude,
            key_deserializer=bytes,
            value_deserializer=bytes,
        )
        consumer.subscribe(pattern=pattern)
        poll_until([consumer], lambda consumer=consumer: bool(consumer.assignment()), "partitions")  # type: ignore[misc]
        found[exclude] = {partition.topic for partition in consumer.assignment()}

    assert found == {True: {topic}, False: {topic, "__consumer_offsets"}}


def test_a_member_that_does_not_poll_leaves_the_group(
    cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers
) -> None:
    """max.poll.interval.ms: its heartbeats go on in a thread of their own, so nothing else would notice."""
    cluster.create_topic(topic)
    settings = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 200}
    stuck = new_consumer(group_id=group, max_poll_interval_ms=1_500, **settings)
    patient = new_consumer(group_id=f"{group}-patient", **settings)
    for consumer in (stuck, patient):
        consumer.subscribe([topic])
        poll_until([consumer], lambda consumer=consumer: bool(consumer.assignment()), "membership")  # type: ignore[misc]

    with (
        RawMember(cluster.bootstrap_servers, group) as other,
        RawMember(cluster.bootstrap_servers, f"{group}-patient") as another,
    ):
        eventually(lambda: other.members() == 0, lambda: f"{other.members()} members", timeout_s=TIMEOUT_S)
        assert another.members() == 1
    poll_until([stuck], lambda: bool(stuck.assignment()), "it joins again when it polls again")
