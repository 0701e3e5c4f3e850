"""Who knows only ZooKeeper's tree and log and what brokers are asked cannot say which members of a group are ours.

Where somebody can, as after a lost session, no test says so; docs/compatibility.md does, with figures made by

    python -m tests.conformance.test_which_side "lost connections" 4    # so many groups of that world
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import pytest
from kazoo.client import KazooClient

from tests.conformance.evidence import Evidence, TimedTap, by_session, clues, timing
from tests.conformance.group import Group, fresh
from tests.conformance.guesser import Guesser, Member, SingleClue, Verdict, Weigher, judge, telltales
from tests.conformance.our_process import OurProcess
from tests.conformance.test_to_the_letter import PROPERTIES
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.link import Direction, Link
from zkconsumer.testing.scala import ScalaConsumer, ScalaVersion
from zkconsumer.testing.waiting import eventually, scaled
from zkconsumer.testing.zookeeper import ZooKeeperServer

GROUPS = 10
GROUPS_OF_DEFAULTS = 3
GROUPS_ELSEWHERE = 6
SETTLING_S = 60.0
ONCE_IN = 200  # runs in which a coin would be as lucky
IN_KAFKA = {"offsets.storage": "kafka", "dual.commit.enabled": "false"}

Loss = Literal["", "connections", "sessions"]


class World(NamedTuple):
    """What all groups of a verdict have in common."""

    name: str
    release: ScalaVersion = "0.8.2.2"
    wildcards: bool = False
    in_kafka: bool = False
    loss: Loss = ""

    @property
    def alike(self) -> dict[str, Any]:
        """The switches of ours with which nobody is to tell."""
        return {"request_versions": self.release.rpartition(".")[0], "zookeeper_requests": "one by one"}


PLAIN = World("static members")
AT_CHANCE = [
    World("wildcards", wildcards=True),
    World("offsets in Kafka", in_kafka=True),
    World("static members of 1.1.1", release="1.1.1"),
    World("wildcards and offsets in Kafka of 1.1.1", release="1.1.1", wildcards=True, in_kafka=True),
]
TOLD_APART = [World("lost connections", loss="connections"), World("lost sessions", loss="sessions")]


class Town:
    """A cluster of its own, whose log holds nothing else, and groups of two real members and two of ours."""

    def __init__(self, zookeeper: ZooKeeperServer, kafka: KafkaCluster, client: KazooClient, link: Link) -> None:
        """`link` is on the members' way to ZooKeeper."""
        self._zookeeper = zookeeper
        self._kafka = kafka
        self._client = client
        self._link = link
        self._tap = TimedTap(iter(time.monotonic, None))
        kafka.links[0].tap(self._pass_on)

    def group(self, world: World, number: int, switches: dict[str, Any]) -> list[Member]:
        """One group's life, and what its members left behind."""
        dice = random.Random(number)
        self._tap = tap = TimedTap(iter(time.monotonic, None))
        group = Group(self._client, fresh("g"))
        prefix = fresh("w")
        topics = {f"{prefix}-{fresh('t')}": 1, f"{prefix}-{fresh('u')}": 1 if world.wildcards else dice.randint(1, 2)}
        partitions = {topic: 4 * streams + dice.randint(0, 3) for topic, streams in topics.items()}
        for topic, count in partitions.items():
            self._kafka.create_topic(topic, partitions=count)
        names = [fresh("m") for _ in range(4)]
        ours = set(dice.sample(names, 2))
        strategy = dice.choice(["range", "roundrobin"]) if len(set(topics.values())) == 1 else "range"
        properties = PROPERTIES | {"partition.assignment.strategy": strategy} | (IN_KAFKA if world.in_kafka else {})
        subscribed: dict[str, Any] = {"whitelist": f"{prefix}-.*"} if world.wildcards else {"topics": topics}
        with ExitStack() as stack:
            members: dict[str, ScalaConsumer] = {}
            for name in names:
                make: Any = partial(OurProcess, **switches) if name in ours else ScalaConsumer
                members[name] = make(
                    f"{self._link.address}{self._chroot}",
                    group.name,
                    version=world.release,
                    consumer_id=name,
                    properties=properties | {"client.id": name},
                    **subscribed,
                )
                stack.callback(members[name].close)
            self._live(world, dice, group, members, partitions)
        by_name = by_session(self._zookeeper.transactions(), f"{self._chroot}{group.path}/ids")
        return [_judged(Evidence(name, group.name, by_name[name], tap.asked_by(name)), name in ours) for name in names]

    def _live(
        self,
        world: World,
        dice: random.Random,
        group: Group,
        members: dict[str, ScalaConsumer],
        partitions: dict[str, int],
    ) -> None:
        """They join one after the other, read, commit, see a topic grow or come, and leave; each in some order."""
        for name in dice.sample(list(members), len(members)):
            members[name].start()
            self._settle(group, partitions)
            self._produce(members, partitions)
        self._commit(dice, members)
        grown = dice.choice(list(partitions))
        partitions[grown] += 2
        self._kafka.add_partitions(grown, partitions[grown])
        self._settle(group, partitions)
        if world.wildcards:
            new = f"{grown}-new"
            partitions[new] = 4
            self._kafka.create_topic(new, partitions=4)
            self._settle(group, partitions)
        self._produce(members, partitions)
        if world.loss:
            self._commit(dice, members)
            self._lose(world.loss, dice, group, members, partitions)
            self._produce(members, partitions)
        for name in dice.sample(list(members), len(members)):
            members[name].stop()
            if set(group.members()):
                self._settle(group, partitions)

    def _commit(self, dice: random.Random, members: dict[str, ScalaConsumer]) -> None:
        for name in dice.sample(list(members), len(members)):
            members[name].commit_offsets()

    def _lose(
        self,
        loss: Loss,
        dice: random.Random,
        group: Group,
        members: dict[str, ScalaConsumer],
        partitions: dict[str, int],
    ) -> None:
        """All their connections at once; or each its session, one after the other."""
        if loss == "connections":
            before = self._link.connections
            self._link.drop_connections()
            eventually(lambda: self._link.connections == before, f"{before} connections again", SETTLING_S)
            self._kafka.create_topic(fresh("nobodys"))
            return
        for name in dice.sample(list(members), len(members)):
            old = members[name].session()
            twin = KazooClient(self._kafka.zookeeper_connect, client_id=old)
            twin.start(scaled(20))
            twin.stop()
            twin.close()
            registration = f"{group.path}/ids/{members[name].consumer_id}"
            eventually(lambda: self._owner_of(registration) not in (None, old[0]), "its new session", SETTLING_S)  # noqa: B023
            self._settle(group, partitions)

    def _owner_of(self, path: str) -> int | None:
        """Whose session a node belongs to."""
        found = self._client.exists(path)
        return None if found is None else int(found.ephemeralOwner)

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

    @property
    def _chroot(self) -> str:
        return "/" + self._kafka.zookeeper_connect.partition("/")[2]

    def _pass_on(self, connection: int, direction: Direction, data: bytes) -> None:
        self._tap(connection, direction, data)


