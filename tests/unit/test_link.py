"""Each fault of a link, as the client sees it and as the server sees it: plain sockets on both sides."""

from __future__ import annotations

import errno
import logging
import os
import random
import select
import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from zkconsumer.testing.errors import PortTaken
from zkconsumer.testing.link import IN_FLIGHT_LIMIT, Direction, Link, Transferred
from zkconsumer.testing.ports import HOST, ReservedPort

TIMEOUT_S = 20.0  # for what has to happen
SILENCE_S = 0.05  # for what must not: too short a wait can only miss a fault, never invent one
FOREVER_S = 3600.0
MIB = 1024 * 1024

UP, DOWN, BOTH = Direction.UP, Direction.DOWN, Direction.BOTH
each_direction = pytest.mark.parametrize("direction", [UP, DOWN], ids=["up", "down"])


class Pair(NamedTuple):
    """Both ends of one connection through the link."""

    client: socket.socket
    server: socket.socket

    def ends(self, direction: Direction) -> tuple[socket.socket, socket.socket]:
        """The one that sends in this direction, and the one that receives."""
        return (self.client, self.server) if direction is UP else (self.server, self.client)


class Network:
    """A listening server, a link to it, and the connections made in a test."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.listener = stack.enter_context(socket.create_server((HOST, 0), backlog=128))
        self.listener.settimeout(TIMEOUT_S)
        self.link = stack.enter_context(Link(f"{HOST}:{self.listener.getsockname()[1]}"))

    def connect(self) -> Pair:
        return Pair(self.connect_client(), self.accept())

    def connect_client(self) -> socket.socket:
        client = self._stack.enter_context(socket.create_connection((HOST, self.link.port), TIMEOUT_S))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client

    def accept(self) -> socket.socket:
        server = self._stack.enter_context(self.listener.accept()[0])
        server.settimeout(TIMEOUT_S)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return server


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    threads, files = threading.enumerate(), open_files()
    yield
    assert threading.enumerate() == threads
    assert open_files() == files


@pytest.fixture
def network(_nothing_is_left: None) -> Iterator[Network]:
    with ExitStack() as stack:
        yield Network(stack)


@pytest.fixture
def link(network: Network) -> Link:
    return network.link


@pytest.fixture
def pair(network: Network) -> Pair:
    return network.connect()


def open_files() -> int:
    descriptors = Path("/proc/self/fd")
    return len(os.listdir(descriptors)) if descriptors.exists() else 0


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + TIMEOUT_S
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        pause.wait(0.002)


def receive(receiver: socket.socket, n_bytes: int) -> bytes:
    """Exactly so many bytes, or fewer if the sender ends there."""
    received = bytearray()
    while len(received) < n_bytes and (data := receiver.recv(min(MIB, n_bytes - len(received)))):
        received += data
    return bytes(received)


def receive_until_reset(receiver: socket.socket) -> bytes:
    received = bytearray()
    try:
        while data := receiver.recv(MIB):
            received += data
    except ConnectionResetError:
        return bytes(received)
    pytest.fail("ended without a reset")


def hears_nothing(receiver: socket.socket) -> bool:
    return not select.select([receiver], [], [], SILENCE_S)[0]


def cannot_send(sender: socket.socket) -> bool:
    try:
        sender.send(b"anybody there?")
    except ConnectionError:
        return True
    return False


def is_refused(link: Link) -> bool:
    try:
        socket.create_connection((HOST, link.port), TIMEOUT_S).close()
    except ConnectionRefusedError:
        return True
    return False


def is_hung_up_on(link: Link) -> bool:
    """Whether a connection is made and reset at once: so soon, maybe, that connecting fails with it."""
    try:
        with socket.create_connection((HOST, link.port), TIMEOUT_S) as client:
            return receive_until_reset(client) == b""
    except ConnectionResetError:
        return True


def passes(pair: Pair, direction: Direction, data: bytes = b"through?") -> bool:
    sender, receiver = pair.ends(direction)
    sender.sendall(data)
    return receive(receiver, len(data)) == data


def reset(side: socket.socket) -> None:
    """Close as a process that crashed does."""
    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    side.close()


@contextmanager
def sending(sender: socket.socket, data: bytes) -> Iterator[None]:
    """Send in the background, as far as the other side lets us."""

    def send() -> None:
        with suppress(ConnectionError):
            sender.sendall(data)

    thread = threading.Thread(target=send)
    thread.start()
    yield
    thread.join()


def send_until_it_blocks(sender: socket.socket, most: int) -> int:
    """How many bytes went out before the sender had to wait, or `most` if it never had to."""
    sender.setblocking(False)
    sent = 0
    while sent < most and select.select([], [sender], [], SILENCE_S)[1]:
        sent += sender.send(bytes(64 * 1024))
    sender.settimeout(TIMEOUT_S)
    return sent


# A plain relay.


def test_bytes_go_both_ways(pair: Pair, link: Link) -> None:
    pair.client.sendall(b"ruok")
    assert receive(pair.server, 4) == b"ruok"
    pair.server.sendall(b"imok!")
    assert receive(pair.client, 5) == b"imok!"

    eventually(lambda: link.transferred == Transferred(up=4, down=5))


def test_much_data_arrives_whole_in_both_directions_at_once(pair: Pair) -> None:
    up, down = random.randbytes(8 * MIB), random.randbytes(8 * MIB)

    with sending(pair.client, up), sending(pair.server, down), ThreadPoolExecutor() as pool:
        at_client = pool.submit(receive, pair.client, len(down))

        assert receive(pair.server, len(up)) == up
        assert at_client.result() == down


def test_connections_are_kept_apart(network: Network) -> None:
    pairs = [network.connect() for _ in range(20)]

    for number, pair in enumerate(pairs):
        pair.client.sendall(b"%02d" % number)

    assert [receive(pair.server, 2) for pair in pairs] == [b"%02d" % number for number in range(20)]
    assert network.link.connections == 20


@each_direction
def test_one_side_may_end_while_the_other_goes_on(pair: Pair, link: Link, direction: Direction) -> None:
    ending, other = pair.ends(direction)

    ending.sendall(b"last words")
    ending.shutdown(socket.SHUT_WR)

    assert receive(other, 100) == b"last words"
    other.sendall(b"noted")
    assert receive(ending, 5) == b"noted"
    other.close()
    assert ending.recv(1) == b""
    eventually(lambda: link.connections == 0)


@each_direction
def test_the_end_comes_after_all_bytes(pair: Pair, direction: Direction) -> None:
    sender, receiver = pair.ends(direction)
    data = random.randbytes(4 * MIB)

    with sending(sender, data):
        assert receive(receiver, len(data)) == data
    sender.close()

    assert receiver.recv(1) == b""


@each_direction
def test_a_reset_is_passed_on_as_a_reset(pair: Pair, link: Link, direction: Direction) -> None:
    crashing, other = pair.ends(direction)
    assert passes(pair, direction)

    reset(crashing)

    assert receive_until_reset(other) == b""
    eventually(lambda: link.connections == 0)


@each_direction
def test_a_side_gone_without_a_word_is_noticed_when_written_to(pair: Pair, direction: Direction) -> None:
    """It ended orderly, so that alone tells nothing; the answer to bytes sent to it does."""
    gone, other = pair.ends(direction)
    gone.close()
    assert other.recv(1) == b""

    eventually(lambda: cannot_send(other))


@each_direction
def test_a_sender_has_to_wait_for_a_slow_receiver(pair: Pair, direction: Direction) -> None:
    sender, receiver = pair.ends(direction)

    sent = send_until_it_blocks(sender, 100 * MIB)

    assert sent < 100 * MIB
    assert len(receive(receiver, sent)) == sent
    assert passes(pair, direction)


def test_a_server_that_does_not_listen_looks_like_one_that_hangs_up(caplog: pytest.LogCaptureFixture) -> None:
    with ReservedPort() as nobody, Link(f"{HOST}:{nobody.number}") as link, caplog.at_level(logging.DEBUG):
        assert is_hung_up_on(link)
        eventually(lambda: link.connections == 0)

    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []


def test_the_target_may_become_known_later(network: Network) -> None:
    with Link() as link:
        assert is_hung_up_on(link)

        link.connect_to(f"localhost:{network.listener.getsockname()[1]}")

        with socket.create_connection((HOST, link.port), TIMEOUT_S) as client:
            assert passes(Pair(client, network.accept()), UP)


def test_a_new_target_is_for_new_connections(network: Network, pair: Pair) -> None:
    with socket.create_server((HOST, 0)) as other_listener:
        other_listener.settimeout(TIMEOUT_S)
        network.link.connect_to(f"{HOST}:{other_listener.getsockname()[1]}")
        client = network.connect_client()
        with other_listener.accept()[0] as server:
            server.settimeout(TIMEOUT_S)

            assert passes(Pair(client, server), UP, b"to the new one")
            assert passes(pair, UP, b"to the old one")


# Cut.


def test_a_cut_resets_both_sides_and_refuses_newcomers(pair: Pair, link: Link) -> None:
    assert passes(pair, UP)

    link.cut()

    assert link.connections == 0
    assert link.is_cut
    assert receive_until_reset(pair.client) == b""
    assert receive_until_reset(pair.server) == b""
    assert is_refused(link)


def test_a_cut_resets_connections_not_even_accepted_yet(network: Network) -> None:
    clients = [network.connect_client() for _ in range(50)]

    network.link.cut()

    assert [receive_until_reset(client) for client in clients] == [b""] * 50


def test_a_healed_link_has_the_same_address(network: Network, pair: Pair, link: Link) -> None:
    address = link.address
    for _ in range(5):
        link.cut()
        link.cut()
        link.heal()
        link.heal()

        assert link.address == address
        assert not link.is_cut
        assert passes(network.connect(), UP)


def test_dropping_connections_resets_both_sides_and_welcomes_newcomers(network: Network, pair: Pair) -> None:
    assert passes(pair, UP)

    network.link.drop_connections()

    assert receive_until_reset(pair.client) == b""
    assert receive_until_reset(pair.server) == b""
    assert passes(network.connect(), DOWN)


def test_dropping_connections_includes_those_just_made(network: Network) -> None:
    for _ in range(50):
        client = network.connect_client()

        network.link.drop_connections()

        assert receive_until_reset(client) == b""


# Black hole.


@pytest.mark.parametrize("black", [UP, DOWN, BOTH], ids=["up", "down", "both"])
def test_a_black_hole_swallows_bytes_until_it_is_healed(pair: Pair, link: Link, black: Direction) -> None:
    link.black_hole(black)
    before = link.transferred

    for direction in (UP, DOWN):
        if direction in black:
            sender, receiver = pair.ends(direction)
            sender.sendall(b"into the dark")
            assert hears_nothing(receiver)
        else:
            assert passes(pair, direction)
    if black is BOTH:
        assert link.transferred == before

    link.heal()

    for direction in (UP, DOWN):
        _, receiver = pair.ends(direction)
        if direction in black:
            assert receive(receiver, 13) == b"into the dark"
        assert passes(pair, direction)


def test_no_byte_is_forwarded_after_a_black_hole_has_begun(pair: Pair, link: Link) -> None:
    data = random.randbytes(8 * MIB)
    with sending(pair.client, data):
        first = receive(pair.server, 100_000)

        link.black_hole()
        forwarded = link.transferred.up
        first += receive(pair.server, forwarded - len(first))

        assert hears_nothing(pair.server)
        assert link.transferred.up == forwarded
        link.heal()
        assert first + receive(pair.server, len(data) - len(first)) == data


@each_direction
def test_nobody_hears_of_an_end_in_a_black_hole(pair: Pair, link: Link, direction: Direction) -> None:
    ending, other = pair.ends(direction)
    link.black_hole()

    ending.sendall(b"bye")
    ending.close()

    assert hears_nothing(other)
    link.heal()
    assert receive(other, 100) == b"bye"


@each_direction
def test_nobody_hears_of_a_reset_in_a_black_hole(pair: Pair, link: Link, direction: Direction) -> None:
    """Not even when bytes the other way run into it: the news of it would have to go through the black hole."""
    crashing, other = pair.ends(direction)
    assert passes(pair, direction)
    link.black_hole(direction)

    reset(crashing)

    for _ in range(3):
        other.sendall(b"are you there?")
        assert hears_nothing(other)
    link.heal()
    assert receive_until_reset(other) == b""


def test_a_new_connection_in_a_black_hole_seems_to_succeed(network: Network) -> None:
    network.link.black_hole()

    client = network.connect_client()
    client.sendall(b"hello?")

    assert hears_nothing(client)
    assert hears_nothing(network.listener)
    network.link.heal()
    assert receive(network.accept(), 6) == b"hello?"


# Delay.


@each_direction
def test_no_byte_is_earlier_than_its_delay(pair: Pair, link: Link, direction: Direction) -> None:
    link.delay(0.05, direction)

    for _ in range(3):
        sent_at = time.monotonic()
        assert passes(pair, direction)
        assert time.monotonic() - sent_at >= 0.05


def test_a_delay_goes_both_ways_unless_told_otherwise(pair: Pair, link: Link) -> None:
    link.delay(0.05)

    sent_at = time.monotonic()
    assert passes(pair, UP)
    assert passes(pair, DOWN)

    assert time.monotonic() - sent_at >= 0.1


def test_delayed_bytes_are_under_way_together(pair: Pair, link: Link) -> None:
    data = random.randbytes(IN_FLIGHT_LIMIT)
    link.delay(FOREVER_S)

    pair.client.sendall(data)

    assert hears_nothing(pair.server)
    assert link.transferred == Transferred(0, 0)
    link.delay(0)
    assert receive(pair.server, len(data)) == data


def test_delayed_bytes_keep_their_order(pair: Pair, link: Link) -> None:
    link.delay(0.02)
    numbers = b"".join(b"%04d" % number for number in range(500))

    for start in range(0, len(numbers), 4):
        pair.client.sendall(numbers[start : start + 4])

    assert receive(pair.server, len(numbers)) == numbers


def test_what_is_under_way_is_limited(pair: Pair, link: Link) -> None:
    link.delay(FOREVER_S)

    sent = send_until_it_blocks(pair.client, 100 * MIB)

    assert sent < 100 * MIB
    link.heal()
    assert len(receive(pair.server, sent)) == sent


def test_a_changed_delay_counts_for_bytes_under_way(pair: Pair, link: Link) -> None:
    link.delay(FOREVER_S)
    sent_at = time.monotonic()
    pair.client.sendall(b"slow")

    link.delay(0.1)

    assert receive(pair.server, 4) == b"slow"
    assert time.monotonic() - sent_at >= 0.1


def test_ends_and_resets_are_delayed_too(network: Network, pair: Pair) -> None:
    crashing = network.connect()
    assert passes(crashing, UP)
    network.link.delay(0.05)

    started_at = time.monotonic()
    pair.client.close()
    assert pair.server.recv(1) == b""
    assert time.monotonic() - started_at >= 0.05

    started_at = time.monotonic()
    reset(crashing.client)
    assert receive_until_reset(crashing.server) == b""
    assert time.monotonic() - started_at >= 0.05


def test_a_reset_behind_an_end_is_passed_on(pair: Pair, link: Link) -> None:
    link.delay(FOREVER_S, UP)
    pair.client.close()
    before = link.transferred.down
    for sent in range(1, 6):  # the first draws a reset, a later one meets it
        with suppress(ConnectionError):
            pair.server.sendall(b"x")
        if hears_nothing(pair.server) and link.transferred.down < before + sent:
            break

    link.heal()

    eventually(lambda: link.connections == 0)


def test_a_connection_both_sides_have_left_is_closed(pair: Pair, link: Link) -> None:
    link.delay(FOREVER_S)
    for side in pair:
        side.sendall(b"too late")
    assert hears_nothing(pair.client)  # so that the link has the bytes, and meets the resets in writing them
    for side in pair:
        reset(side)
    assert link.connections == 1

    link.heal()

    eventually(lambda: link.connections == 0)


# Throttle.


@each_direction
def test_throttled_bytes_take_their_time(pair: Pair, link: Link, direction: Direction) -> None:
    link.throttle(40_000, direction)

    started_at = time.monotonic()
    assert passes(pair, direction, random.randbytes(4_000))

    assert time.monotonic() - started_at >= 4_000 / 40_000


def test_even_a_very_slow_link_moves_on(pair: Pair, link: Link) -> None:
    link.throttle(40)

    started_at = time.monotonic()
    assert passes(pair, UP, b"slow")

    assert time.monotonic() - started_at >= 4 / 40


def test_a_throttle_is_for_all_connections_together(network: Network) -> None:
    pairs = [network.connect() for _ in range(4)]
    network.link.throttle(40_000)

    started_at = time.monotonic()
    for pair in pairs:
        pair.client.sendall(bytes(1_000))

    assert [len(receive(pair.server, 1_000)) for pair in pairs] == [1_000] * 4
    assert time.monotonic() - started_at >= 4_000 / 40_000


def test_throttled_connections_take_turns(network: Network) -> None:
    greedy, modest = network.connect(), network.connect()
    network.link.throttle(10_000)
    greedy.client.sendall(bytes(1_000_000))  # would keep the line busy for 100 s
    eventually(lambda: network.link.transferred.up > 0)

    assert passes(modest, UP, b"my turn")

    assert network.link.transferred.up < 1_000_000
    network.link.heal()
    assert len(receive(greedy.server, 1_000_000)) == 1_000_000


# Cut after so many bytes.


@each_direction
@pytest.mark.parametrize("n_bytes", [1, 1_000, 70_000, 3_000_001])
def test_exactly_so_many_bytes_pass_before_the_cut(
    network: Network, pair: Pair, link: Link, direction: Direction, n_bytes: int
) -> None:
    sender, receiver = pair.ends(direction)
    data = random.randbytes(6 * MIB)
    link.cut_after(n_bytes, direction)

    with sending(sender, data):
        assert receive_until_reset(receiver) == data[:n_bytes]
    eventually(lambda: cannot_send(sender))
    eventually(lambda: link.is_cut)
    assert is_refused(link)
    up, down = link.transferred
    assert (up if direction is UP else down) == n_bytes
    link.heal()
    assert passes(network.connect(), direction, bytes(2 * n_bytes))


def test_bytes_sent_one_chunk_at_a_time_are_counted(pair: Pair, link: Link) -> None:
    link.cut_after(10, UP)

    pair.client.sendall(b"1234")
    assert receive(pair.server, 4) == b"1234"
    pair.client.sendall(b"5678")
    assert receive(pair.server, 4) == b"5678"
    pair.client.sendall(b"90..")

    assert receive_until_reset(pair.server) == b"90"


def test_bytes_of_all_connections_are_counted_together(network: Network) -> None:
    first, second = network.connect(), network.connect()
    network.link.cut_after(10, DOWN)

    assert passes(first, UP, b"the other way does not count")
    assert passes(first, DOWN, b"123456")
    second.server.sendall(b"7890...")

    assert receive_until_reset(second.client) == b"7890"
    assert receive_until_reset(first.client) == b""
    assert receive_until_reset(first.server) == b""


def test_a_cut_after_no_bytes_is_a_cut(pair: Pair, link: Link) -> None:
    link.cut_after(0, UP)

    assert link.is_cut
    assert receive_until_reset(pair.client) == b""
    assert is_refused(link)


@pytest.fixture
def stuck(network: Network) -> Pair:
    """A connection whose client's kernel has no room for the last bytes before a cut."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(TIMEOUT_S)
        client.connect((HOST, network.link.port))
        pair = Pair(client.dup(), network.accept())
    pair.client.settimeout(TIMEOUT_S)
    network.link.cut_after(60_000, DOWN)
    pair.server.sendall(bytes(70_000))
    eventually(lambda: network.link.transferred.down == 60_000)
    return pair


