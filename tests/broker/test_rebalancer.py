"""The rebalance loop: its attempts and their order, what fails one, and who owns what at the end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from itertools import pairwise

import pytest

from fetcher.structs import TopicAndPartition
from tests.broker.members import Member, NewMember, Recorder, announce
from tests.conformance.group import Group
from tests.zookeeper.sessions import Background
from zkconsumer.errors import ConsumerRebalanceFailedException, ConsumerTimeoutException
from zkconsumer.events import RebalanceAttemptFailed, RebalanceFinished, RebalanceGaveUp, RebalanceStarted
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.plugin import ZooKeeperForOneTest
from zkconsumer.testing.transactions import Operation, Transaction, flatten
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer
from zkconsumer.topic_filter import Whitelist

pytestmark = pytest.mark.kafka("0.8.2.2")

FOREIGN = "somebody-0"


@pytest.fixture
def topic(kafka: KafkaCluster, topic: str) -> str:
    """With five partitions, one record in each."""
    kafka.create_topic(topic, partitions=5)
    for partition in range(5):
        kafka.produce(topic, [b"record"], partition=partition)
    return topic


@pytest.fixture
def blocked(group: Group, topic: str) -> str:
    """The topic, whose partition 2 somebody owns who is not there."""
    group.put(f"owners/{topic}/2", FOREIGN)
    return topic


@pytest.fixture
def info(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def all_of(member: Member) -> dict[int, str]:
    return dict.fromkeys(range(5), f"{member.id}-0")


def join_in_vain(member: Member) -> None:
    with pytest.raises(ConsumerRebalanceFailedException):
        member.join()


def lines_of(member: Member, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Its own lines, without the prefix."""
    prefix = f"[{member.id}], "
    return [line.removeprefix(prefix) for line in caplog.messages if line.startswith(prefix)]


def fetcher_threads(member: Member) -> list[str]:
    return [thread.name for thread in threading.enumerate() if member.id in thread.name and "Fetcher" in thread.name]


def history(server: ZooKeeperServer, kafka: KafkaCluster, group: Group) -> list[tuple[Operation, str, Transaction]]:
    """What happened to nodes of the group, in order: operation and path below the group."""
    root = "/" + kafka.zookeeper_connect.partition("/")[2] + group.path + "/"
    found = []
    for entry in flatten(server.transactions()):
        for path in (entry.path, *entry.removed):
            if path is not None and path.startswith(root):
                found.append((entry.operation, path.removeprefix(root), entry))
    return found


# --- attempts ---


def test_attempts_are_numbered_from_zero(blocked: str, new_member: NewMember, info: pytest.LogCaptureFixture) -> None:
    """E1, E2: rebalance.max.retries of them, each with a line at begin and end."""
    member = new_member("c1", {blocked: 1}, rebalance_max_retries=3, rebalance_backoff_ms=10)

    join_in_vain(member)

    tries = [line for line in lines_of(member, info) if "rebalancing consumer" in line]
    assert tries == [f"{what} rebalancing consumer {member.id} try #{n}" for n in range(3) for what in ("begin", "end")]
    failed = "Rebalancing attempt failed. Clearing the cache before the next rebalancing operation is triggered"
    assert lines_of(member, info).count(failed) == 3


def test_rebalance_backoff_follows_each_failed_attempt(blocked: str, new_member: NewMember) -> None:
    """E2, E3: the last one too, as in 0.8.2.2."""
    member = new_member("c1", {blocked: 1}, rebalance_max_retries=3, rebalance_backoff_ms=150)

    join_in_vain(member)

    ends = [event.monotonic_s for event in member.told(RebalanceAttemptFailed)]
    [gave_up] = member.told(RebalanceGaveUp)
    next_begins = [*(event.monotonic_s for event in member.told(RebalanceStarted)[1:]), gave_up.monotonic_s]
    assert len(ends) == 3
    assert all(begin - end >= 0.15 for end, begin in zip(ends, next_begins, strict=True))
    assert gave_up.attempts == 3
    assert gave_up.seconds >= 0.45


