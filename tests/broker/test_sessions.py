"""What a lost connection and a lost session do to a consumer in a group (legacy §16), on real servers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

import pytest

from fetcher.events import Event
from fetcher.structs import TopicAndPartition
from tests.broker.members import Member, NewMember
from tests.conformance.group import Group
from tests.zookeeper.sessions import Background
from zkconsumer.emulation import Emulation, emulation
from zkconsumer.errors import ConsumerTimeoutException
from zkconsumer.events import (
    Committed,
    PartitionClaimed,
    RebalanceAttemptFailed,
    RebalanceFinished,
    RebalanceStep,
    Registered,
    SessionLost,
    SessionReconnected,
    SessionRenewed,
    SessionSuspended,
)
from zkconsumer.streams import ConsumerIterator, MessageAndMetadata
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.link import Link
from zkconsumer.testing.sessions import expire_session, losing_session, session_of
from zkconsumer.testing.transactions import Operation, flatten
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer
from zkconsumer.topic_filter import Whitelist

pytestmark = pytest.mark.kafka("0.8.2.2")

SELDOM_MS = 600_000  # a commit interval that no test lasts for
ASKING = pytest.mark.parametrize(
    "emulate",
    [emulation("0.8.2"), emulation("0.8.2").with_switches(zookeeper_requests="one by one")],
    ids=["many at a time", "one by one"],
)


@pytest.fixture
def topic(kafka: KafkaCluster, topic: str) -> str:
    """With two partitions, twenty records in each."""
    kafka.create_topic(topic, partitions=2)
    for partition in (0, 1):
        kafka.produce(topic, [b"%d" % number for number in range(20)], partition=partition)
    return topic


@pytest.fixture
def cut_off(kafka: KafkaCluster, link: Callable[[str], Link]) -> tuple[Link, str]:
    """A link to ZooKeeper, and the zookeeper.connect that leads through it."""
    address, _, chroot = kafka.zookeeper_connect.partition("/")
    between = link(address)
    return between, f"{between.address}/{chroot}"


def expire(member: Member) -> None:
    """End its session at the server, and wait until it owns again what it owned."""
    finished = len(member.told(RebalanceFinished))
    expire_session(member.connector._zookeeper.client)
    eventually(lambda: member.told(SessionRenewed) and len(member.told(RebalanceFinished)) > finished, "a new session")


def owners(group: Group, topic: str) -> dict[int, str]:
    return group.owners(topic)


def received(member: Member) -> list[tuple[int, int]]:
    return sorted((record.partition, record.offset) for record in list(member.records))


EVERYTHING = [(partition, offset) for partition in (0, 1) for offset in range(20)]


# --- the connection ---


@ASKING
def test_a_short_disconnection_changes_nothing(
    kafka: KafkaCluster,
    topic: str,
    group: Group,
    new_member: NewMember,
    cut_off: tuple[Link, str],
    emulate: Emulation,
) -> None:
    """L1: no rebalance, the same nodes, and messages go on arriving while ZooKeeper is away."""
    between, connect = cut_off
    member = new_member("c1", {topic: 1}, zookeeper_connect=connect, emulate=emulate).join()
    eventually(lambda: received(member) == EVERYTHING, "all that is there")
    path = f"{group.path}/ids/{member.id}"
    before = group.client.exists(path).czxid

    between.cut()
    eventually(lambda: member.told(SessionSuspended), "the disconnection noticed")
    kafka.produce(topic, [b"while away"], partition=0)
    eventually(lambda: (0, 20) in received(member), "a record while ZooKeeper is away")
    between.heal()
    eventually(lambda: member.told(SessionReconnected), "the connection back")

    assert member.triggers_until_now(group, topic) == []
    assert group.client.exists(path).czxid == before
    assert member.told(SessionLost) == []
    assert received(member) == [*EVERYTHING[:20], (0, 20), *EVERYTHING[20:]]


@ASKING
def test_what_changed_during_a_disconnection_is_noticed_after_it(
    topic: str, group: Group, new_member: NewMember, cut_off: tuple[Link, str], emulate: Emulation
) -> None:
    """L1, D1: a watch that could not fire is asked again."""
    between, connect = cut_off
    member = new_member("c1", {topic: 1}, zookeeper_connect=connect, emulate=emulate).join()

    between.cut()
    eventually(lambda: member.told(SessionSuspended), "the disconnection noticed")
    other = new_member("c2", {topic: 1}, rebalance_max_retries=1000, rebalance_backoff_ms=50)
    joining = Background(other.join)  # it gets nothing before the first one lets go
    eventually(lambda: other.id in group.members(), "the other's registration")
    between.heal()
    joining.result()

    eventually(lambda: owners(group, topic) == {0: f"{member.id}-0", 1: f"{other.id}-0"}, "an even share")


# --- the session ---


@ASKING
def test_after_an_expired_session_it_is_a_member_again(
    topic: str, group: Group, new_member: NewMember, caplog: pytest.LogCaptureFixture, emulate: Emulation
) -> None:
    """L2, L5, M1: the line of 0.8; the same id with a new timestamp, all owned again, after a single rebalance."""
    member = new_member("c1", {topic: 1}, emulate=emulate).join()
    eventually(lambda: received(member) == EVERYTHING, "all that is there")
    path = f"{group.path}/ids/{member.id}"
    old = group.client.exists(path).ephemeralOwner
    old_time = group.members()[member.id]["timestamp"]

    with caplog.at_level(logging.INFO):
        expire(member)

    line = f"[{member.id}], ZK expired; release old broker parition ownership; re-register consumer {member.id}"
    assert [record.getMessage() for record in caplog.records].count(line) == 1
    assert group.client.exists(path).ephemeralOwner == session_of(member.connector._zookeeper.client) != old
    assert int(group.members()[member.id]["timestamp"]) > int(old_time)
    assert owners(group, topic) == {0: f"{member.id}-0", 1: f"{member.id}-0"}
    assert member.triggers_until_now(group, topic) == []
    assert member.rebalances()[:2] == ["streams created", "session expired"]


@pytest.mark.parametrize(
    ("emulate", "again"), [("0.8.2", EVERYTHING), ("fixed", [])], ids=["0.8.2: again", "fixed: committed"]
)
def test_uncommitted_progress_after_an_expired_session(
    kafka: KafkaCluster,
    topic: str,
    new_member: NewMember,
    emulate: str,
    again: list[tuple[int, int]],
) -> None:
    """L3, Q9: delivered once more in 0.8.2; with commit_when_session_is_lost it is not."""
    member = new_member("c1", {topic: 1}, emulate=emulate, auto_commit_interval_ms=SELDOM_MS).join()
    eventually(lambda: received(member) == EVERYTHING, "all that is there")

    expire(member)
    for partition in (0, 1):
        kafka.produce(topic, [b"new"], partition=partition)

    news = [(0, 20), (1, 20)]
    eventually(lambda: set(news) <= set(received(member)), "the new records")
    assert received(member) == sorted([*EVERYTHING, *again, *news])


def test_nothing_is_delivered_after_the_commit_for_a_lost_session(topic: str, new_member: NewMember) -> None:
    """L3, Q9: with commit_when_session_is_lost the streams are cleared first, or that would come again."""
    member = new_member(
        "c1", {topic: 1}, reads=False, emulate="fixed", auto_commit_interval_ms=SELDOM_MS, consumer_timeout_ms=100
    ).join()
    iterator = member.streams[0].iterator()
    taken = [(record.partition, record.offset) for record in (_next(iterator) for _ in range(5))]

    def go_on_reading(event: Event) -> None:
        if isinstance(event, Committed) and member.told(SessionLost) and not member.told(SessionRenewed):
            with suppress(ConsumerTimeoutException):
                record = iterator.next()
                taken.append((record.partition, record.offset))

    member.connector.events.subscribe(go_on_reading)
    expire(member)
    taken += [(record.partition, record.offset) for record in (_next(iterator) for _ in range(40 - len(taken)))]

    assert member.told(Committed)
    assert sorted(taken) == EVERYTHING


def _next(iterator: ConsumerIterator[bytes, bytes]) -> MessageAndMetadata[bytes, bytes]:
    """Whatever comes within a test's time."""
    eventually(lambda: _has_next(iterator), "a record")
    return iterator.next()