def test_the_cut_waits_until_the_last_bytes_have_arrived(stuck: Pair, link: Link) -> None:
    with stuck.client:
        assert hears_nothing(stuck.server)
        assert not link.is_cut

        assert len(receive_until_reset(stuck.client)) == 60_000

        assert receive_until_reset(stuck.server) == b""


def test_the_cut_does_not_wait_for_a_receiver_that_is_gone(stuck: Pair, link: Link) -> None:
    reset(stuck.client)

    assert receive_until_reset(stuck.server) == b""
    eventually(lambda: link.is_cut)


def test_healing_does_not_save_connections_about_to_be_cut(stuck: Pair, network: Network) -> None:
    with stuck.client:
        network.link.heal()

        assert receive_until_reset(stuck.server) == b""
        assert passes(network.connect(), DOWN, bytes(100_000))


# Tap.


def test_a_tap_sees_what_each_connection_carries(network: Network) -> None:
    seen: dict[tuple[int, Direction], bytes] = defaultdict(bytes)

    def record(connection: int, direction: Direction, data: bytes) -> None:
        seen[connection, direction] += data

    network.link.tap(record)
    first, second = network.connect(), network.connect()
    much = random.randbytes(MIB)
    with sending(first.client, much):
        assert receive(first.server, MIB) == much
    assert passes(first, DOWN, b"answer")
    assert passes(second, UP, b"question")

    assert passes(second, DOWN, b"!")
    eventually(lambda: len(seen) == 4)
    assert seen == {(1, UP): much, (1, DOWN): b"answer", (2, UP): b"question", (2, DOWN): b"!"}


