"""Ending a client's session in the two ways sessions end, for real: on the server.

    expire_session   the server ends it now and tells the client, who is reachable all the time
    lose_session     the client is cut off until the server gives it up; it learns of that when it is back

What kazoo.testing calls expiring a session only makes the client believe so: on the server session and ephemerals live
on until its time is over.

Rule: none of these may be called in a watch or a listener of the client, since they wait for it.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from zkconsumer.testing.errors import ServerError
from zkconsumer.testing.link import Link
from zkconsumer.testing.waiting import eventually, scaled

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from zkconsumer.testing.zookeeper import ZooKeeperServer

ANSWER_TIMEOUT_S = 10.0
ATTEMPTS = 20
_LENGTH = struct.Struct(">i")
_CLOSE_REQUEST = struct.pack(">iii", 8, 1, -11)  # length, the client's number of the request, close session


def session_of(client: KazooClient) -> int:
    """The number of the client's session, as ZooKeeperServer.sessions() and Transaction.session have it."""
    return _client_id(client)[0]


def session_timeout_ms(client: KazooClient, server: ZooKeeperServer) -> int:
    """What the server granted, which is not always what the client asked for."""
    session = server.sessions().get(session_of(client))
    if session is None or session.timeout_ms is None:
        raise ServerError(f"session 0x{session_of(client):x} is not connected to {server.connect_string}")
    return session.timeout_ms


def expire_session(client: KazooClient, *, hosts: str | None = None, wait: bool = True) -> None:
    """Have the server end the client's session; its ephemerals are gone when this returns.

    Client: SUSPENDED, LOST, then CONNECTED with a new session, as kazoo makes one by itself; with `wait` this returns
    when that has happened. Server: a close of the session, as if its client had asked for it.

    `hosts`: "host:port" of the server, for a client whose own address leads through a link that does not work.
    """
    session, password = _client_id(client)
    host, port = _address(client, hosts)
    # The client may come back on a new connection before we have closed: then the close is not heard, so look again.
    for _ in range(ATTEMPTS):
        if not _take_over_and_close(host, port, session, password):
            break
    else:
        raise ServerError(
            f"session 0x{session:x} on {host}:{port} could not be ended in {ATTEMPTS} attempts: "
            "is that a ZooKeeper that runs, and the session one of its own?"
        )
    if wait:
        _wait_for_another_session(client, session)


@contextmanager
def losing_session(client: KazooClient, link: Link, server: ZooKeeperServer) -> Iterator[int]:
    """Inside: the server has expired the session (its number is given), the client cannot know. After: it knows.

    Client: SUSPENDED from some time before the body begins; after the body LOST, then CONNECTED with a new session.
    Server: the session stays for its whole time-out, so ask for a short one; then a close of its own (cxid 0).
    """
    session = session_of(client)
    timeout_s = session_timeout_ms(client, server) / 1000
    link.black_hole()
    try:
        eventually(
            lambda: session not in server.sessions(),
            f"the end of session 0x{session:x} on {server.connect_string}",
            timeout_s=timeout_s + ANSWER_TIMEOUT_S,
        )
        yield session
    finally:
        link.heal()
    _wait_for_another_session(client, session)


def lose_session(client: KazooClient, link: Link, server: ZooKeeperServer) -> None:
    """Cut the client off until the server has expired its session, then let it find out; see losing_session."""
    with losing_session(client, link, server):
        pass


def _client_id(client: KazooClient) -> tuple[int, bytes]:
    found: tuple[int, bytes] | None = client.client_id
    if found is None:
        raise ServerError(f"the client has no session now (it is {client.state}): start it, or wait for CONNECTED")
    return found


def _address(client: KazooClient, hosts: str | None) -> tuple[str, int]:
    if hosts is None:
        host, port = client.hosts[0]
        return host, int(port)
    host, _, port = hosts.partition("/")[0].partition(",")[0].rpartition(":")
    return host, int(port)


def _take_over_and_close(host: str, port: int, session: int, password: bytes) -> bool:
    """Try to close the session over a connection of our own; False if it had ended before.

    Not with a second KazooClient, which makes a new session when it finds the old one gone: nothing is to be seen of
    us in the transaction log.
    """
    from kazoo.protocol.serialization import Connect

    request = bytes(Connect(0, 0, int(ANSWER_TIMEOUT_S * 1000), session, password, False).serialize())
    with socket.create_connection((host, port), timeout=scaled(ANSWER_TIMEOUT_S)) as connection:
        connection.sendall(_LENGTH.pack(len(request)) + request)
        received = _receive(connection)
        if received is None:
            return True
        answer, _ = Connect.deserialize(received, 0)
        if answer.session_id != session or answer.time_out <= 0:
            return False
        connection.sendall(_CLOSE_REQUEST)
        with suppress(ConnectionError):
            while connection.recv(4096):  # the server answers and hangs up; or only that, if the client was faster
                pass
        return True


def _receive(connection: socket.socket) -> bytes | None:
    """One message, without its length; None if the server hung up, as when the client takes the session back."""
    with connection.makefile("rb") as stream:
        try:
            header = stream.read(_LENGTH.size)
            return stream.read(_LENGTH.unpack(header)[0]) if len(header) == _LENGTH.size else None
        except ConnectionError:
            return None


def _wait_for_another_session(client: KazooClient, old: int) -> None:
    eventually(
        lambda: client.client_id is not None and client.client_id[0] != old,
        lambda: f"a new session of the client (old: 0x{old:x}, state: {client.state})",
    )
