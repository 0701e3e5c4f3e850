"""Leaving a group: in which order, what it leaves behind, and that it is quick whatever state the consumer is in."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fetcher.events import Event, Fetched
from tests.broker.members import Member, NewMember, Recorder, announce
from tests.broker.scripted_cluster import FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH, ScriptedCluster
from tests.builders import Content, message
from tests.conformance.group import Group, fresh
from tests.scripted_broker import FETCH, METADATA, Request, Silence
from tests.zookeeper.sessions import Background
from zkconsumer.errors import (
    IllegalArgumentException,
    IllegalStateException,
    NoSuchElementException,
    ZkTimeoutException,
    ZooKeeperStopped,
)
from zkconsumer.events import (
    CommitFailed,
    Committed,
    RebalanceAttemptFailed,
    RebalanceFinished,
    RebalanceStep,
    SessionLost,
    SessionSuspended,
    ShutdownFinished,
    ShutdownStarted,
)
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.link import Link
from zkconsumer.testing.plugin import ZooKeeperForOneTest
from zkconsumer.testing.ports import ReservedPort
from zkconsumer.testing.sessions import expire_session
from zkconsumer.testing.transactions import Operation, flatten
from zkconsumer.testing.waiting import eventually, scaled
from zkconsumer.testing.zookeeper import ZooKeeperServer
from zkconsumer.topic_filter import Whitelist

pytestmark = pytest.mark.kafka("0.8.2.2")

QUICKLY_S = 5.0
SELDOM_MS = 600_000  # a commit interval that no test lasts for


@pytest.fixture
def topic(kafka: KafkaCluster, topic: str) -> str:
    """With two partitions, ten records in each."""
    kafka.create_topic(topic, partitions=2)
    for partition in (0, 1):
        kafka.produce(topic, [b"%d" % number for number in range(10)], partition=partition)
    return topic


def shut_down_quickly(member: Member) -> None:
    """In time, and with nothing left that belongs to the consumer."""
    began_s = time.monotonic()
    member.connector.shutdown()
    took_s = time.monotonic() - began_s
    assert took_s < scaled(QUICKLY_S), f"shutdown took {took_s:.1f} s"
    assert threads_of(member) == []


def threads_of(member: Member) -> list[str]:
    """Its own and those of its ZooKeeper client; which of several clients a thread belongs to cannot be seen."""
    names = ("kafka-consumer-scheduler", "ConsumerFetcherThread", member.id)
    return [thread.name for thread in threading.enumerate() if any(name in thread.name for name in names)]


# --- what it does ---


def test_the_order_of_a_shutdown(
    topic: str, group: Group, new_member: NewMember, caplog: pytest.LogCaptureFixture
) -> None:
    """K1, M1: watcher, timer, leader finder, fetchers, the last commit, ZooKeeper; between the two lines of 0.8."""
    member = new_member("c1", Whitelist(topic)).join()
    eventually(lambda: len(member.records) == 20, "all records")
    commits: list[int] = []
    member.connector.events.subscribe(
        lambda event: commits.append(len(caplog.records)) if isinstance(event, Committed) else None
    )

    with caplog.at_level(logging.INFO):
        member.shutdown()

    lines = [record.getMessage() for record in caplog.records]
    expected = [
        f"[{member.id}], ZKConsumerConnector shutting down",
        f"[{member.id}], Shutting down topic event watcher.",
        "[kafka-consumer-scheduler-0], Shutdown completed",
        "Stopping leader finder thread",
        f"[{member.id}-leader-finder-thread], Shutdown completed",
        "Stopping all fetchers",
        f"[ConsumerFetcherThread-{member.id}-0-0], Shutdown completed",
        "All connections stopped",
    ]
    positions = [next(n for n, line in enumerate(lines) if line.endswith(wanted)) for wanted in expected]
    assert positions == sorted(positions)
    assert len(commits) == 1
    assert commits[0] > positions[-1]
    assert lines[-1].startswith(f"[{member.id}], ZKConsumerConnector shutdown completed in ")
    assert lines[-1].endswith(" ms")


def test_offsets_are_stored_before_the_member_vanishes(
    topic: str, group: Group, new_member: NewMember, zookeeper_server: ZooKeeperServer
) -> None:
    """K5, A12: as ZooKeeper's own log has it; ids and owners go with the session, in one step."""
    member = new_member("c1", {topic: 1}, auto_commit_interval_ms=SELDOM_MS).join()
    eventually(lambda: len(member.records) == 20, "all records")
    session = member.connector._zookeeper.session_id

    member.shutdown()

    mine = [entry for entry in flatten(zookeeper_server.transactions()) if entry.session == session]
    stored = [n for n, entry in enumerate(mine) if f"/offsets/{topic}/" in (entry.path or "")]
    assert mine[-1].operation is Operation.CLOSE_SESSION
    assert len(stored) == 2
    assert {path.rpartition(f"/{group.name}/")[2] for path in mine[-1].removed} == {
        f"ids/{member.id}",
        f"owners/{topic}/0",
        f"owners/{topic}/1",
    }
    assert group.offsets(topic) == {0: "10", 1: "10"}


