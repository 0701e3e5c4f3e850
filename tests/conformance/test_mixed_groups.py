"""One real Scala member and one of ours in a group: nobody can tell them apart."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from tests.broker.churn import Member
from tests.conformance.group import Group, fresh
from tests.conformance.our_member import OurMember
from zkconsumer.emulation import emulation
from zkconsumer.testing.kafka import KAFKA_VERSIONS, KafkaCluster
from zkconsumer.testing.scala import ScalaConsumer, ScalaVersion
from zkconsumer.testing.tools import consumer_group_command, verify_consumer_rebalance
from zkconsumer.testing.waiting import eventually, scaled

Groups = Callable[[str], Group]
Records = set[tuple[int, int, bytes | None]]

PARTITIONS = 5
STREAMS = 2
SETTLING_S = 60.0
PROPERTIES = {
    "auto.offset.reset": "smallest",
    "rebalance.backoff.ms": "500",
    "rebalance.max.retries": "20",
    "zookeeper.session.timeout.ms": str(int(scaled(3.0) * 1000)),
    "zookeeper.connection.timeout.ms": "60000",
}


class MixedGroup:
    """A real member C1 and ours, C2, on a topic of five partitions, with two streams each."""

    def __init__(
        self,
        kafka: KafkaCluster,
        znodes: Group,
        *,
        version: ScalaVersion = "0.8.2.2",
        strategy: str = "range",
        emulate: str = "0.8.2",
    ) -> None:
        self.kafka = kafka
        self.znodes = znodes
        self.topic = fresh("mixed")
        self.strategy = strategy
        kafka.create_topic(self.topic, partitions=PARTITIONS)
        where, properties = kafka.zookeeper_connect, {**PROPERTIES, "partition.assignment.strategy": strategy}
        topics = {self.topic: STREAMS}
        self.real = ScalaConsumer(where, znodes.name, topics, version=version, consumer_id="C1", properties=properties)
        self.ours = OurMember(where, znodes.name, topics, consumer_id="C2", properties=properties, emulate=emulate)

    def expected_owners(self) -> dict[int, str]:
        """By the real assignor, asked for each member of the group."""
        expected: dict[int, str] = {}
        for consumer_id in self.znodes.members():
            assigned = self.real.assign(self.strategy, self.znodes.name, consumer_id)
            mine = {partition: thread for (_, partition), thread in assigned.items()}
            assert not expected.keys() & mine.keys()
            expected |= mine
        return expected

    def settle(self) -> dict[int, str]:
        """Wait for two members and the owners they should have."""
        members = sorted([self.real.consumer_id, self.ours.consumer_id])
        eventually(lambda: sorted(self.znodes.members()) == members, f"members {members}", SETTLING_S)
        expected = self.expected_owners()
        assert sorted(expected) == list(range(PARTITIONS))
        eventually(lambda: self.znodes.owners(self.topic) == expected, f"owners {expected}", SETTLING_S)
        return expected

    def produce(self, text: str) -> Records:
        """Two records into each partition; where they went."""
        produced: Records = set()
        for partition in range(PARTITIONS):
            values = [f"{text}-{partition}-{number}".encode() for number in range(2)]
            places = self.kafka.produce(self.topic, values, partition=partition)
            produced |= {(place.partition, place.offset, value) for place, value in zip(places, values, strict=True)}
        return produced

    def received(self, text: str) -> tuple[list[Any], list[Any]]:
        """What each member was delivered of these records."""
        of_real, of_ours = (
            [one for one in member.delivered() if (one.value or b"").startswith(f"{text}-".encode())]
            for member in (self.real, self.ours)
        )
        return of_real, of_ours

    def await_delivery(self, text: str, produced: Records) -> tuple[list[Any], list[Any]]:
        """All of these records, from whomever; then what each had."""

        def arrived() -> bool:
            return {
                (one.partition, one.offset, one.value) for member in self.received(text) for one in member
            } == produced

        eventually(arrived, lambda: f"{len(produced)} records {text}, were {self.received(text)}", 30.0)
        return self.received(text)


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
@pytest.mark.parametrize("first", ["real", "ours"])
def test_a_mixed_group_settles_whichever_member_starts_first(
    kafka_0_8: KafkaCluster, group_0_8: Groups, first: str, strategy: str
) -> None:
    """F8, O1, O2, D1, D2: owners as the real assignor says; each record once, from its partition's owner."""
    group = MixedGroup(kafka_0_8, group_0_8(fresh("g")), strategy=strategy)
    with ExitStack() as stack:
        for member in (group.real, group.ours) if first == "real" else (group.ours, group.real):
            stack.enter_context(member)
        owners = group.settle()
        produced = group.produce("settled")
        of_real, of_ours = group.await_delivery("settled", produced)
        # The one that started first leaves, and the other is alone.
        (group.real if first == "real" else group.ours).stop()
        alone, left = (group.ours, of_ours) if first == "real" else (group.real, of_real)
        eventually(lambda: len(group.znodes.owners(group.topic)) == PARTITIONS, "all owned again", SETTLING_S)
        owners_alone = group.znodes.owners(group.topic)
        later = group.produce("alone")
        by_real, by_ours = group.await_delivery("alone", later)

    assert len(of_real) + len(of_ours) == len(produced)
    owners_of_records = {one.partition: f"{group.ours.consumer_id}-{one.stream}" for one in of_ours}
    assert owners_of_records == {partition: thread for partition, thread in owners.items() if "_C2-" in thread}
    # Which of the real member's streams belongs to which of its threads is by chance: it zips hash sets.
    assert {one.partition for one in of_real} == {partition for partition, thread in owners.items() if "_C1-" in thread}
    assert left
    assert {thread.rpartition("-")[0] for thread in owners_alone.values()} == {alone.consumer_id}
    assert len(by_ours if first == "real" else by_real) == len(later)
    assert not (by_real if first == "real" else by_ours)
    assert (group.znodes.members(), group.znodes.owners(group.topic)) == ({}, {})


