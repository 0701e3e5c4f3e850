"""Who knows only ZooKeeper's tree and log and what brokers are asked cannot say which members of a group are ours."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.conformance.evidence import Evidence, TimedTap, by_session, clues, timing
from tests.conformance.group import Group, fresh
from tests.conformance.guesser import Guesser, Member, SingleClue, Verdict, Weigher, judge, telltales
from tests.conformance.our_process import OurProcess
from tests.conformance.test_to_the_letter import PROPERTIES
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.link import Direction
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer

GROUPS = 10
GROUPS_OF_DEFAULTS = 3
SETTLING_S = 60.0
ALIKE = {"request_versions": "0.8.2", "zookeeper_requests": "one by one"}
ONCE_IN = 200  # runs in which a coin would be as lucky


class Town:
    """A cluster of its own, whose log holds nothing else, and groups of two real members and two of ours."""

    def __init__(self, zookeeper: ZooKeeperServer, kafka: KafkaCluster, client: KazooClient) -> None:
        self._zookeeper = zookeeper
        self._kafka = kafka
        self._client = client
        self._tap = TimedTap(iter(time.monotonic, None))
        kafka.links[0].tap(self._pass_on)

    def group(self, number: int, switches: dict[str, Any]) -> list[Member]:
        """One group's life, and what its members left behind."""
        dice = random.Random(number)
        self._tap = tap = TimedTap(iter(time.monotonic, None))
        group = Group(self._client, fresh("g"))
        topics = {fresh("t"): 1, fresh("u"): dice.randint(1, 2)}
        partitions = {topic: 4 * streams + dice.randint(0, 3) for topic, streams in topics.items()}
        for topic, count in partitions.items():
            self._kafka.create_topic(topic, partitions=count)
        names = [fresh("m") for _ in range(4)]
        ours = set(dice.sample(names, 2))
        strategy = dice.choice(["range", "roundrobin"]) if len(set(topics.values())) == 1 else "range"
        with ExitStack() as stack:
            members = {name: self._member(group, name, name in ours, topics, strategy, switches) for name in names}
            for member in members.values():
                stack.callback(member.close)
            self._live(dice, group, members, partitions)
        by_name = by_session(self._zookeeper.transactions(), f"{self._chroot}{group.path}/ids")
        return [_judged(Evidence(name, group.name, by_name[name], tap.asked_by(name)), name in ours) for name in names]

    def _live(
        self, dice: random.Random, group: Group, members: dict[str, ScalaConsumer], partitions: dict[str, int]
    ) -> None:
        """They join one after the other, read, commit, see a topic grow, and leave; each in some order."""
        for name in dice.sample(list(members), len(members)):
            members[name].start()
            self._settle(group, partitions)
            self._produce(members, partitions)
        for name in dice.sample(list(members), len(members)):
            members[name].commit_offsets()
        grown = dice.choice(list(partitions))
        partitions[grown] += 2
        self._kafka.add_partitions(grown, partitions[grown])
        self._settle(group, partitions)
        self._produce(members, partitions)
        for name in dice.sample(list(members), len(members)):
            members[name].stop()
            if set(group.members()):
                self._settle(group, partitions)

    def _produce(self, members: dict[str, ScalaConsumer], partitions: dict[str, int]) -> None:
        before = sum(len(member.delivered()) for member in members.values())
        for topic, count in partitions.items():
            for partition in range(count):
                self._kafka.produce(topic, [b"record"], partition=partition)
        expected = before + sum(partitions.values())
        eventually(
            lambda: sum(len(member.delivered()) for member in members.values()) >= expected, "delivery", SETTLING_S
        )

    def _settle(self, group: Group, partitions: dict[str, int]) -> None:
        """All partitions are owned, by all members that get any."""

        def is_settled() -> bool:
            owners = {topic: group.owners(topic) for topic in partitions}
            if any(len(owners[topic]) != count for topic, count in partitions.items()):
                return False
            busy = {thread.rpartition("-")[0] for by_number in owners.values() for thread in by_number.values()}
            return busy == set(group.members())

        eventually(is_settled, f"owners of {partitions}", SETTLING_S)

    def _member(
        self,
        group: Group,
        name: str,
        is_ours: bool,
        topics: dict[str, int],
        strategy: str,
        switches: dict[str, Any],
    ) -> ScalaConsumer:
        properties = PROPERTIES | {"client.id": name, "partition.assignment.strategy": strategy}
        make: Any = OurProcess if is_ours else ScalaConsumer
        more = switches if is_ours else {}
        member: ScalaConsumer = make(
            self._kafka.zookeeper_connect, group.name, topics, consumer_id=name, properties=properties, **more
        )
        return member

    @property
    def _chroot(self) -> str:
        return "/" + self._kafka.zookeeper_connect.partition("/")[2]

    def _pass_on(self, connection: int, direction: Direction, data: bytes) -> None:
        self._tap(connection, direction, data)


def _judged(evidence: Evidence, is_ours: bool) -> Member:
    assert evidence.log and evidence.requests, f"nothing is known of {evidence.name}: this shows nothing"
    return Member(evidence.group, is_ours, frozenset(clues(evidence)), timing(evidence))


@pytest.fixture(scope="module")
def town() -> Iterator[Town]:
    with ZooKeeperServer() as zookeeper, KafkaCluster(version="0.8.2.2", zookeeper=zookeeper, linked=True) as kafka:
        client = KazooClient(kafka.zookeeper_connect)
        client.start(60)
        try:
            yield Town(zookeeper, kafka, client)
        finally:
            client.stop()
            client.close()


def verdicts(members: Sequence[Member], *, by_the_clock: bool) -> dict[str, Verdict]:
    ways: dict[str, type[Guesser]] = {"all clues": Weigher, "the best clue": SingleClue}
    return {name: judge(members, make, by_the_clock=by_the_clock) for name, make in ways.items()}


@pytest.mark.conformance_full
@pytest.mark.timeout(900)
def test_nobody_can_tell_which_members_are_ours(town: Town, capsys: pytest.CaptureFixture[str]) -> None:
    """O1: by what is in the logs, whoever learned from other groups is right no more often than a coin; if ours are
    not asked to be alike, it knows each of them."""
    alike = [member for number in range(GROUPS) for member in town.group(number, ALIKE)]
    unlike = [member for number in range(GROUPS_OF_DEFAULTS) for member in town.group(100 + number, {})]

    found = verdicts(alike, by_the_clock=False)
    defaults = verdicts(unlike, by_the_clock=False)
    with capsys.disabled():
        print()
        for name, verdict in found.items():
            print(f"which side is which, {name}: {verdict}; with the defaults {defaults[name]}")
        for name, verdict in verdicts(alike, by_the_clock=True).items():  # which does tell: see docs/compatibility.md
            print(f"which side is which, by the clock, {name}: {verdict}")
    assert len(alike) == 4 * GROUPS
    assert min(verdict.chance for verdict in found.values()) > 1 / ONCE_IN, (found, telltales(alike)[:20])
    assert defaults["the best clue"].right == defaults["the best clue"].of, defaults