def test_a_second_shutdown_does_nothing(topic: str, new_member: NewMember) -> None:
    """K2: nor do others that come meanwhile."""
    member = new_member("c1", {topic: 1}).join()

    calls = [Background(member.connector.shutdown) for _ in range(3)]
    for call in calls:
        call.result()
    member.connector.shutdown()

    assert len(member.told(ShutdownStarted)) == len(member.told(ShutdownFinished)) == 1


def test_iterators_that_wait_end(topic: str, new_member: NewMember) -> None:
    """K3, I7: and stay at their end."""
    member = new_member("c1", {topic: 2}).join()  # two readers
    eventually(lambda: len(member.records) == 20, "all records, so that both wait")

    member.shutdown()  # which waits for the readers

    for stream in member.streams:
        assert not stream.iterator().has_next()
        with pytest.raises(NoSuchElementException):
            stream.iterator().next()


@pytest.mark.parametrize(("emulate", "left"), [("0.8.2", 6), ("fixed", 0)])
def test_the_rest_of_the_current_chunk(
    kafka: KafkaCluster, topic: str, group: Group, new_member: NewMember, emulate: str, left: int
) -> None:
    """K4, Q13: still delivered after shutdown and not committed (0.8.2), or not delivered (drop_chunk_on_shutdown)."""
    group.put(f"offsets/{topic}/1", "10")
    member = new_member("c1", {topic: 1}, reads=False, emulate=emulate, auto_commit_interval_ms=SELDOM_MS).join()
    iterator = member.streams[0].iterator()
    for _ in range(4):
        iterator.next()

    member.shutdown()

    assert [record.offset for record in iterator] == list(range(4, 4 + left))
    assert group.offsets(topic) == {0: "4", 1: "10"}


def test_no_thread_remains(topic: str, new_member: NewMember) -> None:
    """K6: of the connector or of its ZooKeeper client, when shutdown() returns."""
    others = set(threading.enumerate())
    member = new_member("c1", {topic: 1}, reads=False).join()
    eventually(lambda: any("Fetcher" in thread.name for thread in set(threading.enumerate()) - others), "a fetcher")

    member.shutdown()

    assert set(threading.enumerate()) - others == set()


def test_a_connector_that_was_never_used_is_shut_down(new_member: NewMember, topic: str) -> None:
    """K8: before and after start(); it cannot be started again."""
    for start in (False, True):
        member = new_member(f"c{start}", {topic: 1})
        if start:
            member.connector.start()
        shut_down_quickly(member)
        with pytest.raises(IllegalStateException, match="was shut down"):
            member.connector.start()
        with pytest.raises(IllegalStateException, match="was shut down"):
            member.join()


def test_a_connector_that_could_not_connect_has_shut_itself_down(topic: str, new_member: NewMember) -> None:
    """K8, C2: a second start is refused, instead of pretending to be connected."""
    with ReservedPort() as port:
        member = new_member(
            "c1", {topic: 1}, zookeeper_connect=f"127.0.0.1:{port.number}", zookeeper_connection_timeout_ms=50
        )
        with pytest.raises(ZkTimeoutException):
            member.connector.start()

        with pytest.raises(IllegalStateException):
            member.connector.start()
    assert threads_of(member) == []


def test_an_interval_that_is_none_is_refused(topic: str, new_member: NewMember) -> None:
    """K8, J1: and nothing is left of the attempt."""
    member = new_member("c1", {topic: 1}, auto_commit_interval_ms=0)

    with pytest.raises(IllegalArgumentException, match=r"^auto\.commit\.interval\.ms is 0: it must be at least 1$"):
        member.connector.start()

    assert threads_of(member) == []
    assert not member.connector._zookeeper.is_connected


