"""One message, in whichever format it was written (0.8: kafka.message.Message, MessageAndOffset).

A message is a position in the bytes of its set: key, value and the rest are made when asked for, each time anew.
Whoever keeps a message keeps its whole set; keep the value instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple
from zlib import crc32

from fetcher.errors import InvalidMessageException, KafkaException

MINIMUM_MESSAGE_SIZE = 14
LOWEST, LARGEST = -(2**63), 2**63 - 1  # of Java's numbers
NO_TIMESTAMP_MS = -1
NO_TIMESTAMP_TYPE, CREATE_TIME, APPEND_TIME = -1, 0, 1

_CRC = Struct(">I")
_TIMESTAMP = Struct(">q")
_LENGTH = Struct(">i")
_LENGTHS = Struct(">ii")  # of key and value, where the key is null or empty
KEY_AT = (6, 14)  # bytes before the key, by magic: crc, magic, attributes, and in format 1 a timestamp


class Message(ABC):
    """What a stream delivers, before decoders. `offset` is absolute."""

    __slots__ = ("_data", "_end", "_start", "offset")

    offset: int
    _data: bytes
    _start: int
    _end: int

    @property
    @abstractmethod
    def magic(self) -> int:
        """The format: 0, 1 or 2."""

    @property
    @abstractmethod
    def attributes(self) -> int:
        """Codec and flags, of the message or, in format 2, of its batch."""

    @property
    @abstractmethod
    def timestamp_ms(self) -> int:
        """-1 if there is none."""

    @property
    @abstractmethod
    def timestamp_type(self) -> int:
        """0: the producer's time, 1: the broker's, -1: format 0 has none."""

    @property
    @abstractmethod
    def key(self) -> bytes | None:
        """InvalidMessageException if it does not lie within the message."""

    @property
    @abstractmethod
    def value(self) -> bytes | None:
        """InvalidMessageException if it does not lie within the message."""

    @property
    @abstractmethod
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Empty before format 2."""

    @abstractmethod
    def ensure_valid(self) -> None:
        """InvalidMessageException if the stored checksum is not the computed one (0.8: ensureValid)."""

    @property
    def size(self) -> int:
        """Bytes it takes; in format 2 those of key, value and headers."""
        return self._end - self._start

    def __repr__(self) -> str:
        return f"{type(self).__name__}(offset={self.offset}, magic={self.magic}, {self.size} bytes)"


class Wrapper(NamedTuple):
    """What a compressed message of format 1 says about those inside it."""

    timestamp_type: int
    timestamp_ms: int


class LegacyMessage(Message):
    """A message of format 0 or 1: crc 4 | magic 1 | attributes 1 | [timestamp 8] | key 4 + n | value 4 + n."""

    __slots__ = ("_wrapper",)

    _wrapper: Wrapper | None

    def __init__(self, offset: int, data: bytes, start: int, end: int, wrapper: Wrapper | None) -> None:
        self.offset = offset
        self._data = data
        self._start = start
        self._end = end
        self._wrapper = wrapper

    @property
    def magic(self) -> int:
        return self._data[self._start + 4]

    @property
    def attributes(self) -> int:
        return self._data[self._start + 5]

    @property
    def timestamp_ms(self) -> int:
        if self.magic == 0:
            return NO_TIMESTAMP_MS
        if self._wrapper is not None and self._wrapper.timestamp_type == APPEND_TIME:
            return self._wrapper.timestamp_ms
        return int(_TIMESTAMP.unpack_from(self._data, self._start + 6)[0])

    @property
    def timestamp_type(self) -> int:
        if self.magic == 0:
            return NO_TIMESTAMP_TYPE
        return self._wrapper.timestamp_type if self._wrapper is not None else self.attributes >> 3 & 1

    @property
    def key(self) -> bytes | None:
        return self._field(self._start + KEY_AT[self._data[self._start + 4]])

    @property
    def value(self) -> bytes | None:
        data = self._data
        at = self._start + KEY_AT[data[self._start + 4]]
        try:
            key_size, size = _LENGTHS.unpack_from(data, at)
        except struct_error:
            raise self._cut_short() from None
        if key_size > 0:
            return self._field(at + 4 + key_size)
        at += 8
        end = at + size
        if at > self._end or end > self._end:
            raise self._cut_short()
        return data[at:end] if size >= 0 else None

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        return []

    def ensure_valid(self) -> None:
        stored = _CRC.unpack_from(self._data, self._start)[0]
        computed = crc32(self._data[self._start + 4 : self._end])
        if stored != computed:
            raise corrupt(stored, computed)

    def _field(self, at: int) -> bytes | None:
        """What follows its length. As in 0.8.2.2: any negative length means null."""
        start = at + 4
        try:
            end = start + _LENGTH.unpack_from(self._data, at)[0]
        except struct_error:
            raise self._cut_short() from None
        if start > self._end or end > self._end:
            raise self._cut_short()
        return self._data[start:end] if end >= start else None

    def _cut_short(self) -> InvalidMessageException:
        return InvalidMessageException(f"Message at offset {self.offset} is shorter than its key and value")


def wrapped(number: int) -> int:
    """A sum of stored numbers as Java has it, in 64 bits; only in hostile sets it is another."""
    return number if LOWEST <= number <= LARGEST else (number - LOWEST) % 2**64 + LOWEST


def corrupt(stored: int, computed: int) -> InvalidMessageException:
    """In 0.8's words."""
    return InvalidMessageException(
        f"Message is corrupt (stored crc = {stored}, computed crc = {computed})",
        stored_crc=stored,
        computed_crc=computed,
    )


def invalid_offset(offset: int) -> KafkaException:
    """In 0.8's words. The next offset is the one it would store, which wraps as Java's numbers do."""
    return KafkaException(f"Offset returned by the message set is invalid {wrapped(offset + 1)}")


def impossible_size(size: int) -> InvalidMessageException:
    """In 0.8's words."""
    return InvalidMessageException(f"Message found with corrupt size ({size})")
