"""Where and when positions are stored: ZooKeeper, Kafka, both; and what is done about an offset manager that refuses.

Real brokers wherever they can be brought to do it; a scripted one refuses and delays at chosen moments.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from tests.broker.members import Member, NewMember, announce
from tests.broker.scripted_cluster import (
    FIND_COORDINATOR,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    ScriptedCluster,
    Stored,
    commit_answer,
    coordinator_answer,
    stored_answer,
)
from tests.builders import Content, message
from tests.conformance.group import Group, fresh
from tests.scripted_broker import METADATA, Answer, HangUp, Request
from tests.zookeeper.sessions import observer
from zkconsumer.events import CommitFailed, Committed, RebalanceFinished
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.plugin import ZooKeeperForOneTest
from zkconsumer.testing.tools import consumer_offset_checker
from zkconsumer.testing.transactions import Operation, Transaction, flatten
from zkconsumer.testing.waiting import eventually, scaled
from zkconsumer.testing.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.kafka("0.8.2.2")

SELDOM_MS = 600_000  # a commit interval that no test lasts for
IN_KAFKA = {"offsets_storage": "kafka", "dual_commit_enabled": False}
IN_BOTH = {"offsets_storage": "kafka"}

both_releases = pytest.mark.parametrize(
    "release", [pytest.param(version, marks=pytest.mark.kafka(version)) for version in ("0.8.2.2", "1.1.1")]
)


@pytest.fixture
def topic(kafka: KafkaCluster, topic: str) -> str:
    """With three partitions, ten records in each."""
    kafka.create_topic(topic, partitions=3)
    for partition in range(3):
        kafka.produce(topic, [b"%d" % number for number in range(10)], partition=partition)
    return topic


def take(member: Member, count: int) -> list[tuple[int, int]]:
    """The next so many messages of its first stream, as (partition, offset)."""
    iterator = member.streams[0].iterator()
    return [(record.partition, record.offset) for record in (iterator.next() for _ in range(count))]


def places(member: Member) -> list[tuple[int, int]]:
    return sorted((record.partition, record.offset) for record in list(member.records))


def versions(group: Group, topic: str) -> dict[int, int]:
    """How often each offset was written after its first time."""
    return {p: group.client.exists(f"{group.path}/offsets/{topic}/{p}").version for p in group.offsets(topic)}


def wait_for_positions(member: Member) -> None:
    """Until every partition has its start."""
    eventually(lambda: (owned := member.connector.owned_partitions) and min(owned.values()) >= 0, "start offsets")


def writes(server: ZooKeeperServer, group: Group) -> list[Transaction]:
    """What was written under the group's node, in order."""
    return [entry for entry in flatten(server.transactions()) if f"/consumers/{group.name}/" in (entry.path or "")]


# --- ZooKeeper ---


def test_auto_commit_comes_after_one_interval_and_then_each(topic: str, group: Group, new_member: NewMember) -> None:
    """J1: the first not at once, and all by itself."""
    interval_s = 0.4
    member = new_member("c1", {topic: 1}, reads=False, auto_commit_interval_ms=int(interval_s * 1000))
    began_s = time.monotonic()
    member.join()
    take(member, 30)

    eventually(lambda: group.offsets(topic) == dict.fromkeys(range(3), "10"), "a commit")
    seen = len(member.told(Committed))
    eventually(lambda: len(member.told(Committed)) >= seen + 2, "two more")

    assert member.told(Committed)[0].monotonic_s - began_s >= interval_s


def test_unchanged_offsets_are_not_written_again(topic: str, group: Group, new_member: NewMember) -> None:
    """J2: the version stays; only what was read since is written."""
    member = new_member("c1", {topic: 1}, reads=False, auto_commit_interval_ms=SELDOM_MS).join()
    wait_for_positions(member)
    member.connector.commit_offsets()
    first = versions(group, topic)

    member.connector.commit_offsets()
    second = versions(group, topic)
    [(partition, _)] = take(member, 1)
    member.connector.commit_offsets()

    assert first == second == {0: 0, 1: 0, 2: 0}
    assert versions(group, topic) == {p: int(p == partition) for p in range(3)}