def test_a_tap_may_cut_the_link(network: Network) -> None:
    def cut_at_the_request(connection: int, direction: Direction, data: bytes) -> None:
        if data == b"request":
            network.link.cut()

    network.link.tap(cut_at_the_request)
    pair = network.connect()

    pair.client.sendall(b"request")

    assert receive_until_reset(pair.client) == b""
    assert is_refused(network.link)


def test_a_tap_may_change_the_faults_and_is_never_called_within_itself(network: Network) -> None:
    link, inside, nested = network.link, threading.Lock(), []

    def flicker(connection: int, direction: Direction, data: bytes) -> None:
        if not inside.acquire(blocking=False):
            nested.append(data)
            return
        link.black_hole()
        link.delay(0.5)
        link.heal()
        link.throttle(1e9)
        inside.release()

    link.tap(flicker)
    pair = network.connect()
    data = random.randbytes(4 * MIB)

    with sending(pair.client, data), sending(pair.server, data), ThreadPoolExecutor() as pool:
        at_client = pool.submit(receive, pair.client, len(data))
        assert receive(pair.server, len(data)) == data
        assert at_client.result() == data
    assert nested == []


def test_nothing_passes_after_a_black_hole_made_by_a_tap(network: Network) -> None:
    link, limits = network.link, []

    def go_dark(connection: int, direction: Direction, data: bytes) -> None:
        link.black_hole()
        limits.append(link.transferred.up)

    link.tap(go_dark)
    pair = network.connect()
    with sending(pair.client, bytes(4 * MIB)):
        eventually(lambda: bool(limits))

        received = len(receive(pair.server, limits[0]))

        assert hears_nothing(pair.server)
        assert [received] == limits
        link.drop_connections()


