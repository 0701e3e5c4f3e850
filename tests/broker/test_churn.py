"""Groups of 1, 2, 4 and 8 processes that records flow through while members join, leave and are killed.

ZKCONSUMER_CHURN_RECORDS is how many records there are in all (`make test-churn`: a million).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import pytest
from kazoo.client import KazooClient

from tests.broker.churn import Member, Producer, deliveries_by_others, ownerships, records_missing
from tests.conformance.group import Group, fresh
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer

RECORDS = int(os.environ.get("ZKCONSUMER_CHURN_RECORDS", "200000"))
TEN_MEMBERS_RECORDS = 32_000
PARTITIONS = 32
SIZES = (1, 2, 4, 8)
SETTLING_S = 60.0
STALLING_S = 30.0


class ChangingGroup:
    """A group whose members come and go; a real consumer beside it (not a member) says who should own what."""

    def __init__(self, kafka: KafkaCluster, znodes: Group, topic: str, referee: ScalaConsumer) -> None:
        self.znodes = znodes
        self.topic = topic
        self.living: list[Member] = []
        self.everybody: list[Member] = []
        self._kafka = kafka
        self._referee = referee

    def join(self, commits: Literal["auto", "by-hand"] = "auto") -> Member:
        # Names in the order of joining, which is then also that of the range assignment.
        name = f"m{len(self.everybody):02}"
        member = Member(self._kafka.zookeeper_connect, self.znodes.name, name, self.topic, commits=commits)
        self.everybody.append(member)
        self.living.append(member)
        member.join()
        return member

    def leave(self) -> None:
        """The oldest goes, in order."""
        self.living.pop(0).leave()

    def kill(self, members: Sequence[Member]) -> None:
        """They go without a word, when each has been delivered something."""
        what = self._told(f"all of {[member.consumer_id for member in members]} reading")
        eventually(lambda: all(member.read() or member.notes[0] for member in members), what, SETTLING_S)
        for member in members:
            self.living.remove(member)
            member.kill()

    def await_members(self) -> None:
        """Until those that live, and no others, are registered."""
        expected = sorted(member.consumer_id for member in self.living)
        eventually(lambda: sorted(self.znodes.members()) == expected, self._told(f"members {expected}"), SETTLING_S)

    def settle(self) -> None:
        """Until every partition has the owner that the real range assignor gives it, here and for each member."""
        self.await_members()
        expected: dict[int, str] = {}
        for member in self.living:
            assigned = self._referee.assign("range", self.znodes.name, member.consumer_id)
            expected |= {partition: thread for (_, partition), thread in assigned.items()}
        assert sorted(expected) == list(range(PARTITIONS))
        eventually(lambda: self.znodes.owners(self.topic) == expected, self._told(f"owners {expected}"), SETTLING_S)
        shares = Counter(thread.rpartition("-")[0] for thread in expected.values())
        assert shares.keys() == {member.consumer_id for member in self.living}
        assert max(shares.values()) - min(shares.values()) <= 1

    def consume(self, count: int) -> None:
        """Until so many different records have been noted, at full speed."""
        for member in self.living:
            member.hurry()
        noted: set[tuple[int, int]] = set()
        for member in self.everybody:
            noted.update((note.partition, note.offset) for notes in member.notes for note in notes)

        def grew() -> bool:
            before = len(noted)
            for member in self.everybody:
                noted.update((note.partition, note.offset) for note in member.read())
            return len(noted) > before

        while len(noted) < count:
            eventually(grew, self._told(f"{count} records noted, were {len(noted)}"), STALLING_S)
        for member in self.living:
            member.slow_down()

    def close(self) -> None:
        for member in self.everybody:
            member.close()

    def _told(self, what: str) -> Callable[[], str]:
        return lambda: "\n".join([what, *(f"{member.consumer_id}: {member.output()}" for member in self.living)])


@pytest.fixture
def znodes(kafka: KafkaCluster) -> Iterator[Group]:
    client = KazooClient(kafka.zookeeper_connect)
    try:
        client.start(30)
        yield Group(client, fresh("group"))
    finally:
        client.stop()
        client.close()


@pytest.fixture
def group(kafka: KafkaCluster, znodes: Group) -> Iterator[ChangingGroup]:
    topic = fresh("churn")
    kafka.create_topic(topic, partitions=PARTITIONS)
    with ScalaConsumer(kafka.zookeeper_connect, fresh("referee")) as referee:
        group = ChangingGroup(kafka, znodes, topic, referee)
        try:
            yield group
        finally:
            group.close()


@pytest.mark.timeout(3600)
@pytest.mark.kafka("0.8.2.2")
def test_no_record_is_lost_and_none_delivered_by_others_while_members_come_and_go(
    kafka: KafkaCluster, group: ChangingGroup, zookeeper_server: ZooKeeperServer
) -> None:
    """D2, E11, F6, F7: at least once, by owners only, to the real assignor's owners; nothing stays behind."""
    produced = 0
    for size in SIZES:
        while len(group.living) < size:
            group.join()
        group.settle()
        share = RECORDS // len(SIZES)
        with Producer(kafka, group.topic, share) as producer:
            victim = group.join(commits="by-hand")
            group.await_members()
            group.leave()
            group.join()
            group.await_members()
            group.kill([victim])
            producer.hurry()
            group.settle()
        produced += share
        group.consume(produced)
    ends = kafka.end_offsets(group.topic)
    while group.living:
        group.leave()
    left_members, left_owners = group.znodes.members(), group.znodes.owners(group.topic)

    for member in group.everybody:
        member.read()
    assert sum(ends.values()) == produced
    assert records_missing(group.everybody, ends) == set()
    chroot = "/" + kafka.zookeeper_connect.partition("/")[2]
    owned = ownerships(zookeeper_server.transactions(), f"{chroot}{group.znodes.path}", group.topic)
    deliveries = [delivery for member in group.everybody for delivery in member.deliveries]
    assert list(deliveries_by_others(deliveries, owned)) == []
    assert (left_members, left_owners) == ({}, {})
    assert group.znodes.offsets(group.topic) == {partition: str(end) for partition, end in ends.items()}
    _assert_that_all_told_the_truth(group)