@pytest.mark.parametrize(("reset", "expected"), [("smallest", "0"), ("largest", "10")])
def test_the_first_commit_stores_the_start_of_what_was_not_read(
    topic: str, group: Group, new_member: NewMember, reset: str, expected: str
) -> None:
    """J3: so that a group that starts at the end stays there."""
    member = new_member("c1", {topic: 1}, reads=False, auto_offset_reset=reset).join()
    wait_for_positions(member)

    member.connector.commit_offsets()

    assert group.offsets(topic) == dict.fromkeys(range(3), expected)


def test_as_many_as_were_taken_are_stored(topic: str, group: Group, new_member: NewMember) -> None:
    """J5, J6: the sum of the offsets, at once."""
    member = new_member("c1", {topic: 1}, reads=False, auto_commit_enable=False).join()
    take(member, 17)
    wait_for_positions(member)
    before = group.offsets(topic)

    member.connector.commit_offsets()

    assert before == {}
    assert sum(map(int, group.offsets(topic).values())) == 17


def test_without_auto_commit_neither_rebalance_nor_shutdown_stores_anything(
    topic: str, group: Group, new_member: NewMember, zookeeper_server: ZooKeeperServer
) -> None:
    """J6, J7: commit_offsets is the only writer."""
    member = new_member("c1", {topic: 1}, reads=False, auto_commit_enable=False, auto_commit_interval_ms=50).join()
    take(member, 12)
    announce(group, fresh("nobody"))
    eventually(lambda: len(member.told(RebalanceFinished)) == 2, "another rebalance")
    take(member, 12)

    member.shutdown()

    assert [entry for entry in writes(zookeeper_server, group) if "/offsets" in (entry.path or "")] == []


def test_a_rebalance_stores_before_it_releases(
    topic: str, group: Group, new_member: NewMember, zookeeper_server: ZooKeeperServer
) -> None:
    """J8, E7: the next owner continues without a gap, and nothing comes twice."""
    first = new_member("c1", {topic: 1}, reads=False, auto_commit_interval_ms=SELDOM_MS).join()
    taken = take(first, 15)

    second = new_member("c2", {topic: 1}, auto_commit_interval_ms=SELDOM_MS).join()
    eventually(lambda: len(set(group.owners(topic).values())) == 2, "an even share")
    eventually(lambda: len(second.records) + len(taken) + _left_for(first, taken) >= 30, "the second one's part")
    taken += take(first, _left_for(first, taken))

    assert sorted(taken + places(second)) == [(p, n) for p in range(3) for n in range(10)]
    log = [
        (entry.operation, (entry.path or "").rpartition(f"/{group.name}/")[2])
        for entry in writes(zookeeper_server, group)
    ]
    released = log.index((Operation.DELETE, f"owners/{topic}/0"))
    stored = {path for operation, path in log[:released] if operation in (Operation.CREATE, Operation.SET_DATA)}
    assert {f"offsets/{topic}/{p}" for p in range(3)} <= stored


def _left_for(member: Member, taken: list[tuple[int, int]]) -> int:
    """How many records of the partitions it owns it has not taken yet."""
    mine = {where.partition for where in member.connector.owned_partitions}
    return 10 * len(mine) - sum(partition in mine for partition, _ in taken)


def test_an_operators_offset_written_while_the_group_is_down_is_used(
    topic: str, group: Group, new_member: NewMember
) -> None:
    """J20: forwards and backwards."""
    member = new_member("c1", {topic: 1}).join()
    eventually(lambda: len(member.records) == 30, "all records")
    member.shutdown()
    group.put(f"offsets/{topic}/0", "3")
    group.put(f"offsets/{topic}/1", "9")

    again = new_member("c1", {topic: 1}).join()

    eventually(lambda: len(again.records) >= 8, "the rest")
    assert places(again) == [*((0, n) for n in range(3, 10)), (1, 9)]