class TapFailed(BaseException):
    """No Exception, like what pytest.fail() raises."""


@pytest.mark.parametrize("error", [ValueError("first"), TapFailed("first")], ids=["Exception", "BaseException"])
def test_an_error_in_a_tap_is_raised_when_the_link_closes(network: Network, error: BaseException) -> None:
    calls = []

    def fail(connection: int, direction: Direction, data: bytes) -> None:
        calls.append(data)
        raise error

    with ExitStack() as stack:
        link = Link(f"{HOST}:{network.listener.getsockname()[1]}")
        link.start()
        link.tap(fail)
        client = stack.enter_context(socket.create_connection((HOST, link.port), TIMEOUT_S))
        pair = Pair(client, network.accept())
        assert passes(pair, UP, b"once")
        assert passes(pair, UP, b"the relay goes on")

        with pytest.raises(type(error), match="first"):
            link.close()

    link.close()
    assert b"".join(calls) == b"once"


def test_a_tap_cannot_close_its_link(network: Network) -> None:
    link = Link(f"{HOST}:{network.listener.getsockname()[1]}")
    link.start()
    link.tap(lambda connection, direction, data: link.close())
    with socket.create_connection((HOST, link.port), TIMEOUT_S) as client:
        assert passes(Pair(client, network.accept()), UP)

    with pytest.raises(RuntimeError, match="a tap cannot close its link"):
        link.close()


