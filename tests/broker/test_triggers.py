"""What makes a member rebalance, and what does not."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fetcher.structs import TopicAndPartition
from tests.broker.members import Member, NewMember, Recorder, announce
from tests.conformance.group import Group
from zkconsumer.events import RebalanceFinished, RebalanceRequested
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.plugin import ZooKeeperForOneTest
from zkconsumer.testing.transactions import Operation
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer
from zkconsumer.topic_filter import Blacklist, TopicFilter, Whitelist

pytestmark = pytest.mark.kafka("0.8.2.2")

JOIN_AND_WAIT = """
import sys, threading
from zkconsumer import ConsumerConfig, ZookeeperConsumerConnector
connect, group, topic = sys.argv[1:]
config = ConsumerConfig(zookeeper_connect=connect, group_id=group, consumer_id="a", zookeeper_session_timeout_ms=2000)
ZookeeperConsumerConnector(config).create_message_streams({topic: 1})
print("joined", flush=True)
threading.Event().wait()
"""


@pytest.fixture
def topic(kafka: KafkaCluster, topic: str) -> str:
    """With four partitions."""
    kafka.create_topic(topic, partitions=4)
    return topic


@pytest.fixture
def info(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "zkconsumer")
    return caplog


def all_of(member: Member, partitions: int = 4) -> dict[int, str]:
    """The owners of a topic that one member reads alone, with one stream."""
    return dict.fromkeys(range(partitions), f"{member.id}-0")


def halves(first: Member, second: Member) -> dict[int, str]:
    return {0: f"{first.id}-0", 1: f"{first.id}-0", 2: f"{second.id}-0", 3: f"{second.id}-0"}


# --- members ---


def test_one_that_joins_makes_the_others_rebalance_once(group: Group, topic: str, new_member: NewMember) -> None:
    """D1: each of them."""
    first, second = new_member("c1", {topic: 1}).join(), new_member("c2", {topic: 1}).join()
    eventually(lambda: group.owners(topic) == halves(first, second))
    before = len(first.told(RebalanceRequested)), len(second.told(RebalanceRequested))

    third = new_member("c3", {topic: 1}).join()

    eventually(lambda: set(group.owners(topic).values()) == {f"{m.id}-0" for m in (first, second, third)})
    assert first.triggers_until_now(group, topic)[before[0] :] == ["consumers changed"]
    # The same write that ended the first one's list may stand in the second one's.
    assert second.triggers_until_now(group, topic)[before[1] :] in (
        ["consumers changed"],
        ["consumers changed", "topic changed"],
    )


def test_one_that_leaves_makes_the_others_rebalance_once(group: Group, topic: str, new_member: NewMember) -> None:
    """D2: and they take what it had."""
    first, second = new_member("c1", {topic: 1}).join(), new_member("c2", {topic: 1}).join()
    eventually(lambda: group.owners(topic) == halves(first, second))

    second.shutdown()

    eventually(lambda: group.owners(topic) == all_of(first))
    assert first.triggers_until_now(group, topic) == ["consumers changed", "consumers changed"]


@pytest.fixture
def killable(kafka: KafkaCluster, group: Group, topic: str) -> Iterator[subprocess.Popen[str]]:
    """A member "a" in a process of its own."""
    arguments = [kafka.zookeeper_connect, group.name, topic]
    with subprocess.Popen(
        [sys.executable, "-c", JOIN_AND_WAIT, *arguments],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "joined\n"
            yield process
        finally:
            process.kill()


def test_a_killed_members_partitions_are_taken_when_its_session_ends(
    zookeeper_server: ZooKeeperServer,
    kafka: KafkaCluster,
    group: Group,
    topic: str,
    new_member: NewMember,
    killable: subprocess.Popen[str],
) -> None:
    """D3: not before, although nobody reads them."""
    survivor = new_member("b", {topic: 1}).join()
    shared = {0: f"{group.name}_a-0", 1: f"{group.name}_a-0", 2: f"{survivor.id}-0", 3: f"{survivor.id}-0"}
    eventually(lambda: group.owners(topic) == shared)
    killed_session = group.client.exists(f"{group.path}/ids/{group.name}_a").ephemeralOwner

    killable.kill()
    killable.wait()

    eventually(lambda: group.owners(topic) == all_of(survivor))
    chroot = "/" + kafka.zookeeper_connect.partition("/")[2]
    [end] = [
        entry
        for entry in zookeeper_server.transactions()
        if entry.operation is Operation.CLOSE_SESSION and entry.session == killed_session
    ]
    assert end.cxid == 0, "the server ended the session, not the member"
    assert {f"{chroot}{group.path}/owners/{topic}/{partition}" for partition in (0, 1)} < set(end.removed)
    taken = [group.client.exists(f"{group.path}/owners/{topic}/{partition}").czxid for partition in (0, 1)]
    assert min(taken) > end.zxid


def test_any_number_of_joins_during_a_rebalance_cause_one_more(group: Group, topic: str, new_member: NewMember) -> None:
    """D4: they are merged, not lost."""
    listener = Recorder()
    member = new_member("c1", {topic: 1}, listener=listener).join()
    listener.hold()
    announce(group, "visitor")
    assert listener.waiting.wait(60)

    for number in range(10):
        announce(group, f"visitor{number}")
    requests = member.triggers_until_now(group, topic)
    listener.let_go()

    assert len(requests) >= 2, "the rebalance under way, and at least one request while it was held"
    eventually(lambda: len(member.told(RebalanceFinished)) == 3)
    announce(group, "last")
    eventually(lambda: len(member.told(RebalanceFinished)) == 4)
    assert len(member.rebalances()) == 4, "the first one, the one held, one more, and the last visitor's"


# --- topics ---


def test_new_partitions_are_taken(
    kafka: KafkaCluster, group: Group, topic: str, new_member: NewMember, info: pytest.LogCaptureFixture
) -> None:
    """D5: with the line operators know."""
    member = new_member("c1", {topic: 1}).join()

    kafka.add_partitions(topic, 6)

    eventually(lambda: group.owners(topic) == all_of(member, partitions=6))
    data = group.client.get(f"/brokers/topics/{topic}")[0].decode()
    line = f"[{member.id}], Topic info for path /brokers/topics/{topic} changed to {data}, triggering rebalance"
    assert line in info.messages
    kafka.produce(topic, [b"new"], partition=5)
    eventually(lambda: [record.partition for record in member.records] == [5])


def test_a_topic_named_before_it_exists_is_read_when_it_does(
    kafka: KafkaCluster, group: Group, topic: str, new_member: NewMember
) -> None:
    """D6: static."""
    later = f"{topic}-later"
    member = new_member("c1", {later: 1}).join()
    assert group.owners(later) == {}

    kafka.create_topic(later, partitions=2)
    kafka.produce(later, [b"first"], partition=1)

    eventually(lambda: group.owners(later) == all_of(member, partitions=2))
    eventually(lambda: [record.value for record in member.records] == [b"first"])


@pytest.mark.parametrize("kind", ["whitelist", "blacklist"])
def test_a_wildcard_notices_a_new_topic(
    kafka: KafkaCluster,
    group: Group,
    topic: str,
    new_member: NewMember,
    info: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    """D7: and reads it with the streams it has."""
    later = f"{topic}-later"
    others = [name for name in kafka.topics() if name != topic]
    topic_filter: TopicFilter = Whitelist(f"{topic}.*") if kind == "whitelist" else Blacklist("|".join(["-", *others]))
    member = new_member("c1", topic_filter).join()
    assert group.owners(topic) == all_of(member)

    kafka.create_topic(later, partitions=2)
    kafka.produce(later, [b"first"], partition=1)

    eventually(lambda: group.owners(later) == all_of(member, partitions=2))
    assert f"[{member.id}], Topic event: added topics = List({later})" in info.messages
    eventually(lambda: [record.value for record in member.records] == [b"first"])
    assert group.owners(topic) == all_of(member)


def test_a_wildcard_notices_that_a_topic_was_deleted(
    kafka: KafkaCluster, group: Group, topic: str, new_member: NewMember, info: pytest.LogCaptureFixture
) -> None:
    """D8: its ownership is gone, the other topic's is not."""
    doomed = f"{topic}-doomed"
    kafka.create_topic(doomed, partitions=2)
    member = new_member("c1", Whitelist(f"{topic}.*")).join()
    assert group.owners(doomed) == all_of(member, partitions=2)

    kafka.delete_topic(doomed)

    left = tuple(TopicAndPartition(topic, partition) for partition in range(4))
    eventually(lambda: member.told(RebalanceFinished)[-1].owned == left)
    assert group.owners(doomed) == {}
    assert group.owners(topic) == all_of(member)
    assert f"[{member.id}], Topic event: deleted topics = List({doomed})" in info.messages
    assert member.rebalances()[-1] == "topics changed"