def test_after_the_last_failure_it_is_an_idle_member(group: Group, blocked: str, new_member: NewMember) -> None:
    """E4: registered, owning and fetching nothing."""
    member = new_member("c1", {blocked: 1}, rebalance_max_retries=2, rebalance_backoff_ms=10)

    join_in_vain(member)

    assert list(group.members()) == [member.id]
    assert group.owners(blocked) == {2: FOREIGN}
    assert member.connector.owned_partitions == {}
    assert fetcher_threads(member) == []


def test_it_recovers_at_the_next_trigger(group: Group, blocked: str, new_member: NewMember) -> None:
    """E4, E5: the end of the cause alone is none."""
    member = new_member("c1", {blocked: 1}, rebalance_max_retries=2, rebalance_backoff_ms=10)
    join_in_vain(member)

    group.remove(f"owners/{blocked}/2")
    assert group.owners(blocked) == {}
    announce(group, "visitor")

    eventually(lambda: group.owners(blocked) == all_of(member))
    assert member.rebalances() == ["streams created", "consumers changed"]


def test_a_fixed_consumer_goes_on_trying(group: Group, blocked: str, new_member: NewMember) -> None:
    """E5: Q6, without any trigger."""
    member = new_member("c1", {blocked: 1}, rebalance_max_retries=2, rebalance_backoff_ms=10, emulate="fixed")
    join_in_vain(member)

    group.remove(f"owners/{blocked}/2")

    eventually(lambda: group.owners(blocked) == all_of(member))


def test_a_fixed_wildcard_that_recovers_sees_new_topics(
    kafka: KafkaCluster, group: Group, blocked: str, new_member: NewMember
) -> None:
    """E5, D7: Q6, although its first rebalance failed."""
    retries = {"rebalance_max_retries": 1, "rebalance_backoff_ms": 10}
    member = new_member("c1", Whitelist(f"{blocked}.*"), emulate="fixed", **retries)
    join_in_vain(member)
    group.remove(f"owners/{blocked}/2")
    eventually(lambda: group.owners(blocked) == all_of(member))

    kafka.create_topic(f"{blocked}-later")

    eventually(lambda: group.owners(f"{blocked}-later") == {0: f"{member.id}-0"})