def _has_next(iterator: ConsumerIterator[bytes, bytes]) -> bool:
    try:
        return iterator.has_next()
    except ConsumerTimeoutException:
        return False


def test_committed_progress_does_not_come_again(kafka: KafkaCluster, topic: str, new_member: NewMember) -> None:
    """L3, J5: whatever the emulation, a commit before the expiry holds."""
    member = new_member("c1", {topic: 1}, auto_commit_interval_ms=SELDOM_MS).join()
    eventually(lambda: received(member) == EVERYTHING, "all that is there")
    member.connector.commit_offsets()

    expire(member)
    kafka.produce(topic, [b"new"], partition=1)

    eventually(lambda: (1, 20) in received(member), "the new record")
    assert received(member) == [*EVERYTHING, (1, 20)]


def test_a_wildcard_watches_topics_again(
    kafka: KafkaCluster, topic: str, group: Group, new_member: NewMember, caplog: pytest.LogCaptureFixture
) -> None:
    """L4: the line of 0.8, and a topic made after the expiry is found."""
    member = new_member("c1", Whitelist(f"{topic}.*")).join()

    with caplog.at_level(logging.INFO):
        expire(member)
    kafka.create_topic(f"{topic}-later")

    line = f"[{member.id}], ZK expired: resubscribing topic event listener to topic registry"
    assert line in [record.getMessage() for record in caplog.records]
    eventually(lambda: owners(group, f"{topic}-later") == {0: f"{member.id}-0"}, "the new topic owned")