def test_a_named_topics_deletion_is_a_warning_only(
    zookeeper: ZooKeeperForOneTest,
    kafka: KafkaCluster,
    group: Group,
    topic: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """D9: its node alone, in a chroot that no broker looks at."""
    broker, partitions = group.client.get("/brokers/ids/0")[0], group.client.get(f"/brokers/topics/{topic}")[0]
    with zookeeper.client() as client:
        client.create("/brokers/ids/0", broker, makepath=True)
        client.create(f"/brokers/topics/{topic}", partitions, makepath=True)
        client.create("/brokers/topics/other", partitions)
        elsewhere = Group(client, group.name)
        member = Member(zookeeper.connect_string, group.name, "c1", {topic: 1, "other": 1})
        try:
            member.join()

            client.delete(f"/brokers/topics/{topic}")

            path = f"/brokers/topics/{topic}"
            line = f"[{member.id}], Topic for path {path} gets deleted, which should not happen at this time"
            eventually(lambda: line in caplog.messages)
            assert member.triggers_until_now(elsewhere, "other") == []
            assert [record.levelname for record in caplog.records if record.getMessage() == line] == ["WARNING"]
        finally:
            member.shutdown()


def test_a_wildcard_without_any_topic_waits(
    kafka: KafkaCluster, group: Group, topic: str, new_member: NewMember, info: pytest.LogCaptureFixture
) -> None:
    """D13: legal, no error, and ready for the first one."""
    later = f"later-{topic}"
    member = new_member("c1", Whitelist("later-.*"), rebalance_max_retries=1).join()
    eventually(lambda: f"[{member.id}], Topics to consume = List()" in info.messages)
    assert list(group.members()) == [member.id]
    assert group.client.exists(f"{group.path}/owners") is None

    kafka.create_topic(later)

    eventually(lambda: group.owners(later) == all_of(member, partitions=1))


# --- what is none ---


def test_a_broker_that_stops_and_returns_is_none(
    kafka: KafkaCluster, group: Group, topic: str, new_member: NewMember
) -> None:
    """D10: fetching goes on by itself."""
    member = new_member("c1", {topic: 1}).join()
    kafka.produce(topic, [b"before"], partition=2)
    eventually(lambda: [record.value for record in member.records] == [b"before"])

    kafka.brokers[0].restart()
    kafka.produce(topic, [b"after"], partition=2)

    eventually(lambda: [record.value for record in member.records] == [b"before", b"after"])
    assert member.triggers_until_now(group, topic) == []


def test_an_owner_node_deleted_by_hand_is_none(group: Group, topic: str, new_member: NewMember) -> None:
    """D11: nobody watches them."""
    member = new_member("c1", {topic: 1}).join()

    group.remove(f"owners/{topic}/2")

    assert member.triggers_until_now(group, topic) == []


def test_an_offset_changed_by_hand_counts_from_the_next_rebalance(
    kafka: KafkaCluster, group: Group, topic: str, new_member: NewMember
) -> None:
    """D12: not before."""
    kafka.produce(topic, [b"0", b"1", b"2"], partition=0)
    member = new_member("c1", {topic: 1}, auto_commit_enable=False).join()
    eventually(lambda: [record.offset for record in member.records] == [0, 1, 2])

    group.put(f"offsets/{topic}/0", "1")
    kafka.produce(topic, [b"3"], partition=0)
    eventually(lambda: [record.offset for record in member.records] == [0, 1, 2, 3])
    announce(group, "visitor")

    eventually(lambda: [record.offset for record in member.records] == [0, 1, 2, 3, 1, 2, 3])
