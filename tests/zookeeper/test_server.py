"""A real server and what is done to it, as its clients see it and as it sees itself."""

from __future__ import annotations

import socket
import struct

import pytest
from kazoo.client import KazooState
from kazoo.protocol import serialization

from tests.zookeeper.clients import Connect
from zkconsumer.testing import four_letter_words, zookeeper
from zkconsumer.testing.errors import NotSupported, PortTaken, ServerError, ServerStartError
from zkconsumer.testing.link import Link
from zkconsumer.testing.ports import HOST, ReservedPort
from zkconsumer.testing.sessions import session_of
from zkconsumer.testing.transactions import Operation
from zkconsumer.testing.waiting import eventually, scaled
from zkconsumer.testing.zookeeper import ZooKeeperEnsemble, ZooKeeperServer


def answers(server: ZooKeeperServer) -> bool:
    try:
        return "imok" in four_letter_words.ask(server.connect_string, "ruok", timeout_s=0.3)
    except OSError:
        return False


# --- killed, restarted, paused, cut off ---


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_data_port_and_session_survive_the_end_of_the_server(
    server: ZooKeeperServer, connect: Connect, end: str
) -> None:
    address, chroot = server.connect_string, server.chroot()
    client, states = connect(chroot)
    session = session_of(client)
    client.create("/kept", b"1")
    client.create("/mine", ephemeral=True)

    getattr(server, end)()

    assert not server.running
    eventually(lambda: states == [KazooState.SUSPENDED])
    assert not answers(server)

    server.start()

    eventually(lambda: states == [KazooState.SUSPENDED, KazooState.CONNECTED])
    assert server.connect_string == address
    assert session_of(client) == session
    assert client.get("/kept")[0] == b"1"
    assert server.sessions()[session].ephemerals == (f"/{chroot.partition('/')[2]}/mine",)


def test_a_paused_server_answers_nobody_and_goes_on_where_it_was(server: ZooKeeperServer, connect: Connect) -> None:
    client, states = connect(server.chroot())
    session = session_of(client)

    server.pause()
    written = client.create_async("/a")

    assert server.running
    assert not answers(server)
    assert not written.ready()

    server.resume()

    assert written.get(timeout=scaled(20)) == "/a"
    assert (session_of(client), states) == (session, [])
    assert server.sessions()[session].connected


def test_a_client_gives_up_waiting_for_a_paused_server_and_finds_it_again(
    server: ZooKeeperServer, connect: Connect
) -> None:
    client, states = connect(server.chroot(), timeout=1.0)
    client.create("/a", b"1")

    server.pause()
    eventually(lambda: KazooState.SUSPENDED in states)
    server.resume()

    eventually(lambda: states[-1] == KazooState.CONNECTED)
    assert client.get("/a")[0] == b"1"


def test_a_server_that_does_not_run_cannot_be_paused(server: ZooKeeperServer) -> None:
    server.kill()

    with pytest.raises(ServerError, match="cannot be paused, it does not run"):
        server.pause()


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_paused_server_can_be_ended(server: ZooKeeperServer, end: str) -> None:
    server.pause()

    getattr(server, end)()

    assert not server.running


def test_a_cut_link_suspends_the_client_while_the_server_keeps_its_session(
    server: ZooKeeperServer, connect: Connect
) -> None:
    with Link(server.connect_string) as link:
        client, states = connect(link.address)
        session = session_of(client)
        path = client.create("/link-", ephemeral=True, sequence=True)

        link.cut()

        eventually(lambda: states == [KazooState.SUSPENDED])
        eventually(lambda: not server.sessions()[session].connected)
        assert server.sessions()[session].ephemerals == (path,)

        link.heal()

        eventually(lambda: states == [KazooState.SUSPENDED, KazooState.CONNECTED])
        assert session_of(client) == session
        assert server.sessions()[session].connected
        client.stop()


# --- what the server tells ---