def test_a_killed_real_members_partitions_become_ours(kafka_0_8: KafkaCluster, group_0_8: Groups) -> None:
    """O4, D3: after the end of its session, and with what it had not committed."""
    group = MixedGroup(kafka_0_8, group_0_8(fresh("g")))
    with group.real, group.ours:
        owners = group.settle()
        before = group.produce("before")
        group.await_delivery("before", before)
        group.real.kill()
        owners_after_death = group.znodes.owners(group.topic)
        meanwhile = group.produce("meanwhile")
        group.await_delivery("meanwhile", meanwhile)
        owners_at_last = group.znodes.owners(group.topic)
        of_real, of_ours = group.received("meanwhile")

        assert owners_after_death == owners
        assert {thread.rpartition("-")[0] for thread in owners_at_last.values()} == {group.ours.consumer_id}
        assert len(owners_at_last) == PARTITIONS
        assert not of_real
        assert len(of_ours) == len(meanwhile)
        assert list(group.znodes.members()) == [group.ours.consumer_id]


def test_our_killed_members_partitions_become_the_real_ones(kafka_0_8: KafkaCluster, group_0_8: Groups) -> None:
    """O4, D3: the other way round, with ours in a process of its own."""
    znodes, topic = group_0_8(fresh("g")), fresh("mixed")
    kafka_0_8.create_topic(topic, partitions=PARTITIONS)
    where = kafka_0_8.zookeeper_connect
    ours = Member(where, znodes.name, "C2", topic, streams=STREAMS)

    def number_noted() -> int:
        ours.read()
        return sum(map(len, ours.notes))

    try:
        with ScalaConsumer(where, znodes.name, {topic: STREAMS}, consumer_id="C1", properties=PROPERTIES) as real:
            ours.join()
            eventually(lambda: len(set(znodes.owners(topic).values())) == 2 * STREAMS, "four owners", SETTLING_S)
            kafka_0_8.produce_many(topic, 10 * PARTITIONS)
            eventually(lambda: real.number_delivered + number_noted() >= 10 * PARTITIONS, "everything delivered")
            ours.kill()
            owners_after_death = znodes.owners(topic)
            eventually(
                lambda: (
                    len(owners := znodes.owners(topic)) == PARTITIONS
                    and {thread.rpartition("-")[0] for thread in owners.values()} == {real.consumer_id}
                ),
                "all owned by the real member",
                SETTLING_S,
            )
            stored = {tuple(place) for place in kafka_0_8.produce(topic, [b"later"] * 20)}
            eventually(lambda: {(one.partition, one.offset) for one in real.delivered()} >= stored)
    finally:
        ours.close()

    assert {thread.rpartition("-")[0] for thread in owners_after_death.values()} == {
        f"{znodes.name}_C1",
        f"{znodes.name}_C2",
    }


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_each_side_goes_on_where_the_other_stopped(kafka_0_8: KafkaCluster, group_0_8: Groups, storage: str) -> None:
    """J18: a real member, ours, and a real one again, each from the offsets that the one before it stored."""
    znodes, topic, where = group_0_8(fresh("g")), fresh("mixed"), kafka_0_8.zookeeper_connect
    properties = {**PROPERTIES, "offsets.storage": storage, "dual.commit.enabled": "false"}
    kafka_0_8.create_topic(topic, partitions=2)
    taken: list[list[tuple[int, int]]] = []

    def places(delivered: list[Any]) -> list[tuple[int, int]]:
        return sorted((one.partition, one.offset) for one in delivered)

    for turn in range(3):
        for partition, count in ((0, 3), (1, 2)):
            kafka_0_8.produce(topic, [b"%d" % turn] * count, partition=partition)
        kind: Any = OurMember if turn == 1 else ScalaConsumer
        with kind(where, znodes.name, {topic: 1}, properties=properties) as member:
            member.wait_until_delivered(5)
            member.commit_offsets()
            member.stop()
            taken.append(places(member.delivered()))

    assert taken == [
        [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)],
        [(0, 3), (0, 4), (0, 5), (1, 2), (1, 3)],
        [(0, 6), (0, 7), (0, 8), (1, 4), (1, 5)],
    ]
    assert znodes.offsets(topic) == ({0: "9", 1: "6"} if storage == "zookeeper" else {})


