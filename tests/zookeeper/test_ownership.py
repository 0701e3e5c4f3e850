"""Owner nodes: all claimed or none, and what happens to those of others."""

from __future__ import annotations

import logging

import pytest
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE

from fetcher.events import Event, EventPublisher
from fetcher.structs import TopicAndPartition
from tests.zookeeper.sessions import connected, tree
from zkconsumer.events import ClaimsRolledBack, OwnershipConflict, PartitionClaimed, PartitionsReleased
from zkconsumer.ownership import PartitionOwnership
from zkconsumer.topic_count import ConsumerThreadId
from zkconsumer.zookeeper import ZooKeeper

ME = ConsumerThreadId("g_c1", 0)
FIVE = {TopicAndPartition("t", number): ME for number in range(5)}


@pytest.fixture
def events() -> EventPublisher:
    return EventPublisher("g_c1")


@pytest.fixture
def published(events: EventPublisher) -> list[Event]:
    found: list[Event] = []
    events.subscribe(found.append)
    return found


@pytest.fixture
def ownership(session: ZooKeeper, events: EventPublisher) -> PartitionOwnership:
    return PartitionOwnership(session, "g", "g_c1", events=events)


def owners(client: KazooClient) -> dict[str, bytes]:
    below = "/consumers/g/owners/"
    leaves = [path for path in tree(client) if path.startswith(below) and path.count("/") == 5]
    return {path.removeprefix(below): client.get(path)[0] for path in leaves}


def test_claimed_partitions_have_an_ephemeral_node_with_the_thread_id(
    ownership: PartitionOwnership, session: ZooKeeper, client: KazooClient
) -> None:
    """A1, A2, A8, A10: `owners`, the bare number, nothing but the thread id."""
    second = ConsumerThreadId("g_c1", 1)

    assert ownership.claim_all({TopicAndPartition("t", 0): ME, TopicAndPartition("u", 12): second})

    assert owners(client) == {"t/0": b"g_c1-0", "u/12": b"g_c1-1"}
    for path in ("/consumers/g/owners/t/0", "/consumers/g/owners/u/12"):
        assert client.exists(path).ephemeralOwner == session.session_id
        assert client.get_acls(path)[0] == OPEN_ACL_UNSAFE
    assert client.exists("/consumers/g/owners/t").ephemeralOwner == 0


def test_claiming_nothing_succeeds_and_writes_nothing(ownership: PartitionOwnership, client: KazooClient) -> None:
    assert ownership.claim_all({})
    assert tree(client) == set()


