"""A TCP server that answers requests with the bytes a test gives it.

It knows how requests are framed and nothing of what brokers do: what comes back, when, and whether, is the test's. For
moments that no real broker can be brought into; everything else is tested on real ones.
"""

from __future__ import annotations

import socket
import struct
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

from fetcher.structs import Broker

FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 1, 2, 3, 18


class Request(NamedTuple):
    """One request as it came: `connection` counts from 1."""

    connection: int
    api_key: int
    version: int
    correlation_id: int
    client_id: str
    body: bytes


class HangUp:
    """An answer: close the connection."""


class Silence:
    """An answer: none, for ever."""


class Raw(NamedTuple):
    """An answer with its own length and correlation id, however wrong."""

    data: bytes


Answer = bytes | Raw | type[HangUp] | type[Silence]


class ScriptedBroker:
    """Calls `script(request)` for each request, in a thread a connection, and sends what it returns."""

    def __init__(self, script: Callable[[Request], Answer]) -> None:
        self._script = script
        self._listener = socket.socket()
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._closed = False
        self.port = 0
        self.requests: list[Request] = []

    def __enter__(self) -> Self:
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(50)
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            _shut_down(connection)
        for thread in self._threads:
            thread.join(20)

    @property
    def broker(self) -> Broker:
        return Broker(0, "127.0.0.1", self.port)

    @property
    def number_of_connections(self) -> int:
        with self._lock:
            return len(self._connections)

    def _start(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name="scripted-broker", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._connections.append(connection)
                number = len(self._connections)
            self._start(partial(self._serve, connection, number))

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as incoming:
            while True:
                try:
                    request = _read(incoming.read, number)
                except OSError:
                    return
                if request is None:
                    return
                self.requests.append(request)
                answer = self._script(request)
                if answer is HangUp:
                    return
                if answer is not Silence:
                    _send(connection, request, answer)  # type: ignore[arg-type]


def _read(read: Callable[[int], bytes], number: int) -> Request | None:
    prefix = read(4)
    if len(prefix) < 4:
        return None
    data = read(int.from_bytes(prefix, "big"))
    api_key, version, correlation_id, length = struct.unpack_from(">hhih", data)
    client_id = data[10 : 10 + length].decode()
    return Request(number, api_key, version, correlation_id, client_id, data[10 + length :])


def _send(connection: socket.socket, request: Request, answer: bytes | Raw) -> None:
    if isinstance(answer, Raw):
        data = answer.data
    else:
        data = struct.pack(">ii", len(answer) + 4, request.correlation_id) + answer
    try:
        connection.sendall(data)
    except OSError:
        pass  # the client has gone: its test knows


def _shut_down(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # closed already


def text(value: str) -> bytes:
    """A string as requests and answers have it."""
    return struct.pack(">h", len(value.encode())) + value.encode()


def array(items: Sequence[bytes]) -> bytes:
    """An array of encoded items."""
    return struct.pack(">i", len(items)) + b"".join(items)


def message(offset: int, value: bytes) -> bytes:
    """An entry of message format 0: offset, size, crc, magic, attributes, no key, value."""
    body = struct.pack(">bbii", 0, 0, -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


class Part(NamedTuple):
    """What a fetch answers for one partition."""

    messages: bytes = b""
    error_code: int = 0
    high_watermark: int = 1000


def fetch_answer(topics: Mapping[str, Mapping[int, Part]]) -> bytes:
    """A fetch response of version 0."""
    return array(
        [
            text(topic)
            + array(
                [
                    struct.pack(">ihqi", number, part.error_code, part.high_watermark, len(part.messages))
                    + part.messages
                    for number, part in partitions.items()
                ]
            )
            for topic, partitions in topics.items()
        ]
    )


def offsets_answer(topic: str, partition: int, offset: int, error_code: int = 0) -> bytes:
    """A list offsets response of version 0."""
    offsets = array([struct.pack(">q", offset)] if not error_code else [])
    return array([text(topic) + array([struct.pack(">ih", partition, error_code) + offsets])])


def asked_offsets(request: Request) -> dict[tuple[str, int], tuple[int, int]]:
    """{(topic, partition): (offset, fetch size)} of a fetch request of version 0 to 3."""
    position = 12 if request.version < 3 else 16  # replica id, max wait, min bytes, max bytes
    asked = {}
    (topics,) = struct.unpack_from(">i", request.body, position)
    position += 4
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", request.body, position)
        topic = request.body[position + 2 : position + 2 + length].decode()
        (partitions,) = struct.unpack_from(">i", request.body, position + 2 + length)
        position += 6 + length
        for _ in range(partitions):
            partition, offset, size = struct.unpack_from(">iqi", request.body, position)
            asked[topic, partition] = (offset, size)
            position += 16
    return asked