def test_another_member_takes_over_and_gives_back(
    kafka: KafkaCluster,
    topic: str,
    group: Group,
    new_member: NewMember,
    cut_off: tuple[Link, str],
    zookeeper_server: ZooKeeperServer,
) -> None:
    """L6, D3: while one is cut off the other owns all; afterwards each partition has one owner, and one reader."""
    between, connect = cut_off
    lost = new_member("c1", {topic: 1}, zookeeper_connect=connect, zookeeper_session_timeout_ms=4000).join()
    stays = new_member("c2", {topic: 1}).join()
    eventually(lambda: owners(group, topic) == {0: f"{lost.id}-0", 1: f"{stays.id}-0"}, "an even share")

    with losing_session(lost.connector._zookeeper.client, between, zookeeper_server):
        eventually(lambda: owners(group, topic) == dict.fromkeys((0, 1), f"{stays.id}-0"), "all taken over")
    eventually(lambda: owners(group, topic) == {0: f"{lost.id}-0", 1: f"{stays.id}-0"}, "an even share again")
    eventually(lambda: lost.connector.owned_partitions.keys() == {TopicAndPartition(topic, 0)}, "one is its own")

    before = {member: len(member.records) for member in (lost, stays)}
    for partition in (0, 1):
        kafka.produce(topic, [b"last"], partition=partition)
    eventually(lambda: all((p, 20) in received(lost) + received(stays) for p in (0, 1)), "the last records")
    last = [
        (member, record.partition)
        for member in (lost, stays)
        for record in member.records[before[member] :]
        if record.value == b"last"
    ]
    assert last == [(lost, 0), (stays, 1)]


@pytest.mark.parametrize("emulate", ["0.8.2", "fixed"])
def test_progress_of_another_member_is_not_overwritten(
    topic: str,
    group: Group,
    new_member: NewMember,
    cut_off: tuple[Link, str],
    zookeeper_server: ZooKeeperServer,
    emulate: str,
) -> None:
    """L6, Q9: who was cut off had read less than those who read in its place."""
    between, connect = cut_off
    lost = new_member(
        "c1",
        {topic: 1},
        zookeeper_connect=connect,
        zookeeper_session_timeout_ms=4000,
        reads=False,
        emulate=emulate,
        auto_commit_interval_ms=SELDOM_MS,
    ).join()
    lost.streams[0].iterator().next()

    with losing_session(lost.connector._zookeeper.client, between, zookeeper_server):
        other = new_member("c2", {topic: 1}, emulate=emulate).join()
        eventually(lambda: received(other) == EVERYTHING, "all records, by the other")
        other.connector.commit_offsets()
    eventually(lambda: owners(group, topic) == {0: f"{lost.id}-0", 1: f"{other.id}-0"}, "an even share")

    eventually(lambda: lost.connector.owned_partitions == {TopicAndPartition(topic, 0): 20}, "the other's position")
    assert group.offsets(topic) == {0: "20", 1: "20"}