def test_the_log_shows_what_a_session_did_and_what_went_with_it(server: ZooKeeperServer, connect: Connect) -> None:
    before = len(server.transactions())
    client, _ = connect(server.connect_string)
    session = session_of(client)
    path = client.create("/log-", b"1", sequence=True)
    client.set(path, b"2")
    client.create(f"{path}/mine", ephemeral=True)
    client.create(f"{path}/gone")
    client.delete(f"{path}/gone")
    client.stop()

    mine = [found for found in server.transactions()[before:] if found.session == session]

    assert [(found.operation, found.path, found.data, found.ephemeral) for found in mine[1:-1]] == [
        (Operation.CREATE, path, b"1", False),
        (Operation.SET_DATA, path, b"2", False),
        (Operation.CREATE, f"{path}/mine", b"", True),
        (Operation.CREATE, f"{path}/gone", b"", False),
        (Operation.DELETE, f"{path}/gone", None, False),
    ]
    assert (mine[0].operation, mine[0].timeout_ms) == (Operation.CREATE_SESSION, 10_000)
    assert (mine[-1].operation, mine[-1].removed) == (Operation.CLOSE_SESSION, (f"{path}/mine",))


def test_an_acknowledged_write_is_in_the_log_at_once(server: ZooKeeperServer, connect: Connect) -> None:
    client, _ = connect(server.chroot())

    for number in range(50):
        client.create(f"/{number}")
        assert (server.transactions()[-1].path or "").endswith(f"/{number}")


def test_the_log_goes_on_after_a_restart(server: ZooKeeperServer, connect: Connect) -> None:
    client, _ = connect(server.chroot())
    client.create("/before")
    server.kill()
    server.start()
    eventually(lambda: client.connected)
    client.create("/after")

    paths = [(found.path or "").rpartition("/")[2] for found in server.transactions()]

    assert paths.index("before") < paths.index("after")


def test_watches_are_told_by_path(server: ZooKeeperServer, connect: Connect) -> None:
    client, _ = connect(server.connect_string)
    path = client.create("/watched-", sequence=True)
    client.exists(f"{path}/a", watch=lambda event: None)
    client.get_children(path, watch=lambda event: None)

    watches = server.watches_by_path()

    assert watches[f"{path}/a"] == {session_of(client)}
    assert path not in watches  # not told: watches on children


@pytest.mark.parametrize(
    ("asked_ms", "granted_ms"), [(6000, 6000), (1, 200), (7_200_000, 3_600_000)], ids=["kafka", "shortest", "longest"]
)
def test_sessions_of_all_usual_lengths_are_granted(server: ZooKeeperServer, asked_ms: int, granted_ms: int) -> None:
    """By hand: a kazoo client cannot hold a session of 200 ms on a busy machine."""
    request = bytes(serialization.Connect(0, 0, asked_ms, 0, b"\0" * 16, False).serialize())
    host, _, port = server.connect_string.rpartition(":")

    with socket.create_connection((host, int(port)), timeout=scaled(10.0)) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        _length, _version, answered_ms = struct.unpack(">iii", connection.recv(12, socket.MSG_WAITALL))

    assert answered_ms == granted_ms


def test_chroots_do_not_see_each_other(server: ZooKeeperServer, connect: Connect) -> None:
    one, _ = connect(server.chroot())
    other, _ = connect(server.chroot())

    one.create("/a", b"1")

    assert one.get_children("/") == ["a"]
    assert other.get_children("/") == []


def test_a_chroot_is_fresh_or_refused(server: ZooKeeperServer) -> None:
    assert server.chroot("tests/one") == f"{server.connect_string}/tests/one"

    with pytest.raises(ServerError, match="chroot /tests/one exists already"):
        server.chroot("tests/one")


def test_settings_reach_the_server() -> None:
    with ZooKeeperServer(tick_time_ms=50, settings={"maxClientCnxns": "7"}) as server:
        told = server.four_letter_word("conf").splitlines()

    assert {"tickTime=50", "minSessionTimeout=100", "maxClientCnxns=7"} <= set(told)


# --- an external server ---