@pytest.mark.kafka("0.8.2.2")
def test_of_ten_members_that_join_at_once_five_can_be_killed(kafka: KafkaCluster, group: ChangingGroup) -> None:
    """O8, D3, F7, I14: settles, loses nothing, and only what the dead had not committed comes twice."""
    members = [group.join(commits="by-hand" if number % 2 else "auto") for number in range(10)]
    group.settle()
    victims = members[1::2]
    with Producer(kafka, group.topic, TEN_MEMBERS_RECORDS) as producer:
        group.kill(victims)
        committed, owners = group.znodes.offsets(group.topic), group.znodes.owners(group.topic)
        producer.hurry()
        group.settle()
    group.consume(TEN_MEMBERS_RECORDS)
    while group.living:
        group.leave()

    for member in group.everybody:
        member.read()
    assert records_missing(group.everybody, kafka.end_offsets(group.topic)) == set()
    died = {partition for partition, thread in owners.items() if int(thread[-4:-2]) % 2}
    assert len(died) == 16  # ten members have 4, 4, 3, 3, 3, 3, 3, 3, 3 and 3
    for (partition, offset), times in _times_noted(group).items():
        expected = partition in died and offset >= int(committed.get(partition, "0"))
        assert times == 1 or (times == 2 and expected), f"offset {offset} of partition {partition}: {times} times"


def _times_noted(group: ChangingGroup) -> Counter[tuple[int, int]]:
    return Counter((note.partition, note.offset) for one in group.everybody for notes in one.notes for note in notes)


def _assert_that_all_told_the_truth(group: ChangingGroup) -> None:
    """Notes have the values that were produced, and the Delivered events, which have the times, are of these notes."""
    for member in group.everybody:
        notes = [note for notes in member.notes for note in notes]
        assert all(note.number % PARTITIONS == note.partition for note in notes)
        if not member.was_killed:
            told = Counter(
                (delivery.partition, offset)
                for delivery in member.deliveries
                for offset in range(delivery.first_offset, delivery.next_offset)
            )
            assert told == Counter((note.partition, note.offset) for note in notes)
