"""A rebalance listener of the user's, which may commit and seek, on real brokers."""

from __future__ import annotations

import pytest

from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from study.new_consumer import NewConsumer, WakeupException
from tests.study.new_consumer.conftest import NewConsumers
from tests.study.new_consumer.polling import TIMEOUT_S, poll_for, poll_until, polling
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import eventually

Told = list[tuple[str, set[TopicAndPartition]]]


class Noting:
    """Notes its calls in `told`, then does what seed 003's listener does: commits when it loses, seeks when it gets."""

    def __init__(self, consumer: NewConsumer) -> None:
        self.consumer = consumer
        self.told: Told = []

    def on_partitions_revoked(self, partitions: set[TopicAndPartition]) -> None:
        self.told.append(("revoked", partitions))
        if partitions:
            self.consumer.commit_sync({partition: OffsetAndMetadata(2) for partition in partitions})

    def on_partitions_assigned(self, partitions: set[TopicAndPartition]) -> None:
        self.told.append(("assigned", partitions))
        for partition in partitions:
            self.consumer.seek(partition, 1)


def test_a_listener_commits_before_and_seeks_after_a_rebalance(
    cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers
) -> None:
    """Seed 003's ConsumerRebalanceListener; told what was had before a rebalance, and what was got after it."""
    cluster.create_topic(topic, partitions=2)
    for partition in (0, 1):
        cluster.produce(topic, [b"0", b"1", b"2"], partition=partition)
    both = {TopicAndPartition(topic, 0), TopicAndPartition(topic, 1)}
    first = new_consumer(group_id=group, heartbeat_interval_ms=100)
    listener = Noting(first)

    first.subscribe([topic], listener=listener)
    assert sorted(record.offset for record in poll_for(first, 4)) == [1, 1, 2, 2], "where the listener has sought to"
    assert listener.told == [("revoked", set()), ("assigned", both)], "one rebalance is enough for a first member"

    second = new_consumer(group_id=group, heartbeat_interval_ms=100)
    second.subscribe([topic])
    with polling(first), polling(second) as got:
        eventually(lambda: got and len(listener.told) >= 4, lambda: f"{listener.told}, {got}", timeout_s=TIMEOUT_S)

    assert got[0].offset == 2, "where the first one's listener has committed"
    others = both - {TopicAndPartition(topic, got[0].partition)}
    assert listener.told[2:4] == [("revoked", both), ("assigned", others)]


def test_a_listener_that_fails_is_passed_over(
    cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers, caplog: pytest.LogCaptureFixture
) -> None:
    """As in 1.1.1; a WakeupException of a listener is not: it reaches the caller of poll."""
    cluster.create_topic(topic)
    cluster.produce(topic, [b"only"])
    consumer = new_consumer(group_id=group)

    class Failing:
        def on_partitions_revoked(self, partitions: set[TopicAndPartition]) -> None:
            raise ValueError("the listener does not like to lose")

        def on_partitions_assigned(self, partitions: set[TopicAndPartition]) -> None:
            raise WakeupException("enough")

    consumer.subscribe([topic], listener=Failing())
    with pytest.raises(WakeupException):
        poll_until([consumer], lambda: False, "the listener's wakeup")
    assert "the listener does not like to lose" in caplog.text
    consumer.seek(TopicAndPartition(topic, 0), 0)  # records may have come before it was woken

    assert [record.value for record in poll_for(consumer, 1)] == ["only"], "it is a member all the same"
