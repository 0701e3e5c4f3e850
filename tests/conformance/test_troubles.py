"""Troubles of the real consumer, shown on it and on ours in one test; and on ours with emulate="fixed"."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.broker.members import Member
from tests.conformance.group import Group, fresh
from zkconsumer.errors import ZkNodeExistsException
from zkconsumer.events import PartitionsReleased, RebalanceFinished, RebalanceGaveUp, RebalanceStarted
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.waiting import eventually, scaled

Groups = Callable[[str], Group]

SELDOM_MS = 3_600_000
PROPERTIES = {
    "auto.offset.reset": "smallest",
    "auto.commit.interval.ms": str(SELDOM_MS),
    "rebalance.backoff.ms": "200",
    "zookeeper.session.timeout.ms": "20000",
    "zookeeper.connection.timeout.ms": "60000",
}
WAIT_S = 60.0


class Scene:
    """Topics, groups and members of one test; those left are ended."""

    def __init__(self, kafka: KafkaCluster, groups: Groups, stack: ExitStack) -> None:
        self.kafka = kafka
        self._groups = groups
        self._stack = stack

    def topic(self, records: int, partitions: int = 1) -> str:
        name = fresh("trouble")
        self.kafka.create_topic(name, partitions=partitions)
        if records:
            self.kafka.produce(name, [b"%d" % number for number in range(records)], partition=0)
        return name

    def group(self) -> Group:
        return self._groups(fresh("g"))

    def real(
        self, group: Group, topics: dict[str, int] | None, name: str = "C1", *, reads: bool = False, **more: str
    ) -> ScalaConsumer:
        properties = PROPERTIES | {key.replace("_", "."): value for key, value in more.items()}
        where = self.kafka.zookeeper_connect
        member = ScalaConsumer(where, group.name, topics, consumer_id=name, properties=properties, start_reading=reads)
        self._stack.callback(member.close)
        member.start()
        return member

    def ours(
        self, group: Group, topics: dict[str, int], name: str = "C1", *, reads: bool = False, **more: Any
    ) -> Member:
        settings = {"rebalance_max_retries": 4, "auto_commit_interval_ms": SELDOM_MS, **more}
        member = Member(self.kafka.zookeeper_connect, group.name, name, topics, reads=reads, **settings)
        self._stack.callback(member.shutdown)
        return member

    def end_session(self, session: tuple[int, bytes]) -> None:
        twin = KazooClient(self.kafka.zookeeper_connect, client_id=session)
        twin.start(scaled(20))
        twin.stop()
        twin.close()


@pytest.fixture
def scene(kafka_0_8: KafkaCluster, group_0_8: Groups) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(kafka_0_8, group_0_8, stack)


def take(member: Member, count: int) -> list[int]:
    iterator = member.streams[0].iterator()
    return [iterator.next().offset for _ in range(count)]


def offsets(member: Member) -> list[int]:
    return [record.offset for record in list(member.records)]


def touch(group: Group, topic: str) -> None:
    path = f"/brokers/topics/{topic}"
    group.client.set(path, group.client.get(path)[0])


def attempts(real: ScalaConsumer) -> list[int]:
    """Numbers of its attempts to rebalance, from its log."""
    begun = [one.message for one in real.log_entries() if " begin rebalancing consumer " in one.message]
    return [int(message.rpartition("#")[2]) for message in begun]


def test_a_member_dies_quietly_after_four_tries(scene: Scene) -> None:
    """E4, E5: Q6; nobody is told, it owns nothing although all is free, until the group or a topic changes."""

    def obstruct(group: Group, topic: str) -> None:
        group.put(f"owners/{topic}/1", "somebody-0")
        scene.kafka.add_partitions(topic, 2)

    # The real one.
    group, topic = scene.group(), scene.topic(0)
    real = scene.real(group, {topic: 1})
    obstruct(group, topic)
    real.wait_until_logged("can't rebalance after 4 retries", WAIT_S)
    group.remove(f"owners/{topic}/1")
    assert (group.owners(topic), list(group.members())) == ({}, [real.consumer_id])
    touch(group, topic)
    eventually(lambda: group.owners(topic) == dict.fromkeys(range(2), f"{real.consumer_id}-0"), "all", WAIT_S)
    theirs = attempts(real)
    # Ours.
    group, topic = scene.group(), scene.topic(0)
    member = scene.ours(group, {topic: 1}).join()
    obstruct(group, topic)
    eventually(lambda: member.told(RebalanceGaveUp), "it gives up", WAIT_S)
    group.remove(f"owners/{topic}/1")
    assert (group.owners(topic), list(group.members())) == ({}, [member.id])
    touch(group, topic)
    eventually(lambda: group.owners(topic) == dict.fromkeys(range(2), f"{member.id}-0"), "all", WAIT_S)
    ours = [event.attempt for event in member.told(RebalanceStarted)]
    # Mended: as soon as it can, without any change.
    group, topic = scene.group(), scene.topic(0)
    fixed = scene.ours(group, {topic: 1}, emulate="fixed").join()
    obstruct(group, topic)
    eventually(lambda: fixed.told(RebalanceGaveUp), "it gives up", WAIT_S)
    group.remove(f"owners/{topic}/1")
    eventually(lambda: group.owners(topic) == dict.fromkeys(range(2), f"{fixed.id}-0"), "all, by itself", WAIT_S)

    assert theirs == [0, 0, 1, 2, 3, 0]
    assert ours == theirs


def test_an_expired_session_replays(scene: Scene) -> None:
    """L3: Q9; what was delivered and not committed comes again."""
    group, topic = scene.group(), scene.topic(3)
    real = scene.real(group, {topic: 1}, reads=True)
    real.wait_until_delivered(3)
    scene.end_session(real.session())
    theirs = [one.offset for one in real.wait_until_delivered(6, WAIT_S)][:6]

    found: dict[str, list[int]] = {}
    for emulate in ("0.8.2", "fixed"):
        topic = scene.topic(3)
        member = scene.ours(scene.group(), {topic: 1}, reads=True, emulate=emulate).join()
        eventually(lambda member=member: len(member.records) == 3, "three records")  # type: ignore[misc]
        scene.end_session(member.connector._zookeeper.client.client_id)
        eventually(lambda member=member: len(member.told(RebalanceFinished)) > 1, "a rebalance")  # type: ignore[misc]
        [place] = scene.kafka.produce(topic, [b"new"], partition=0)
        eventually(lambda member=member, end=place.offset: end in offsets(member), "the new")  # type: ignore[misc]
        found[emulate] = offsets(member)

    assert theirs == [0, 1, 2, 0, 1, 2]
    assert found == {"0.8.2": [*theirs, 3], "fixed": [0, 1, 2, 3]}


def test_an_item_is_read_twice_across_a_rebalance(scene: Scene) -> None:
    """I13: Q11; seen by hasNext() before it, taken after it."""
    topic = scene.topic(6)
    real = scene.real(scene.group(), {topic: 1})
    real.take(4)
    assert real.has_next()
    scene.kafka.add_partitions(topic, 2)
    real.wait_until_logged(f"{topic}:0: fetched offset = 4: consumed offset = 4,{topic}:1:")
    theirs = [one.offset for one in real.take(3)]

    found: dict[str, list[int]] = {}
    for emulate in ("0.8.2", "fixed"):
        topic = scene.topic(6)
        member = scene.ours(scene.group(), {topic: 1}, emulate=emulate).join()
        take(member, 4)
        assert member.streams[0].iterator().has_next()
        scene.kafka.add_partitions(topic, 2)
        eventually(lambda member=member: len(member.told(RebalanceFinished)) == 2, "a rebalance")  # type: ignore[misc]
        found[emulate] = take(member, 3 if emulate == "0.8.2" else 2)

    assert theirs == [4, 4, 5]
    assert found == {"0.8.2": theirs, "fixed": [4, 5]}


def test_messages_come_after_shutdown(scene: Scene) -> None:
    """K4: Q13; the rest of the chunk, which nobody commits."""
    group, topic = scene.group(), scene.topic(6)
    real = scene.real(group, {topic: 1})
    real.take(2)
    real.shutdown()
    theirs = [one.offset for one in real.take(4)]
    stored = [group.offsets(topic)]

    found: dict[str, list[int]] = {}
    for emulate in ("0.8.2", "fixed"):
        group = scene.group()
        member = scene.ours(group, {topic: 1}, emulate=emulate).join()
        take(member, 2)
        member.shutdown()
        found[emulate] = [record.offset for record in member.streams[0].iterator()]
        stored.append(group.offsets(topic))

    assert theirs == [2, 3, 4, 5]
    assert found == {"0.8.2": theirs, "fixed": []}
    assert stored == [{0: "2"}] * 3


@pytest.mark.conformance_full
def test_a_taken_id_is_waited_for_without_end(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """C9, C10: Q8; the second one hangs while the first is there."""
    group, topic = scene.group(), scene.topic(0)
    first = scene.real(group, {topic: 1})
    second = scene.real(group, None)
    pending = second.begin_creating_streams({topic: 1})
    second.wait_until_logged("I wrote this conflicted ephemeral node", WAIT_S)
    hung = not pending.done
    first.stop()
    pending.wait()

    caplog.set_level("INFO")
    group = scene.group()
    ours = scene.ours(group, {topic: 1}).join()
    with pytest.raises(ZkNodeExistsException):
        scene.ours(group, {topic: 1}, emulate="fixed").join()
    waiting = scene.ours(group, {topic: 1})
    thread = threading.Thread(target=waiting.join)
    thread.start()
    eventually(lambda: "I wrote this conflicted ephemeral node" in caplog.text, "ours waits, too", WAIT_S)
    ours_hung = thread.is_alive()
    ours.shutdown()
    thread.join(scaled(WAIT_S))

    assert hung
    assert ours_hung
    assert not thread.is_alive()
    assert list(group.members()) == [waiting.id]


@pytest.mark.conformance_full
def test_one_that_joins_for_nothing_makes_all_rebalance(scene: Scene) -> None:
    """D1: Q4, the herd; a fixed member keeps what it has, also when it is a real one that joins."""

    def owner_node(group: Group, topic: str) -> int:
        stat = group.client.exists(f"{group.path}/owners/{topic}/0")
        return stat.czxid if stat is not None else 0

    group, topic = scene.group(), scene.topic(0)
    scene.real(group, {topic: 1}, "C1")
    before = owner_node(group, topic)
    scene.real(group, {topic: 1}, "C2")
    eventually(lambda: owner_node(group, topic) > before, "the owner releases and claims the same", WAIT_S)

    group = scene.group()
    scene.ours(group, {topic: 1}, "C1").join()
    before = owner_node(group, topic)
    scene.ours(group, {topic: 1}, "C2").join()
    eventually(lambda: owner_node(group, topic) > before, "ours releases and claims the same", WAIT_S)
    assert group.owners(topic) == {0: f"{group.name}_C1-0"}

    group = scene.group()
    fixed = scene.ours(group, {topic: 1}, "C1", reads=True, emulate="fixed").join()
    before = owner_node(group, topic)
    real = scene.real(group, {topic: 1}, "C2")
    eventually(lambda: len(fixed.told(RebalanceFinished)) == 2, "it looked", WAIT_S)
    assert owner_node(group, topic) == before
    assert len(fixed.told(PartitionsReleased)) == 1  # of its first rebalance, which released nothing
    [place] = scene.kafka.produce(topic, [b"still read"], partition=0)
    eventually(lambda: place.offset in offsets(fixed), "it reads on", WAIT_S)
    scene.kafka.add_partitions(topic, 2)  # and now there is something for both
    eventually(
        lambda: group.owners(topic) == {0: f"{fixed.id}-0", 1: f"{real.consumer_id}-0"}, "one partition each", WAIT_S
    )


@pytest.mark.conformance_full
def test_dual_commit_ignores_a_rewind(scene: Scene) -> None:
    """J11: an offset set back in ZooKeeper alone is not seen: the larger of two counts. A fixed member starts there."""
    topic = scene.topic(6)
    group = scene.group()
    dual: Any = {"offsets_storage": "kafka", "dual_commit_enabled": "true"}
    for count in (3, 1):
        real = scene.real(group, {topic: 1}, **dual)
        theirs = [one.offset for one in real.take(count)]
        real.commit_offsets()
        real.stop()
        group.put(f"offsets/{topic}/0", "1")

    found: dict[str, list[int]] = {}
    for emulate in ("0.8.2", "fixed"):
        group = scene.group()
        for count in (3, 1):
            settings: Any = {"offsets_storage": "kafka", "dual_commit_enabled": True, "emulate": emulate}
            member = scene.ours(group, {topic: 1}, **settings).join()
            found[emulate] = take(member, count)
            member.connector.commit_offsets()
            member.shutdown()
            group.put(f"offsets/{topic}/0", "1")

    assert theirs == [3]
    assert found == {"0.8.2": theirs, "fixed": [1]}