def test_an_external_server_can_be_used_but_not_ended(server: ZooKeeperServer) -> None:
    with ZooKeeperServer(backend="external", address=server.connect_string) as external:
        with external.client(chroot=external.chroot().partition("/")[2]) as client:
            client.create("/a")
        for action in (external.stop, external.kill, external.pause, external.transactions):
            with pytest.raises(NotSupported, match="it is an external server"):
                action()

    assert answers(server)


def test_an_external_server_that_is_not_there_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper, "EXTERNAL_TIMEOUT_S", 0.1)
    with ReservedPort() as port, pytest.raises(ServerStartError, match=f"{HOST}:{port.number} does not answer"):
        ZooKeeperServer(backend="external", address=f"{HOST}:{port.number}").start()


# --- servers that do not start ---


def test_a_server_that_ends_at_once_shows_its_log() -> None:
    with pytest.raises(ServerStartError, match="ended before it answered") as caught:
        ZooKeeperServer(settings={"tickTime": "soon"}).start()

    assert 'For input string: "soon"' in caught.value.log


def test_a_server_that_stays_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper, "START_TIMEOUT_S", 0.0)
    silent = ZooKeeperServer()

    with pytest.raises(ServerStartError, match="does not answer within 0 s"):
        silent.start()

    assert not silent.running


def test_a_port_somebody_listens_on_is_taken() -> None:
    with socket.create_server((HOST, 0)) as listener:
        number = listener.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {number} on {HOST} is in use"):
            ZooKeeperServer(port=number).start()


def test_two_servers_given_the_same_port_do_not_take_each_other_for_themselves() -> None:
    with ReservedPort() as port:
        number = port.number
    second = ZooKeeperServer(port=number)
    second._open()  # reserved while nobody listens, which the first one cannot see
    try:
        with ZooKeeperServer(port=number), pytest.raises(PortTaken, match=str(number)):
            second.start()
    finally:
        second.close()


def test_a_closed_server_does_not_start_again(private_server: ZooKeeperServer) -> None:
    private_server.close()

    with pytest.raises(ServerStartError, match="was closed"):
        private_server.start()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"backend": "docker"}, "there are process, container, external"),
        ({"backend": "external"}, "needs host:port"),
        ({"address": "127.0.0.1:1"}, "needs host:port"),
    ],
    ids=["unknown back end", "external without address", "address without external"],
)
def test_bad_arguments_are_refused(arguments: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ZooKeeperServer(**arguments)  # type: ignore[arg-type]


# --- an ensemble ---


def test_an_ensemble_survives_its_leader(connect: Connect) -> None:
    with ZooKeeperEnsemble(3) as ensemble:
        client, _ = connect(ensemble.connect_string)
        session = session_of(client)
        path = client.create("/mine", b"1", ephemeral=True)
        leader = ensemble.leader()
        assert len(ensemble.followers()) == 2

        leader.kill()

        assert ensemble.leader() is not leader
        eventually(lambda: client.connected)
        assert client.retry(client.get, path)[0] == b"1"
        assert session_of(client) == session
        assert session in ensemble.leader().sessions()

        leader.start()

        eventually(lambda: len(ensemble.followers()) == 2)
        assert leader in ensemble.followers()
        client.stop()


def test_an_ensemble_elects_another_while_its_leader_is_paused() -> None:
    with ZooKeeperEnsemble(3) as ensemble:
        leader = ensemble.leader()

        leader.pause()

        assert ensemble.leader() is not leader
        leader.resume()
        eventually(lambda: leader in ensemble.followers())


def test_an_ensemble_runs_as_processes_only() -> None:
    with pytest.raises(NotSupported, match="only 'process'"):
        ZooKeeperEnsemble(3, backend="container")


def test_an_ensemble_with_a_member_that_does_not_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = ZooKeeperEnsemble(3)

    def fail() -> None:
        raise ServerStartError("no")

    monkeypatch.setattr(ensemble.members[-1], "start", fail)

    with pytest.raises(ServerStartError, match="no"):
        ensemble.start()

    assert not any(member.running for member in ensemble.members)