@both_releases
@pytest.mark.parametrize("storage", [{}, IN_BOTH], ids=["zookeeper", "both"])
def test_given_offsets_are_stored_also_of_partitions_not_owned(
    topic: str, group: Group, new_member: NewMember, release: str, storage: Mapping[str, Any]
) -> None:
    """J19, Q19: 0 too, which 1.1.1 does not write."""
    member = new_member("c1", {}, reads=False, **storage).join()

    member.connector.commit_offsets(
        {TopicAndPartition(topic, p): OffsetAndMetadata(offset, "a note") for p, offset in ((0, 0), (2, 7))}
    )

    assert group.offsets(topic) == {0: "0", 2: "7"}


# --- Kafka, and both ---


@both_releases
def test_offsets_in_kafka_leave_no_trace_in_zookeeper(
    kafka: KafkaCluster, topic: str, group: Group, new_member: NewMember, release: str
) -> None:
    """J9: the next member goes on from them; /consumers/G/offsets is never created."""
    first = new_member("c1", {topic: 1}, reads=False, **IN_KAFKA).join()
    taken = take(first, 17)
    first.shutdown()

    second = new_member("c1", {topic: 1}, **IN_KAFKA).join()
    eventually(lambda: len(second.records) >= 13, "the rest")

    assert sorted(taken + places(second)) == [(p, n) for p in range(3) for n in range(10)]
    assert "offsets" not in group.client.get_children(group.path)


def test_the_real_offset_checker_shows_what_we_stored_in_kafka(
    kafka: KafkaCluster, topic: str, group: Group, new_member: NewMember
) -> None:
    """J9: group, topic, partition, offset, log size, lag, owner."""
    member = new_member("c1", {topic: 1}, **IN_KAFKA).join()
    eventually(lambda: len(member.records) == 30, "all records")
    member.connector.commit_offsets()

    result = consumer_offset_checker(kafka.zookeeper_connect, group.name, [topic])

    rows = [line.split() for line in result.stdout.splitlines() if topic in line]
    assert rows == [[group.name, topic, str(p), "10", "10", "0", f"{member.id}-0"] for p in range(3)]


@both_releases
def test_dual_commit_stores_in_both_places(topic: str, group: Group, new_member: NewMember, release: str) -> None:
    """J10: it is the default of offsets.storage=kafka."""
    member = new_member("c1", {topic: 1}, **IN_BOTH).join()
    eventually(lambda: len(member.records) == 30, "all records")
    member.shutdown()
    in_zookeeper = group.offsets(topic)

    again = new_member("c1", {topic: 1}, reads=False, **IN_KAFKA).join()

    assert in_zookeeper == dict.fromkeys(range(3), "10")
    assert set(again.connector.owned_partitions.values()) == {10}


def test_of_two_places_the_larger_offset_counts_and_the_other_is_brought_up(
    topic: str, group: Group, new_member: NewMember
) -> None:
    """J11, J21, Q36: at the first commit, also of partitions that did not advance."""
    operator = new_member("operator", {}, reads=False, **IN_KAFKA).join()
    operator.connector.commit_offsets({TopicAndPartition(topic, p): OffsetAndMetadata(6) for p in range(3)})
    operator.shutdown()
    group.put(f"offsets/{topic}/0", "4")
    group.put(f"offsets/{topic}/1", "8")

    member = new_member("c1", {topic: 1}, reads=False, auto_commit_enable=False, **IN_BOTH).join()
    started = {where.partition: offset for where, offset in member.connector.owned_partitions.items()}
    member.connector.commit_offsets()
    in_zookeeper = group.offsets(topic)
    member.shutdown()
    again = new_member("c1", {topic: 1}, reads=False, auto_commit_enable=False, **IN_KAFKA).join()

    assert started == {0: 6, 1: 8, 2: 6}
    assert in_zookeeper == {0: "6", 1: "8", 2: "6"}
    assert {where.partition: offset for where, offset in again.connector.owned_partitions.items()} == started