# --- from any state ---


def test_while_nobody_reads_and_the_queues_are_full(topic: str, new_member: NewMember) -> None:
    """K3, K6, H9: a fetcher that waits for room gives up."""
    member = new_member("c1", {topic: 2}, reads=False, queued_max_message_chunks=1, fetch_message_max_bytes=60).join()
    eventually(lambda: len(member.told(Fetched)) >= 2, "a fetch whose answer finds a full queue")

    shut_down_quickly(member)


def test_during_the_back_off_of_a_rebalance(topic: str, group: Group, new_member: NewMember) -> None:
    """E14, Q7: create_message_streams returns, and what it returned has ended."""
    group.put(f"owners/{topic}/0", "somebody-else-0")
    member = new_member("c1", {topic: 1}, reads=False, rebalance_backoff_ms=600_000)
    joining = Background(member.join)
    eventually(lambda: member.told(RebalanceAttemptFailed), "a failed attempt")

    shut_down_quickly(member)

    joining.result()
    assert not member.streams[0].iterator().has_next()


def test_while_a_consumer_id_is_waited_for(
    topic: str, group: Group, new_member: NewMember, caplog: pytest.LogCaptureFixture
) -> None:
    """K6, C9: the wait is as long as a session."""
    first = new_member("same", {topic: 1}).join()
    second = new_member("same", {topic: 1}, zookeeper_session_timeout_ms=20_000)
    with caplog.at_level(logging.INFO):
        joining = Background(second.join)
        eventually(lambda: "I wrote this conflicted ephemeral node" in caplog.text, "the second one to wait")

    began_s = time.monotonic()
    second.connector.shutdown()
    assert time.monotonic() - began_s < scaled(QUICKLY_S)

    with pytest.raises(ZooKeeperStopped):
        joining.result()
    assert first.id in group.members()


@pytest.mark.parametrize("rebalance", [1, 2], ids=["in the user's thread", "in the watcher executor"])
def test_when_a_listener_shuts_down_in_the_middle_of_a_rebalance(
    topic: str, group: Group, new_member: NewMember, rebalance: int
) -> None:
    """K6, E14: in the thread that rebalances: the user's at first, the watcher executor later."""
    member = new_member("c1", {topic: 1})

    def leave_at_step(event: Event) -> None:
        if isinstance(event, RebalanceStep) and event.name == "release" and len(member.rebalances()) == rebalance:
            member.connector.shutdown()

    member.connector.events.subscribe(leave_at_step)
    member.join()
    if rebalance == 2:
        announce(group, fresh("nobody"))

    eventually(lambda: member.told(ShutdownFinished), "the end")
    member.shutdown()
    eventually(lambda: threads_of(member) == [], "its threads to end")
    assert member.id not in group.members()


def test_on_the_thread_that_tells_of_a_lost_session_it_is_refused(
    topic: str, group: Group, new_member: NewMember
) -> None:
    """K6, L2: it would wait for itself; the consumer goes on, and can be shut down by others."""
    member = new_member("c1", {topic: 1}).join()
    refused: list[str] = []

    def leave(event: Event) -> None:
        if isinstance(event, SessionLost):
            try:
                member.connector.shutdown()
            except RuntimeError as error:
                refused.append(str(error))

    member.connector.events.subscribe(leave)
    expire_session(member.connector._zookeeper.client)
    eventually(lambda: len(member.told(RebalanceFinished)) == 2, "a rebalance in the new session")

    assert refused == ["shutdown() in a listener of the session would wait for itself: use a thread"]
    shut_down_quickly(member)


def test_during_a_topic_event_of_a_wildcard(
    kafka: KafkaCluster, topic: str, group: Group, new_member: NewMember
) -> None:
    """K7, Q28: where 0.8.2.2 can deadlock (KAFKA-4409)."""
    listener = Recorder()
    member = new_member("c1", Whitelist(f"{topic}.*"), listener=listener).join()
    listener.hold()
    kafka.create_topic(f"{topic}-new")
    assert listener.waiting.wait(scaled(20))

    leaving = Background(member.connector.shutdown)
    eventually(lambda: member.told(ShutdownStarted), "the shutdown to begin")
    listener.let_go()

    leaving.result()
    assert threads_of(member) == []
    assert member.rebalances()[-1] == "topics changed"


