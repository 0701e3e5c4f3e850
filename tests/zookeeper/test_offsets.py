"""Offsets in ZooKeeper: what is read, what is written, and what is not written again."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE

from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from tests.zookeeper.sessions import Background, tree
from zkconsumer.errors import UnreadableZnode
from zkconsumer.offsets import OffsetStorage, ZooKeeperOffsets
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer
from zkconsumer.zookeeper import ZooKeeper

P0 = TopicAndPartition("t", 0)
P1 = TopicAndPartition("t", 1)
PATH = "/consumers/g/offsets/t/0"


@pytest.fixture
def offsets(session: ZooKeeper) -> OffsetStorage:
    return ZooKeeperOffsets(session, "g")


def version(client: KazooClient, path: str = PATH) -> int:
    return int(client.exists(path).version)


# --- reading ---


def test_a_stored_offset_is_where_to_start(offsets: OffsetStorage, client: KazooClient) -> None:
    """J20: whoever wrote it while nobody was there."""
    client.create(PATH, b"20", makepath=True)

    assert offsets.fetch([P0]) == {P0: 20}


def test_nothing_stored_is_minus_one_and_nothing_is_created(offsets: OffsetStorage, client: KazooClient) -> None:
    assert offsets.fetch([P0, P1]) == {P0: -1, P1: -1}
    assert tree(client) == set()


def test_a_negative_offset_is_none(offsets: OffsetStorage, client: KazooClient) -> None:
    client.create(PATH, b"-7", makepath=True)

    assert offsets.fetch([P0]) == {P0: -1}


def test_the_largest_offset_is_read(offsets: OffsetStorage, client: KazooClient) -> None:
    client.create(PATH, b"9223372036854775807", makepath=True)

    assert offsets.fetch([P0]) == {P0: 2**63 - 1}


@pytest.mark.parametrize("data", [b"abc", b"", None, b" 5", b"5\n", b"9223372036854775808"], ids=repr)
def test_what_is_no_number_is_an_error_naming_the_node_and_its_text(
    offsets: OffsetStorage, client: KazooClient, data: bytes | None
) -> None:
    """E10: and it is left as it is."""
    client.create(PATH, data, makepath=True)

    with pytest.raises(UnreadableZnode) as caught:
        offsets.fetch([P0, P1])

    assert caught.value.path == PATH
    assert PATH in str(caught.value)
    assert f'"{(data or b"").decode()}"' in str(caught.value)
    assert version(client) == 0


def test_offsets_of_a_topic_created_anew_are_used_as_they_are(offsets: OffsetStorage, client: KazooClient) -> None:
    """They are not checked against the log here (Q24)."""
    client.create(PATH, b"10000", makepath=True)

    assert offsets.fetch([P0]) == {P0: 10000}


# --- writing ---


def test_a_commit_creates_persistent_nodes_with_decimal_text(
    offsets: OffsetStorage, client: KazooClient, session: ZooKeeper
) -> None:
    """A2, A9, A10: parents with null data, all open, nothing outside the group."""
    offsets.fetch([P0, P1])

    assert offsets.commit({P0: 20, P1: 0}) == 2

    assert client.get(PATH)[0] == b"20"
    assert client.get("/consumers/g/offsets/t/1")[0] == b"0"
    assert tree(client) == {
        *["/consumers", "/consumers/g", "/consumers/g/offsets", "/consumers/g/offsets/t"],
        *[PATH, "/consumers/g/offsets/t/1"],
    }
    for path in tree(client):
        assert client.get_acls(path)[0] == OPEN_ACL_UNSAFE
        assert client.exists(path).ephemeralOwner == 0


def test_an_offset_equal_to_the_last_commit_is_not_written_again(offsets: OffsetStorage, client: KazooClient) -> None:
    """J2: the node's version stays."""
    offsets.commit({P0: 20})
    before = version(client)

    assert offsets.commit({P0: 20}) == 0
    assert version(client) == before
    assert offsets.commit({P0: 21}) == 1
    assert version(client) == before + 1


def test_an_offset_equal_to_the_one_read_is_not_written_again(offsets: OffsetStorage, client: KazooClient) -> None:
    """J2: nothing was consumed since the start."""
    client.create(PATH, b"20", makepath=True)
    offsets.fetch([P0])

    assert offsets.commit({P0: 20, P1: 1}) == 1
    assert version(client) == 0


def test_a_partition_without_an_offset_is_not_written(offsets: OffsetStorage, client: KazooClient) -> None:
    """J4: not yet reset."""
    offsets.fetch([P0])

    assert offsets.commit({P0: -1}) == 0
    assert tree(client) == set()


def test_no_offset_is_never_written_over_one(offsets: OffsetStorage, client: KazooClient) -> None:
    """J4: also where what is remembered is another, and the commit would be a change."""
    offsets.commit({P0: 5})

    assert offsets.commit({P0: -1}) == 0
    assert client.get(PATH)[0] == b"5"


def test_offset_zero_of_a_partition_never_read_is_written(offsets: OffsetStorage, client: KazooClient) -> None:
    """J19: 0.9 took it for written (Q19)."""
    assert offsets.commit({P0: OffsetAndMetadata(0, "a note")}) == 1

    assert client.get(PATH)[0] == b"0"


def test_a_node_behind_the_offset_of_kafka_is_brought_up_to_date(offsets: OffsetStorage, client: KazooClient) -> None:
    """J21: with dual commit the start is the larger of both; what is remembered is what ZooKeeper holds (Q36)."""
    client.create(PATH, b"15", makepath=True)
    offsets.fetch([P0])
    start = 20  # from Kafka

    assert offsets.commit({P0: start}) == 1
    assert client.get(PATH)[0] == b"20"


def test_a_tools_change_is_overwritten_by_the_next_changed_commit(offsets: OffsetStorage, client: KazooClient) -> None:
    """As in 0.8: the last writer wins."""
    offsets.commit({P0: 20})
    client.set(PATH, b"3")

    assert offsets.commit({P0: 20}) == 0
    assert client.get(PATH)[0] == b"3"
    assert offsets.commit({P0: 21}) == 1
    assert client.get(PATH)[0] == b"21"


def test_a_tools_change_is_seen_by_the_next_rebalance(offsets: OffsetStorage, client: KazooClient) -> None:
    """J20: and a commit of the old value then counts as a change."""
    offsets.commit({P0: 20})
    client.set(PATH, b"3")

    assert offsets.fetch([P0]) == {P0: 3}
    assert offsets.commit({P0: 20}) == 1


def test_a_node_deleted_meanwhile_is_created_again(offsets: OffsetStorage, client: KazooClient) -> None:
    offsets.commit({P0: 20})
    client.delete("/consumers/g/offsets", recursive=True)

    assert offsets.commit({P0: 21}) == 1
    assert client.get(PATH)[0] == b"21"


def test_a_thousand_offsets_are_committed_and_read(offsets: OffsetStorage) -> None:
    many = {TopicAndPartition(f"t{number % 7}", number): number for number in range(1000)}

    assert offsets.commit(many) == 1000
    assert offsets.fetch(list(many)) == many


def test_a_commit_waits_for_a_server_that_is_away_and_is_complete_afterwards(
    offsets: OffsetStorage, session: ZooKeeper, server: ZooKeeperServer
) -> None:
    offsets.commit({P0: 1})
    server.kill()
    commit = Background(lambda: offsets.commit({P0: 2, P1: 2}))
    eventually(lambda: not session.is_connected, "the loss of the connection")
    assert commit.is_running()

    server.restart()

    assert commit.result() == 2
    assert offsets.fetch([P0, P1]) == {P0: 2, P1: 2}