# The link itself.


def test_it_says_where_it_leads_and_what_is_wrong(network: Network) -> None:
    link, target = network.link, f"{HOST}:{network.listener.getsockname()[1]}"
    start = f"link {link.address} -> {target}: "
    assert link.describe() == start + "no faults"

    link.delay(0.25)
    link.throttle(1000, DOWN)
    link.black_hole(UP)
    link.cut_after(7, DOWN)
    assert repr(link) == f"<{start}0.25 s late both ways, black hole up, 1000 bytes/s down, cut after 7 bytes down>"
    link.heal()
    link.cut()
    assert link.describe() == start + "cut"
    link.close()
    assert link.describe() == start + "closed"
    assert Link().describe() == "link (not started) -> (no target): no faults"


def test_closing_resets_connections_and_frees_the_port(pair: Pair, link: Link) -> None:
    assert f"link-{link.port}" in [thread.name for thread in threading.enumerate()]
    assert passes(pair, UP)

    link.close()
    link.close()

    assert receive_until_reset(pair.client) == b""
    assert receive_until_reset(pair.server) == b""
    assert f"link-{link.port}" not in [thread.name for thread in threading.enumerate()]
    with socket.socket() as anybody:
        anybody.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        anybody.bind((HOST, link.port))
    assert link.transferred == Transferred(up=8, down=0)
    assert link.connections == 0