def test_moving_a_group_to_kafka_member_by_member_loses_nothing(
    kafka: KafkaCluster, topic: str, group: Group, new_member: NewMember
) -> None:
    """J17: old and new side by side, then all on both, then all on Kafka alone."""
    steps: list[list[Mapping[str, Any]]] = [
        [{}, {}],
        [{}, IN_BOTH],
        [IN_BOTH, IN_BOTH],
        [IN_KAFKA, IN_BOTH],
        [IN_KAFKA, IN_KAFKA],
    ]
    received: list[tuple[int, int]] = []
    stored = [(p, n) for p in range(3) for n in range(10)]
    for storages in steps:
        members = [new_member(f"c{n}", {topic: 1}, **storage).join() for n, storage in enumerate(storages)]
        eventually(lambda: len(set(group.owners(topic).values())) == 2, "an even share")
        wait_for_records(members, len(stored) - len(received))
        for member in members:
            member.shutdown()
        received += [place for member in members for place in places(member)]
        for partition in range(3):
            stored += [(place[0], place[1]) for place in kafka.produce(topic, [b"more", b"more"], partition=partition)]

    last = new_member("c9", {topic: 1}, **IN_KAFKA).join()
    wait_for_records([last], len(stored) - len(received))
    assert sorted(received + places(last)) == sorted(stored)


def wait_for_records(members: Sequence[Member], count: int) -> None:
    eventually(lambda: sum(len(member.records) for member in members) >= count, f"{count} records")


# --- an offset manager at its worst: scripted ---


@pytest.fixture
def scripted(zookeeper: ZooKeeperForOneTest) -> Iterator[ScriptedCluster]:
    """Two partitions with three messages each."""
    with ScriptedCluster(zookeeper.connect_string, fresh("topic"), partitions=2) as cluster:
        for partition in (0, 1):
            cluster.messages[partition] = {n: message(Content(n, None, b"%d" % n)) for n in range(3)}
        yield cluster


@contextmanager
def member_of(cluster: ScriptedCluster, **settings: Any) -> Iterator[Member]:
    """With offsets in Kafka only, and quick about it."""
    defaults = {
        "reads": False,
        "auto_commit_enable": False,
        "offsets_channel_backoff_ms": 30,
        "offsets_commit_max_retries": 2,
        "consumer_timeout_ms": int(scaled(20) * 1000),
    }
    storage = {} if "offsets_storage" in settings else IN_KAFKA
    member = Member(
        cluster.zookeeper_connect, fresh("group"), "c1", {cluster.topic: 1}, **{**defaults, **storage, **settings}
    )
    try:
        yield member
    finally:
        member.shutdown()


def test_a_commit_to_kafka_names_every_partition_each_time(scripted: ScriptedCluster) -> None:
    """J12: changed or not, so that offsets do not expire for want of change."""
    scripted.stored = {0: 0, 1: 0}
    with member_of(scripted) as member:
        member.join()
        member.connector.commit_offsets()
        [(partition, _)] = take(member, 1)
        member.connector.commit_offsets()
        member.connector.commit_offsets()

    assert scripted.committed == [{0: 0, 1: 0}, *[{p: int(p == partition) for p in (0, 1)}] * 2]


@pytest.mark.parametrize("storage", [IN_KAFKA, IN_BOTH, {"offsets_storage": "zookeeper"}], ids=["kafka", "both", "zk"])
def test_a_partition_without_a_position_is_not_stored(scripted: ScriptedCluster, storage: Mapping[str, Any]) -> None:
    """J4, J16, Q18: nobody tells where partition 1 begins, so it has no offset yet; -1 is never sent."""
    scripted.stored = {0: 2}
    scripted.scripts[METADATA] = lambda request: HangUp
    with member_of(scripted, **storage) as member, observer(scripted.zookeeper_connect) as client:
        group = Group(client, member.connector.config.group_id)
        group.put(f"offsets/{scripted.topic}/0", "2")
        member.join()
        unknown = member.connector.owned_partitions
        member.connector.commit_offsets()

        assert {where.partition: offset for where, offset in unknown.items()} == {0: 2, 1: -1}
        assert group.offsets(scripted.topic) == {0: "2"}
    assert scripted.committed == ([{0: 2}] if storage["offsets_storage"] == "kafka" else [])