@pytest.mark.parametrize(
    "version", [pytest.param(version, marks=pytest.mark.kafka(version)) for version in KAFKA_VERSIONS]
)
def test_both_read_the_same_records_from_brokers_of_each_release(kafka: KafkaCluster, version: str) -> None:
    """O5: keys, values, nulls and offsets, plain and compressed."""
    assert kafka.version == version
    topic = fresh("same")
    kafka.create_topic(topic, partitions=2)
    kafka.produce(topic, [b"plain", (b"key", b"value"), (b"key", None), b""], partition=0)
    kafka.produce(topic, [b"compressed" * 50 + b"%d" % number for number in range(50)], partition=1, codec="gzip")
    where = kafka.zookeeper_connect

    with ScalaConsumer(where, fresh("real"), {topic: 1}, properties=PROPERTIES) as real:
        theirs = {one[1:6] for one in real.wait_until_delivered(54)}
    with OurMember(where, fresh("ours"), {topic: 1}, properties=PROPERTIES) as ours:
        mine = {one[1:6] for one in ours.wait_until_delivered(54)}

    assert mine == theirs
    assert len(mine) == 54


def test_real_tools_take_us_for_one_of_theirs(kafka_1_1: KafkaCluster, group_1_1: Groups) -> None:
    """O7, O1: with a real 1.1.1 member, on 1.1.1; its describe shows our partitions under our consumer id."""
    group = MixedGroup(kafka_1_1, group_1_1(fresh("g")), version="1.1.1", emulate="1.1")
    where, name = kafka_1_1.zookeeper_connect, group.znodes.name
    with group.real, group.ours:
        owners = group.settle()
        produced = group.produce("described")
        group.await_delivery("described", produced)
        group.real.commit_offsets()
        group.ours.commit_offsets()
        verified = verify_consumer_rebalance(where, name)
        described = consumer_group_command("--zookeeper", where, "--describe", "--group", name)

    assert (verified.stdout, verified.exit_code) == ("Rebalance operation successful !\n", 0)
    # As in 0.8.2.2: threads C1-0, C1-1, C2-0, C2-1 share five partitions, and the first takes the one left over.
    assert {partition: thread.removeprefix(f"{name}_") for partition, thread in owners.items()} == {
        0: "C1-0", 1: "C1-0", 2: "C1-1", 3: "C2-0", 4: "C2-1",
    }  # fmt: skip
    rows = [line.split() for line in described.stdout.splitlines() if line.startswith(group.topic)]
    assert rows == [
        [group.topic, str(partition), "2", "2", "0", f"{name}_{'C1' if partition < 3 else 'C2'}"]
        for partition in range(PARTITIONS)
    ]