@pytest.fixture
def cut_off(kafka: KafkaCluster, link: Callable[[str], Link]) -> tuple[Link, str]:
    """A link to ZooKeeper, and the zookeeper.connect that leads through it."""
    address, _, chroot = kafka.zookeeper_connect.partition("/")
    between = link(address)
    return between, f"{between.address}/{chroot}"


def silence(between: Link) -> None:
    between.black_hole()


def refusal(between: Link) -> None:
    between.cut()


faults = pytest.mark.parametrize("fault", [silence, refusal])


@faults
def test_while_the_first_connection_is_pending(
    topic: str, new_member: NewMember, cut_off: tuple[Link, str], fault: Callable[[Link], None]
) -> None:
    """K8: start() ends with ZooKeeperStopped in the thread that waits in it."""
    between, connect = cut_off
    fault(between)
    member = new_member("c1", {topic: 1}, zookeeper_connect=connect)
    joining = Background(member.join)
    eventually(lambda: member.connector._is_started, "start() to begin")

    shut_down_quickly(member)

    with pytest.raises((ZooKeeperStopped, IllegalStateException)):
        joining.result()


@faults
def test_while_zookeeper_is_away(
    topic: str, new_member: NewMember, cut_off: tuple[Link, str], fault: Callable[[Link], None]
) -> None:
    """K3, K6: nothing can be stored then; readers end all the same."""
    between, connect = cut_off
    member = new_member("c1", {topic: 1}, zookeeper_connect=connect, auto_commit_interval_ms=SELDOM_MS).join()
    eventually(lambda: len(member.records) == 20, "all records")
    fault(between)
    if fault is refusal:
        eventually(lambda: member.told(SessionSuspended), "the disconnection noticed")

    shut_down_quickly(member)

    assert member.streams[0].iterator().has_next() is False


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        ("stop fetchers", silence),
        ("commit", silence),
        ("claim", silence),
        ("release", refusal),
        ("read offsets", refusal),
        ("start fetchers", refusal),
    ],
)
def test_when_zookeeper_goes_away_during_a_rebalance(
    topic: str,
    group: Group,
    new_member: NewMember,
    cut_off: tuple[Link, str],
    step: str,
    fault: Callable[[Link], None],
) -> None:
    """K6, E14: with progress that cannot be stored; whatever is tried after the first silence is not waited for."""
    between, connect = cut_off
    member = new_member(
        "c1", {topic: 1}, zookeeper_connect=connect, reads=False, auto_commit_interval_ms=SELDOM_MS
    ).join()
    member.streams[0].iterator().next()
    reached = threading.Event()

    def cut_at_step(event: Event) -> None:
        if isinstance(event, RebalanceStep) and event.name == step:
            fault(between)
            reached.set()

    member.connector.events.subscribe(cut_at_step)
    announce(group, fresh("nobody"))
    assert reached.wait(scaled(20))

    shut_down_quickly(member)


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_while_the_broker_is_away(
    kafka: KafkaCluster, topic: str, group: Group, new_member: NewMember, fault: str
) -> None:
    """K3, K6: positions are stored as ever."""
    member = new_member("c1", {topic: 1}).join()
    eventually(lambda: len(member.records) == 20, "all records")
    getattr(kafka.brokers[0], fault)()
    try:
        shut_down_quickly(member)
    finally:
        if fault == "pause":
            kafka.brokers[0].resume()

    assert group.offsets(topic) == {0: "10", 1: "10"}


@pytest.fixture
def private() -> Iterator[ZooKeeperServer]:
    """A ZooKeeper of this test's own, to be killed."""
    with ZooKeeperServer() as server:
        yield server


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_while_a_real_zookeeper_does_not_answer(private: ZooKeeperServer, fault: str) -> None:
    """K6: the process is gone, or stands still while its port still takes connections."""
    with ScriptedCluster(private.chroot(), fresh("topic")) as cluster:
        cluster.messages[0] = {0: message(Content(0, None, b"one"))}
        with member_of(cluster) as member:
            eventually(lambda: member.records, "a record")
            getattr(private, fault)()

            shut_down_quickly(member)
        if fault == "pause":
            private.resume()


# --- brokers that never answer: scripted ---


