"""A connection to a broker: framing, errors, and that another thread can end every wait."""

from __future__ import annotations

import random
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from fetcher.channel import BUFFER_STEP, BlockingChannel, ChannelAborted
from fetcher.errors import ClosedChannelException, MalformedResponseException
from zkconsumer.testing.waiting import scaled

PATIENCE_S = 600.0  # longer than any test: what ends a wait in here is not the time


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(scaled(20))
        yield server


@contextmanager
def channel_to(listener: socket.socket, *, read_timeout_s: float = PATIENCE_S) -> Iterator[BlockingChannel]:
    channel = BlockingChannel(
        "127.0.0.1",
        listener.getsockname()[1],
        connect_timeout_s=PATIENCE_S,
        read_timeout_s=read_timeout_s,
        receive_buffer_bytes=65536,
    )
    try:
        yield channel
    finally:
        channel.disconnect()


@contextmanager
def connected_pair(
    listener: socket.socket, *, read_timeout_s: float = PATIENCE_S
) -> Iterator[tuple[BlockingChannel, socket.socket]]:
    with channel_to(listener, read_timeout_s=read_timeout_s) as channel:
        channel.connect()
        peer, _ = listener.accept()
        with peer:
            yield channel, peer


def in_background(action: Callable[[], object]) -> Future[object]:
    """What `action` returns or raises, in a thread that ends with it."""
    future: Future[object] = Future()

    def run() -> None:
        try:
            future.set_result(action())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="in-background", daemon=True).start()
    return future


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def test_an_answer_is_what_its_length_says_however_it_arrives(listener: socket.socket) -> None:
    with connected_pair(listener) as (channel, peer):
        for byte in framed(b"first answer"):
            peer.sendall(bytes([byte]))
        peer.sendall(framed(b"second") + framed(b"third"))

        assert [bytes(channel.receive()) for _ in range(3)] == [b"first answer", b"second", b"third"]


def test_a_request_arrives_whole_although_the_kernel_takes_it_in_parts(listener: socket.socket) -> None:
    request = framed(bytes(range(256)) * 80_000)
    with connected_pair(listener) as (channel, peer), peer.makefile("rb") as incoming:
        received = in_background(lambda: incoming.read(len(request)))

        channel.send(request)

        assert received.result(scaled(20)) == request


def test_an_answer_larger_than_one_step_of_the_buffer_arrives_whole(listener: socket.socket) -> None:
    answer = bytes(range(251)) * 100_000
    with connected_pair(listener) as (channel, peer):
        sent = in_background(lambda: peer.sendall(framed(answer)))

        assert bytes(channel.receive()) == answer
        sent.result(scaled(20))


@pytest.mark.parametrize("compiled", [True, False], ids=["as built", "in Python"])
def test_answers_may_be_larger_and_smaller_than_those_before(
    listener: socket.socket, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        for name in ("receive", "receive_answer", "send_some"):
            monkeypatch.setattr(f"fetcher.channel.{name}", None)
    sizes = (4, 100_000, 5, 100_001, 99_999, 2 * BUFFER_STEP + 1, 7, BUFFER_STEP, 4)
    answers = [random.Random(number).randbytes(size) for number, size in enumerate(sizes)]
    with connected_pair(listener) as (channel, peer):
        sent = in_background(lambda: peer.sendall(b"".join(map(framed, answers))))

        received = [channel.receive() for _ in answers]  # kept, so that none may be written over

        assert [bytes(one) for one in received] == answers
        sent.result(scaled(20))
        channel.send(b"request")
        assert peer.recv(7) == b"request"


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 3], ids=["-1", "smallest", "0", "no correlation id"])
def test_an_impossible_length_is_an_error(listener: socket.socket, size: int) -> None:
    with connected_pair(listener) as (channel, peer):
        peer.sendall(size.to_bytes(4, "big", signed=True))

        with pytest.raises(MalformedResponseException, match=f"announced a response of {size} bytes"):
            channel.receive()


