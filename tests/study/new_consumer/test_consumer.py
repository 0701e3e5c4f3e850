"""The new consumer as the seeds show it, on real brokers of 1.1.1 and 3.9.1."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from study.new_consumer import (
    CommitFailedException,
    ConcurrentModificationException,
    ConsumerRecords,
    NewConsumer,
    WakeupException,
)
from tests.study.new_consumer.conftest import NewConsumers, properties
from tests.study.new_consumer.polling import poll_for, poll_until
from zkconsumer.errors import IllegalArgumentException, IllegalStateException
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import eventually

EXCLUSIVE = "Subscription to topics, partitions and pattern are mutually exclusive"


def test_a_demo_group_reads_a_topic(cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers) -> None:
    """Seed 003's first program, and poll's result by partition and by topic."""
    other = f"{topic}-other"
    cluster.create_topic(topic, partitions=2)
    cluster.create_topic(other)
    cluster.produce(topic, [(b"k", b"hello"), b"world"])
    cluster.produce(other, [b"there"])
    consumer = new_consumer(group_id=group, client_id="client-id-demo")

    consumer.subscribe([topic, other])
    got = poll_for(consumer, 3)

    assert sorted(str(record.value) for record in got) == ["hello", "there", "world"]
    assert {record.key for record in got} == {"k", None}
    assert consumer.subscription() == {topic, other}
    records = ConsumerRecords({TopicAndPartition(r.topic, r.partition): [r] for r in got if r.topic == other})
    assert records.partitions() == {TopicAndPartition(other, 0)}
    assert [r.value for r in records.records(other)] == ["there"] == [r.value for r in records]
    assert records.records(topic) == [] and records.count() == 1 and not records.is_empty()


def test_ways_to_subscribe_exclude_each_other(
    cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers
) -> None:
    cluster.create_topic(topic, partitions=2)
    consumer = new_consumer(group_id=group)
    some = [TopicAndPartition(topic, 0)]

    with pytest.raises(IllegalStateException, match="Consumer is not subscribed to any topics or assigned any partit"):
        consumer.poll(0)
    consumer.subscribe([topic])
    with pytest.raises(IllegalStateException, match=EXCLUSIVE):
        consumer.assign(some)
    with pytest.raises(IllegalStateException, match=EXCLUSIVE):
        consumer.subscribe(pattern=".*")
    consumer.subscribe([])  # the same as unsubscribe()
    consumer.assign(some)
    assert consumer.assignment() == set(some)
    with pytest.raises(IllegalStateException, match=EXCLUSIVE):
        consumer.subscribe([topic])
    consumer.assign([])
    assert consumer.assignment() == set()
    consumer.subscribe(pattern=topic)
    with pytest.raises(IllegalStateException, match=EXCLUSIVE):
        consumer.subscribe([topic])
    consumer.unsubscribe()
    with pytest.raises(IllegalArgumentException):
        consumer.subscribe(None)
    with pytest.raises(IllegalArgumentException):
        consumer.subscribe([" "])


def test_a_pattern_finds_topics_made_later(
    cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers
) -> None:
    cluster.create_topic(topic)
    consumer = new_consumer(group_id=group, metadata_max_age_ms=300)
    consumer.subscribe(pattern=f"{topic}(-later)?")
    poll_until([consumer], lambda: len(consumer.assignment()) == 1, "the first topic")

    cluster.create_topic(f"{topic}-later")
    cluster.create_topic(f"{topic}-later-still")  # the whole name has to match
    cluster.produce(f"{topic}-later", [b"found"])

    [record] = poll_for(consumer, 1)
    assert (record.topic, record.value) == (f"{topic}-later", "found")
    assert consumer.subscription() == {topic, f"{topic}-later"}


def test_all_partitions_of_a_topic_can_be_assigned_by_hand(
    cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers
) -> None:
    """Seed 003: partitionsFor and assign. Seed 001: no membership, and commits all the same."""
    cluster.create_topic(topic, partitions=3)
    cluster.produce(topic, [b"a", b"b"], partition=1)
    consumer = new_consumer(group_id=group)

    infos = consumer.partitions_for(topic)
    assert [(info.topic, info.partition) for info in infos] == [(topic, 0), (topic, 1), (topic, 2)]
    assert {(info.leader, *info.replicas, *info.in_sync_replicas) for info in infos} == {(0, 0, 0)}
    consumer.assign([TopicAndPartition(info.topic, info.partition) for info in infos])
    assert len(poll_for(consumer, 2)) == 2
    consumer.commit_sync()

    one = TopicAndPartition(topic, 1)
    assert consumer.committed(one) == OffsetAndMetadata(2, "")
    assert consumer.beginning_offsets([one]) == {one: 0}
    assert consumer.end_offsets([one, TopicAndPartition(topic, 0)]) == {one: 2, TopicAndPartition(topic, 0): 0}


def test_a_group_with_members_refuses_commits_of_an_outsider(
    cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers
) -> None:
    """Seed 001's summary: assign with the group id of subscribed members."""
    cluster.create_topic(topic)
    member, outsider = new_consumer(group_id=group), new_consumer(group_id=group)
    member.subscribe([topic])
    poll_until([member], lambda: bool(member.assignment()), "membership")
    outsider.assign([TopicAndPartition(topic, 0)])

    with pytest.raises(CommitFailedException):
        outsider.commit_sync({TopicAndPartition(topic, 0): OffsetAndMetadata(1)})


