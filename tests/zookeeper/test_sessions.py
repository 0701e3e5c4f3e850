"""Sessions that end, as their client sees it and as the server does."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.protocol.connection import _SESSION_EXPIRED

from tests.zookeeper.clients import Connect
from zkconsumer.testing.errors import ServerError, WaitTimeout
from zkconsumer.testing.link import Link
from zkconsumer.testing.sessions import expire_session, lose_session, losing_session, session_of, session_timeout_ms
from zkconsumer.testing.transactions import Operation, Transaction
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer

TOLD = [KazooState.SUSPENDED, KazooState.LOST, KazooState.CONNECTED]
SHORT_S = 1.0


def closes_of(server: ZooKeeperServer, session: int) -> list[Transaction]:
    return [
        found
        for found in server.transactions()
        if found.session == session and found.operation is Operation.CLOSE_SESSION
    ]


def sessions_made_since(server: ZooKeeperServer, zxid: int) -> list[int]:
    return [
        found.session
        for found in server.transactions()
        if found.zxid > zxid and found.operation is Operation.CREATE_SESSION
    ]


def test_an_expired_session_takes_its_ephemerals_along_at_once(server: ZooKeeperServer, connect: Connect) -> None:
    witness, _ = connect(server.connect_string)
    victim, states = connect(server.connect_string)
    path = victim.create("/victim-", ephemeral=True, sequence=True)
    old = session_of(victim)

    expire_session(victim, wait=False)

    assert witness.exists(path) is None
    assert old not in server.sessions()
    assert [close.removed for close in closes_of(server, old)] == [(path,)]
    eventually(lambda: states == TOLD)
    assert session_of(victim) != old


def test_expiring_waits_until_the_client_has_a_new_session(server: ZooKeeperServer, connect: Connect) -> None:
    victim, states = connect(server.connect_string)
    old = session_of(victim)

    expire_session(victim)

    assert session_of(victim) != old
    assert session_of(victim) in server.sessions()
    eventually(lambda: states == TOLD)


def test_expiring_leaves_no_other_trace_in_the_log(server: ZooKeeperServer, connect: Connect) -> None:
    victim, _ = connect(server.connect_string)
    before = server.transactions()[-1].zxid

    expire_session(victim)

    assert sessions_made_since(server, before) == [session_of(victim)]


def test_a_session_expires_however_often_its_client_comes_back(server: ZooKeeperServer, connect: Connect) -> None:
    victim, _ = connect(server.connect_string)
    seen = {session_of(victim)}

    for _ in range(10):
        expire_session(victim)
        seen.add(session_of(victim))

    assert len(seen) == 11
    assert not (seen - {session_of(victim)}) & set(server.sessions())


def test_what_kazoo_calls_expiring_leaves_session_and_ephemerals_on_the_server(
    server: ZooKeeperServer, connect: Connect
) -> None:
    witness, _ = connect(server.connect_string)
    victim, states = connect(server.connect_string)
    path = victim.create("/believer-", ephemeral=True, sequence=True)
    old = session_of(victim)

    # The whole of KazooTestHarness.expire_session but its waiting; importing that needs a package for TLS.
    victim._call(_SESSION_EXPIRED, None)

    eventually(lambda: KazooState.LOST in states and victim.connected)
    assert session_of(victim) != old
    assert witness.exists(path).ephemeralOwner == old
    assert old in server.sessions()
    assert closes_of(server, old) == []


def test_a_client_that_is_cut_off_learns_of_its_expiry_when_it_is_back(
    server: ZooKeeperServer, connect: Connect
) -> None:
    with Link(server.connect_string) as link:
        victim, states = connect(link.address)
        old = session_of(victim)
        link.black_hole()

        expire_session(victim, hosts=server.connect_string, wait=False)

        assert old not in server.sessions()
        assert KazooState.LOST not in states

        link.heal()

        eventually(lambda: states == TOLD)
        victim.stop()


def test_inside_a_loss_the_server_has_given_up_and_the_client_does_not_know(
    server: ZooKeeperServer, connect: Connect
) -> None:
    witness, _ = connect(server.connect_string)
    with Link(server.connect_string) as link:
        victim, states = connect(link.address, timeout=SHORT_S)
        path = victim.create("/lost-", ephemeral=True, sequence=True)

        with losing_session(victim, link, server) as lost:
            assert witness.exists(path) is None
            assert lost not in server.sessions()
            (close,) = closes_of(server, lost)
            assert (close.removed, close.cxid) == ((path,), 0)  # cxid 0: the server's own decision
            assert KazooState.LOST not in states

        assert session_of(victim) != lost
        eventually(lambda: states == TOLD)
        assert session_of(victim) in server.sessions()
        victim.stop()


def test_a_session_is_lost_no_sooner_than_its_timeout(server: ZooKeeperServer, connect: Connect) -> None:
    with Link(server.connect_string) as link:
        victim, _ = connect(link.address, timeout=SHORT_S)
        old = session_of(victim)
        path = victim.create("/last-", sequence=True)

        lose_session(victim, link, server)

        (last,) = [found for found in server.transactions() if found.path == path]
        (close,) = closes_of(server, old)
        assert close.time_ms - last.time_ms >= SHORT_S * 1000
        victim.stop()


def test_a_link_that_is_not_the_clients_heals_when_the_wait_is_over(
    server: ZooKeeperServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zkconsumer.testing.sessions.ANSWER_TIMEOUT_S", 0.1)
    victim, _ = connect(server.connect_string, timeout=SHORT_S)
    with Link(server.connect_string) as link:
        with pytest.raises(WaitTimeout, match="the end of session"):
            lose_session(victim, link, server)

        assert "no faults" in link.describe()


def test_a_client_without_a_session_is_an_error() -> None:
    with pytest.raises(ServerError, match="has no session now"):
        expire_session(KazooClient("127.0.0.1:1"))


def test_the_timeout_of_a_session_elsewhere_is_an_error(
    server: ZooKeeperServer, private_server: ZooKeeperServer, connect: Connect
) -> None:
    client, _ = connect(private_server.connect_string)

    with pytest.raises(ServerError, match="is not connected to"):
        session_timeout_ms(client, server)