def test_memory_is_taken_for_bytes_that_came_not_for_those_announced(listener: socket.socket) -> None:
    with connected_pair(listener) as (channel, peer):
        peer.sendall((2**31 - 1).to_bytes(4, "big") + b"that was all")
        peer.close()
        tracemalloc.start()
        try:
            with pytest.raises(ClosedChannelException):
                channel.receive()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert peak < 50_000_000


def test_a_connection_closed_within_an_answer_is_an_error(listener: socket.socket) -> None:
    with connected_pair(listener) as (channel, peer):
        peer.sendall(framed(b"whole answer")[:-3])
        peer.close()

        with pytest.raises(ClosedChannelException, match="closed the connection"):
            channel.receive()


def test_a_silent_peer_is_a_time_out(listener: socket.socket) -> None:
    with connected_pair(listener, read_timeout_s=0.05) as (channel, _), pytest.raises(TimeoutError, match="an answer"):
        channel.receive()


def test_a_refused_connection_says_so_and_can_be_tried_again(listener: socket.socket) -> None:
    address = listener.getsockname()
    with channel_to(listener) as channel:
        listener.close()
        with pytest.raises(ConnectionRefusedError, match=f"127.0.0.1:{address[1]}"):
            channel.connect()
        assert not channel.is_connected

        with socket.create_server(address):
            channel.connect()
            assert channel.is_connected


def test_a_host_may_be_a_name(listener: socket.socket) -> None:
    with channel_to(listener) as channel:
        channel.host = "localhost"

        channel.connect()

        assert channel.is_connected


def test_a_name_that_nobody_knows_is_an_error(listener: socket.socket) -> None:
    with channel_to(listener) as channel:
        channel.host = "no-such-host.invalid"

        with pytest.raises(OSError):
            channel.connect()


def test_sending_or_receiving_without_a_connection_is_an_error(listener: socket.socket) -> None:
    with channel_to(listener) as channel:
        with pytest.raises(ClosedChannelException, match="not connected"):
            channel.send(b"request")
        with pytest.raises(ClosedChannelException, match="not connected"):
            channel.receive()


def test_abort_ends_a_wait_for_an_answer(listener: socket.socket) -> None:
    with connected_pair(listener) as (channel, peer):

        def ask() -> None:
            channel.send(b"request")
            channel.receive()

        asked = in_background(ask)
        assert peer.recv(7) == b"request"  # so the channel is waiting now, or about to

        channel.abort()

        with pytest.raises(ChannelAborted):
            asked.result(scaled(20))


def test_abort_ends_a_send_that_nobody_reads(listener: socket.socket) -> None:
    with connected_pair(listener) as (channel, peer):
        sent = in_background(lambda: channel.send(bytes(100_000_000)))
        assert peer.recv(1) == b"\0"

        channel.abort()

        with pytest.raises(ChannelAborted):
            sent.result(scaled(20))


def test_abort_ends_a_connection_attempt_that_nobody_answers() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        crowd = [socket.socket() for _ in range(8)]  # more than the queue has room for: the next one hears nothing
        try:
            for one in crowd:
                one.setblocking(False)
                one.connect_ex(full.getsockname())
            with channel_to(full) as channel:
                connecting = in_background(channel.connect)

                channel.abort()

                with pytest.raises(ChannelAborted):
                    connecting.result(scaled(20))
        finally:
            for one in crowd:
                one.close()


def test_a_channel_aborted_once_stays_so(listener: socket.socket) -> None:
    with connected_pair(listener) as (channel, _):
        channel.abort()
        channel.abort()

        for action in (channel.receive, lambda: channel.send(b"request")):
            with pytest.raises(ChannelAborted):
                action()
        channel.disconnect()
        with pytest.raises(ChannelAborted):
            channel.connect()


def test_a_channel_can_be_connected_again(listener: socket.socket) -> None:
    with connected_pair(listener) as (channel, _):
        channel.disconnect()
        channel.disconnect()
        channel.connect()

        again, _ = listener.accept()
        with again:
            again.sendall(framed(b"answer"))
            assert bytes(channel.receive()) == b"answer"
