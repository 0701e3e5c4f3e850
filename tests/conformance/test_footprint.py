"""The same things done to the real consumer and to ours: ZooKeeper's own log of both runs is the same."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal, cast

import pytest
from kazoo.client import KazooClient

from tests.conformance.footprint import Footprint, Step, without_refused_claims
from tests.conformance.group import Group
from tests.conformance.our_member import OurMember
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.link import Link
from zkconsumer.testing.scala import ScalaConsumer, ScalaVersion
from zkconsumer.testing.waiting import eventually, scaled
from zkconsumer.testing.zookeeper import ZooKeeperServer

Who = Literal["real", "ours"]
Member = ScalaConsumer | OurMember

PROFILES = {"0.8.2.2": "0.8.2", "1.1.1": "1.1"}
SETTLING_S = 60.0
LONG_SESSION_S = 30.0
SHORT_SESSION_S = 2.0


@pytest.fixture(scope="module")
def server() -> Iterator[ZooKeeperServer]:
    """Of this module's own: its log holds nothing else."""
    with ZooKeeperServer() as server:
        yield server


RELEASES = ["0.8.2.2", pytest.param("1.1.1", marks=pytest.mark.conformance_full)]


@pytest.fixture(scope="module", params=RELEASES)
def kafka(request: pytest.FixtureRequest, server: ZooKeeperServer) -> Iterator[KafkaCluster]:
    """A broker of the release whose consumer is compared."""
    with KafkaCluster(version=request.param, zookeeper=server) as kafka:
        yield kafka


@pytest.fixture
def stage(server: ZooKeeperServer, kafka: KafkaCluster) -> Iterator[Callable[[Who], Stage]]:
    with ExitStack() as stack:
        client = stack.enter_context(server.client(chroot=kafka.zookeeper_connect.partition("/")[2]))
        yield lambda who: stack.enter_context(Stage(who, server, kafka, client))


class Stage(ExitStack):
    """A group and topics of one run, and its members."""

    def __init__(self, who: Who, server: ZooKeeperServer, kafka: KafkaCluster, client: KazooClient) -> None:
        super().__init__()
        self.who = who
        self.run = secrets.token_hex(4)
        self.server = server
        self.kafka = kafka
        self.topic = f"{self.run}-a"
        self.group = Group(client, f"g{self.run}")
        self.chroot = "/" + kafka.zookeeper_connect.partition("/")[2]
        self.names: list[str] = []
        self.watches: dict[str, int] = {}
        self.sessions: list[tuple[int | None, list[str]]] = []

    def join(
        self,
        name: str,
        topics: dict[str, int] | None = None,
        *,
        whitelist: str | None = None,
        session_s: float = LONG_SESSION_S,
        link: Link | None = None,
    ) -> Member:
        """A member that has streams; the others may still have to make room for it."""
        address = self.kafka.zookeeper_connect if link is None else f"{link.address}{self.chroot}"
        properties = {
            "auto.offset.reset": "smallest",
            "auto.commit.interval.ms": "3600000",
            "rebalance.backoff.ms": "200",
            "rebalance.max.retries": "200",
            "zookeeper.session.timeout.ms": str(int(scaled(session_s) * 1000)),
            "zookeeper.connection.timeout.ms": "60000",
        }
        make: Any = partial(ScalaConsumer, version=cast(ScalaVersion, self.kafka.version))
        if self.who == "ours":
            make = partial(OurMember, emulate=PROFILES[self.kafka.version])
        member: Member = make(
            address, self.group.name, topics, whitelist=whitelist, consumer_id=name, properties=properties
        )
        member.start()
        self.callback(_leave, member)
        self.names.append(name)
        return member

    def settle(self, owners: dict[str, list[str]]) -> None:
        """Wait until each topic's partitions are owned by threads of these names."""
        expected = {
            topic: {number: f"{self.group.name}_{name}" for number, name in enumerate(names)}
            for topic, names in owners.items()
        }
        eventually(
            lambda: {topic: self.group.owners(topic) for topic in expected} == expected,
            f"owners {expected}",
            SETTLING_S,
        )

    def produce(self, topic: str, partitions: int) -> None:
        for partition in range(partitions):
            self.kafka.produce(topic, [b"1", b"2"], partition=partition)

    def footprint(self, name: str) -> list[Step]:
        """What this member did, but for claims that came too early: those are a matter of who is quicker."""
        found = Footprint(self.server.transactions(), chroot=self.chroot, run=self.run, group=self.group.name)
        return without_refused_claims(found.of_member(f"{self.group.name}_{name}"))

    def watches_now(self) -> dict[str, int]:
        """How many of this run's sessions watch the data or existence of each path."""
        sessions = self._sessions_of_members()
        watches = {
            path.removeprefix(self.chroot).replace(self.run, "RUN"): len(by & sessions)
            for path, by in self.server.watches_by_path().items()
            if by & sessions
        }
        return dict(sorted(watches.items()))

    def sessions_now(self) -> list[tuple[int | None, list[str]]]:
        """Time-out and ephemerals of each of this run's sessions."""
        open_sessions = self.server.sessions()
        found = (open_sessions[number] for number in self._sessions_of_members())
        return sorted(
            (
                one.timeout_ms,
                [path.removeprefix(self.chroot).replace(self.run, "RUN") for path in sorted(one.ephemerals)],
            )
            for one in found
        )

    def owner_sessions(self) -> set[int]:
        """Those that have a node of the first topic's partitions."""
        return set(self._ephemeral_owners(f"owners/{self.topic}"))

    def _sessions_of_members(self) -> set[int]:
        return set(self._ephemeral_owners("ids"))

    def _ephemeral_owners(self, path: str) -> Iterator[int]:
        client = self.group.client
        for name in client.get_children(f"{self.group.path}/{path}"):
            stat = client.exists(f"{self.group.path}/{path}/{name}")
            if stat is not None:
                yield stat.ephemeralOwner