@contextmanager
def member_of(cluster: ScriptedCluster, *, joins: bool = True, **settings: Any) -> Iterator[Member]:
    """A member on a scripted cluster that has stored offsets, shut down at the end whatever happened."""
    defaults = {"zookeeper_connect": cluster.zookeeper_connect, "auto_commit_interval_ms": SELDOM_MS}
    cluster.stored.setdefault(0, 0)
    member = Member(group=fresh("group"), consumer_id="c1", subscription={cluster.topic: 1}, **{**defaults, **settings})
    try:
        yield member.join() if joins else member
    finally:
        member.shutdown()


@pytest.fixture
def scripted(zookeeper: ZooKeeperForOneTest) -> Iterator[ScriptedCluster]:
    with ScriptedCluster(zookeeper.connect_string, fresh("topic")) as cluster:
        cluster.messages[0] = {0: message(Content(0, None, b"one"))}
        yield cluster


def never(request: Request) -> Any:
    return Silence


@pytest.mark.parametrize("asked", [METADATA, FETCH], ids=["metadata", "fetch"])
def test_while_a_broker_does_not_answer(scripted: ScriptedCluster, asked: int) -> None:
    """K6: the leader finder and the fetcher are woken wherever they wait."""
    scripted.scripts[asked] = never
    with member_of(scripted, offsets_storage="kafka", dual_commit_enabled=False) as member:
        eventually(lambda: scripted.asked(asked), "the question that is not answered")

        shut_down_quickly(member)


@pytest.mark.parametrize("asked", [FIND_COORDINATOR, OFFSET_FETCH], ids=["who is it", "what is stored"])
def test_while_the_offset_manager_is_silent_in_a_rebalance(scripted: ScriptedCluster, asked: int) -> None:
    """K6: the rebalance that waits for it ends."""
    scripted.scripts[asked] = never
    settings: dict[str, Any] = {"offsets_storage": "kafka", "offsets_channel_socket_timeout_ms": 60_000}
    with member_of(scripted, joins=False, **settings) as member:
        joining = Background(member.join)
        eventually(lambda: scripted.asked(asked), "the question that is not answered")

        shut_down_quickly(member)

        joining.result()


@pytest.mark.parametrize("emulate", ["0.8.2", "0.9", "fixed"])
def test_while_the_offset_manager_takes_no_commit(scripted: ScriptedCluster, emulate: str) -> None:
    """K6, J15: however many tries there are; the failure is told."""
    scripted.scripts[OFFSET_COMMIT] = never
    settings: dict[str, Any] = {"offsets_storage": "kafka", "dual_commit_enabled": False, "emulate": emulate}
    with member_of(scripted, offsets_channel_socket_timeout_ms=60_000, **settings) as member:
        eventually(lambda: member.records, "a record")

        shut_down_quickly(member)

        assert member.told(CommitFailed)


def test_while_an_auto_commit_waits_for_the_offset_manager(scripted: ScriptedCluster) -> None:
    """K6: the timer's commit is ended, then the last one has its own try."""
    scripted.scripts[OFFSET_COMMIT] = never
    settings: dict[str, Any] = {"offsets_storage": "kafka", "dual_commit_enabled": False, "auto_commit_interval_ms": 20}
    with member_of(scripted, offsets_channel_socket_timeout_ms=60_000, **settings) as member:
        eventually(lambda: scripted.asked(OFFSET_COMMIT), "a commit that is not answered")
        scripted.scripts.pop(OFFSET_COMMIT)
        eventually(lambda: member.records, "a record")

        shut_down_quickly(member)

    assert scripted.stored == {0: 1}


def test_while_nobody_answers_at_all(
    scripted: ScriptedCluster, zookeeper: ZooKeeperForOneTest, link: Callable[[str], Link]
) -> None:
    """K6: ZooKeeper, brokers and offset manager all silent, in the middle of everything."""
    between = link(zookeeper.address)
    settings: dict[str, Any] = {"offsets_storage": "kafka", "offsets_channel_socket_timeout_ms": 60_000}
    with member_of(scripted, zookeeper_connect=f"{between.address}{zookeeper.chroot}", **settings) as member:
        eventually(lambda: member.records, "a record")
        scripted.scripts = dict.fromkeys((METADATA, FETCH, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR), never)
        finished = len(member.told(RebalanceFinished))
        between.black_hole()

        shut_down_quickly(member)

        assert len(member.told(RebalanceFinished)) == finished
