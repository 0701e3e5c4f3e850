"""Kafka's plain types as bytes: what the hot path needs and no more (0.8: kafka.api.ApiUtils).

Rule: what is read is never trusted. Every mistake is a MalformedResponseException that names the response, the field
and the byte, and no count or size in the data makes us hold more than the data itself.
"""

from __future__ import annotations

from collections.abc import Collection
from struct import Struct

from fetcher.errors import MalformedResponseException

INT8 = Struct(">b")
INT16 = Struct(">h")
INT32 = Struct(">i")

_REQUEST_HEADER = Struct(">hhi")


def encode_string(text: str | None) -> bytes:
    """Length in two bytes, then UTF-8; null has length -1."""
    if text is None:
        return INT16.pack(-1)
    data = text.encode()
    return INT16.pack(len(data)) + data


def encode_array(items: Collection[bytes]) -> bytes:
    """How many, then one after the other."""
    return INT32.pack(len(items)) + b"".join(items)


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str | None, body: bytes) -> bytes:
    """A whole request with its size in front."""
    request = _REQUEST_HEADER.pack(api_key, version, correlation_id) + encode_string(client_id) + body
    return INT32.pack(len(request)) + request


class Reader:
    """Goes through a response from front to back. `name` is for errors."""

    __slots__ = ("_data", "_end", "_name", "position")

    def __init__(self, data: bytes | bytearray | memoryview, name: str) -> None:
        self._data = memoryview(data)
        self._end = len(self._data)
        self._name = name
        self.position = 0

    @property
    def left(self) -> int:
        return self._end - self.position

    def numbers(self, form: Struct, field: str) -> tuple[int, ...]:
        """Several numbers at once."""
        start = self.position
        end = start + form.size
        if end > self._end:
            raise self.error(field, f"{form.size} bytes needed, {self.left} left")
        self.position = end
        return form.unpack_from(self._data, start)

    def if_there(self, form: Struct) -> tuple[int, ...] | None:
        """The same without moving; None if less is left."""
        return form.unpack_from(self._data, self.position) if form.size <= self._end - self.position else None

    def number(self, form: Struct, field: str) -> int:
        return self.numbers(form, field)[0]

    def count(self, field: str, smallest_item: int) -> int:
        """The length of an array, null being none; never more than there can be items of that size in what is left."""
        return self.possible_count(self.number(INT32, field), field, smallest_item)

    def possible_count(self, count: int, field: str, smallest_item: int) -> int:
        """The same for a count that was read with what stands before it."""
        if count < -1 or count * smallest_item > self.left:
            raise self.error(field, f"{count} items announced, {self.left} bytes left")
        return max(count, 0)

    def string(self, field: str) -> str:
        data = self._sized(self.number(INT16, field), field)
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError:
            raise self.error(field, "not UTF-8") from None

    def skip(self, size: int) -> None:
        """Of what count() has found to be there."""
        self.position += size

    def view(self, field: str) -> memoryview:
        """Bytes after their size, not copied; null is empty."""
        return self.sized_view(self.number(INT32, field), field)

    def sized_view(self, size: int, field: str) -> memoryview:
        """The same for a size that was read with what stands before it."""
        return self._sized(0 if size == -1 else size, field)

    def end(self) -> None:
        """Nothing may be left."""
        if self.left:
            raise self.error("its end", f"{self.left} bytes are left over")

    def error(self, field: str, problem: str) -> MalformedResponseException:
        return MalformedResponseException(f"{self._name}: {field} at byte {self.position}: {problem}")

    def _sized(self, size: int, field: str) -> memoryview:
        if not 0 <= size <= self.left:
            raise self.error(field, f"{size} bytes announced, {self.left} left")
        start = self.position
        self.position += size
        return self._data[start : self.position]
