"""The `ids` node: its bytes, its parents, and what happens when its name is taken."""

from __future__ import annotations

import json
import logging
import re
import threading
import uuid

import pytest
from kazoo.client import KazooClient

from fetcher.events import Event, EventPublisher
from tests.zookeeper.sessions import Background, connected, expire, tree
from zkconsumer.emulation import emulation
from zkconsumer.errors import IllegalArgumentException, ZkNodeExistsException, ZooKeeperStopped
from zkconsumer.events import Registered
from zkconsumer.registration import ConsumerRegistration, new_consumer_id
from zkconsumer.testing.transactions import Operation
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer
from zkconsumer.topic_count import StaticTopicCount, TopicCount, WildcardTopicCount
from zkconsumer.topic_filter import Whitelist
from zkconsumer.zookeeper import ZooKeeper

PATH = "/consumers/g/ids/g_c1"
TOPICS = StaticTopicCount("g_c1", {"tx": 2})
WAITING = "I wrote this conflicted ephemeral node"


def registration(
    session: ZooKeeper,
    *,
    emulate: str = "0.8.2",
    session_timeout_ms: int = 50,
    stopping: threading.Event | None = None,
    events: EventPublisher | None = None,
) -> ConsumerRegistration:
    return ConsumerRegistration(
        session,
        "g",
        "g_c1",
        emulation=emulation(emulate),
        session_timeout_ms=session_timeout_ms,
        events=events or EventPublisher("g_c1"),
        stopping=stopping or threading.Event(),
    )


# --- the consumer id ---


def test_a_configured_id_is_the_group_and_that_id() -> None:
    """A7: `G_X`."""
    assert new_consumer_id("group1", "consumer1") == "group1_consumer1"


def test_a_generated_id_is_group_host_milliseconds_and_eight_hexadecimal_digits() -> None:
    """A7: host names may hold dashes themselves."""
    assert re.fullmatch(r"group1_.+-[0-9]{13}-[0-9a-f]{8}", new_consumer_id("group1"))


@pytest.mark.parametrize(
    ("random", "expected"),
    [
        ("570fa452-0000-4000-8000-000000000000", "570fa452"),
        ("0a0fa452-1b2c-4000-8000-000000000000", "a0fa4521"),
        ("000000fe-dcba-4987-8000-000000000000", "fedcba49"),
    ],
    ids=["as the UUID's text begins", "one leading zero", "six leading zeros"],
)
def test_the_random_part_has_no_leading_zeros(monkeypatch: pytest.MonkeyPatch, random: str, expected: str) -> None:
    """A7: as Java prints a long in hexadecimal; not always what the UUID's text begins with."""
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(random))

    assert new_consumer_id("g").rpartition("-")[2] == expected


def test_two_generated_ids_differ() -> None:
    assert new_consumer_id("g") != new_consumer_id("g")


# --- the node ---


@pytest.mark.parametrize(
    ("topic_count", "expected"),
    [
        (TOPICS, rb'{"version":1,"subscription":{"tx":2},"pattern":"static","timestamp":"[0-9]{13}"}'),
        (
            WildcardTopicCount("g_c1", Whitelist("t[xy]/?"), 2),
            rb'{"version":1,"subscription":{"t\[xy\]\\/\?":2},"pattern":"white_list","timestamp":"[0-9]{13}"}',
        ),
        (
            StaticTopicCount("g_c1", {}),
            rb'{"version":1,"subscription":{},"pattern":"static","timestamp":"[0-9]{13}"}',
        ),
    ],
    ids=["static", "wildcard", "nothing"],
)
def test_the_node_holds_the_bytes_the_real_consumer_writes(
    session: ZooKeeper, client: KazooClient, topic_count: TopicCount, expected: bytes
) -> None:
    """A6: no white space, the regex escaped, the timestamp as text; as recorded from 0.8.2.2."""
    registration(session).register(topic_count)

    data, stat = client.get(PATH)
    assert re.fullmatch(expected, data)
    assert stat.ephemeralOwner == session.session_id


def test_the_parents_are_created_with_null_data(
    server: ZooKeeperServer, session: ZooKeeper, client: KazooClient
) -> None:
    """A2, A20: and nothing else."""
    registration(session).register(TOPICS)

    assert tree(client) == {"/consumers", "/consumers/g", "/consumers/g/ids", PATH}
    assert _data_of_parents(server, session) == [None, None, None]


def test_from_0_9_the_parents_are_created_with_empty_data_from_the_top(
    server: ZooKeeperServer, session: ZooKeeper, client: KazooClient
) -> None:
    registration(session, emulate="0.9").register(TOPICS)

    assert _data_of_parents(server, session) == [b"", b"", b""]
    assert client.exists(PATH).ephemeralOwner == session.session_id


def _data_of_parents(server: ZooKeeperServer, session: ZooKeeper) -> list[bytes | None]:
    return [
        entry.data
        for entry in server.transactions()
        if entry.session == session.session_id and entry.operation is Operation.CREATE and not entry.ephemeral
    ]