def test_without_brokers_it_waits_for_the_first(
    zookeeper: ZooKeeperForOneTest, kafka: KafkaCluster, group: Group, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """E6: in a chroot of its own; the broker that comes is the real one."""
    broker, partitions = group.client.get("/brokers/ids/0")[0], group.client.get(f"/brokers/topics/{topic}")[0]
    with zookeeper.client() as client:
        client.create(f"/brokers/topics/{topic}", partitions, makepath=True)
        here = Group(client, group.name)
        member = Member(zookeeper.connect_string, group.name, "c1", {topic: 1}, rebalance_max_retries=1)
        try:
            member.join()
            warning = f"[{member.id}], no brokers found when trying to rebalance."
            assert [r.levelname for r in caplog.records if r.getMessage() == warning] == ["WARNING"]
            assert here.owners(topic) == {}

            client.create("/brokers/ids/0", broker, makepath=True)

            eventually(lambda: here.owners(topic) == all_of(member))
            eventually(lambda: len(member.records) == 5)
            assert set(member.rebalances()[1:]) == {"brokers changed"}
        finally:
            member.shutdown()


class _WhenLogged(logging.Handler):
    """Does something at the moment a line is logged, in the thread that logs it."""

    def __init__(self, line: str, action: Callable[[], object]) -> None:
        super().__init__()
        self._line = line
        self._action = action

    def emit(self, record: logging.LogRecord) -> None:
        if self._line in record.getMessage():
            self._action()


def test_a_broker_that_comes_before_it_is_watched_for_is_not_missed(
    zookeeper: ZooKeeperForOneTest, kafka: KafkaCluster, group: Group, topic: str
) -> None:
    """E6: 0.8.2.2 looks before it watches, and then waits for another one."""
    broker, partitions = group.client.get("/brokers/ids/0")[0], group.client.get(f"/brokers/topics/{topic}")[0]
    with zookeeper.client() as client:
        client.create(f"/brokers/topics/{topic}", partitions, makepath=True)
        broker_comes = _WhenLogged("no brokers found", lambda: client.create("/brokers/ids/0", broker, makepath=True))
        logger = logging.getLogger("zkconsumer.rebalancer")
        logger.addHandler(broker_comes)
        member = Member(zookeeper.connect_string, group.name, "c1", {topic: 1}, rebalance_max_retries=1)
        try:
            member.join()

            assert Group(client, group.name).owners(topic) == all_of(member)
        finally:
            logger.removeHandler(broker_comes)
            member.shutdown()


def test_the_steps_of_an_attempt_come_in_order(
    zookeeper_server: ZooKeeperServer,
    kafka: KafkaCluster,
    group: Group,
    topic: str,
    new_member: NewMember,
    info: pytest.LogCaptureFixture,
) -> None:
    """E7: by the log, and by what ZooKeeper saw: commit, release, claim."""
    member = new_member("c1", {topic: 1}).join()
    eventually(lambda: len(member.records) == 5)
    info.clear()

    announce(group, "visitor")

    eventually(lambda: len(member.told(RebalanceFinished)) == 2)
    steps = (
        "All connections stopped",
        "Cleared all relevant queues for this fetcher",
        "Cleared the data chunks in all the consumer message iterators",
        "Committing all offsets after clearing the fetcher queues",
        "Releasing partition ownership",
        f"Consumer {member.id} rebalancing the following partitions",
        f"{member.id}-0 successfully owned partition",
        f"Consumer {member.id} selected partitions",
        "Starting ",
    )
    seen = [step for line in info.messages for step in steps if step in line]
    assert tuple(dict.fromkeys(seen)) == steps
    happened = [
        (operation, path)
        for operation, path, entry in history(zookeeper_server, kafka, group)
        if path.endswith(f"{topic}/3")
    ]
    offset, owner = f"offsets/{topic}/3", f"owners/{topic}/3"
    assert happened == [
        (Operation.CREATE, owner),
        (Operation.CREATE, offset),
        (Operation.DELETE, owner),
        (Operation.CREATE, owner),
    ]


def claims_of(group: Group, topic: str) -> list[int]:
    """When each partition was claimed; empty unless all are."""
    stats = [group.client.exists(f"{group.path}/owners/{topic}/{partition}") for partition in range(5)]
    return [stat.czxid for stat in stats] if all(stats) else []


def test_nothing_is_kept_because_nothing_changed(group: Group, topic: str, new_member: NewMember) -> None:
    """E8: all is released and claimed again."""
    new_member("c1", {topic: 1}).join()
    before = eventually(lambda: claims_of(group, topic), "all partitions owned")
    announce(group, "visitor")

    eventually(lambda: min(claims_of(group, topic), default=0) > max(before), "all partitions claimed anew")


def test_a_fixed_member_keeps_what_does_not_change(
    group: Group, topic: str, kafka: KafkaCluster, new_member: NewMember
) -> None:
    """Q4: neither for a rebalance that changes nothing for it, nor for less than all that it gets."""
    member = new_member("c1", {topic: 1}, emulate="fixed", rebalance_backoff_ms=10).join()
    before = eventually(lambda: claims_of(group, topic), "all partitions owned")
    announce(group, "visitor")
    eventually(lambda: len(member.told(RebalanceFinished)) == 2, "a rebalance")
    assert claims_of(group, topic) == before
    kafka.produce(topic, [b"new"], partition=4)
    eventually(lambda: len(member.records) == 6, "it goes on reading")

    group.remove(f"owners/{topic}/3")
    announce(group, "another")

    eventually(lambda: min(claims_of(group, topic), default=0) > max(before), "all partitions claimed anew")


def test_a_fixed_member_keeps_nothing_after_a_failed_attempt(
    group: Group, topic: str, kafka: KafkaCluster, new_member: NewMember
) -> None:
    """Q4: it does not fetch any more then, though all is still claimed."""
    member = new_member("c1", {topic: 1}, emulate="fixed", rebalance_backoff_ms=10).join()
    eventually(lambda: len(member.records) == 5, "all records")
    group.put("ids/unreadable", "no json")
    eventually(lambda: member.told(RebalanceAttemptFailed), "an attempt that fails")

    group.remove("ids/unreadable")
    eventually(lambda: len(member.told(RebalanceFinished)) >= 2, "a rebalance")
    kafka.produce(topic, [b"new"], partition=4)

    eventually(lambda: len(member.records) == 6, "it goes on reading")


def test_a_registration_that_cannot_be_read_fails_the_attempt(
    group: Group, topic: str, new_member: NewMember, info: pytest.LogCaptureFixture
) -> None:
    """E9: until it is gone."""
    group.put("ids/unreadable", "no json")
    member = new_member("c1", {topic: 1}, rebalance_max_retries=2, rebalance_backoff_ms=10)

    join_in_vain(member)

    assert "exception during rebalance " in lines_of(member, info)
    errors = [event.error for event in member.told(RebalanceAttemptFailed)]
    assert len(errors) == 2
    assert all(f"{group.path}/ids/unreadable" in error for error in errors)
    assert group.owners(topic) == {}

    group.remove("ids/unreadable")

    eventually(lambda: group.owners(topic) == all_of(member))


def test_an_offset_that_cannot_be_read_fails_the_attempt(
    group: Group, topic: str, new_member: NewMember, info: pytest.LogCaptureFixture
) -> None:
    """E10: and is left as it is."""
    group.put(f"offsets/{topic}/3", "abc")
    member = new_member("c1", {topic: 1}, rebalance_max_retries=2, rebalance_backoff_ms=10)

    join_in_vain(member)

    assert "exception during rebalance " in lines_of(member, info)
    assert f"{group.path}/offsets/{topic}/3" in member.told(RebalanceAttemptFailed)[0].error
    assert group.owners(topic) == {}
    assert group.offsets(topic) == {3: "abc"}


def test_nothing_of_a_released_partition_is_delivered(
    kafka: KafkaCluster, group: Group, topic: str, new_member: NewMember
) -> None:
    """E11, J8: neither the rest of the current chunk nor what is queued; the next owner goes on without a gap."""
    kafka.produce_many(topic, 1000, partition=0)
    old = new_member("c2", {topic: 1}, reads=False, consumer_timeout_ms=500, fetch_message_max_bytes=10_000).join()
    stream = iter(old.streams[0])
    taken: list[int] = []
    while len(taken) < 300:
        record = next(stream)
        if record.partition == 0:
            taken.append(record.offset)
    assert taken == list(range(300))

    # Before "c2" in the order of threads: they take partitions 0 to 3.
    new = [new_member(f"c1{number}", {topic: 1}).join() for number in range(4)]
    owners = {partition: f"{group.name}_c1{partition}-0" for partition in range(4)} | {4: f"{old.id}-0"}
    eventually(lambda: group.owners(topic) == owners)
    eventually(lambda: list(old.connector.owned_partitions) == [TopicAndPartition(topic, 4)])

    more = []
    with pytest.raises(ConsumerTimeoutException):
        while True:
            more.append(next(stream))
    assert [record.partition for record in more if record.partition != 4] == []

    def went_on() -> list[int]:
        return [record.offset for record in new[0].records if record.partition == 0]

    eventually(lambda: len(went_on()) >= 701)
    assert went_on() == list(range(300, 1001))


# --- the listener ---


def test_a_listener_is_told_what_goes_and_what_everybody_gets(group: Group, topic: str, new_member: NewMember) -> None:
    """E12: nothing at first; the assignment is that of all members."""
    listener = Recorder()
    member = new_member("c1", {topic: 1}, listener=listener).join()
    assert listener.released == [{}]
    assert listener.assigned == [(member.id, {topic: all_of(member)})]

    other = new_member("c2", {topic: 1}).join()

    shared = {partition: f"{member.id if partition < 3 else other.id}-0" for partition in range(5)}
    eventually(lambda: len(listener.assigned) == 2)
    assert listener.released[1] == {topic: {0, 1, 2, 3, 4}}
    assert listener.assigned[1] == (member.id, {topic: shared})


def test_owner_nodes_stand_while_the_listener_is_told_of_their_release(
    group: Group, topic: str, new_member: NewMember
) -> None:
    """E12, E7: offsets are stored by then, and nothing is fetched."""
    listener = Recorder()
    member = new_member("c1", {topic: 1}, listener=listener).join()
    eventually(lambda: len(member.records) == 5)

    listener.hold()
    announce(group, "visitor")
    assert listener.waiting.wait(60)

    assert group.owners(topic) == all_of(member)
    assert group.offsets(topic) == dict.fromkeys(range(5), "1")
    assert fetcher_threads(member) == []
    listener.let_go()


def test_a_listener_that_raises_before_the_release_fails_the_attempt(
    group: Group, topic: str, new_member: NewMember
) -> None:
    """E13: it is called again in the next."""
    listener = Recorder()
    listener.releases_to_fail = 2
    member = new_member("c1", {topic: 1}, listener=listener, rebalance_backoff_ms=10).join()

    assert len(listener.released) == 3
    assert len(listener.assigned) == 1
    errors = [event.error for event in member.told(RebalanceAttemptFailed)]
    assert errors == ["ValueError: the listener does not like it"] * 2
    assert group.owners(topic) == all_of(member)


def test_a_listener_that_raises_before_the_start_fails_the_attempt(
    zookeeper_server: ZooKeeperServer, kafka: KafkaCluster, group: Group, topic: str, new_member: NewMember
) -> None:
    """E13: what was claimed stays until the next attempt releases it."""
    listener = Recorder()
    listener.starts_to_fail = 1
    member = new_member("c1", {topic: 1}, listener=listener, rebalance_backoff_ms=10).join()

    assert listener.released == [{}, {topic: {0, 1, 2, 3, 4}}]
    assert len(listener.assigned) == 2
    owner = f"owners/{topic}/0"
    happened = [operation for operation, path, _ in history(zookeeper_server, kafka, group) if path == owner]
    assert happened == [Operation.CREATE, Operation.DELETE, Operation.CREATE]
    eventually(lambda: len(member.records) == 5)


def test_shutdown_ends_the_attempts(group: Group, blocked: str, new_member: NewMember) -> None:
    """E14: also the wait between two of them (KAFKA-1848)."""
    member = new_member("c1", {blocked: 1}, rebalance_max_retries=50, rebalance_backoff_ms=600_000)
    joining = Background(member.join)
    eventually(lambda: member.told(RebalanceAttemptFailed))

    member.shutdown()

    joining.result()
    assert len(member.told(RebalanceStarted)) == 1
    assert member.told(RebalanceGaveUp) == []
    assert group.members() == {}


# --- ownership ---


def test_a_partition_of_somebody_else_is_left_alone_and_the_rest_given_back(
    zookeeper_server: ZooKeeperServer,
    kafka: KafkaCluster,
    group: Group,
    blocked: str,
    new_member: NewMember,
    info: pytest.LogCaptureFixture,
) -> None:
    """F1, F2, F3: those behind it are tried too."""
    path = f"{group.path}/owners/{blocked}/2"
    before = group.client.get(path)
    member = new_member("c1", {blocked: 1}, rebalance_max_retries=1, rebalance_backoff_ms=10)

    join_in_vain(member)

    conflict = f"conflict in {path} data: {member.id}-0 stored data: {FOREIGN}"
    waiting = f"[{member.id}], waiting for the partition ownership to be deleted: 2"
    assert [line for line in info.messages if line in (conflict, waiting)] == [conflict, waiting]
    claims: dict[int, list[Operation]] = {}
    for operation, where, _ in history(zookeeper_server, kafka, group):
        if where.startswith(f"owners/{blocked}/") and not where.endswith("/2"):
            claims.setdefault(int(where.rpartition("/")[2]), []).append(operation)
    assert claims == {partition: [Operation.CREATE, Operation.DELETE] for partition in (0, 1, 3, 4)}
    assert group.client.get(path) == before


def test_our_name_in_another_sessions_node_is_no_ownership(group: Group, topic: str, new_member: NewMember) -> None:
    """F4: Q22, unlike 0.8.2.2: it would vanish later and leave us consuming without an owner node."""
    path = f"{group.path}/owners/{topic}/2"
    member = new_member("c1", {topic: 1}, rebalance_backoff_ms=10)
    group.client.create(path, f"{member.id}-0".encode(), ephemeral=True, makepath=True)

    joining = Background(member.join)
    eventually(lambda: member.told(RebalanceAttemptFailed))
    group.client.delete(path)

    joining.result()
    owners = [group.client.exists(f"{group.path}/owners/{topic}/{p}").ephemeralOwner for p in range(5)]
    assert set(owners) == {group.client.exists(f"{group.path}/ids/{member.id}").ephemeralOwner}


def test_release_deletes_whatever_stands_there(
    group: Group, topic: str, new_member: NewMember, info: pytest.LogCaptureFixture
) -> None:
    """F5: by path, and tells whose it was (Q21)."""
    member = new_member("c1", {topic: 1}).join()
    group.put(f"owners/{topic}/2", FOREIGN)
    group.remove(f"owners/{topic}/2")
    group.put(f"owners/{topic}/2", FOREIGN)

    announce(group, "visitor")

    eventually(lambda: group.owners(topic) == all_of(member))
    told = f"releasing {group.path}/owners/{topic}/2, which is not ours but of {FOREIGN}"
    assert told in lines_of(member, info)


def test_a_partition_has_one_owner_at_a_time(
    zookeeper_server: ZooKeeperServer, kafka: KafkaCluster, group: Group, topic: str, new_member: NewMember
) -> None:
    """F6: an owner node is created when the one before is gone, and deleted by nobody but its own session."""
    first, second, third = (new_member(f"c{n}", {topic: 1}).join() for n in (1, 2, 3))
    shared = {0: first, 1: first, 2: second, 3: second, 4: third}
    eventually(lambda: group.owners(topic) == {p: f"{member.id}-0" for p, member in shared.items()})
    second.shutdown()
    shared = {0: first, 1: first, 2: first, 3: third, 4: third}
    eventually(lambda: group.owners(topic) == {p: f"{member.id}-0" for p, member in shared.items()})

    for partition in range(5):
        entries = [
            (operation, entry.session)
            for operation, path, entry in history(zookeeper_server, kafka, group)
            if path == f"owners/{topic}/{partition}"
        ]
        assert len(entries) >= 3
        for (operation, session), (next_operation, next_session) in pairwise(entries):
            if operation is Operation.CREATE:
                assert next_operation in (Operation.DELETE, Operation.CLOSE_SESSION)
                assert next_session == session
            else:
                assert next_operation is Operation.CREATE


def test_members_that_start_at_once_settle(group: Group, topic: str, new_member: NewMember) -> None:
    """F7, F6: within the retries of 0.8, each partition owned by one, nothing lost."""
    members = [new_member(f"c{n}", {topic: 1}, rebalance_max_retries=4, rebalance_backoff_ms=1000) for n in (1, 2)]

    for joining in [Background(member.join) for member in members]:
        joining.result()

    first, second = members
    shared = {partition: f"{first.id if partition < 3 else second.id}-0" for partition in range(5)}
    eventually(lambda: group.owners(topic) == shared)
    assert first.told(RebalanceGaveUp) == second.told(RebalanceGaveUp) == []
    eventually(lambda: {record.partition for m in members for record in m.records} == set(range(5)))
