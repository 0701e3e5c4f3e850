"""A reserved port is ours: nobody is given it by chance, and a server that asks for it by number gets it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from zkconsumer.testing import ports
from zkconsumer.testing.errors import PortTaken
from zkconsumer.testing.ports import HOST, ReservedPort

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a second bind is refused")


@pytest.fixture
def port() -> Iterator[ReservedPort]:
    with ReservedPort() as port:
        yield port


def listen_on(number: int) -> socket.socket:
    """A server's socket, as Java, Go and Python open it."""
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, number))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def port_given_by_the_kernel(*, reuse_address: bool) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse_address))
        probe.bind((HOST, 0))
        number: int = probe.getsockname()[1]
        return number


def test_reservations_are_distinct() -> None:
    with ExitStack() as stack:
        numbers = [stack.enter_context(ReservedPort()).number for _ in range(200)]

        assert len(set(numbers)) == 200


@pytest.mark.parametrize("reuse_address", [False, True], ids=["plain", "SO_REUSEADDR"])
def test_nobody_is_given_a_reserved_port_by_chance(reuse_address: bool) -> None:
    with ExitStack() as stack:
        reserved = {stack.enter_context(ReservedPort()).number for _ in range(200)}

        given = {port_given_by_the_kernel(reuse_address=reuse_address) for _ in range(2000)}

        assert not reserved & given


def test_outgoing_connections_do_not_start_at_a_reserved_port() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(listen_on(0))
        reserved = {stack.enter_context(ReservedPort()).number for _ in range(200)}

        used = set()
        for _ in range(500):
            with socket.create_connection(server.getsockname()) as client:
                used.add(client.getsockname()[1])
            server.accept()[0].close()

        assert not reserved & used


@linux_only
def test_a_server_can_listen_on_it(port: ReservedPort) -> None:
    port.hand_over()

    with listen_on(port.number), socket.create_connection((HOST, port.number), timeout=10) as client:
        assert client.getpeername() == (HOST, port.number)


@linux_only
def test_a_server_can_come_back_while_its_old_connections_linger(port: ReservedPort) -> None:
    with listen_on(port.number) as server:
        client = socket.create_connection((HOST, port.number), timeout=10)
        accepted, _ = server.accept()
        accepted.close()  # the side that closes first keeps the connection in TIME_WAIT
        assert client.recv(1) == b""
        client.close()

    with listen_on(port.number), socket.create_connection((HOST, port.number), timeout=10):
        pass


def test_a_connection_is_refused_while_no_server_listens(port: ReservedPort) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port.number), timeout=10)


def test_a_number_can_be_asked_for(port: ReservedPort) -> None:
    port.close()

    with ReservedPort(port.number) as again:
        assert again.number == port.number


def test_a_port_somebody_listens_on_is_taken() -> None:
    with listen_on(0) as listener:
        number = listener.getsockname()[1]

        with pytest.raises(PortTaken) as caught:
            ReservedPort(number)

    assert str(caught.value) == (
        f"port {number} on 127.0.0.1 is in use: stop the program that has it, or give another number (0: any)"
    )


def test_a_closed_reservation_is_free_for_all(port: ReservedPort) -> None:
    port.close()
    port.close()

    with socket.socket() as anybody:
        anybody.bind((HOST, port.number))
    assert repr(port) == f"<ReservedPort 127.0.0.1:{port.number} given back>"


@pytest.mark.parametrize(
    ("beside_us", "state"), [(True, "held"), (False, "given back")], ids=["Linux", "other systems"]
)
def test_handing_over_gives_it_back_only_where_it_must(
    port: ReservedPort, monkeypatch: pytest.MonkeyPatch, beside_us: bool, state: str
) -> None:
    monkeypatch.setattr(ports, "_SERVER_MAY_BIND_BESIDE_US", beside_us)

    port.hand_over()

    assert repr(port) == f"<ReservedPort 127.0.0.1:{port.number} {state}>"


@pytest.mark.parametrize("number", [-1, 65536])
def test_an_impossible_number_is_refused_and_leaves_no_socket(number: int) -> None:
    with pytest.raises(OverflowError):
        ReservedPort(number)
