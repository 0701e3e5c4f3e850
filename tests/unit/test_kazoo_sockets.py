"""What kazoo reads and writes through, on real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from zkconsumer.kazoo_sockets import READ_BYTES, SEND_BYTES, BufferedSocket, Counter, wait_for


@pytest.fixture
def ends() -> Iterator[tuple[BufferedSocket, socket.socket]]:
    """Ours, as kazoo uses it, and the server's."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield BufferedSocket(ours), theirs


@pytest.fixture
def counter() -> Iterator[Counter]:
    made = Counter()
    yield made
    made.close()


def is_readable(file: object) -> bool:
    return wait_for([file], [], 0)[0] == [file]


def test_answers_that_came_together_are_handed_out_one_by_one(ends: tuple[BufferedSocket, socket.socket]) -> None:
    ours, theirs = ends
    assert not is_readable(ours)
    theirs.sendall(b"firstsecond")

    assert is_readable(ours)
    assert (ours.recv(5), ours.pending(), is_readable(ours)) == (b"first", 6, True)
    assert (ours.recv(100), ours.pending(), is_readable(ours)) == (b"second", 0, False)


def test_without_an_answer_reading_is_refused_and_not_taken_for_an_end(
    ends: tuple[BufferedSocket, socket.socket],
) -> None:
    ours, theirs = ends
    with pytest.raises(BlockingIOError):
        ours.recv(4)
    theirs.sendall(b"x")

    assert ours.recv(4) == b"x"


def test_the_end_comes_after_what_was_sent_before_it(ends: tuple[BufferedSocket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.sendall(b"last")
    theirs.close()

    assert (ours.recv(2), ours.recv(2), is_readable(ours), ours.recv(2)) == (b"la", b"st", True, b"")


def test_a_server_that_answers_before_it_reads_on_is_listened_to(ends: tuple[BufferedSocket, socket.socket]) -> None:
    """Both sides have their hands full: who only writes waits for ever."""
    ours, theirs = ends
    request, answer = bytes(4 << 20), bytes(range(256)) * (8 << 10)

    def serve() -> None:
        theirs.sendall(answer)
        left = len(request)
        while left:
            left -= len(theirs.recv(1 << 20))

    server = threading.Thread(target=serve)
    server.start()
    view = memoryview(request)
    while view:
        assert wait_for([], [ours], 1)[1] == [ours]
        view = view[ours.send(view) :]
    ours.flush()
    server.join()

    received = bytearray()
    while len(received) < len(answer):
        assert is_readable(ours)
        received += ours.recv(READ_BYTES)
    assert received == answer


def test_requests_are_sent_together_when_none_is_left(
    ends: tuple[BufferedSocket, socket.socket], counter: Counter
) -> None:
    ours, theirs = ends
    theirs.setblocking(False)
    counter.send(b"\0")
    assert ours.send(b"first") == 5
    assert wait_for([ours, counter], [], 0) == ([counter], [], [])
    with pytest.raises(BlockingIOError):
        theirs.recv(100)

    counter.recv(1)
    ours.send(b"second")
    assert wait_for([ours, counter], [], 0) == ([], [], [])

    assert theirs.recv(100) == b"firstsecond"


def test_nobody_waits_for_an_answer_to_what_was_not_sent(ends: tuple[BufferedSocket, socket.socket]) -> None:
    ours, theirs = ends
    ours.send(b"request")

    assert not is_readable(ours)
    assert theirs.recv(100) == b"request"


def test_answers_that_are_there_are_read_before_anything_is_sent(
    ends: tuple[BufferedSocket, socket.socket], counter: Counter
) -> None:
    ours, theirs = ends
    theirs.sendall(b"answer")
    ours.recv(2)
    ours.send(b"request")

    assert is_readable(ours)
    theirs.setblocking(False)
    with pytest.raises(BlockingIOError):
        theirs.recv(100)
    assert wait_for([ours, counter], [], 0) == ([ours], [], [])
    assert theirs.recv(100) == b"request"


def test_many_requests_do_not_wait_for_the_last(ends: tuple[BufferedSocket, socket.socket], counter: Counter) -> None:
    ours, theirs = ends
    counter.send(b"\0")

    ours.send(bytes(SEND_BYTES - 1))
    ours.send(b"x")

    assert len(theirs.recv(2 * SEND_BYTES)) == SEND_BYTES


def test_a_server_that_goes_while_it_has_no_room_is_an_error(ends: tuple[BufferedSocket, socket.socket]) -> None:
    ours, theirs = ends
    closing = threading.Timer(0.1, theirs.close)
    closing.start()

    with pytest.raises(OSError, match=r"closed|reset|pipe"):
        while True:
            ours.send(bytes(1 << 20))
    closing.join()


def test_the_counter_is_readable_as_often_as_it_was_sent_to(counter: Counter) -> None:
    assert not is_readable(counter)
    counter.send(b"\0")
    counter.send(b"\0\0")

    taken = 0
    while is_readable(counter):
        counter.recv(1)
        taken += 1

    assert taken == 3
    with pytest.raises(BlockingIOError):
        counter.recv(1)


def test_the_counter_wakes_who_waits_with_others(counter: Counter, ends: tuple[BufferedSocket, socket.socket]) -> None:
    ours, _ = ends
    waking = threading.Timer(0.1, counter.send, [b"\0"])
    waking.start()

    assert wait_for([ours, counter], [], 30) == ([counter], [], [])
    waking.join()


def test_many_senders_lose_no_count(counter: Counter) -> None:
    senders = [threading.Thread(target=lambda: [counter.send(b"\0") for _ in range(2000)]) for _ in range(4)]
    for sender in senders:
        sender.start()

    for _ in range(4 * 2000):
        assert wait_for([counter], [], 30)[0]
        counter.recv(1)

    for sender in senders:
        sender.join()
    assert not is_readable(counter)


def test_a_closed_counter_refuses_and_may_be_closed_again() -> None:
    """kazoo takes the error for a closed connection, and tells whoever asked."""
    counter = Counter()
    counter.send(b"\0")
    counter.close()
    counter.close()

    with pytest.raises(ValueError, match="negative"):
        counter.send(b"\0")


def test_a_closed_socket_is_an_error_and_no_wait(ends: tuple[BufferedSocket, socket.socket]) -> None:
    ours, _ = ends
    ours.close()

    with pytest.raises(ValueError, match="closed"):
        wait_for([ours], [], 30)