def _leave(member: Member) -> None:
    if isinstance(member, ScalaConsumer):
        member.close()
    else:
        member.stop()


def show(steps: list[Step]) -> str:
    return "\n".join(map(str, steps))


# --- what is done to them ---


def alone(stage: Stage) -> None:
    """Join, consume, commit; partitions are added, a topic that was subscribed to is created; leave."""
    later = f"{stage.run}-later"
    stage.kafka.create_topic(stage.topic, partitions=3)
    stage.produce(stage.topic, 3)
    topics = [stage.topic, later, *(f"{stage.run}-none{number}" for number in range(4))]
    member = stage.join("A", dict.fromkeys(topics, 2))
    member.wait_until_delivered(6)
    member.commit_offsets()
    stage.kafka.add_partitions(stage.topic, 4)
    stage.settle({stage.topic: ["A-0", "A-0", "A-1", "A-1"]})
    stage.produce(stage.topic, 4)
    member.wait_until_delivered(14)
    stage.kafka.create_topic(later, partitions=2)
    stage.settle({later: ["A-0", "A-1"], stage.topic: ["A-0", "A-0", "A-1", "A-1"]})
    stage.produce(later, 2)
    member.wait_until_delivered(18)
    stage.watches = stage.watches_now()
    stage.sessions = stage.sessions_now()
    member.stop()


def two(stage: Stage) -> None:
    """A second member joins, both consume, partitions are added, the second one leaves, then the first."""
    stage.kafka.create_topic(stage.topic, partitions=3)
    stage.produce(stage.topic, 3)
    first = stage.join("A", {stage.topic: 1})
    first.wait_until_delivered(6)
    second = stage.join("B", {stage.topic: 1})
    stage.settle({stage.topic: ["A-0", "A-0", "B-0"]})
    stage.produce(stage.topic, 3)
    first.wait_until_delivered(10)
    second.wait_until_delivered(2)
    stage.kafka.add_partitions(stage.topic, 4)
    stage.settle({stage.topic: ["A-0", "A-0", "B-0", "B-0"]})
    stage.produce(stage.topic, 4)
    first.wait_until_delivered(14)
    second.wait_until_delivered(6)
    stage.watches = stage.watches_now()
    stage.sessions = stage.sessions_now()
    second.stop()
    stage.settle({stage.topic: ["A-0"] * 4})
    stage.produce(stage.topic, 4)
    first.wait_until_delivered(22)
    first.stop()


def killed(stage: Stage) -> None:
    """The second member vanishes without a word; its session ends, the first takes over."""
    stage.kafka.create_topic(stage.topic, partitions=3)
    stage.produce(stage.topic, 3)
    first = stage.join("A", {stage.topic: 1})
    first.wait_until_delivered(6)
    link = stage.enter_context(Link(stage.server.connect_string))
    second = stage.join("B", {stage.topic: 1}, session_s=SHORT_SESSION_S, link=link)
    stage.settle({stage.topic: ["A-0", "A-0", "B-0"]})
    stage.produce(stage.topic, 3)
    first.wait_until_delivered(10)
    second.wait_until_delivered(2)
    stage.watches = stage.watches_now()
    stage.sessions = stage.sessions_now()
    link.cut()  # which is all that ZooKeeper sees of a process that is killed
    if isinstance(second, ScalaConsumer):
        second.kill()
    stage.settle({stage.topic: ["A-0"] * 3})
    first.wait_until_delivered(12)
    first.stop()


def wildcard(stage: Stage) -> None:
    """A filter: one topic is there, another comes, a third that does not match comes as well."""
    stage.kafka.create_topic(stage.topic, partitions=2)
    stage.produce(stage.topic, 2)
    member = stage.join("A", whitelist=f"{stage.run}-[a-m].*")
    member.wait_until_delivered(4)
    stage.kafka.create_topic(f"{stage.run}-other", partitions=1)
    stage.kafka.create_topic(f"{stage.run}-b", partitions=1)
    stage.settle({f"{stage.run}-b": ["A-0"], stage.topic: ["A-0", "A-0"]})
    stage.produce(f"{stage.run}-b", 1)
    member.wait_until_delivered(6)
    stage.watches = stage.watches_now()
    stage.sessions = stage.sessions_now()
    member.stop()