def test_a_session_lost_during_an_attempt_fails_that_attempt_only(
    topic: str, group: Group, new_member: NewMember, zookeeper_server: ZooKeeperServer
) -> None:
    """L7: the next one registers again and succeeds; no node is ever claimed by somebody who is not registered."""
    member = new_member("c1", {topic: 1})
    session_ids: list[int] = []

    def expire_once(event: object) -> None:
        if isinstance(event, RebalanceStep) and event.name == "claim" and not session_ids:
            client = member.connector._zookeeper.client
            session_ids.append(session_of(client))
            expire_session(client)

    member.connector.events.subscribe(expire_once)

    member.join()

    assert [event.attempt for event in member.told(RebalanceAttemptFailed)] == [0]
    assert member.told(RebalanceFinished)[0].attempts == 2
    assert len(member.told(Registered)) == 2
    assert owners(group, topic) == {0: f"{member.id}-0", 1: f"{member.id}-0"}
    assert claims_by_strangers(zookeeper_server, group) == []


def claims_by_strangers(server: ZooKeeperServer, group: Group) -> list[str]:
    """Owner nodes that were created by a session without a registration."""
    registered: set[int] = set()
    found = []
    for entry in flatten(server.transactions()):
        path = entry.path or ""
        if f"/consumers/{group.name}/ids/" in path and entry.operation is Operation.CREATE:
            registered.add(entry.session)
        if f"/consumers/{group.name}/owners/" in path and entry.ephemeral and entry.session not in registered:
            found.append(str(entry))
    return found


@pytest.mark.parametrize("step", ["stop fetchers", "commit", "release", "assign", "read offsets", "claim"])
def test_a_session_lost_at_any_step_is_got_over(
    kafka: KafkaCluster,
    topic: str,
    group: Group,
    new_member: NewMember,
    zookeeper_server: ZooKeeperServer,
    step: str,
) -> None:
    """L7, L6: in a rebalance because of another member; afterwards each partition has its one registered owner."""
    member = new_member("c1", {topic: 1}).join()
    eventually(lambda: received(member) == EVERYTHING, "all that is there")
    armed = [True]

    def expire_once(event: object) -> None:
        if isinstance(event, RebalanceStep) and event.name == step and armed:
            armed.clear()
            expire_session(member.connector._zookeeper.client)

    member.connector.events.subscribe(expire_once)
    other = new_member("c2", {topic: 1}).join()

    eventually(lambda: owners(group, topic) == {0: f"{member.id}-0", 1: f"{other.id}-0"}, "an even share")
    eventually(lambda: member.told(SessionRenewed), "a new registration")
    eventually(lambda: owners(group, topic) == {0: f"{member.id}-0", 1: f"{other.id}-0"}, "an even share")
    assert not armed
    assert claims_by_strangers(zookeeper_server, group) == []
    kafka.produce(topic, [b"last"], partition=0)
    eventually(lambda: (0, 20) in received(member), "delivery goes on")
    assert {event.partition for event in member.told(PartitionClaimed)} >= {TopicAndPartition(topic, 0)}


def test_two_expiries_in_a_row(topic: str, group: Group, new_member: NewMember) -> None:
    """L2: the second while the first is being dealt with."""
    member = new_member("c1", {topic: 1}).join()
    client = member.connector._zookeeper.client

    expire_session(client)
    expire_session(client)

    current = session_of(client)
    path = f"{group.path}/ids/{member.id}"
    eventually(lambda: (stat := group.client.exists(path)) and stat.ephemeralOwner == current, "its registration")
    eventually(
        lambda: (
            owners(group, topic) == dict.fromkeys((0, 1), f"{member.id}-0")
            and {group.client.exists(f"{group.path}/owners/{topic}/{p}").ephemeralOwner for p in (0, 1)} == {current}
        ),
        "all owned by the last session",
    )
