"""The requests a broker sees, decoded from the bytes that go through a Link.

Only what old consumers send: fetch, offsets, metadata, the offset manager's three, and the question for versions.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from zkconsumer.testing.link import Direction

APIS = {
    1: "fetch",
    2: "offsets",
    3: "metadata",
    8: "offset commit",
    9: "offset fetch",
    10: "find offset manager",
    18: "api versions",
}


class Seen(NamedTuple):
    """One request: what was asked, and how. Partitions are in the order in which they were named."""

    connection: int
    api: str
    version: int
    correlation_id: int
    client_id: str
    fields: dict[str, Any]
    partitions: tuple[tuple[Any, ...], ...]  # topic, partition, and what is said of it

    @property
    def asked(self) -> tuple[Any, ...]:
        """Without what counts up."""
        return self.api, self.version, self.client_id, tuple(self.fields.items()), tuple(sorted(self.partitions))


class WireTap:
    """Give `link.tap` an object of this; `seen` are the requests so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unread: dict[int, bytes] = {}
        self._seen: list[Seen] = []

    def __call__(self, connection: int, direction: Direction, data: bytes) -> None:
        if direction is not Direction.UP:
            return
        with self._lock:
            unread = self._unread.get(connection, b"") + data
            while len(unread) >= 4 and len(unread) >= 4 + (size := int.from_bytes(unread[:4], "big")):
                self._seen.append(decode(connection, unread[4 : 4 + size]))
                unread = unread[4 + size :]
            self._unread[connection] = unread

    @property
    def seen(self) -> list[Seen]:
        with self._lock:
            return list(self._seen)

    @property
    def connections(self) -> list[int]:
        """All that were opened, also those over which nothing was asked."""
        with self._lock:
            return sorted(self._unread)


def decode(connection: int, frame: bytes) -> Seen:
    """A request without its size. A version whose form is not known here has no fields."""
    reader = _Reader(frame)
    key, version, correlation_id = reader.int16(), reader.int16(), reader.int32()
    client_id = reader.text()
    read = _BODIES.get((key, version)) or _BODIES.get((key, -1))
    fields, partitions = read(reader, version) if read is not None else ({}, ())
    return Seen(connection, APIS.get(key, str(key)), version, correlation_id, client_id, fields, tuple(partitions))


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int8(self) -> int:
        return self._number(">b")

    def int16(self) -> int:
        return self._number(">h")

    def int32(self) -> int:
        return self._number(">i")

    def int64(self) -> int:
        return self._number(">q")

    def text(self) -> str:
        size = max(self.int16(), 0)
        start = self._position
        self._position += size
        return self._data[start : start + size].decode()

    def array(self, read: Callable[[], Any]) -> list[Any]:
        return [read() for _ in range(max(self.int32(), 0))]

    def partitions(self, read: Callable[[], tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Topics with their partitions; `read` takes what follows a partition's number."""
        found = []
        for _ in range(self.int32()):
            topic = self.text()
            found += self.array(lambda: (topic, self.int32(), *read()))  # noqa: B023
        return found

    def _number(self, form: str) -> int:
        value: int = struct.unpack_from(form, self._data, self._position)[0]
        self._position += struct.calcsize(form)
        return value


_Body = tuple[dict[str, Any], Any]


def _fetch(reader: _Reader, version: int) -> _Body:
    fields = {"replica": reader.int32(), "max_wait": reader.int32(), "min_bytes": reader.int32()}
    if version >= 3:
        fields["max_bytes"] = reader.int32()
    if version >= 4:
        fields["isolation"] = reader.int8()
    if version >= 7:
        fields |= {"session": reader.int32(), "epoch": reader.int32()}
    return fields, reader.partitions(lambda: _fetch_partition(reader, version))


def _fetch_partition(reader: _Reader, version: int) -> tuple[int, ...]:
    """Offset and size."""
    if version >= 9:
        reader.int32()  # leader epoch
    offset = reader.int64()
    if version >= 5:
        reader.int64()  # log start
    return offset, reader.int32()


def _offsets(reader: _Reader, version: int) -> _Body:
    fields = {"replica": reader.int32()}
    read = (lambda: (reader.int64(), reader.int32())) if version == 0 else (lambda: (reader.int64(),))
    return fields, reader.partitions(read)


def _metadata(reader: _Reader, version: int) -> _Body:
    return {}, [(topic,) for topic in reader.array(reader.text)]


def _commit(reader: _Reader, version: int) -> _Body:
    fields: dict[str, Any] = {"group": reader.text(), "generation": reader.int32(), "consumer": reader.text()}
    if version >= 2:
        fields["retention"] = reader.int64()
        return fields, reader.partitions(lambda: (reader.int64(), reader.text()))
    return fields, reader.partitions(lambda: (reader.int64(), _sign(reader.int64()), reader.text()))


def _offset_fetch(reader: _Reader, version: int) -> _Body:
    return {"group": reader.text()}, reader.partitions(lambda: ())


def _find(reader: _Reader, version: int) -> _Body:
    return {"group": reader.text()}, ()


def _sign(number: int) -> str:
    """A time is another in each run; none is -1."""
    return "none" if number == -1 else "a time"


_BODIES: dict[tuple[int, int], Callable[[_Reader, int], _Body]] = {
    (1, -1): _fetch,
    (2, 0): _offsets,
    (2, 1): _offsets,
    (3, 0): _metadata,
    (8, -1): _commit,
    (9, -1): _offset_fetch,
    (10, 0): _find,
}