def expired(stage: Stage) -> None:
    """The session ends at the server, the client is told; all was committed before."""
    stage.kafka.create_topic(stage.topic, partitions=3)
    stage.produce(stage.topic, 3)
    member = stage.join("A", {stage.topic: 1})
    member.wait_until_delivered(6)
    member.commit_offsets()
    old_session = member.session()
    twin = KazooClient(stage.server.connect_string, client_id=old_session)
    twin.start(scaled(20))
    twin.stop()
    twin.close()
    eventually(lambda: stage.owner_sessions() not in (set(), {old_session[0]}), "a new session", SETTLING_S)
    stage.settle({stage.topic: ["A-0"] * 3})
    if isinstance(member, ScalaConsumer):  # which rebalances again, and again
        member.wait_until_logged(f"Topic info for path /brokers/topics/{stage.topic} changed to")
        eventually(lambda: _rebalances(member) >= 3 and _is_quiet(member), "the further rebalances", SETTLING_S)
    stage.watches = stage.watches_now()
    stage.sessions = stage.sessions_now()
    member.stop()


def _rebalances(member: ScalaConsumer) -> int:
    return sum("end rebalancing consumer" in entry.message for entry in member.log_entries())


def _is_quiet(member: ScalaConsumer) -> bool:
    entries = [entry.message for entry in member.log_entries()]
    return sum("begin rebalancing" in one for one in entries) == sum("end rebalancing" in one for one in entries)


# --- and what ZooKeeper saw ---


@pytest.mark.parametrize("scenario", [alone, two, killed, wildcard], ids=lambda scenario: scenario.__name__)
def test_zookeeper_cannot_tell_them_apart(stage: Callable[[Who], Stage], scenario: Callable[[Stage], None]) -> None:
    """A1, A2, A8, A10, A12, A20, D1, D2, D3, D5, D6, D7, F2, J2, J5, J8, K5: every change and refusal in the log."""
    real, ours = stage("real"), stage("ours")

    scenario(real)
    scenario(ours)

    for name in real.names:
        theirs = real.footprint(name)
        assert show(ours.footprint(name)) == show(theirs), f"{name} of {scenario.__name__}"
        assert [step.kind for step in theirs][-1] == "close session"
    _same_to_four_letter_words(ours, real)


def test_an_expired_session_is_made_up_for_alike(stage: Callable[[Who], Stage]) -> None:
    """L2, L5: the same requests, once; the real one goes on to release and claim all again for nothing (Q10)."""
    real, ours = stage("real"), stage("ours")

    expired(real)
    expired(ours)

    theirs = real.footprint("A")
    assert show(ours.footprint("A")) == show(without_idle_rebalances(theirs))
    assert len(theirs) > len(without_idle_rebalances(theirs))
    _same_to_four_letter_words(ours, real)


def _same_to_four_letter_words(ours: Stage, real: Stage) -> None:
    """What `wchp` and `dump` told while the members were there."""
    assert ours.watches == real.watches
    assert ours.sessions == real.sessions
    assert real.watches
    assert real.sessions


def without_idle_rebalances(steps: list[Step]) -> list[Step]:
    """A release and a claim of the same partitions by the same threads, right after their claim, changed nothing."""
    kept: list[Step] = []
    for step in steps:
        kept.append(step)
        if [one.kind for one in kept[-3:]] == ["claim", "release", "claim"] and kept[-1] == kept[-3]:
            del kept[-2:]
    return kept


def test_topics_are_registered_in_the_same_order(server: ZooKeeperServer) -> None:
    """A2, A4, E6: from the fifth on in that of their hashes; without a broker nothing but the registration is there."""
    topics = {name: number for number, name in enumerate(["t1", "BB", "orders", "Aa", "zeta", "a.b", "T_1", "x"], 1)}
    address = server.chroot()
    chroot = "/" + address.partition("/")[2]
    with ScalaConsumer(address, "theirs", topics, consumer_id="c"), OurMember(address, "ours", topics, consumer_id="c"):
        written_data = {entry.path: entry.data for entry in server.transactions()}
    theirs, ours = (written_data[f"{chroot}/consumers/{group}/ids/{group}_c"] for group in ("theirs", "ours"))
    written = {
        (entry.path or "").removeprefix(chroot).replace("theirs", "GROUP").replace("ours", "GROUP")
        for entry in server.transactions()
        if (entry.path or "").startswith(f"{chroot}/")
    }

    assert theirs is not None and ours is not None
    assert _without_time(ours) == _without_time(theirs)
    assert written == {"/consumers", "/consumers/GROUP", "/consumers/GROUP/ids", "/consumers/GROUP/ids/GROUP_c"}


def _without_time(registration: bytes) -> str:
    return re.sub(r"\d{13}", "TIME", registration.decode())
