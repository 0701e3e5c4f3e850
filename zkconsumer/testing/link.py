"""A TCP relay from client to server that can be cut, black-holed, delayed, throttled, cut after N bytes, and healed.

netem is not available in our kernel, so this is how networks fail here:

    with Link("127.0.0.1:2181") as link:
        client.connect(link.address)
        link.black_hole()                    # nobody hears anything, nobody is told
        link.heal()

From the outside in: a Link is what tests hold, and hands what they ask for to its thread; there a _Relay accepts and
keeps the connections; a _Connection has a client, a server and a pipe each way; a _Pipe carries bytes, ends and resets
in order, as fast as its _Lane lets it, which has the faults of one direction.

Rule: all but Link belongs to the link's thread; no other touches a socket.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, Flag
from types import TracebackType
from typing import NamedTuple, Self

from zkconsumer.testing.ports import HOST, ReservedPort

if sys.platform == "linux":
    import fcntl
    import termios

log = logging.getLogger(__name__)

READ_SIZE = 256 * 1024
BUFFER_LIMIT = 256 * 1024  # bytes held for one direction of a connection; then its sender has to wait
IN_FLIGHT_LIMIT = 16 * 1024 * 1024  # the same while that direction is delayed, since bytes under way are held here
THROTTLE_SLICE_S = 0.02  # a throttled direction is shared out in turns of this length
DRAIN_POLL_S = 0.001
BACKLOG = 512
JOIN_TIMEOUT_S = 10.0


class Direction(Flag):
    """UP: client to server. DOWN: server to client."""

    UP = 1
    DOWN = 2
    BOTH = 3


class Transferred(NamedTuple):
    """Bytes forwarded since the link started."""

    up: int
    down: int


Tap = Callable[[int, Direction, bytes], None]
Address = tuple[str, int]


class Link:
    """A relay with a port of its own, in one thread named link-<port>.

    States: new -> (start) -> up <-> cut -> (close) -> closed. From up to cut leads `cut()`, or a `cut_after()` that is
    used up; `heal()` leads back. The port stays the same. Black holes, delays and throttles add up, in either state,
    until `heal()`.

    Any thread may call any method, and a tap any but `close()`. What it does is done when it returns.

    A byte counts as forwarded when our kernel has taken it for the receiver. The receiver may read it after a black
    hole has begun; a cut may lose it, as cuts do. Only `cut_after()` waits for its arrival.
    """

    def __init__(self, target: str | None = None, *, port: int = 0) -> None:
        """A link to `target`, "host:port" with an IPv4 address or a name that has one, on `port` (0: any free one)."""
        self._target = None if target is None else _parse(target)
        self._wanted_port = port
        self._taps: list[Tap] = []
        self._control = threading.Lock()
        self._relay: _Relay | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def start(self) -> None:
        """Listen and relay. Raises PortTaken if the port asked for is in use. Works once."""
        if self._relay is not None or self._closed:
            raise RuntimeError(f"{self.describe()}: was started or closed before")
        self._relay = relay = _Relay(ReservedPort(self._wanted_port), self._target, self._taps)
        self._thread = threading.Thread(target=relay.run, name=f"link-{self.port}", daemon=True)
        self._thread.start()
        try:
            self._do(_Relay.listen)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Cut, free the port, end the thread. Idempotent. Raises the first error of a tap, or of the link itself."""
        if threading.current_thread() is self._thread:
            raise RuntimeError(f"{self.describe()}: a tap cannot close its link")
        with self._control:
            was_closed, self._closed = self._closed, True
        if self._relay is None or self._thread is None:
            return
        if not was_closed:
            self._relay.loop.call_soon_threadsafe(self._relay.loop.stop)
        self._thread.join(JOIN_TIMEOUT_S)
        if self._thread.is_alive():
            log.error("[%s] still running %.0f s after close: does a tap block?", self._thread.name, JOIN_TIMEOUT_S)
        if self._relay.first_error is not None and not was_closed:
            raise self._relay.first_error

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def port(self) -> int:
        """The port clients connect to, known from start() on."""
        if self._relay is None:
            raise RuntimeError(f"{self.describe()}: has no port before start()")
        return self._relay.port.number

    @property
    def address(self) -> str:
        """What clients connect to: "127.0.0.1:<port>"."""
        return f"{HOST}:{self.port}"

    @property
    def connections(self) -> int:
        """How many are open now. One that a client has just opened may not be counted yet."""
        return 0 if self._relay is None else len(self._relay.connections)

    @property
    def is_cut(self) -> bool:
        """Whether connections are refused: since cut(), or since cut_after() has done its work."""
        return self._relay is not None and self._relay.is_cut

    @property
    def transferred(self) -> Transferred:
        """Bytes forwarded so far."""
        if self._relay is None:
            return Transferred(0, 0)
        up, down = self._relay.lanes
        return Transferred(up.transferred, down.transferred)

    def describe(self) -> str:
        """Where the link leads, and what is wrong with it."""
        here = "(not started)" if self._relay is None else self.address
        there = "(no target)" if self._target is None else f"{self._target[0]}:{self._target[1]}"
        faults = [] if self._relay is None else [*self._relay.faults()]
        return f"link {here} -> {there}: {', '.join(['closed'] if self._closed else faults) or 'no faults'}"

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def connect_to(self, target: str) -> None:
        """Lead new connections to this "host:port". Those already open stay where they are.

        For a server that must know the link's address before it starts. Without a target, or when it does not listen,
        a client is reset at once: as it reads, or while it still connects.
        """
        self._target = _parse(target)
        if self._relay is not None:
            self._relay.target = self._target

    def tap(self, callback: Tap) -> None:
        """Show every chunk forwarded from now on to `callback(connection_number, direction, data)`.

        Connections are numbered from 1 as they are accepted. The callback runs on the link's thread, when the chunk
        has been sent and nothing after it: it must not block, but may cut(), black_hole() and so on. Chunks of one
        connection and direction come in order; where one ends means nothing. A callback that raises is not called
        again; the relay goes on, and close() raises the error.
        """
        self._taps.append(callback)

    def cut(self) -> None:
        """Reset all connections, on both sides, and refuse new ones until heal()."""
        self._do(_Relay.cut)

    def drop_connections(self) -> None:
        """Reset all connections, on both sides. New ones are welcome."""
        self._do(_Relay.drop_connections)

    def black_hole(self, direction: Direction = Direction.BOTH) -> None:
        """Let nothing through any more, neither bytes nor ends nor resets, and tell nobody.

        What is sent waits, as TCP would send it again until it is answered, and flows after heal(). A new connection
        seems to succeed, since our kernel completes the handshake before we hear of it, but nothing answers: the
        server is connected to only after heal(), even if one direction alone is black, because a handshake needs both.
        """
        self._do(lambda relay: relay.change(direction, lambda faults: replace(faults, black_hole=True)))

    def delay(self, seconds: float, direction: Direction = Direction.BOTH) -> None:
        """Let each byte, end or reset arrive this much later, those under way included; 0: at once.

        Order is kept and throughput is not reduced, up to IN_FLIGHT_LIMIT bytes under way for one direction of a
        connection; beyond that its sender has to wait. Connections are made without delay.
        """
        if seconds < 0:
            raise ValueError(f"delay({seconds}): nothing arrives before it was sent")
        self._do(lambda relay: relay.change(direction, lambda faults: replace(faults, delay_s=seconds)))

    def throttle(self, bytes_per_second: float, direction: Direction = Direction.BOTH) -> None:
        """Let no more than this through in each direction, for all connections together; they take turns."""
        if bytes_per_second <= 0:
            raise ValueError(f"throttle({bytes_per_second}): has to be more than 0; black_hole() lets nothing through")
        self._do(lambda relay: relay.change(direction, lambda faults: replace(faults, rate=_Rate(bytes_per_second))))

    def cut_after(self, n_bytes: int, direction: Direction) -> None:
        """Let exactly `n_bytes` more through UP or DOWN, counted over all connections, then cut().

        The cut waits, with both directions stopped, until the receivers' kernels have these bytes, so that they can be
        read before the reset is noticed. (On Linux. Other systems do not tell us, and the last bytes may be lost.)
        """
        if direction is Direction.BOTH or n_bytes < 0:
            raise ValueError(f"cut_after({n_bytes}, {direction}): counts 0 bytes or more, either UP or DOWN")
        self._do(lambda relay: relay.cut_after(n_bytes, direction))

    def heal(self) -> None:
        """Be a plain relay again: clients are welcome, what was held back flows. A cut that is due happens first."""
        self._do(_Relay.heal)

    def _do(self, action: Callable[[_Relay], None]) -> None:
        """Have the link's thread do this, and wait until it is done."""
        if self._relay is not None and threading.current_thread() is self._thread:  # a tap
            action(self._relay)
            return
        with self._control:  # held until it is done, lest close() end the thread first
            if self._relay is None or self._closed:
                raise RuntimeError(f"{self.describe()}: is not running")
            done: Future[None] = Future()
            self._relay.loop.call_soon_threadsafe(self._relay.do, action, done)
            done.result()


