"""The connector as its application and the rest of its group see it: znodes, registration, errors of the API."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping

import pytest
from kazoo.protocol.states import ZnodeStat

from tests.broker.members import Member, NewMember, Recorder, announce
from tests.conformance.group import Group, fresh
from tests.zookeeper.sessions import Background, tree
from zkconsumer.errors import (
    ConsumerRebalanceFailedException,
    IllegalArgumentException,
    KafkaException,
    MessageStreamsExistException,
    MissingChroot,
    ZkNodeExistsException,
    ZkTimeoutException,
    ZooKeeperStopped,
)
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.plugin import ZooKeeperForOneTest
from zkconsumer.testing.ports import ReservedPort
from zkconsumer.testing.transactions import Operation, Transaction, flatten
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer
from zkconsumer.topic_filter import Blacklist, TopicFilter, Whitelist

pytestmark = pytest.mark.kafka("0.8.2.2")

WRITES = (Operation.CREATE, Operation.DELETE, Operation.SET_DATA, Operation.SET_ACL)
I_WROTE_THIS = (
    "I wrote this conflicted ephemeral node [{data}] at {path} a while back in a different session, "
    "hence I will backoff for this node to be deleted by Zookeeper and retry"
)


@pytest.fixture
def topic(kafka: KafkaCluster, topic: str) -> str:
    """With three partitions, one record in each."""
    kafka.create_topic(topic, partitions=3)
    for partition in range(3):
        kafka.produce(topic, [b"record"], partition=partition)
    return topic


def stats(group: Group) -> dict[str, ZnodeStat]:
    """All nodes of the group, by their path below it."""
    paths = [group.path, *tree(group.client, group.path)]
    return {path.removeprefix(group.path): group.client.exists(path) for path in paths}


def registration_of(group: Group, member: Member) -> str:
    data: bytes = group.client.get(f"{group.path}/ids/{member.id}")[0]
    return data.decode()


def writes_since(server: ZooKeeperServer, zxid: int) -> list[Transaction]:
    return [entry for entry in flatten(server.transactions()) if entry.zxid > zxid and entry.operation in WRITES]


def last_zxid(server: ZooKeeperServer) -> int:
    return server.transactions()[-1].zxid


# --- what stands in ZooKeeper ---


def test_owner_nodes_hold_the_thread_id_and_nothing_else(group: Group, topic: str, new_member: NewMember) -> None:
    """A1, A8: /consumers/G/owners/T/p."""
    member = new_member("c1", {topic: 2}).join()

    found = {path: group.client.get(f"{group.path}{path}")[0] for path in stats(group) if path.count("/") == 3}

    assert found == {
        f"/owners/{topic}/0": f"{member.id}-0".encode(),
        f"/owners/{topic}/1": f"{member.id}-0".encode(),
        f"/owners/{topic}/2": f"{member.id}-1".encode(),
    }


def test_only_the_registration_and_the_owner_leaves_are_ephemeral(
    group: Group, topic: str, new_member: NewMember
) -> None:
    """A2: and both belong to one session."""
    member = new_member("c1", {topic: 1}).join()
    eventually(lambda: len(member.records) == 3)
    member.connector.commit_offsets()

    found = stats(group)

    ephemeral = {path: stat.ephemeralOwner for path, stat in found.items() if stat.ephemeralOwner}
    leaves = {f"/owners/{topic}/{partition}" for partition in range(3)}
    assert set(ephemeral) == {f"/ids/{member.id}"} | leaves
    assert len(set(ephemeral.values())) == 1
    offsets = {f"/offsets/{topic}/{partition}" for partition in range(3)}
    parents = {"", "/ids", "/owners", f"/owners/{topic}", "/offsets", f"/offsets/{topic}"}
    assert set(found) - set(ephemeral) == parents | offsets


def test_static_registration(group: Group, topic: str, new_member: NewMember) -> None:
    """A3, A4: text by text; the timestamp is a string."""
    member = new_member("c1", {topic: 2}).join()

    expected = rf'{{"version":1,"subscription":{{"{topic}":2}},"pattern":"static","timestamp":"\d{{13}}"}}'
    assert re.fullmatch(expected, registration_of(group, member))


@pytest.mark.parametrize(
    ("topic_filter", "written"),
    [
        pytest.param(Whitelist("none-of-us"), '{"none-of-us":2},"pattern":"white_list"', id="whitelist"),
        pytest.param(Blacklist(".*"), '{".*":2},"pattern":"black_list"', id="blacklist"),
        pytest.param(
            Whitelist("none/of\\w\"us'\t\x01\x7f"),
            '{"none\\/of\\\\w\\"us\'\\t\\u0001\\u007f":2},"pattern":"white_list"',
            id="escaped",
        ),
    ],
)
def test_wildcard_registration_is_the_regex_with_the_count(
    group: Group, new_member: NewMember, topic_filter: TopicFilter, written: str
) -> None:
    """A5, A6: escaped as in znodes.md §3."""
    member = new_member("c1", topic_filter, streams=2).join()

    assert registration_of(group, member).startswith('{"version":1,"subscription":' + written + ',"timestamp":"')


def test_consumer_id_is_made_of_group_host_time_and_random(group: Group, topic: str, new_member: NewMember) -> None:
    """A7: without consumer.id."""
    new_member(None, {topic: 1}).join()

    [name] = group.members()
    host = re.escape(os.uname().nodename)
    assert re.fullmatch(rf"{group.name}_{host}-\d{{13}}-[0-9a-f]{{8}}", name)


def test_consumer_id_setting_follows_the_group(group: Group, topic: str, new_member: NewMember) -> None:
    """A7: G_X."""
    new_member("x", {topic: 1}).join()

    assert list(group.members()) == [f"{group.name}_x"]


def test_offsets_are_stored_as_the_next_one_in_decimal(
    kafka: KafkaCluster, group: Group, topic: str, new_member: NewMember
) -> None:
    """A9: 12 records read, 12 stored."""
    kafka.produce(topic, [b"record"] * 11, partition=1)
    member = new_member("c1", {topic: 1}).join()
    eventually(lambda: len(member.records) == 14)

    member.connector.commit_offsets()

    assert group.offsets(topic) == {0: "1", 1: "12", 2: "1"}


def test_all_nodes_are_open_to_everybody(group: Group, topic: str, new_member: NewMember) -> None:
    """A10: without SASL."""
    member = new_member("c1", {topic: 1}).join()
    eventually(lambda: len(member.records) == 3)
    member.connector.commit_offsets()

    acls = [acl for path in stats(group) for acl in group.client.get_acls(f"{group.path}{path}")[0]]

    assert {(acl.perms, acl.id.scheme, acl.id.id) for acl in acls} == {(31, "world", "anyone")}


@pytest.mark.parametrize("data", [None, b""], ids=["null", "empty"])
def test_parents_that_others_made_are_used(group: Group, topic: str, new_member: NewMember, data: bytes | None) -> None:
    """A11: 0.8 gives them null data, 0.9 empty data."""
    parents = ("", "/ids", "/owners", f"/owners/{topic}", "/offsets", f"/offsets/{topic}")
    for path in parents:
        group.client.create(f"{group.path}{path}", data)
    before = {path: stats(group)[path].mzxid for path in parents}

    member = new_member("c1", {topic: 1}).join()
    eventually(lambda: len(member.records) == 3)
    member.connector.commit_offsets()

    assert group.owners(topic) == dict.fromkeys(range(3), f"{member.id}-0")
    assert group.offsets(topic) == dict.fromkeys(range(3), "1")
    assert {path: stats(group)[path].mzxid for path in parents} == before


def test_shutdown_leaves_offsets_and_directories(group: Group, topic: str, new_member: NewMember) -> None:
    """A12: the registration and the owner leaves are gone when it returns."""
    member = new_member("c1", {topic: 1}).join()
    eventually(lambda: len(member.records) == 3)

    member.shutdown()

    directories = {"", "/ids", "/owners", f"/owners/{topic}", "/offsets", f"/offsets/{topic}"}
    assert set(stats(group)) == directories | {f"/offsets/{topic}/{partition}" for partition in range(3)}
    assert group.offsets(topic) == dict.fromkeys(range(3), "1")


def test_a_missing_chroot_is_an_error_and_nothing_is_created(
    zookeeper_server: ZooKeeperServer, kafka: KafkaCluster
) -> None:
    """A19: what is there stays as it was."""
    chroot = fresh("missing")
    member = Member(f"{zookeeper_server.connect_string}/{chroot}", "group", "c1", {"topic": 1})
    before = last_zxid(zookeeper_server)

    with pytest.raises(MissingChroot, match=chroot):
        member.join()
    member.shutdown()

    assert not [entry for entry in writes_since(zookeeper_server, before) if chroot in (entry.path or "")]
    assert not [entry for entry in writes_since(zookeeper_server, before) if "group" in (entry.path or "")]


@pytest.mark.parametrize("by_filter", [False, True], ids=["static", "wildcard"])
def test_nothing_outside_the_group_is_written(
    zookeeper_server: ZooKeeperServer,
    kafka: KafkaCluster,
    group: Group,
    topic: str,
    new_member: NewMember,
    by_filter: bool,
) -> None:
    """A19, A20: over the whole life of a member, and below the chroot."""
    member = new_member("c1", Whitelist(topic) if by_filter else {topic: 1}).join()
    session = group.client.exists(f"{group.path}/ids/{member.id}").ephemeralOwner
    eventually(lambda: len(member.records) == 3)
    announce(group, "visitor")
    eventually(lambda: len(member.rebalances()) == 2)
    member.shutdown()

    written = [entry.path for entry in writes_since(zookeeper_server, 0) if entry.session == session]

    chroot = "/" + kafka.zookeeper_connect.partition("/")[2]
    assert len(written) > 10
    assert [path for path in written if not f"{path}/".startswith(f"{chroot}{group.path}/")] == []


def test_a_wildcard_makes_sure_that_there_is_a_place_for_topics(
    zookeeper_server: ZooKeeperServer, zookeeper: ZooKeeperForOneTest
) -> None:
    """A20, D13: the only thing written outside the group; without brokers and topics it waits."""
    member = Member(zookeeper.connect_string, "group", "c1", Whitelist(".*"))
    before = last_zxid(zookeeper_server)
    try:
        member.join()

        written = {entry.path for entry in writes_since(zookeeper_server, before)}
        below = {path.removeprefix(zookeeper.chroot) for path in written if path and path.startswith(zookeeper.chroot)}
        outside = {path for path in below if not path.startswith("/consumers")}
        assert outside == {"/brokers", "/brokers/topics"}
    finally:
        member.shutdown()


# --- the API ---


def test_connecting_writes_nothing(
    zookeeper_server: ZooKeeperServer, group: Group, topic: str, new_member: NewMember
) -> None:
    """C1: a session, and no node."""
    before = last_zxid(zookeeper_server)

    new_member("c1", {topic: 1}).connector.start()

    new = [entry for entry in zookeeper_server.transactions() if entry.zxid > before]
    sessions = {entry.session for entry in new if entry.operation is Operation.CREATE_SESSION}
    assert len(sessions) == 1
    assert [entry for entry in writes_since(zookeeper_server, before) if entry.session in sessions] == []


def test_a_zookeeper_that_cannot_be_reached_is_an_error_naming_the_timeout() -> None:
    """C2: zookeeper.connection.timeout.ms."""
    with ReservedPort() as nobody:
        member = Member(f"127.0.0.1:{nobody.number}", "g", "c1", {"t": 1}, zookeeper_connection_timeout_ms=345)

        with pytest.raises(ZkTimeoutException, match=r"Unable to connect to zookeeper server within timeout: 345$"):
            member.join()
        member.shutdown()


def test_as_many_streams_as_asked_for(topic: str, new_member: NewMember) -> None:
    """C3: {T: 2} gives two of T."""
    member = new_member("c1", {})

    streams = member.connector.create_message_streams({topic: 2, "other": 1})

    assert {name: len(of) for name, of in streams.items()} == {topic: 2, "other": 1}
    assert len({id(stream) for of in streams.values() for stream in of}) == 3


def test_streams_are_created_once(topic: str, new_member: NewMember) -> None:
    """C4, C5: also by filter after by topic."""
    member = new_member("c1", {topic: 1}).join()

    with pytest.raises(
        MessageStreamsExistException, match=r"^ZookeeperConsumerConnector can create message streams at most once$"
    ):
        member.connector.create_message_streams({topic: 1})
    with pytest.raises(
        KafkaException, match=r"^Each consumer connector can create message streams by filter at most once\.$"
    ):
        member.connector.create_message_streams_by_filter(Whitelist("a"))


def test_streams_by_filter_are_created_once(new_member: NewMember) -> None:
    """C5: after by filter."""
    member = new_member("c1", Whitelist("none-of-us")).join()

    with pytest.raises(KafkaException, match="by filter at most once"):
        member.connector.create_message_streams_by_filter(Whitelist("a"))


def test_a_member_without_topics_takes_part_and_takes_nothing(group: Group, topic: str, new_member: NewMember) -> None:
    """C6: registered with {}; the others keep all."""
    reading = new_member("c1", {topic: 1}).join()
    idle = new_member("c2", {}).join()

    assert idle.streams == []
    assert group.members()[idle.id]["subscription"] == {}
    eventually(lambda: len(reading.rebalances()) == 2)
    eventually(lambda: group.owners(topic) == dict.fromkeys(range(3), f"{reading.id}-0"))

    announce(group, "visitor")

    eventually(lambda: idle.rebalances() == ["streams created", "consumers changed"])


@pytest.mark.parametrize("subscription", [{"topic": 0}, Whitelist("topic")], ids=["static", "wildcard"])
def test_no_stream_at_all_is_refused_before_anything_is_registered(
    group: Group, new_member: NewMember, subscription: Mapping[str, int] | TopicFilter
) -> None:
    """C7: in 0.8.2.2 a wildcard is registered first, and stops the group (Q27)."""
    member = new_member("c1", subscription, streams=0)

    with pytest.raises(IllegalArgumentException, match="assertion failed"):
        member.join()

    assert group.client.exists(group.path) is None


def test_after_a_failed_first_rebalance_the_consumer_is_a_member(
    group: Group, topic: str, new_member: NewMember
) -> None:
    """C8: with the exception of 0.8."""
    group.put(f"owners/{topic}/1", "somebody-0")
    member = new_member("c1", {topic: 1}, rebalance_max_retries=4, rebalance_backoff_ms=10)

    with pytest.raises(ConsumerRebalanceFailedException, match=f"^{member.id} can't rebalance after 4 retries$"):
        member.join()

    assert list(group.members()) == [member.id]


def test_a_taken_consumer_id_is_waited_for(
    group: Group, topic: str, new_member: NewMember, caplog: pytest.LogCaptureFixture
) -> None:
    """C9: again and again, with the line operators know, until the other leaves."""
    caplog.set_level(logging.INFO, "zkconsumer.registration")
    first = new_member("same", {topic: 1}).join()
    second = new_member("same", {topic: 1}, zookeeper_session_timeout_ms=400)

    joining = Background(second.join)

    def told() -> list[str]:
        return [line.partition(", ")[2] for line in caplog.messages if "I wrote this" in line]

    eventually(lambda: len(told()) >= 3)
    assert joining.is_running()
    path = f"{group.path}/ids/{first.id}"
    data = rf'{{"version":1,"subscription":{{"{topic}":1}},"pattern":"static","timestamp":"\d+"}}'
    begin, end = re.escape(I_WROTE_THIS).replace(r"\{path\}", re.escape(path)).split(r"\{data\}")
    assert re.fullmatch(begin + data + end, told()[0])

    first.shutdown()

    joining.result()
    eventually(lambda: group.owners(topic) == dict.fromkeys(range(3), f"{second.id}-0"))


def test_shutdown_ends_the_wait_for_a_consumer_id(
    group: Group, topic: str, new_member: NewMember, caplog: pytest.LogCaptureFixture
) -> None:
    """C9: however long it would be."""
    caplog.set_level(logging.INFO, "zkconsumer.registration")
    first = new_member("same", {topic: 1}).join()
    second = new_member("same", {topic: 1}, zookeeper_session_timeout_ms=600_000)
    joining = Background(second.join)
    eventually(lambda: "I wrote this" in caplog.text)

    second.shutdown()

    with pytest.raises(ZooKeeperStopped, match=f"was shut down while {group.path}/ids/{first.id} was still taken"):
        joining.result()
    assert group.owners(topic) == dict.fromkeys(range(3), f"{first.id}-0")


def test_a_taken_consumer_id_fails_at_once_as_in_0_9(group: Group, topic: str, new_member: NewMember) -> None:
    """C10: KAFKA-1387."""
    first = new_member("same", {topic: 1}).join()

    with pytest.raises(ZkNodeExistsException, match=f"{group.path}/ids/{first.id}"):
        new_member("same", {topic: 1}, emulate="0.9").join()

    assert group.owners(topic) == dict.fromkeys(range(3), f"{first.id}-0")


def test_a_listener_is_set_before_streams_exist(topic: str, new_member: NewMember) -> None:
    """C11: not after."""
    member = new_member("c1", {topic: 1}).join()

    with pytest.raises(
        MessageStreamsExistException,
        match=r"^ZookeeperConsumerConnector can only set consumer rebalance listener before creating streams$",
    ):
        member.connector.set_consumer_rebalance_listener(Recorder())


INTERNAL = "__consumer_offsets"


@pytest.fixture
def internal_topic(kafka: KafkaCluster, topic: str) -> str:
    """The broker makes it when the first consumer looks for its offsets there."""
    member = Member(kafka.zookeeper_connect, fresh("group"), "c1", {topic: 1}, offsets_storage="kafka").join()
    member.shutdown()
    assert INTERNAL in kafka.topics()
    return INTERNAL


def test_a_static_subscription_to_an_internal_topic_works(
    group: Group, internal_topic: str, new_member: NewMember
) -> None:
    """C15: whatever exclude.internal.topics says."""
    member = new_member("c1", {internal_topic: 1}, exclude_internal_topics=True).join()

    assert set(group.owners(internal_topic).values()) == {f"{member.id}-0"}


@pytest.mark.parametrize(("exclude", "owned"), [(True, False), (False, True)], ids=["by default", "if told so"])
def test_a_wildcard_sees_internal_topics_only_if_told_so(
    group: Group, internal_topic: str, topic: str, new_member: NewMember, exclude: bool, owned: bool
) -> None:
    """C15: exclude.internal.topics."""
    wildcard = Whitelist(f"{topic}|__.*")
    new_member("c1", wildcard, exclude_internal_topics=exclude).join()

    assert set(group.owners(topic)) == {0, 1, 2}
    assert bool(group.owners(internal_topic)) is owned


def test_a_wildcards_streams_are_shared_by_all_topics(
    kafka: KafkaCluster, group: Group, topic: str, new_member: NewMember
) -> None:
    """C16: two streams in all; thread i of every topic feeds stream i."""
    other = f"{topic}-other"
    kafka.create_topic(other, partitions=2)
    for partition in range(2):
        kafka.produce(other, [b"other"], partition=partition)

    member = new_member("c1", Whitelist(f"{topic}.*"), streams=2, reads=False).join()

    assert len(member.streams) == 2
    threads = {(name, p): owner for name in (topic, other) for p, owner in group.owners(name).items()}
    assert threads == {
        **{(topic, p): f"{member.id}-{thread}" for p, thread in ((0, 0), (1, 0), (2, 1))},
        **{(other, p): f"{member.id}-{thread}" for p, thread in ((0, 0), (1, 1))},
    }
    for stream, count in zip(member.streams, (3, 2), strict=True):
        records = [next(iter(stream)) for _ in range(count)]
        assert {threads[record.topic, record.partition] for record in records} == {str(stream.thread_id)}
        assert {record.topic for record in records} == {topic, other}


def test_its_own_registration_triggers_nothing(group: Group, topic: str, new_member: NewMember) -> None:
    """C17: one rebalance, the first."""
    member = new_member("c1", {topic: 1}).join()

    assert member.triggers_until_now(group, topic) == []
