"""What is read of brokers, topics and the group, from nodes as real brokers and consumers write them."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from fetcher.structs import Broker
from tests.zookeeper.sessions import tree
from zkconsumer.cluster_view import ClusterView
from zkconsumer.emulation import emulation
from zkconsumer.errors import UnreadableZnode, ZooKeeperError
from zkconsumer.topic_count import ConsumerThreadId, StaticTopicCount, WildcardTopicCount
from zkconsumer.topic_filter import Whitelist
from zkconsumer.zookeeper import ZooKeeper

# As written by brokers 0.8.2.2, 1.1.1 and 3.9.1.
BROKER_0_8 = b'{"jmx_port":-1,"timestamp":"1794979821442","host":"127.0.0.1","version":1,"port":19092}'
BROKER_1_1 = (
    b'{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:39111"],'
    b'"jmx_port":-1,"host":"127.0.0.1","timestamp":"1794981344006","port":39111,"version":4}'
)
BROKER_3_9 = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:39139"'
    b'],"jmx_port":-1,"port":39139,"host":"127.0.0.1","version":5,"timestamp":"1794982047720"}'
)
TOPIC_0_8 = b'{"version":1,"partitions":{"2":[0],"1":[0],"0":[0]}}'
TOPIC_3_9 = (
    b'{"partitions":{"0":[39],"1":[39],"2":[39]},"topic_id":"xJA456zwQJu-Tl6xHrTEAw","adding_replicas":{},'
    b'"removing_replicas":{},"version":3}'
)
# As written by consumers of 0.8.2.2.
STATIC = b'{"version":1,"subscription":{"tx":2},"pattern":"static","timestamp":"1794980898565"}'
WILDCARD = b'{"version":1,"subscription":{"t[xy]\\/?":2},"pattern":"white_list","timestamp":"1794980958855"}'
NOTHING = b'{"version":1,"subscription":{},"pattern":"static","timestamp":"1794981559947"}'


def view(session: ZooKeeper, *, emulate: str = "0.8.2", exclude_internal_topics: bool = True) -> ClusterView:
    return ClusterView(session, "g", exclude_internal_topics=exclude_internal_topics, emulation=emulation(emulate))


def put(client: KazooClient, nodes: dict[str, bytes | None]) -> None:
    for path, data in nodes.items():
        client.create(path, data, makepath=True)


def members(nodes: dict[str, bytes]) -> dict[str, bytes | None]:
    return {f"/consumers/g/ids/{consumer_id}": data for consumer_id, data in nodes.items()}


def topics(*names: str, partitions: int = 1) -> dict[str, bytes | None]:
    listed = ",".join(f'"{number}":[0]' for number in range(partitions))
    return {f"/brokers/topics/{name}": f'{{"version":1,"partitions":{{{listed}}}}}'.encode() for name in names}


def threads(consumer_id: str, count: int) -> list[ConsumerThreadId]:
    return [ConsumerThreadId(consumer_id, number) for number in range(count)]


# --- brokers and topics ---


def test_brokers_of_all_releases_are_read(session: ZooKeeper, client: KazooClient) -> None:
    put(client, {"/brokers/ids/10": BROKER_3_9, "/brokers/ids/2": BROKER_1_1, "/brokers/ids/0": BROKER_0_8})

    assert view(session).brokers() == [
        Broker(0, "127.0.0.1", 19092),
        Broker(2, "127.0.0.1", 39111),
        Broker(10, "127.0.0.1", 39139),
    ]


def test_a_cluster_without_brokers_has_none(session: ZooKeeper, client: KazooClient) -> None:
    assert view(session).brokers() == []

    put(client, {"/brokers/ids": None})

    assert view(session).brokers() == []


def test_a_broker_nobody_can_read_is_an_error_with_its_path_and_text(session: ZooKeeper, client: KazooClient) -> None:
    put(client, {"/brokers/ids/0": BROKER_0_8, "/brokers/ids/1": b"no json"})

    with pytest.raises(UnreadableZnode, match="Failed to parse the broker info from zookeeper: no json") as caught:
        view(session).brokers()

    assert caught.value.path == "/brokers/ids/1"


def test_a_broker_whose_id_is_no_number_is_an_error(session: ZooKeeper, client: KazooClient) -> None:
    put(client, {"/brokers/ids/zero": BROKER_0_8})

    with pytest.raises(UnreadableZnode, match="/brokers/ids/zero"):
        view(session).brokers()


def test_topics_are_those_there_are(session: ZooKeeper, client: KazooClient) -> None:
    assert view(session).topics() == []

    put(client, topics("b", "a"))

    assert view(session).topics() == ["a", "b"]
    assert view(session).topic_exists("a")
    assert not view(session).topic_exists("c")


def test_a_topic_that_is_being_deleted_no_longer_exists(session: ZooKeeper, client: KazooClient) -> None:
    """H15, Q23: from the mark on a broker has forgotten it, while its node still stands."""
    put(client, topics("a") | {"/admin/delete_topics/a": b""})

    assert not view(session).topic_exists("a")


def test_partitions_are_sorted_as_numbers_whichever_release_wrote_them(session: ZooKeeper, client: KazooClient) -> None:
    put(client, {"/brokers/topics/old": TOPIC_0_8, "/brokers/topics/new": TOPIC_3_9, **topics("wide", partitions=12)})

    assert view(session).partitions_for(["old", "new", "wide"]) == {
        "old": [0, 1, 2],
        "new": [0, 1, 2],
        "wide": list(range(12)),
    }


def test_a_topic_that_does_not_exist_or_says_nothing_has_no_partitions(session: ZooKeeper, client: KazooClient) -> None:
    put(client, {"/brokers/topics/null": None, "/brokers/topics/strange": b"{", "/brokers/topics/empty": b"{}"})

    found = view(session).partitions_for(["missing", "null", "strange", "empty"])

    assert found == {"missing": [], "null": [], "strange": [], "empty": []}


def test_the_path_a_wildcard_consumer_watches_is_made_sure_of(session: ZooKeeper, client: KazooClient) -> None:
    """A20: the only thing written outside the group."""
    view(session).ensure_topics_path()

    assert tree(client) == {"/brokers", "/brokers/topics"}


# --- my subscription ---


def test_my_subscription_is_read_from_my_node(session: ZooKeeper, client: KazooClient) -> None:
    put(client, members({"g_c1": STATIC, "g_c2": WILDCARD}))

    assert view(session).my_topic_count("g_c1") == StaticTopicCount("g_c1", {"tx": 2})
    assert view(session).my_topic_count("g_c2") == WildcardTopicCount("g_c2", Whitelist("t[xy]/?"), 2)


def test_a_wildcard_is_expanded_to_the_topics_there_are_now(session: ZooKeeper, client: KazooClient) -> None:
    put(client, {**members({"g_c1": WILDCARD}), **topics("tx", "ty", "other")})

    both = threads("g_c1", 2)
    assert view(session).my_threads("g_c1") == {"tx": both, "ty": both}


def test_internal_topics_are_hidden_from_wildcards_if_the_reader_wants_it(
    session: ZooKeeper, client: KazooClient
) -> None:
    all_topics = b'{"version":1,"subscription":{".*":1},"pattern":"white_list","timestamp":"1"}'
    put(client, {**members({"g_c1": all_topics}), **topics("t", "__consumer_offsets")})

    assert set(view(session).my_threads("g_c1")) == {"t"}
    assert set(view(session, exclude_internal_topics=False).my_threads("g_c1")) == {"t", "__consumer_offsets"}


@pytest.mark.parametrize("read", [ClusterView.my_threads, ClusterView.read_group], ids=["my threads", "the group"])
def test_without_my_own_node_the_attempt_fails(session: ZooKeeper, client: KazooClient, read: object) -> None:
    """As after a lost session."""
    put(client, members({"g_c2": STATIC}))

    assert callable(read)
    with pytest.raises(ZooKeeperError, match="/consumers/g/ids/g_c1 does not exist: g_c1 is not registered"):
        read(view(session), "g_c1")


# --- the group ---


def test_the_group_is_read_with_all_members_threads_in_order_of_their_text(
    session: ZooKeeper, client: KazooClient
) -> None:
    """Thread 10 comes before thread 2, and c1 before c10."""
    eleven = b'{"version":1,"subscription":{"tx":11},"pattern":"static","timestamp":"1"}'
    put(client, {**members({"g_c10": STATIC, "g_c1": eleven, "g_c2": NOTHING}), **topics("tx", partitions=5)})

    context = view(session).read_group("g_c1")

    assert context.group == "g"
    assert context.consumer_id == "g_c1"
    assert context.consumers == ["g_c1", "g_c10", "g_c2"]
    assert context.my_threads == {"tx": threads("g_c1", 11)}
    assert context.partitions_for_topic == {"tx": [0, 1, 2, 3, 4]}
    assert [str(thread) for thread in context.consumers_for_topic["tx"]] == [
        *["g_c1-0", "g_c1-1", "g_c1-10", "g_c1-2", "g_c1-3", "g_c1-4"],
        *["g_c1-5", "g_c1-6", "g_c1-7", "g_c1-8", "g_c1-9", "g_c10-0", "g_c10-1"],
    ]


@pytest.mark.parametrize(
    ("emulate", "expected"), [("0.8.2", {"tx"}), ("0.9", {"tx"}), ("1.1", {"tx", "ty"})], ids=["0.8.2", "0.9", "1.1"]
)
def test_partitions_are_read_of_my_topics_and_from_0_10_2_of_all_the_groups(
    session: ZooKeeper, client: KazooClient, emulate: str, expected: set[str]
) -> None:
    put(client, {**members({"g_c1": STATIC, "g_c2": WILDCARD}), **topics("tx", "ty", "tz")})

    context = view(session, emulate=emulate).read_group("g_c1")

    assert set(context.partitions_for_topic) == expected
    assert set(context.consumers_for_topic) == {"tx", "ty"}


def test_a_topic_nobody_has_created_yet_has_threads_and_no_partitions(session: ZooKeeper, client: KazooClient) -> None:
    put(client, members({"g_c1": STATIC}))

    context = view(session).read_group("g_c1")

    assert context.partitions_for_topic == {"tx": []}
    assert context.consumers_for_topic == {"tx": threads("g_c1", 2)}


@pytest.mark.parametrize(
    "data",
    [
        b"no json",
        b"",
        b'{"version":1,"pattern":"static","timestamp":"1"}',
        b'{"version":1,"subscription":{"t":1},"timestamp":"1"}',
        b'{"version":1,"subscription":{"t":0},"pattern":"static","timestamp":"1"}',
        b'{"version":1,"subscription":{"(":1},"pattern":"white_list","timestamp":"1"}',
    ],
    ids=["no JSON", "empty", "no subscription", "no pattern", "no streams", "a bad regex"],
)
def test_a_member_nobody_can_read_fails_the_attempt(
    session: ZooKeeper, client: KazooClient, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    """E9: with its path in the error and its text in the log."""
    put(client, members({"g_c1": STATIC, "g_odd": data}))

    with pytest.raises(UnreadableZnode) as caught:
        view(session).read_group("g_c1")

    assert caught.value.path == "/consumers/g/ids/g_odd"
    assert f"error parsing consumer json string {data.decode()}" in caplog.messages


def test_a_numeric_timestamp_does_not_make_a_member_unreadable(session: ZooKeeper, client: KazooClient) -> None:
    """Other clients write one; 0.8.2's parser cannot read it, ours can (Q25)."""
    foreign = b'{"version":1,"subscription":{"tx":1},"pattern":"static","timestamp":1794980898565}'
    put(client, members({"g_c1": STATIC, "g_c2": foreign}))

    context = view(session).read_group("g_c1")

    assert context.consumers_for_topic == {"tx": [*threads("g_c1", 2), *threads("g_c2", 1)]}


def test_a_large_group_is_read_in_one_go(session: ZooKeeper, client: KazooClient) -> None:
    session.update_many({path: data or b"" for path, data in members({f"g_{n}": STATIC for n in range(500)}).items()})
    put(client, topics("tx", partitions=100))

    context = view(session).read_group("g_7")

    assert len(context.consumers) == 500
    assert len(context.consumers_for_topic["tx"]) == 1000