@pytest.mark.parametrize("first", ["real", "ours"])
def test_a_regex_with_a_backslash_is_read_alike_by_both(kafka_0_8: KafkaCluster, group_0_8: Groups, first: str) -> None:
    r"""O3, A6: `name\d/?`, escaped in both registrations, means the same topic to both members."""
    topic, znodes = fresh("wild") + "7", group_0_8(fresh("g"))
    kafka_0_8.create_topic(topic, partitions=PARTITIONS)
    kafka_0_8.create_topic(topic + "x", partitions=1)  # which the regex does not match
    regex, where = topic[:-1] + r"\d/?", kafka_0_8.zookeeper_connect
    real = ScalaConsumer(where, znodes.name, whitelist=regex, consumer_id="C1", properties=PROPERTIES)
    ours = OurMember(where, znodes.name, whitelist=regex, consumer_id="C2", properties=PROPERTIES)

    with ExitStack() as stack:
        for member in (real, ours) if first == "real" else (ours, real):
            stack.enter_context(member)
        expected = {0: "_C1-0", 1: "_C1-0", 2: "_C1-0", 3: "_C2-0", 4: "_C2-0"}
        owners = {partition: znodes.name + thread for partition, thread in expected.items()}
        eventually(lambda: znodes.owners(topic) == owners, lambda: f"{znodes.owners(topic)}", SETTLING_S)
        subscriptions = [node["subscription"] for node in znodes.members().values()]
        others = znodes.owners(topic + "x")

    assert subscriptions == [{regex: 1}, {regex: 1}]
    assert others == {}


@pytest.mark.kafka("3.9.1")
def test_format_2_with_gzip_converted_down_is_read_alike(kafka: KafkaCluster) -> None:
    """O6: by versions of requests that know format 0 only, so that the broker has to convert."""
    topic, values = fresh("down"), [b"compressed" * 50 + b"%d" % number for number in range(50)]
    kafka.create_topic(topic)
    kafka.produce(topic, values, partition=0, codec="gzip")
    where, old_requests = kafka.zookeeper_connect, emulation("0.8.2").with_switches(request_versions="0.8.2")

    with ScalaConsumer(where, fresh("real"), {topic: 1}, properties=PROPERTIES) as real:
        theirs = [one[1:6] for one in real.wait_until_delivered(50)]
    with OurMember(where, fresh("ours"), {topic: 1}, properties=PROPERTIES, emulate=old_requests) as ours:
        mine = [one[1:6] for one in ours.wait_until_delivered(50)]

    assert mine == theirs
    assert [value for *_, value in mine] == values