def test_reading_can_be_moved_paused_and_woken(
    cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers
) -> None:
    cluster.create_topic(topic, partitions=2)
    zero, one = TopicAndPartition(topic, 0), TopicAndPartition(topic, 1)
    for partition in (0, 1):
        cluster.produce(topic, [b"0", b"1", b"2"], partition=partition)
    consumer = new_consumer(group_id=group, max_poll_records=2)
    consumer.assign([zero, one])

    consumer.pause([one])
    assert consumer.paused() == {one}
    assert {record.partition for record in poll_for(consumer, 3)} == {0}
    consumer.resume([one])
    assert consumer.paused() == set()
    assert {record.partition for record in poll_for(consumer, 3)} == {1}
    consumer.seek(zero, 1)
    assert [(record.partition, record.offset) for record in poll_for(consumer, 2)] == [(0, 1), (0, 2)]
    assert consumer.position(zero) == 3
    with pytest.raises(IllegalStateException, match="No current assignment for partition"):
        consumer.seek(TopicAndPartition(topic, 7), 0)
    with pytest.raises(IllegalArgumentException):
        consumer.seek(zero, -1)

    consumer.wakeup()
    with pytest.raises(WakeupException):
        consumer.poll(60)
    assert consumer.poll(0).is_empty()  # it can be used on
    waker = threading.Timer(0.2, consumer.wakeup)
    waker.start()
    with pytest.raises(WakeupException):
        consumer.poll(60)
    waker.join()


def test_only_one_thread_may_use_a_consumer(cluster: KafkaCluster, topic: str, new_consumer: NewConsumers) -> None:
    cluster.create_topic(topic)
    consumer = new_consumer()
    consumer.assign([TopicAndPartition(topic, 0)])
    polling = threading.Event()
    seen: list[str] = []

    def on_consume_blocks() -> None:
        polling.set()
        with pytest.raises(WakeupException):
            consumer.poll(60)

    thread = threading.Thread(target=on_consume_blocks)
    thread.start()
    assert polling.wait(60)
    while not seen:  # until the other is inside poll
        try:
            consumer.paused()
        except ConcurrentModificationException as error:
            seen.append(str(error))
    consumer.wakeup()
    thread.join()

    assert seen == ["KafkaConsumer is not safe for multi-threaded access"]


def test_callbacks_come_in_order_in_the_users_thread(
    cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers
) -> None:
    """P8: rules 1 to 4 of committing."""
    cluster.create_topic(topic)
    told: list[Any] = []

    class Noting:
        def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
            return records

        def on_commit(self, offsets: Mapping[TopicAndPartition, OffsetAndMetadata]) -> None:
            told.append(("on_commit", *[each.offset for each in offsets.values()]))

        def close(self) -> None:
            told.append("closed")

    consumer = new_consumer(group_id=group, interceptor_classes=[Noting()])
    only = TopicAndPartition(topic, 0)
    consumer.assign([only])

    def callback(offsets: Mapping[TopicAndPartition, OffsetAndMetadata], error: Exception | None) -> None:
        assert threading.current_thread() is threading.main_thread()
        told.append((error and str(error), *[each.offset for each in offsets.values()]))

    for offset in (1, 2, 3):
        consumer.commit_async({only: OffsetAndMetadata(offset)}, callback)
    consumer.commit_sync({only: OffsetAndMetadata(4, "by hand")})

    callbacks = [(None, 1), (None, 2), (None, 3)]
    assert [each for each in told if each[0] is None] == callbacks
    assert [each for each in told if each[0] == "on_commit"] == [("on_commit", n) for n in (1, 2, 3, 4)]
    for offset in (1, 2, 3):
        assert told.index(("on_commit", offset)) < told.index((None, offset))
    assert told[-1] == ("on_commit", 4), "the synchronous one's interceptors come last"
    assert consumer.committed(only) == OffsetAndMetadata(4, "by hand")

    told.clear()
    consumer.commit_async({}, callback)
    consumer.commit_async({only: OffsetAndMetadata(-1)}, callback)
    with pytest.raises(IllegalArgumentException, match="Invalid offset: -7"):
        consumer.commit_sync({only: OffsetAndMetadata(-7)})
    consumer.commit_sync({})
    consumer.poll(0)
    assert told == [("on_commit",), (None,), ("Invalid offset: -1", -1)]

    told.clear()
    consumer.commit_async({only: OffsetAndMetadata(5)}, callback)
    consumer.close()
    assert told[-1] == "closed"
    with pytest.raises(IllegalStateException, match="This consumer has already been closed"):
        consumer.poll(0)