def _judged(evidence: Evidence, is_ours: bool) -> Member:
    assert evidence.log and evidence.requests, f"nothing is known of {evidence.name}: this shows nothing"
    return Member(evidence.group, is_ours, frozenset(clues(evidence)), timing(evidence))


@contextmanager
def built() -> Iterator[Callable[[ScalaVersion], Town]]:
    """A town of each release that is asked for."""
    with ExitStack() as stack:

        @cache
        def town(release: ScalaVersion) -> Town:
            zookeeper = stack.enter_context(ZooKeeperServer())
            kafka = stack.enter_context(KafkaCluster(version=release, zookeeper=zookeeper, linked=True))
            link = stack.enter_context(Link(zookeeper.connect_string))
            client = KazooClient(kafka.zookeeper_connect)
            stack.callback(client.close)
            stack.callback(client.stop)
            client.start(60)
            return Town(zookeeper, kafka, client, link)

        yield town


@pytest.fixture(scope="module")
def towns() -> Iterator[Callable[[ScalaVersion], Town]]:
    with built() as town:
        for release in ("0.8.2.2", "1.1.1"):  # now: what a test starts it has to stop
            town(release)
        yield town


def verdicts(members: Sequence[Member], *, by_the_clock: bool) -> dict[str, Verdict]:
    ways: dict[str, type[Guesser]] = {"all clues": Weigher, "the best clue": SingleClue}
    return {name: judge(members, make, by_the_clock=by_the_clock) for name, make in ways.items()}


def told(world: World, members: Sequence[Member]) -> dict[str, Verdict]:
    """What was found, and shown."""
    found = verdicts(members, by_the_clock=False)
    for name, verdict in found.items():
        print(f"which side is which, {world.name}, {name}: {verdict}")
    for name, verdict in verdicts(members, by_the_clock=True).items():  # which does tell: see docs/compatibility.md
        print(f"which side is which, {world.name}, by the clock, {name}: {verdict} {verdict.best_clues[:2]}")
    return found


@pytest.mark.conformance_full
@pytest.mark.timeout(900)
def test_nobody_can_tell_which_members_are_ours(
    towns: Callable[[ScalaVersion], Town], capsys: pytest.CaptureFixture[str]
) -> None:
    """O1: by what is in the logs, whoever learned from other groups is right no more often than a coin; if ours are
    not asked to be alike, it knows each of them."""
    town = towns(PLAIN.release)
    alike = [member for number in range(GROUPS) for member in town.group(PLAIN, number, PLAIN.alike)]
    unlike = [member for number in range(GROUPS_OF_DEFAULTS) for member in town.group(PLAIN, 100 + number, {})]

    with capsys.disabled():
        print()
        found = told(PLAIN, alike)
        defaults = told(World("the defaults"), unlike)
    assert len(alike) == 4 * GROUPS
    assert min(verdict.chance for verdict in found.values()) > 1 / ONCE_IN, (found, telltales(alike)[:20])
    assert defaults["the best clue"].right == defaults["the best clue"].of, defaults


@pytest.mark.conformance_full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("world", AT_CHANCE, ids=lambda world: world.name)
def test_nor_where_more_happens(
    towns: Callable[[ScalaVersion], Town], world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """O1, O4: wildcards, offsets in Kafka, and the same beside members of 1.1.1."""
    town = towns(world.release)
    members = [member for number in range(GROUPS_ELSEWHERE) for member in town.group(world, number, world.alike)]

    with capsys.disabled():
        print()
        found = told(world, members)
    assert len(members) == 4 * GROUPS_ELSEWHERE
    assert min(verdict.chance for verdict in found.values()) > 1 / ONCE_IN, (found, telltales(members)[:20])


def main(name: str, groups: str) -> None:
    """Judge one world, and show what tells most."""
    [world] = [one for one in (PLAIN, *AT_CHANCE, *TOLD_APART) if one.name == name]
    with built() as towns:
        town = towns(world.release)
        members = [member for number in range(int(groups)) for member in town.group(world, number, world.alike)]
    told(world, members)
    for right, clue in telltales(members)[:20]:
        print(f"{right:.0%} {clue}")


if __name__ == "__main__":
    main(*sys.argv[1:])