@pytest.mark.parametrize("code", [15, 16], ids=["not available", "not coordinator"])
def test_a_manager_that_has_moved_is_looked_for_again_by_a_fetch(scripted: ScriptedCluster, code: int) -> None:
    """J13: and the answer of the new one counts."""
    scripted.stored = {0: 1, 1: 2}
    moved = {0: Stored(-1, code), 1: Stored(-1, code)}
    answers: Iterator[Answer] = iter([stored_answer(scripted.topic, moved)])
    scripted.scripts[OFFSET_FETCH] = lambda request: next(answers, None) or scripted.default(request)

    with member_of(scripted) as member:
        member.join()
        assert {where.partition: n for where, n in member.connector.owned_partitions.items()} == {0: 1, 1: 2}

    assert len(scripted.asked(FIND_COORDINATOR)) == 2


@pytest.mark.parametrize("code", [15, 16], ids=["not available", "not coordinator"])
def test_a_manager_that_has_moved_is_looked_for_again_by_the_next_commit(scripted: ScriptedCluster, code: int) -> None:
    """J13, Q17: the first commit fails and is told of, the next one succeeds."""
    scripted.stored = {0: 1, 1: 2}
    answers: Iterator[Answer] = iter([commit_answer(scripted.topic, {0: code, 1: code})])
    scripted.scripts[OFFSET_COMMIT] = lambda request: next(answers, None) or scripted.default(request)

    with member_of(scripted) as member:
        member.join()
        take(member, 2)
        member.connector.commit_offsets()
        failed = len(member.told(CommitFailed))
        member.connector.commit_offsets()

        assert (failed, len(member.told(CommitFailed)), len(member.told(Committed))) == (1, 1, 1)
    assert sum(scripted.stored.values()) == 5
    assert len(scripted.asked(FIND_COORDINATOR)) == 2


def test_offsets_that_are_still_being_loaded_are_waited_for(scripted: ScriptedCluster) -> None:
    """J14: asked again after offsets.channel.backoff.ms, on the same connection; the partition is not reset."""
    scripted.stored = {0: 1, 1: 2}
    times_s: list[float] = []

    def loading_at_first(request: Request) -> Answer:
        times_s.append(time.monotonic())
        if len(times_s) < 3:
            return stored_answer(scripted.topic, {0: Stored(-1, 14), 1: Stored(2)})
        return scripted.default(request)

    scripted.scripts[OFFSET_FETCH] = loading_at_first
    with member_of(scripted, offsets_channel_backoff_ms=100) as member:
        member.join()
        assert {where.partition: n for where, n in member.connector.owned_partitions.items()} == {0: 1, 1: 2}

    assert all(later - earlier >= 0.1 for earlier, later in pairwise(times_s))
    assert len(scripted.asked(FIND_COORDINATOR)) == 1


def test_an_error_of_the_manager_is_not_taken_for_an_empty_place(scripted: ScriptedCluster) -> None:
    """Q20: 0.8.2.2 reads any other code as "no offset", and resets the partition."""
    scripted.stored = {0: 1, 1: 2}
    answers: Iterator[Answer] = iter([stored_answer(scripted.topic, {0: Stored(-1, -1), 1: Stored(2)})])
    scripted.scripts[OFFSET_FETCH] = lambda request: next(answers, None) or scripted.default(request)

    with member_of(scripted) as member:
        member.join()
        assert {where.partition: n for where, n in member.connector.owned_partitions.items()} == {0: 1, 1: 2}


@pytest.mark.parametrize(
    ("emulate", "retry_on_failure", "tries"),
    [
        ("0.8.2", True, 1),
        ("0.8.2", False, 1),
        ("0.9", True, 1),
        ("0.9", False, 3),
        ("fixed", True, 3),
        ("fixed", False, 1),
    ],
)
def test_how_often_a_commit_of_the_application_is_tried(
    scripted: ScriptedCluster, emulate: str, retry_on_failure: bool, tries: int
) -> None:
    """J15, Q17: 1 + offsets.commit.max.retries, or once, and never an exception."""
    scripted.stored = {0: 1, 1: 2}
    scripted.scripts[OFFSET_COMMIT] = lambda request: commit_answer(scripted.topic, {0: -1, 1: -1})

    with member_of(scripted, emulate=emulate) as member:
        member.join()
        member.connector.commit_offsets(retry_on_failure=retry_on_failure)

        assert len(member.told(CommitFailed)) == tries
    assert len(scripted.committed) == tries


