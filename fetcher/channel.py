"""A connection to a broker on which one waits for the answer (0.8: kafka.network.BlockingChannel).

Requests and answers are framed: four bytes of length, then as many bytes. Rule: this is the only file with `socket`,
and every wait in it watches a second descriptor, on which abort() ends the wait from another thread.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import select
import socket
import struct
import threading
import time
from typing import Any

from fetcher.errors import ClosedChannelException, MalformedResponseException
from fetcher.receiving import CLOSED, TIMED_OUT, WOKEN, receive, receive_answer, send_some

SMALLEST_RESPONSE = 4  # a correlation id
BUFFER_STEP = 8 * 1024 * 1024  # memory is taken as bytes arrive, not as a length promises them

_SIZE = struct.Struct(">i")
_Address = tuple[int, Any]  # family, and what connect() takes for it


class BlockingChannel:
    """One connection, used by one thread.

    States: closed -> (connect) -> open -> (disconnect, or an error) -> closed; and from either, by abort() of any other
    thread, aborted for ever. Errors are OSErrors (TimeoutError among them), ClosedChannelException and
    MalformedResponseException; after any of them the channel has to be disconnected.
    """

    def __init__(
        self, host: str, port: int, *, connect_timeout_s: float, read_timeout_s: float, receive_buffer_bytes: int
    ) -> None:
        self.host = host
        self.port = port
        self._connect_timeout_s = connect_timeout_s
        self._read_timeout_s = read_timeout_s
        self._receive_buffer_bytes = receive_buffer_bytes
        self._socket: socket.socket | None = None
        self._likely_bytes = SMALLEST_RESPONSE  # of the next answer: the last one's
        self._waker = _Waker()

    @property
    def is_connected(self) -> bool:
        """True between connect() and disconnect(), whatever the broker thinks."""
        return self._socket is not None

    def connect(self) -> None:
        """Open the connection; does nothing if it is open."""
        if self._socket is not None:
            return
        self._waker.open()
        deadline = time.monotonic() + self._connect_timeout_s
        try:
            self._socket = self._connect_to_any(self._resolve(deadline), deadline)
        except BaseException:
            self.disconnect()
            raise

    def disconnect(self) -> None:
        """Close the connection. Idempotent."""
        connected, self._socket = self._socket, None
        if connected is not None:
            connected.close()
        self._waker.close()

    def abort(self) -> None:
        """Make whatever the channel's thread waits for, now or later, raise at once. Called by: any other thread."""
        self._waker.wake_for_ever()

    def wait_at_most(self, seconds: float) -> None:
        """From now on, for sending and for an answer."""
        self._read_timeout_s = min(self._read_timeout_s, seconds)

    def send(self, request: bytes | bytearray | memoryview) -> None:
        """Send all of a request, which brings its own length."""
        connected = self._connected()
        left = memoryview(request)
        if send_some is not None:
            left = left[send_some(connected.fileno(), left) :]
        while left:
            self._waker.check()
            try:
                left = left[connected.send(left) :]
            except (BlockingIOError, InterruptedError):
                self._wait(connected, select.POLLOUT, time.monotonic() + self._read_timeout_s, "sending")

    def receive(self) -> memoryview:
        """The next answer, without its length. Nobody else holds its bytes."""
        connected = self._connected()
        if receive_answer is not None:
            outcome, size, answer = receive_answer(
                connected.fileno(),
                self._waker.descriptor.fileno(),
                self._likely_bytes,
                SMALLEST_RESPONSE,
                BUFFER_STEP,
                self._read_timeout_ms(),
            )
            self._check_outcome(outcome)
            if answer is not None:
                self._likely_bytes = size
                return memoryview(answer)
        else:
            prefix = bytearray(_SIZE.size)
            self._fill(connected, memoryview(prefix))
            (size,) = _SIZE.unpack(prefix)
        if size < SMALLEST_RESPONSE:
            raise MalformedResponseException(
                f"{self._where()} announced a response of {size} bytes; the smallest has {SMALLEST_RESPONSE}"
            )
        return self._receive_body(connected, size)

    def _receive_body(self, connected: socket.socket, size: int) -> memoryview:
        body = bytearray(min(size, BUFFER_STEP))
        filled = 0
        while True:
            with memoryview(body) as view:
                self._fill(connected, view[filled:])
            filled = len(body)
            if filled == size:
                return memoryview(body)
            body.extend(bytes(min(size - filled, BUFFER_STEP)))

    def _fill(self, connected: socket.socket, target: memoryview) -> None:
        if receive is None:
            self._fill_in_pieces(connected, target)
            return
        self._waker.check()
        waker = self._waker.descriptor.fileno()
        self._check_outcome(receive(connected.fileno(), waker, target, self._read_timeout_ms()))

    def _read_timeout_ms(self) -> int:
        return max(1, int(self._read_timeout_s * 1000))

    def _check_outcome(self, outcome: int) -> None:
        self._waker.check()
        if outcome == CLOSED:
            raise ClosedChannelException(f"{self._where()} closed the connection")
        if outcome == TIMED_OUT:
            raise TimeoutError(f"waited too long for an answer: {self._where()}")
        if outcome == WOKEN:
            raise ChannelAborted("the connection was given up by its owner")

    def _fill_in_pieces(self, connected: socket.socket, target: memoryview) -> None:
        """The same without the compiled reader."""
        while target:
            self._waker.check()
            try:
                received = connected.recv_into(target)
            except (BlockingIOError, InterruptedError):
                self._wait(connected, select.POLLIN, time.monotonic() + self._read_timeout_s, "an answer")
                continue
            if received == 0:
                raise ClosedChannelException(f"{self._where()} closed the connection")
            target = target[received:]

    def _connected(self) -> socket.socket:
        self._waker.check()
        if self._socket is None:
            raise ClosedChannelException(f"not connected to {self._where()}")
        return self._socket

    def _connect_to_any(self, addresses: list[_Address], deadline: float) -> socket.socket:
        error: OSError | None = None
        for family, address in addresses:
            candidate = socket.socket(family, socket.SOCK_STREAM)
            try:
                self._connect_one(candidate, address, deadline)
                return candidate
            except OSError as raised:
                candidate.close()
                error = raised
            except BaseException:
                candidate.close()
                raise
        raise error or ClosedChannelException(f"{self._where()} has no address")

    def _connect_one(self, candidate: socket.socket, address: Any, deadline: float) -> None:
        candidate.setblocking(False)
        if self._receive_buffer_bytes > 0:
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        candidate.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = candidate.connect_ex(address)
        if code in (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR):
            self._wait(candidate, select.POLLOUT, deadline, "the connection")
            code = candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, f"{os.strerror(code)}: {self._where()}")

    def _resolve(self, deadline: float) -> list[_Address]:
        """The addresses of the host. Asked for in a thread of its own: a name server that is away cannot be aborted."""
        try:
            literal = ipaddress.ip_address(self.host)
        except ValueError:
            return self._resolve_name(deadline)
        return [(socket.AF_INET if literal.version == 4 else socket.AF_INET6, (self.host, self.port))]

    def _resolve_name(self, deadline: float) -> list[_Address]:
        answers: list[list[_Address] | OSError] = []
        asked, answered = socket.socketpair()

        def ask() -> None:
            try:
                found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
                answers.append([(family, address) for family, _, _, _, address in found])
            except OSError as raised:
                answers.append(raised)
            finally:
                answered.close()  # which `asked` notices

        with asked:
            threading.Thread(target=ask, name=f"resolve-{self.host}", daemon=True).start()
            self._wait(asked, select.POLLIN, deadline, "its address")
        if isinstance(answers[0], OSError):
            raise answers[0]
        return answers[0]

    def _wait(self, descriptor: socket.socket, event: int, deadline: float, what: str) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        poll.register(self._waker.descriptor, select.POLLIN)
        left_s = deadline - time.monotonic()
        ready = poll.poll(max(0, left_s * 1000)) if left_s > 0 else []
        self._waker.check()
        if not ready:
            raise TimeoutError(f"waited too long for {what}: {self._where()}")

    def _where(self) -> str:
        return f"{self.host}:{self.port}"


class _Waker:
    """A descriptor that becomes readable when another thread wants the waiting to end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pair: tuple[socket.socket, socket.socket] | None = None
        self._aborted = False

    @property
    def descriptor(self) -> socket.socket:
        """Readable after wake_for_ever()."""
        assert self._pair is not None, "open() comes first"
        return self._pair[0]

    def open(self) -> None:
        with self._lock:
            if not self._aborted and self._pair is None:
                self._pair = socket.socketpair()
        self.check()

    def close(self) -> None:
        with self._lock:
            pair, self._pair = self._pair, None
            for end in pair or ():
                end.close()

    def wake_for_ever(self) -> None:
        with self._lock:
            if not self._aborted:
                self._aborted = True
                if self._pair is not None:
                    self._pair[1].send(b"!")

    def check(self) -> None:
        if self._aborted:
            raise ChannelAborted("the connection was given up by its owner")


class ChannelAborted(ClosedChannelException):
    """abort() was called: nobody wants the answer any more."""


__all__ = ["BlockingChannel", "ChannelAborted"]
