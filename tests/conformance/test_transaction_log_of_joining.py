"""Joining a group as ZooKeeper's own log tells it: ours against the real consumer's, request by request."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fetcher.events import EventPublisher
from tests.zookeeper.sessions import connected, observer
from zkconsumer.assignment import assign_range
from zkconsumer.cluster_view import ClusterView
from zkconsumer.emulation import emulation
from zkconsumer.ownership import PartitionOwnership
from zkconsumer.registration import ConsumerRegistration
from zkconsumer.testing.scala import ScalaConsumer, ScalaVersion
from zkconsumer.testing.zookeeper import ZooKeeperServer
from zkconsumer.topic_count import StaticTopicCount

# No broker is needed for joining: nobody listens at this one.
BROKER = b'{"jmx_port":-1,"timestamp":"1794979821442","host":"127.0.0.1","version":1,"port":1}'
TOPIC = b'{"version":1,"partitions":{"2":[0],"1":[0],"0":[0]}}'
SESSION_TIMEOUT_MS = 10_000


@pytest.fixture(scope="module")
def server() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as server:
        yield server


def root_with_a_topic(server: ZooKeeperServer) -> str:
    address = server.chroot()
    with observer(address) as client:
        client.create("/brokers/ids/0", BROKER, makepath=True)
        client.create("/brokers/topics/tx", TOPIC, makepath=True)
    return address


def real_session(address: str, version: ScalaVersion) -> int:
    """Join and leave as the real consumer does; the id of its session."""
    properties = {"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS), "auto.commit.enable": "false"}
    with ScalaConsumer(address, "g", {"tx": 1}, version=version, consumer_id="c1", properties=properties) as real:
        session_id = real.session()[0]
        real.stop()
    return session_id


def our_session(address: str, emulate: str) -> int | None:
    """The same steps by our parts."""
    switches, events = emulation(emulate), EventPublisher("g_c1")
    with connected(address, session_timeout_ms=SESSION_TIMEOUT_MS) as session:
        session_id = session.session_id
        ConsumerRegistration(
            session,
            "g",
            "g_c1",
            emulation=switches,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            events=events,
            stopping=threading.Event(),
        ).register(StaticTopicCount("g_c1", {"tx": 1}))
        context = ClusterView(session, "g", emulation=switches).read_group("g_c1")
        assert PartitionOwnership(session, "g", "g_c1", events=events).claim_all(assign_range(context))
    return session_id


def log_of(server: ZooKeeperServer, session_id: int | None, address: str) -> list[tuple[Any, ...]]:
    """All that can be compared: not the order of one topic's partitions, and not the time in the registration."""
    chroot = "/" + address.partition("/")[2]
    entries = [
        (
            entry.operation,
            entry.error_name,
            (entry.path or "").removeprefix(chroot),
            b"registration" if "/ids/" in (entry.path or "") else entry.data,
            entry.ephemeral,
            entry.acl,
            sorted(path.removeprefix(chroot) for path in entry.removed),
            entry.timeout_ms,
        )
        for entry in server.transactions()
        if entry.session == session_id
    ]
    claims = iter(sorted((entry for entry in entries if _is_claim(entry)), key=lambda entry: str(entry[2])))
    return [next(claims) if _is_claim(entry) else entry for entry in entries]


def _is_claim(entry: tuple[Any, ...]) -> bool:
    return str(entry[2]).startswith("/consumers/g/owners/tx/")


@pytest.mark.parametrize(("version", "emulate"), [("0.8.2.2", "0.8.2"), ("1.1.1", "1.1")])
def test_joining_asks_zookeeper_for_the_same_things_in_the_same_order(
    server: ZooKeeperServer, version: ScalaVersion, emulate: str
) -> None:
    """A1, A2, A8, A10, A12, A20: refused requests included, and what the end of the session takes along."""
    theirs, ours = root_with_a_topic(server), root_with_a_topic(server)

    real = log_of(server, real_session(theirs, version), theirs)

    assert log_of(server, our_session(ours, emulate), ours) == real
    assert any(_is_claim(entry) for entry in real)