@pytest.mark.parametrize(("emulate", "tries"), [("0.8.2", 3), ("0.9", 1), ("fixed", 3)])
def test_how_often_the_commit_of_a_shutdown_is_tried(scripted: ScriptedCluster, emulate: str, tries: int) -> None:
    """J15, Q17: the only one that 0.8.2 repeats; from 0.9 on the flag is inverted."""
    scripted.stored = {0: 1, 1: 2}
    scripted.scripts[OFFSET_COMMIT] = lambda request: commit_answer(scripted.topic, {0: -1, 1: -1})

    with member_of(scripted, emulate=emulate, auto_commit_enable=True, auto_commit_interval_ms=SELDOM_MS) as member:
        member.join()

    assert len(scripted.committed) == tries


def test_what_a_manager_stored_of_a_refused_commit_goes_to_zookeeper_too(scripted: ScriptedCluster) -> None:
    """J10: with dual commit, partition by partition; metadata that is too large is no failure."""
    scripted.stored = {0: 1, 1: 2}
    scripted.scripts[OFFSET_COMMIT] = lambda request: commit_answer(scripted.topic, {0: 0, 1: 28})
    with member_of(scripted, **IN_BOTH) as member, observer(scripted.zookeeper_connect) as client:
        group = Group(client, member.connector.config.group_id)
        member.join()
        member.connector.commit_offsets()
        refused = (group.offsets(scripted.topic), len(member.told(CommitFailed)))
        scripted.scripts[OFFSET_COMMIT] = lambda request: commit_answer(scripted.topic, {0: 0, 1: 12})
        member.connector.commit_offsets()

        assert refused == ({0: "1"}, 1)
        assert len(member.told(CommitFailed)) == 1


def test_a_manager_is_looked_for_until_a_broker_knows_it(scripted: ScriptedCluster) -> None:
    """J13: the first question makes a broker create its topic of offsets; it does not know at once."""
    scripted.stored = {0: 1, 1: 2}
    answers: Iterator[Answer] = iter([HangUp, coordinator_answer(15, -1), coordinator_answer(15, -1)])
    scripted.scripts[FIND_COORDINATOR] = lambda request: next(answers, None) or scripted.default(request)

    with member_of(scripted) as member:
        member.join()
        assert {where.partition: n for where, n in member.connector.owned_partitions.items()} == {0: 1, 1: 2}

    assert len(scripted.asked(FIND_COORDINATOR)) == 4


def test_a_commit_that_had_to_wait_stores_what_is_true_when_its_turn_comes(scripted: ScriptedCluster) -> None:
    """J8: or the timer's commit, begun before a rebalance, would put the next owner back."""
    scripted.stored = {0: 0, 1: 0}
    has_come, go_on = threading.Event(), threading.Event()

    def slow(request: Request) -> Answer:
        has_come.set()
        go_on.wait(scaled(20))
        return scripted.default(request)

    scripted.scripts[OFFSET_COMMIT] = slow
    with member_of(scripted) as member:
        member.join()
        take(member, 2)
        threads = [threading.Thread(target=member.connector.commit_offsets) for _ in range(2)]
        threads[0].start()
        assert has_come.wait(scaled(20))
        threads[1].start()
        eventually(lambda: is_inside(threads[1], "_commit_once"), "the second commit waits for the first")
        take(member, 4)
        go_on.set()
        for thread in threads:
            thread.join()

    assert [sum(offsets.values()) for offsets in scripted.committed] == [2, 6]


def is_inside(thread: threading.Thread, function: str) -> bool:
    """Whether this is what the thread is in the middle of."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame is not None