def test_each_claim_is_logged_and_published(
    ownership: PartitionOwnership, published: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    ownership.claim_all({TopicAndPartition("t", 3): ME})

    assert "[g_c1], g_c1-0 successfully owned partition 3 for topic t" in caplog.messages
    [claimed] = published
    assert isinstance(claimed, PartitionClaimed)
    assert (claimed.partition, claimed.thread_id) == (TopicAndPartition("t", 3), ME)


def test_a_partition_of_another_gives_back_all_the_others(
    ownership: PartitionOwnership, client: KazooClient, published: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    """F1, F2, F3: those behind it are tried too; its own node is untouched."""
    caplog.set_level(logging.INFO)
    client.create("/consumers/g/owners/t/2", b"g_c9-0", ephemeral=True, makepath=True)
    before = client.exists("/consumers/g/owners/t/2")

    assert not ownership.claim_all(FIVE)

    assert owners(client) == {"t/2": b"g_c9-0"}
    assert client.exists("/consumers/g/owners/t/2") == before
    assert "conflict in /consumers/g/owners/t/2 data: g_c1-0 stored data: g_c9-0" in caplog.messages
    assert "[g_c1], waiting for the partition ownership to be deleted: 2" in caplog.messages
    rest = {TopicAndPartition("t", number) for number in (0, 1, 3, 4)}
    assert {event.partition for event in published if isinstance(event, PartitionClaimed)} == rest
    [conflict] = [event for event in published if isinstance(event, OwnershipConflict)]
    assert (conflict.partition, conflict.thread_id, conflict.stored) == (TopicAndPartition("t", 2), ME, "g_c9-0")
    [rolled_back] = [event for event in published if isinstance(event, ClaimsRolledBack)]
    assert set(rolled_back.partitions) == rest


def test_a_claim_succeeds_once_the_other_has_let_go(ownership: PartitionOwnership, client: KazooClient) -> None:
    client.create("/consumers/g/owners/t/2", b"g_c9-0", ephemeral=True, makepath=True)
    assert not ownership.claim_all(FIVE)

    client.delete("/consumers/g/owners/t/2")

    assert ownership.claim_all(FIVE)
    assert owners(client) == {f"t/{number}": b"g_c1-0" for number in range(5)}


def test_what_our_session_already_claimed_is_claimed(ownership: PartitionOwnership, client: KazooClient) -> None:
    """F4: as after an attempt that failed half-way."""
    ownership.claim_all({TopicAndPartition("t", 1): ME})

    assert ownership.claim_all(FIVE)
    assert len(owners(client)) == 5


def test_our_own_node_of_a_session_that_is_not_ours_is_a_conflict(
    ownership: PartitionOwnership, client: KazooClient, address: str
) -> None:
    """F4: it would vanish later, and leave us consuming without an owner node (Q22)."""
    with connected(address) as lost:
        PartitionOwnership(lost, "g", "g_c1", events=EventPublisher("g_c1")).claim_all({TopicAndPartition("t", 1): ME})

        assert not ownership.claim_all(FIVE)

    assert ownership.claim_all(FIVE)


def test_released_partitions_have_no_node_and_their_directories_stay(
    ownership: PartitionOwnership, client: KazooClient, published: list[Event]
) -> None:
    """A12: only the leaves go."""
    ownership.claim_all(FIVE)
    published.clear()

    ownership.release_all(FIVE)

    assert owners(client) == {}
    assert client.exists("/consumers/g/owners/t")
    [released] = published
    assert isinstance(released, PartitionsReleased)
    assert released.partitions == tuple(FIVE)


def test_releasing_deletes_whatever_stands_there_and_says_so(
    ownership: PartitionOwnership, client: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    """F5: by path, another's node included (Q21)."""
    client.create("/consumers/g/owners/t/0", b"g_c9-0", ephemeral=True, makepath=True)

    ownership.release_all([TopicAndPartition("t", 0)])

    assert owners(client) == {}
    assert "[g_c1], releasing /consumers/g/owners/t/0, which is not ours but of g_c9-0" in caplog.messages


def test_releasing_our_own_is_not_worth_a_warning(
    ownership: PartitionOwnership, caplog: pytest.LogCaptureFixture
) -> None:
    ownership.claim_all(FIVE)

    ownership.release_all(FIVE)

    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_releasing_what_is_gone_is_fine(ownership: PartitionOwnership, client: KazooClient) -> None:
    ownership.claim_all(FIVE)
    client.delete("/consumers/g/owners/t/3")

    ownership.release_all(FIVE)

    assert owners(client) == {}


def test_a_thousand_partitions_are_claimed_and_released(ownership: PartitionOwnership, client: KazooClient) -> None:
    many = {TopicAndPartition(f"t{number % 10}", number): ME for number in range(1000)}

    assert ownership.claim_all(many)
    assert len(owners(client)) == 1000

    ownership.release_all(many)
    assert owners(client) == {}


def test_the_end_of_the_session_releases_everything(client: KazooClient, address: str) -> None:
    """A12: owner leaves are gone, their directories remain."""
    with connected(address) as leaving:
        PartitionOwnership(leaving, "g", "g_c1", events=EventPublisher("g_c1")).claim_all(FIVE)

    assert tree(client) == {"/consumers", "/consumers/g", "/consumers/g/owners", "/consumers/g/owners/t"}