class _Relay:
    """What the link's thread has and does."""

    def __init__(self, port: ReservedPort, target: Address | None, taps: list[Tap]) -> None:
        self.port = port
        self.target = target
        self.lanes = (_Lane(Direction.UP), _Lane(Direction.DOWN))
        self.connections: dict[int, _Connection] = {}
        self.is_cut = False
        self.first_error: BaseException | None = None
        self.loop = asyncio.SelectorEventLoop()
        self.loop.set_exception_handler(self._failed)
        self._taps = taps
        self._accepted = 0
        self._listener: socket.socket | None = None
        self._is_tapping = False
        self._coming_cut: asyncio.TimerHandle | None = None  # cut_after is used up, its last bytes have not arrived yet

    def run(self) -> None:
        """The link's thread, until the loop is stopped."""
        try:
            self.loop.run_forever()
        finally:
            self.cut()
            self.loop.close()
            self.port.close()

    def do(self, action: Callable[[_Relay], None], done: Future[None]) -> None:
        try:
            action(self)
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    def faults(self) -> Iterator[str]:
        if self.first_error is not None:
            yield f"failed with {self.first_error!r}"
        if self.is_cut:
            yield "cut"
        up, down = ([*lane.describe()] for lane in self.lanes)
        yield from (f"{fault} both ways" for fault in up if fault in down)
        yield from (f"{fault} up" for fault in up if fault not in down)
        yield from (f"{fault} down" for fault in down if fault not in up)

    def listen(self) -> None:
        self.port.hand_over()
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((HOST, self.port.number))
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
        listener.setblocking(False)
        self._listener = listener
        self.is_cut = False
        self.loop.add_reader(listener, self._accept)

    def cut(self) -> None:
        self._refuse_connections()
        self._reset_connections()
        if self._coming_cut is not None:
            self._coming_cut.cancel()
            self._coming_cut = None
        for lane in self.lanes:
            lane.bytes_left = None
            lane.is_stopped = False
        self.is_cut = True

    def drop_connections(self) -> None:
        self._accept()  # a connection that waits to be accepted exists already, as its client sees it
        self._reset_connections()

    def change(self, direction: Direction, change: Callable[[_Faults], _Faults]) -> None:
        for lane in self.lanes:
            if lane.direction in direction:
                lane.faults = change(lane.faults)
        self._pump()

    def cut_after(self, n_bytes: int, direction: Direction) -> None:
        for lane in self.lanes:
            if lane.direction is direction:
                lane.bytes_left = n_bytes
                self._stop_if_used_up(lane)

    def heal(self) -> None:
        if self._coming_cut is not None:
            self.cut()
        if self._listener is None:
            self.listen()
        for lane in self.lanes:
            lane.faults = _Faults()
            lane.bytes_left = None
        for connection in list(self.connections.values()):
            connection.connect(self.target)
        self._pump()

    def forwarded(self, connection_number: int, lane: _Lane, data: memoryview) -> None:
        """Called by: a pipe that has sent these bytes. May close connections, by way of a tap."""
        lane.transferred += len(data)
        if lane.bytes_left is not None:
            lane.bytes_left -= len(data)
            self._stop_if_used_up(lane)
        self._is_tapping = True
        for tap in tuple(self._taps):
            try:
                tap(connection_number, lane.direction, bytes(data))
            except BaseException as error:  # what pytest.fail() raises is no Exception
                self._keep(error)
                self._taps.remove(tap)
        self._is_tapping = False

    def _accept(self) -> None:
        while self._listener is not None:
            try:
                client, _ = self._listener.accept()
            except ConnectionAbortedError:
                continue
            except BlockingIOError:
                return
            self._accepted += 1
            self.connections[self._accepted] = connection = _Connection(self, self._accepted, client)
            if not any(lane.faults.black_hole for lane in self.lanes):
                connection.connect(self.target)

    def _refuse_connections(self) -> None:
        """The kernel resets those that wait to be accepted."""
        if self._listener is not None:
            self.loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _reset_connections(self) -> None:
        for connection in list(self.connections.values()):
            connection.close(reset=True)

    def _pump(self) -> None:
        """Let all pipes see what has changed. Not in a tap: a chunk sent there would be shown before this one was."""
        if self._is_tapping:
            self.loop.call_soon(self._pump)
            return
        for connection in list(self.connections.values()):
            connection.pump()

    def _stop_if_used_up(self, used_up: _Lane) -> None:
        if used_up.bytes_left == 0 and self._coming_cut is None:
            self._refuse_connections()
            for lane in self.lanes:
                lane.is_stopped = True
            self._pump()
            self._cut_when_arrived(used_up)

    def _cut_when_arrived(self, lane: _Lane) -> None:
        if any(connection.has_bytes_on_the_way(lane) for connection in self.connections.values()):
            self._coming_cut = self.loop.call_later(DRAIN_POLL_S, self._cut_when_arrived, lane)
        else:
            self.cut()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Nobody expected this, such as too many open files: a relay that cannot work is cut, and close() tells why."""
        error = context.get("exception")
        self._keep(error if isinstance(error, BaseException) else RuntimeError(str(context.get("message"))))
        self.cut()

    def _keep(self, error: BaseException) -> None:
        if self.first_error is None:
            error.add_note(f"(raised in the thread link-{self.port.number})")
            self.first_error = error


@dataclass(frozen=True)
class _Faults:
    """What is wrong in one direction, but for a cut."""

    black_hole: bool = False
    delay_s: float = 0.0
    rate: _Rate | None = None


class _Lane:
    """One direction of the link, shared by its connections."""

    def __init__(self, direction: Direction) -> None:
        self.direction = direction
        self.faults = _Faults()
        self.bytes_left: int | None = None  # until the cut
        self.is_stopped = False  # no bytes left: the cut is to come
        self.transferred = 0

    @property
    def is_open(self) -> bool:
        return not self.faults.black_hole and not self.is_stopped

    @property
    def buffer_limit(self) -> int:
        return IN_FLIGHT_LIMIT if self.faults.delay_s else BUFFER_LIMIT

    def describe(self) -> Iterator[str]:
        if self.faults.black_hole:
            yield "black hole"
        if self.faults.delay_s:
            yield f"{self.faults.delay_s:g} s late"
        if self.faults.rate is not None:
            yield f"{self.faults.rate.bytes_per_second:g} bytes/s"
        if self.bytes_left is not None:
            yield f"cut after {self.bytes_left} bytes"


class _Turn(NamedTuple):
    """When a pipe may send how many bytes."""

    rate: _Rate
    ends_at: float
    n_bytes: int


class _Rate:
    """A slow line. It is busy with the bytes of one pipe at a time, and they arrive when it has finished with them."""

    def __init__(self, bytes_per_second: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._busy_until = 0.0

    def next_turn(self, n_bytes: int, now: float) -> _Turn:
        """The first free turn. Turns are given in the order they are asked for, so no pipe starves."""
        n_bytes = min(n_bytes, max(1, int(self.bytes_per_second * THROTTLE_SLICE_S)))
        self._busy_until = max(now, self._busy_until) + n_bytes / self.bytes_per_second
        return _Turn(self, self._busy_until, n_bytes)


class _Connection:
    """A client, the server it is led to, and a pipe each way.

    States: accepted -> (connect) connecting -> open -> closed. In a black hole it stays accepted. It closes when both
    sides have ended it and know so of each other, or when one is reset; then the other is, too.
    """

    def __init__(self, relay: _Relay, number: int, client: socket.socket) -> None:
        self.relay = relay
        self.number = number
        self.closed = False
        self._client = client
        self._server: socket.socket | None = None
        self._pipes: tuple[_Pipe, ...] = ()
        _prepare(client)

    def connect(self, target: Address | None) -> None:
        """Connect to the server, once; until that has succeeded nothing is read from the client."""
        if self._server is not None:
            return
        if target is None:
            self.close(reset=True)
            return
        self._server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        _prepare(self._server)
        try:
            self._server.connect(target)
        except BlockingIOError:
            self.relay.loop.add_writer(self._server, self._connected, self._server)
        except OSError:
            self.close(reset=True)
        else:
            self._connected(self._server)

    def pump(self) -> None:
        for pipe in self._pipes:
            pipe.pump()

    def lost(self, pipe: _Pipe) -> None:
        """Called by: a pipe whose sink is gone. The other pipe tells the other side, unless that is gone, too."""
        up, down = self._pipes
        if up.sink_is_gone and down.sink_is_gone:
            self.close(reset=True)
        else:
            (down if pipe is up else up).source_is_gone()

    def has_bytes_on_the_way(self, lane: _Lane) -> bool:
        return any(pipe.lane is lane and _bytes_on_the_way(pipe.sink) > 0 for pipe in self._pipes)

    def close_if_finished(self) -> None:
        if all(pipe.is_finished for pipe in self._pipes):
            self.close(reset=False)

    def close(self, *, reset: bool) -> None:
        """Close both sides: after their last bytes, or with a reset at once."""
        if self.closed:
            return
        self.closed = True
        for pipe in self._pipes:
            pipe.stop_timer()
        for side in (self._client, self._server):
            if side is not None:
                self.relay.loop.remove_reader(side)
                self.relay.loop.remove_writer(side)
                if reset:
                    _reset_on_close(side)
                side.close()
        del self.relay.connections[self.number]

    def _connected(self, server: socket.socket) -> None:
        self.relay.loop.remove_writer(server)
        if server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0:  # refused, as a rule
            self.close(reset=True)
            return
        up, down = self.relay.lanes
        self._pipes = (_Pipe(self, up, self._client, server), _Pipe(self, down, server, self._client))
        self.pump()


class _End(Enum):
    """What a pipe carries besides bytes."""

    FIN = "no more bytes follow"
    RESET = "the source is gone"


class _Pipe:
    """One direction of one connection: reads the source, keeps what is under way, writes the sink.

    That a socket was reset shows in reading or in writing it. Either way it is news from that side, which travels
    behind the bytes in the pipe of which that side is the source, subject to the same faults.
    """

    def __init__(self, connection: _Connection, lane: _Lane, source: socket.socket, sink: socket.socket) -> None:
        self.lane = lane
        self.sink = sink
        self.is_finished = False  # the sink has been told the end
        self.sink_is_gone = False
        self._connection = connection
        self._loop = connection.relay.loop
        self._source = source
        self._under_way: deque[tuple[float, memoryview | _End]] = deque()  # with the time of arrival here
        self._n_bytes = 0  # under way
        self._source_ended = False
        self._sink_is_full = False
        self._turn: _Turn | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reads = False
        self._writes = False

    def pump(self) -> None:
        """Send all that may go now, then wait for what the rest needs: bytes, room, a time, or other faults."""
        self.stop_timer()
        self._sink_is_full = False
        while self._may_send() and self._send_first():
            pass
        if not self._connection.closed:
            self._watch()

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def source_is_gone(self) -> None:
        self._source_ended = True
        self._under_way.append((self._loop.time(), _End.RESET))
        self.pump()

    def _read(self) -> None:
        if not self._may_read():  # a tap has just changed the faults
            return
        try:
            data = self._source.recv(min(READ_SIZE, self.lane.buffer_limit - self._n_bytes))
        except BlockingIOError:
            return
        except OSError:
            self.source_is_gone()
            return
        self._source_ended = not data
        self._n_bytes += len(data)
        self._under_way.append((self._loop.time(), memoryview(data) if data else _End.FIN))
        self.pump()

    def _may_read(self) -> bool:
        has_room = self._n_bytes < self.lane.buffer_limit
        return has_room and self.lane.is_open and not self._source_ended and not self.sink_is_gone

    def _may_send(self) -> bool:
        return bool(self._under_way) and self.lane.is_open and not self.sink_is_gone and not self._connection.closed

    def _send_first(self) -> bool:
        """Send the first thing under way. False: it has to wait."""
        arrived_at, first = self._under_way[0]
        if self._has_to_wait_until(arrived_at + self.lane.faults.delay_s):
            return False
        try:
            if first is _End.FIN:
                self._pass_on_the_end()
            elif first is _End.RESET:
                self._connection.close(reset=True)
            else:
                return self._send_bytes(arrived_at, first)
        except BlockingIOError:
            self._sink_is_full = True
            return False
        except OSError:
            self.sink_is_gone = True
            self._connection.lost(self)
            return False
        return True

    def _pass_on_the_end(self) -> None:
        self.sink.shutdown(socket.SHUT_WR)
        self._under_way.popleft()
        self.is_finished = True
        self._connection.close_if_finished()

    def _send_bytes(self, arrived_at: float, data: memoryview) -> bool:
        n_bytes = len(data)
        rate = self.lane.faults.rate
        if rate is not None:
            if self._turn is None or self._turn.rate is not rate:
                self._turn = rate.next_turn(n_bytes, self._loop.time())
            if self._has_to_wait_until(self._turn.ends_at):
                return False
            n_bytes = self._turn.n_bytes
        if self.lane.bytes_left is not None:
            n_bytes = min(n_bytes, self.lane.bytes_left)
        sent = self.sink.send(data[:n_bytes])
        self._turn = None
        self._n_bytes -= sent
        if sent < len(data):
            self._under_way[0] = (arrived_at, data[sent:])
        else:
            self._under_way.popleft()
        self._connection.relay.forwarded(self._connection.number, self.lane, data[:sent])
        return True

    def _has_to_wait_until(self, when: float) -> bool:
        if when <= self._loop.time():
            return False
        self._timer = self._loop.call_at(when, self.pump)
        return True

    def _watch(self) -> None:
        """Wait for what can be used now and for nothing else, or the loop would turn without pause."""
        reads = self._may_read()
        writes = self._may_send() and self._sink_is_full
        if reads and not self._reads:
            self._loop.add_reader(self._source, self._read)
        elif self._reads and not reads:
            self._loop.remove_reader(self._source)
        if writes and not self._writes:
            self._loop.add_writer(self.sink, self.pump)
        elif self._writes and not writes:
            self._loop.remove_writer(self.sink)
        self._reads, self._writes = reads, writes


def _parse(target: str) -> Address:
    host, _, port = target.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"target {target!r}: has to be host:port")
    return host, int(port)


def _prepare(side: socket.socket) -> None:
    side.setblocking(False)
    with suppress(OSError):  # some systems do not let us set options once the other side has reset the connection
        side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _reset_on_close(side: socket.socket) -> None:
    with suppress(OSError):  # as above
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _bytes_on_the_way(sink: socket.socket) -> int:
    """How many bytes sent the receiver's kernel has not acknowledged (0 where ours does not tell)."""
    if sys.platform != "linux":
        return 0
    try:
        sink.getpeername()
    except OSError:  # reset: they will never arrive
        return 0
    (n_bytes,) = struct.unpack("i", fcntl.ioctl(sink, termios.TIOCOUTQ, bytes(4)))
    return int(n_bytes)