def test_it_closes_with_bytes_held_back(pair: Pair, link: Link) -> None:
    link.delay(FOREVER_S, UP)
    link.throttle(1, DOWN)
    pair.client.sendall(bytes(MIB))
    pair.server.sendall(bytes(MIB))

    link.close()

    assert link.connections == 0


def test_a_port_may_be_asked_for() -> None:
    with ReservedPort() as port:
        number = port.number

    with Link(port=number) as link:
        assert link.address == f"127.0.0.1:{number}"


def test_a_port_in_use_is_refused(network: Network) -> None:
    link = Link(port=network.listener.getsockname()[1])

    with pytest.raises(PortTaken):
        link.start()
    link.close()


def test_it_has_no_port_before_it_starts_and_starts_once() -> None:
    link = Link()
    with pytest.raises(RuntimeError, match="has no port before start"):
        _ = link.address
    with pytest.raises(RuntimeError, match="is not running"):
        link.cut()

    with link, pytest.raises(RuntimeError, match="was started or closed before"):
        link.start()
    with pytest.raises(RuntimeError, match="is not running"):
        link.heal()
    with pytest.raises(RuntimeError, match="was started or closed before"):
        link.start()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda link: link.delay(-1), "nothing arrives before it was sent"),
        (lambda link: link.throttle(0), "has to be more than 0"),
        (lambda link: link.cut_after(-1, UP), "counts 0 bytes or more"),
        (lambda link: link.cut_after(1, BOTH), "either UP or DOWN"),
        (lambda link: link.connect_to("2181"), "has to be host:port"),
        (lambda link: link.connect_to("host:"), "has to be host:port"),
    ],
    ids=["negative delay", "no rate", "negative count", "count of both", "no host", "no port"],
)
def test_senseless_faults_are_refused(link: Link, call: Callable[[Link], None], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(link)
    assert link.describe().endswith("no faults")


def test_a_link_that_cannot_work_is_cut_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def accept(listener: socket.socket) -> tuple[socket.socket, object]:
        raise OSError(errno.EMFILE, "Too many open files")

    link = Link()
    link.start()
    monkeypatch.setattr(socket.socket, "accept", accept)

    assert is_hung_up_on(link)
    eventually(lambda: link.is_cut)

    assert "failed with OSError(24, 'Too many open files'), cut" in link.describe()
    with pytest.raises(OSError, match="Too many open files"):
        link.close()


def test_faults_may_come_and_go_while_many_threads_use_it(network: Network) -> None:
    link = network.link

    def use(number: int) -> None:
        for _ in range(20):
            with suppress(OSError), socket.create_connection((HOST, link.port), 0.2) as client:
                client.sendall(random.randbytes(100_000))
                client.recv(1)

    def trouble(number: int) -> None:
        chance = random.Random(number)
        for _ in range(60):
            direction = chance.choice([UP, DOWN, BOTH])
            faults: list[Callable[[], None]] = [
                link.cut,
                link.drop_connections,
                partial(link.black_hole, direction),
                partial(link.delay, 0.001, direction),
                partial(link.throttle, 1e6, direction),
                partial(link.cut_after, 50_000, UP),
                link.heal,
                link.heal,
            ]
            chance.choice(faults)()

    def echo() -> None:
        with suppress(OSError):
            while True:
                server, _ = network.listener.accept()
                with server, suppress(OSError):
                    server.settimeout(0.2)
                    server.sendall(server.recv(MIB))

    with ThreadPoolExecutor() as pool:
        echoing = pool.submit(echo)
        for each in [*(pool.submit(use, number) for number in range(2)), *(pool.submit(trouble, n) for n in range(3))]:
            each.result()
        network.listener.shutdown(socket.SHUT_RDWR)
        echoing.result()

    with socket.create_server((HOST, 0)) as listener:
        listener.settimeout(TIMEOUT_S)
        link.connect_to(f"{HOST}:{listener.getsockname()[1]}")
        link.cut()
        link.heal()
        client = network.connect_client()
        with listener.accept()[0] as server:
            server.settimeout(TIMEOUT_S)
            assert passes(Pair(client, server), UP)


def test_closing_while_others_control_it_leaves_nobody_waiting() -> None:
    for _ in range(20):
        link = Link()
        link.start()
        begun = threading.Event()

        def control(link: Link = link, begun: threading.Event = begun) -> None:
            with suppress(RuntimeError):  # it is not running
                while True:
                    link.cut()
                    begun.set()
                    link.heal()

        with ThreadPoolExecutor(2) as pool:
            waiting = [pool.submit(control), pool.submit(control)]
            begun.wait(TIMEOUT_S)
            link.close()
            for each in waiting:
                each.result(TIMEOUT_S)
