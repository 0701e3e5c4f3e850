"""What kazoo's connection thread waits for, reads and writes, with far fewer calls to the system; for kazoo_client.py.

kazoo waits and reads twice for each answer, waits before each request, and is woken by a byte for each: ten calls. In
Python each of them also lets go of the interpreter and has to wait for it, for which threads with much to do take
their time. Here answers are read as many as have come, and what is known to be there is not waited for.
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import threading
from collections.abc import Sequence
from typing import Any

READ_BYTES = 64 * 1024
SEND_BYTES = 4 * 1024  # some dozens of requests: the server has begun with them before the last is there
SEND_TIMEOUT_S = 10.0


class BufferedSocket:
    """A connection that is read ahead and sends several requests at once, waiting for room by itself.

    wait_for() calls flush() before it waits; `pending()` says whether it has to wait.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._ahead = b""
        self._position = 0
        self._unsent = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

    def getpeername(self) -> Any:
        return self._socket.getpeername()

    def setblocking(self, flag: bool) -> None:
        self._socket.setblocking(flag)

    def shutdown(self, how: int) -> None:
        self._socket.shutdown(how)

    def close(self) -> None:
        self._socket.close()

    def pending(self) -> int:
        """Bytes that recv() has without waiting."""
        return len(self._ahead) - self._position

    def recv(self, size: int) -> bytes:
        """Up to `size` bytes; none if the server has closed the connection."""
        if self._position == len(self._ahead):
            self._ahead, self._position = self._socket.recv(READ_BYTES), 0
        chunk = self._ahead[self._position : self._position + size]
        self._position += len(chunk)
        return chunk

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """How much of it was taken: all. It goes out with the next flush(), at once if it is enough."""
        self._unsent += data
        if len(self._unsent) >= SEND_BYTES:
            self.flush()
        return len(data)

    def flush(self) -> None:
        """Send what was taken. Reads while there is no room, or both sides might wait for each other."""
        while self._unsent:
            try:
                del self._unsent[: self._socket.send(self._unsent)]
            except BlockingIOError:
                self._wait_for_room()

    def _wait_for_room(self) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | select.POLLOUT)
        ready = poll.poll(SEND_TIMEOUT_S * 1000)
        if not ready:
            raise TimeoutError(errno.ETIMEDOUT, "the server takes no more requests")
        if ready[0][1] & select.POLLIN:
            received = self._socket.recv(READ_BYTES)
            if not received:
                raise ConnectionResetError(errno.ECONNRESET, "the server closed the connection")
            self._ahead, self._position = self._ahead[self._position :] + received, 0


class Counter:
    """Looks to kazoo like both ends of a socket pair: send() counts up, recv() down; readable while it is above 0."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._count = 0
        self._lock = threading.Lock()

    def fileno(self) -> int:
        return self._descriptor

    def pending(self) -> int:
        return self._count

    def send(self, data: bytes) -> int:
        """Called by: whoever asks ZooKeeper for something."""
        with self._lock:
            if not self._count or self._descriptor < 0:
                os.eventfd_write(self._descriptor, 1)  # ValueError when it is closed
            self._count += len(data)
        return len(data)

    def recv(self, size: int) -> bytes:
        """One of them. Called by: kazoo's connection thread."""
        with self._lock:
            if self._count < 2:
                os.eventfd_read(self._descriptor)  # BlockingIOError at 0
            self._count = max(0, self._count - 1)
        return b"\0"

    def close(self) -> None:
        """Called twice, once for each end."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, -1
            if descriptor >= 0:
                os.close(descriptor)


def _pending(files: Sequence[Any]) -> list[Any]:
    return [file for file in files if hasattr(file, "pending") and file.pending()]  # sockets with TLS too


def wait_for(
    readers: Sequence[Any], writers: Sequence[Any], timeout_s: float | None
) -> tuple[list[Any], list[Any], list[Any]]:
    """Like select.select(), for sockets and the two above. Whoever has something pending is ready, without a look.

    What was taken to be sent is sent before anybody waits, and when the counter says that no request is left.
    """
    if len(readers) + len(writers) == 1:  # twice or thrice a request, so without more ado
        [file] = readers or writers
        if type(file) is BufferedSocket and (writers or file.pending()):  # room is waited for in flush()
            return list(readers), list(writers), []
    ready = _pending(readers)
    if not ready or type(ready[-1]) is not Counter:  # which kazoo names last
        for file in readers:
            if type(file) is BufferedSocket:
                file.flush()
        ready = ready or _pending(readers)  # flush() may read
    if ready:
        return ready, [], []
    events: dict[int, int] = {}
    for files, event in ((readers, select.POLLIN), (writers, select.POLLOUT)):
        for file in files:
            events[file.fileno()] = events.get(file.fileno(), 0) | event
    if min(events) < 0:
        raise ValueError("a descriptor that is closed")
    poll = select.poll()
    for descriptor, event in events.items():
        poll.register(descriptor, event)
    found = dict(poll.poll(None if timeout_s is None else math.ceil(timeout_s * 1000)))
    # An error or a hang-up shows itself to whoever reads or writes next.
    readable = [file for file in readers if found.get(file.fileno(), 0) & ~select.POLLOUT]
    return readable, [file for file in writers if found.get(file.fileno(), 0) & ~select.POLLIN], []


__all__ = ["BufferedSocket", "Counter", "wait_for"]