@pytest.mark.parametrize("data", [None, b""], ids=["null", "empty"])
@pytest.mark.parametrize("emulate", ["0.8.2", "0.9"])
def test_parents_that_are_there_are_taken_as_they_are(
    session: ZooKeeper, client: KazooClient, emulate: str, data: bytes | None
) -> None:
    """A11: whoever created them."""
    for path in ("/consumers", "/consumers/g", "/consumers/g/ids"):
        client.create(path, data)

    registration(session, emulate=emulate).register(TOPICS)

    assert client.get_children("/consumers/g/ids") == ["g_c1"]


def test_a_count_below_one_is_refused_before_anything_is_written(session: ZooKeeper, client: KazooClient) -> None:
    with pytest.raises(IllegalArgumentException):
        registration(session).register(WildcardTopicCount("g_c1", Whitelist(".*"), 0))

    assert tree(client) == set()


def test_it_is_logged_and_published(session: ZooKeeper, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    events = EventPublisher("g_c1")
    published: list[Event] = []
    events.subscribe(published.append)

    registration(session, events=events).register(TOPICS)

    lines = [line for line in caplog.messages if "registering" in line]
    assert lines == ["[g_c1], begin registering consumer g_c1 in ZK", "[g_c1], end registering consumer g_c1 in ZK"]
    assert [event.path for event in published if isinstance(event, Registered)] == [PATH]


# --- the name is taken ---


def test_in_0_8_2_a_second_consumer_of_the_same_id_waits_until_the_first_leaves(
    session: ZooKeeper, client: KazooClient, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """C9: again after each session timeout, with the line operators know."""
    caplog.set_level(logging.INFO)
    with connected(address) as first:
        registration(first).register(TOPICS)
        waiting = Background(lambda: registration(session).register(TOPICS))
        eventually(lambda: len(_waits(caplog)) >= 3, "three rounds")
        assert waiting.is_running()

    waiting.result()

    data, stat = client.get(PATH)
    assert stat.ephemeralOwner == session.session_id
    assert set(_waits(caplog)) == {
        f"[g_c1], I wrote this conflicted ephemeral node [{data.decode()}] at {PATH} a while back in a different "
        "session, hence I will backoff for this node to be deleted by Zookeeper and retry"
    }


def _waits(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if WAITING in line]


def test_a_shutdown_ends_the_wait_at_once(
    session: ZooKeeper, client: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    """C9: unlike the real one, which nothing wakes."""
    caplog.set_level(logging.INFO)
    client.create(PATH, b"another's", ephemeral=True, makepath=True)
    stopping = threading.Event()
    waiting = Background(lambda: registration(session, session_timeout_ms=600_000, stopping=stopping).register(TOPICS))
    eventually(lambda: _waits(caplog), "the wait")

    stopping.set()

    with pytest.raises(ZooKeeperStopped, match=PATH):
        waiting.result()
    assert client.get(PATH)[0] == b"another's"


@pytest.mark.parametrize("emulate", ["0.9", "1.1", "fixed"])
def test_from_0_9_a_second_consumer_of_the_same_id_fails_at_once(
    session: ZooKeeper, client: KazooClient, caplog: pytest.LogCaptureFixture, emulate: str
) -> None:
    """C10: and leaves the first one's node alone."""
    caplog.set_level(logging.INFO)
    client.create(PATH, b"another's", ephemeral=True, makepath=True)

    with pytest.raises(ZkNodeExistsException) as caught:
        registration(session, emulate=emulate).register(TOPICS)

    assert caught.value.path == PATH
    assert "[g_c1], Result of znode creation is: NODEEXISTS" in caplog.messages
    assert client.get(PATH)[0] == b"another's"


@pytest.mark.parametrize("emulate", ["0.8.2", "0.9"])
def test_a_node_of_our_own_session_means_that_we_are_registered(session: ZooKeeper, emulate: str) -> None:
    """As after an answer that was lost; the real 0.8.2.2 would wait for itself."""
    registration(session, emulate=emulate).register(TOPICS)
    first = session.read_with_stat(PATH)

    registration(session, emulate=emulate, session_timeout_ms=600_000).register(TOPICS)

    assert session.read_with_stat(PATH) == first


def test_after_a_lost_session_the_id_stays_and_the_timestamp_is_new(
    session: ZooKeeper, client: KazooClient, address: str
) -> None:
    ours = registration(session)
    ours.register(TOPICS)
    before = json.loads(client.get(PATH)[0])

    expire(session, address)
    assert not session.exists(PATH)
    ours.register(TOPICS)

    data, stat = client.get(PATH)
    assert stat.ephemeralOwner == session.session_id
    assert int(json.loads(data)["timestamp"]) > int(before["timestamp"])


def test_after_a_lost_session_the_old_node_is_waited_for(
    session: ZooKeeper, client: KazooClient, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A node of the lost session that is still there is not taken for that of the new one."""
    caplog.set_level(logging.INFO)
    with connected(address) as lost:
        registration(lost).register(TOPICS)
        again = Background(lambda: registration(session).register(TOPICS))
        eventually(lambda: _waits(caplog), "the wait")
        assert client.exists(PATH).ephemeralOwner == lost.session_id

        expire(lost, address)

        again.result()
    assert client.exists(PATH).ephemeralOwner == session.session_id
