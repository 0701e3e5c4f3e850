"""A rebalance listener of the user's, which may commit and seek, on real brokers."""

from __future__ import annotations

import pytest

from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from study.new_consumer import NewConsumer, WakeupException
from tests.study.new_consumer.conftest import NewConsumers
from tests.study.new_consumer.polling import TIMEOUT_S, poll_for, poll_until, polling
from tests.study.new_consumer.raw_members import RawMember
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


class NotingLoss(Noting):
    """Knows what Java's listener knows since 2.4."""

    def on_partitions_lost(self, partitions: set[TopicAndPartition]) -> None:
        self.told.append(("lost", partitions))


@pytest.mark.parametrize(("kind", "word"), [(NotingLoss, "lost"), (Noting, "revoked")])
def test_a_member_that_was_put_out_has_lost_its_partitions(
    cluster: KafkaCluster,
    topic: str,
    group: str,
    new_consumer: NewConsumers,
    caplog: pytest.LogCaptureFixture,
    kind: type[Noting],
    word: str,
) -> None:
    """Somebody leaves in its name, as the coordinator does for one that is silent; its next heartbeat is refused.

    A listener that does not know of loss is told as if it were revoked, and what it commits then is refused.
    """
    cluster.create_topic(topic, partitions=2)
    both = {TopicAndPartition(topic, 0), TopicAndPartition(topic, 1)}
    consumer = new_consumer(group_id=group, heartbeat_interval_ms=100)
    listener = kind(consumer)
    consumer.subscribe([topic], listener=listener)
    poll_until([consumer], lambda: consumer.assignment() == both, "membership")

    with RawMember(cluster.bootstrap_servers, group) as other:
        [member_id] = other.member_ids()
        assert other.leave(member_id=member_id) == 0
    poll_until([consumer], lambda: len(listener.told) >= 4, "partitions that were lost, and new ones")

    assert listener.told == [("revoked", set()), ("assigned", both), (word, both), ("assigned", both)]
    assert consumer.assignment() == both
    assert ("failed on on_partitions_revoked" in caplog.text) == (word == "revoked")


def test_cooperatively_only_what_moves_is_revoked(
    cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers
) -> None:
    """And only what is new is told as assigned; the others are read on all the time."""
    cluster.create_topic(topic, partitions=2)
    both = {TopicAndPartition(topic, 0), TopicAndPartition(topic, 1)}
    settings = {
        "group_id": group,
        "heartbeat_interval_ms": 100,
        "partition_assignment_strategy": "cooperative-sticky",
    }
    first, second = new_consumer(**settings), new_consumer(**settings)
    listener, newcomers = NotingLoss(first), NotingLoss(second)
    first.subscribe([topic], listener=listener)
    poll_until([first], lambda: first.assignment() == both, "the first member alone")

    second.subscribe([topic], listener=newcomers)
    with polling(first), polling(second):
        eventually(
            lambda: any(partitions for _, partitions in newcomers.told),
            lambda: f"a partition for the newcomer: {listener.told}, {newcomers.told}",
            timeout_s=TIMEOUT_S,
        )

    kept, moved = first.assignment(), second.assignment()
    assert len(kept) == len(moved) == 1
    assert [one for one in listener.told if one[1]] == [("assigned", both), ("revoked", moved)]
    assert [one for one in newcomers.told if one[1]] == [("assigned", moved)]


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
