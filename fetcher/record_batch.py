"""Batches of message format 2, which no 0.8 consumer ever saw (0.11: DefaultRecordBatch, DefaultRecord).

    batch:   first offset 8 | size 4 | leader epoch 4 | magic 1 | crc 4 | attributes 2 | last offset delta 4 |
             first timestamp 8 | largest timestamp 8 | producer id 8, epoch 2, sequence 4 | count 4 | records
    record:  size | attributes 1 | timestamp delta | offset delta | key | value | headers, all numbers varints

Rule: a batch's checksum is looked at before its first record is handed out, so its records are valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from crc32c import crc32c

from fetcher.compression import decompress
from fetcher.errors import InvalidMessageException
from fetcher.message import APPEND_TIME, LARGEST, LOWEST, Message, corrupt, impossible_size, wrapped

MINIMUM_BATCH_SIZE = 49  # without first offset and size

_HEADER = Struct(">qi5xIhiqq14xi")
_CHECKED_FROM = 21  # the checksum is over all that follows it
_FIRST_OFFSET_AND_DELTA = Struct(">q15xi")
_CODEC_BITS = 0x07
_CONTROL_BIT = 0x20
_LONGEST_VARINT_BITS = 70


class Record(Message):
    """A message of format 2; `start` is where its key begins."""

    __slots__ = ("_attributes", "_timestamp_ms")

    def __init__(self, offset: int, data: bytes, start: int, end: int, attributes: int, timestamp_ms: int) -> None:
        self.offset = offset
        self._data = data
        self._start = start
        self._end = end
        self._attributes = attributes
        self._timestamp_ms = timestamp_ms

    @property
    def magic(self) -> int:
        return 2

    @property
    def attributes(self) -> int:
        return self._attributes

    @property
    def timestamp_ms(self) -> int:
        return wrapped(self._timestamp_ms)

    @property
    def timestamp_type(self) -> int:
        return self._attributes >> 3 & 1

    @property
    def key(self) -> bytes | None:
        return self._field(self._start)[0]

    @property
    def value(self) -> bytes | None:
        size, at = self._number(self._start)
        return self._field(at + size if size > 0 else at)[0]

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        _, at = self._field(self._start)
        _, at = self._field(at)
        count, at = self._number(at)
        headers = []
        for _ in range(count):  # one too large ends at the end of the record
            name, at = self._field(at)
            value, at = self._field(at)
            headers.append(((name or b"").decode("utf-8", "replace"), value))
        return headers

    def ensure_valid(self) -> None:
        """Nothing is left to do: see the rule of this module."""

    def _field(self, at: int) -> tuple[bytes | None, int]:
        """What follows its length, and the position after it; a negative length means null."""
        size, start = self._number(at)
        if size < 0:
            return None, start
        if start + size > self._end:
            raise self._cut_short()
        return self._data[start : start + size], start + size

    def _number(self, at: int) -> tuple[int, int]:
        try:
            number, after = _varint(self._data, at)
        except IndexError:
            raise self._cut_short() from None
        if after > self._end:
            raise self._cut_short()
        return number, after

    def _cut_short(self) -> InvalidMessageException:
        return InvalidMessageException(f"Message at offset {self.offset} is shorter than its key, value and headers")


def last_offset_of(data: bytes, position: int) -> int:
    """The offset of the batch's last record, also if that one was compacted away."""
    first_offset, delta = _FIRST_OFFSET_AND_DELTA.unpack_from(data, position)
    if delta < 0:
        raise InvalidMessageException(f"Message batch at offset {first_offset} ends {-delta} before it begins")
    return wrapped(int(first_offset) + int(delta))


def read_batch(data: bytes, position: int, end: int) -> Iterator[Message]:
    """The records of the batch from `position` to `end`; none for a control batch, which is for transactions."""
    if end - position < 12 + MINIMUM_BATCH_SIZE:
        raise impossible_size(end - position - 12)
    first_offset, _, crc, attributes, _, first_ms, largest_ms, count = _HEADER.unpack_from(data, position)
    computed = crc32c(memoryview(data)[position + _CHECKED_FROM : end])
    if computed != crc:
        raise corrupt(crc, computed)
    if attributes & _CONTROL_BIT:
        return iter(())
    records_at = position + _HEADER.size
    if attributes & _CODEC_BITS and records_at < end:
        data = decompress(attributes & _CODEC_BITS, memoryview(data)[records_at:end])
        records_at, end = 0, len(data)
    append_time_ms = largest_ms if attributes >> 3 & 1 == APPEND_TIME else None
    return _records(data, records_at, end, count, first_offset, first_ms, append_time_ms, attributes)


def _records(
    data: bytes,
    position: int,
    end: int,
    count: int,
    first_offset: int,
    first_ms: int,
    append_time_ms: int | None,
    attributes: int,
) -> Iterator[Message]:
    """Small numbers take one or two bytes and are read right here: this is the innermost loop of a consumer."""
    try:
        for _ in range(count):
            size = data[position]
            if size < 0x80:
                size = size >> 1 ^ -(size & 1)
                position += 1
            else:
                size, position = _varint(data, position)
            after = position + size
            if after > end or size < 0:
                raise _cut_short(first_offset)
            timestamp = data[position + 1]
            if timestamp < 0x80:
                timestamp = timestamp >> 1 ^ -(timestamp & 1)
                position += 2
            else:
                timestamp, position = _varint(data, position + 1)
            delta = data[position]
            if delta < 0x80:
                delta = delta >> 1 ^ -(delta & 1)
                position += 1
            else:
                delta, position = _varint(data, position)
            if position > after:
                raise _cut_short(first_offset)
            timestamp_ms = first_ms + timestamp if append_time_ms is None else append_time_ms
            offset = first_offset + delta
            if not LOWEST <= offset <= LARGEST:
                offset = wrapped(offset)
            yield Record(offset, data, position, after, attributes, timestamp_ms)
            position = after
    except IndexError:
        raise _cut_short(first_offset) from None
    if position != end:
        raise InvalidMessageException(f"Message batch at offset {first_offset} holds more than its {count} messages")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A zigzag number and the position after it; IndexError if the data ends before it does."""
    byte = data[position]
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), position + 1
    following = data[position + 1]
    if following < 0x80:
        number = byte & 0x7F | following << 7
        return number >> 1 ^ -(number & 1), position + 2
    number, shift = byte & 0x7F, 0
    while byte >= 0x80:
        position += 1
        shift += 7
        if shift == _LONGEST_VARINT_BITS:
            raise InvalidMessageException("A number in a message batch is longer than 64 bits")
        byte = data[position]
        number |= (byte & 0x7F) << shift
    number &= 0xFFFF_FFFF_FFFF_FFFF  # the tenth byte may hold more, which Java lets go
    return number >> 1 ^ -(number & 1), position + 1


def _cut_short(first_offset: int) -> InvalidMessageException:
    return InvalidMessageException(f"Message batch at offset {first_offset} is shorter than its messages")