def test_interceptors_form_a_chain_and_may_fail(
    cluster: KafkaCluster, topic: str, new_consumer: NewConsumers, caplog: pytest.LogCaptureFixture
) -> None:
    """Seed 003's filter by age, here by value; one that fails is passed over."""
    cluster.create_topic(topic)
    cluster.produce(topic, [b"keep", b"drop", b"keep"])
    order: list[str] = []

    class Filter:
        def __init__(self, name: str, unwanted: str | None) -> None:
            self.name, self.unwanted = name, unwanted

        def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
            order.append(self.name)
            if self.unwanted is None:
                raise ValueError("this one is broken")
            kept = {p: [r for r in records.records(p) if r.value != self.unwanted] for p in records.partitions()}
            return ConsumerRecords({partition: mine for partition, mine in kept.items() if mine})

        def on_commit(self, offsets: object) -> None:
            raise ValueError("this one is broken")

        def close(self) -> None:
            raise ValueError("this one is broken")

    chain = [Filter("first", "drop"), Filter("second", None), Filter("third", "nothing")]
    consumer = new_consumer(group_id=topic, interceptor_classes=chain)
    consumer.assign([TopicAndPartition(topic, 0)])

    assert [(record.offset, record.value) for record in poll_for(consumer, 2)] == [(0, "keep"), (2, "keep")]
    assert order[:3] == ["first", "second", "third"]
    consumer.commit_sync()
    assert consumer.committed(TopicAndPartition(topic, 0)) == OffsetAndMetadata(3, "")
    assert "Error executing interceptor onConsume callback" in caplog.text
    assert "Error executing interceptor onCommit callback" in caplog.text


def test_a_deserializer_of_ones_own_is_used_and_closed(cluster: KafkaCluster, topic: str) -> None:
    cluster.create_topic(topic)
    cluster.produce(topic, [(b"5", b"hello"), (None, None)])
    closed = []

    class Backwards:
        def deserialize(self, of: str, data: bytes) -> str:
            assert of == topic
            return data.decode()[::-1]

        def close(self) -> None:
            closed.append(True)

    with NewConsumer(properties(cluster, key_deserializer=int, value_deserializer=Backwards())) as consumer:
        consumer.assign([TopicAndPartition(topic, 0)])
        records = poll_for(consumer, 2)

    assert [(record.key, record.value) for record in records] == [(5, "olleh"), (None, None)]
    assert closed == [True]


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky", "random", "broadcast"])
def test_a_group_shares_partitions_by_each_strategy(
    cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers, strategy: str
) -> None:
    """Seeds 000 and 003: seven partitions and three members, counts as the strategy gives them."""
    cluster.create_topic(topic, partitions=7)
    settings = {"group_id": group, "partition_assignment_strategy": strategy, "heartbeat_interval_ms": 100}
    members = [new_consumer(client_id=f"c{number}", **settings) for number in range(3)]
    everything = {TopicAndPartition(topic, number) for number in range(7)}

    has: dict[int, set[TopicAndPartition]] = {}
    stopping = threading.Event()
    errors: list[BaseException] = []

    def settled() -> bool:
        parts = list(has.values())
        counts = sorted(map(len, parts))
        wanted = {"random": sum(counts) == 7, "broadcast": counts == [7, 7, 7]}
        shared = len(parts) == 3 and set().union(*parts) == everything and wanted.get(strategy, counts == [2, 2, 3])
        return shared or bool(errors)

    def keep_polling(number: int) -> None:
        try:
            while not stopping.is_set():
                members[number].poll(0.1)
                has[number] = members[number].assignment()
        except BaseException as error:
            errors.append(error)

    for member in members:
        member.subscribe([topic])
    threads = [threading.Thread(target=keep_polling, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        eventually(settled, lambda: f"everybody has a part: {has}", timeout_s=90)
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    assert not errors
