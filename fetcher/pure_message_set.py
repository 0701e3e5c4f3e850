"""What a fetch brings, read in Python: entries of message formats 0, 1 and 2, one after the other.

    entry of format 0, 1:  offset 8 | size 4 | crc 4 | magic 1 | attributes 1 | …            see message.py
    entry of format 2:     first offset 8 | size 4 | leader epoch 4 | magic 1 | …            see record_batch.py

An entry of format 0 or 1 is a message, or a wrapper whose value is a compressed message set; one of format 2 a batch.

Rules: a part of an entry at the end is normal, and ignored. A set holds its own copy of its bytes, since what they came
in may hold many others. Whatever the bytes are, reading them gives messages or a KafkaException, and takes no more
memory than compression.limit_for() allows an entry. _records.pyx does the same, faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from fetcher.compression import LZ4, decompress, limit_for
from fetcher.errors import DecompressionLimitException, InvalidMessageException, UnsupportedCodecException
from fetcher.message import MINIMUM_MESSAGE_SIZE, LegacyMessage, Message, Wrapper, impossible_size, wrapped
from fetcher.record_batch import MINIMUM_BATCH_SIZE, last_offset_of, read_batch

ENTRY_OVERHEAD = 12  # offset and size, which the size does not count
DEEPEST_NESTING = 8

_SMALLEST_ENTRY = ENTRY_OVERHEAD + MINIMUM_MESSAGE_SIZE
_ENTRY = Struct(">qi4xBB")  # offset, size, magic, attributes (in format 2 a byte of the checksum)
_SIZE = Struct(">8xi")
_CODEC_BITS = 0x07


class ByteBufferMessageSet:
    """Messages of one partition as a broker sent them. Iterating is deep, lazy, in order, and may be done again."""

    __slots__ = ("_data", "_known_summary")

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = bytes(data)
        self._known_summary: _Summary | None = None

    @property
    def size_in_bytes(self) -> int:
        """All bytes, with a part of an entry at the end."""
        return len(self._data)

    @property
    def valid_bytes(self) -> int:
        """The bytes of all whole entries; InvalidMessageException if an entry's size is impossible."""
        return self._summary.valid_bytes

    @property
    def has_whole_entry(self) -> bool:
        """False for nothing, and for a part of a message that is larger than the fetch size."""
        return self._summary.valid_bytes > 0

    @property
    def first_offset(self) -> int | None:
        """The first whole entry's offset as stored: a compressed one of format 0 or 1 has that of its last message."""
        return self._summary.first_offset

    @property
    def last_offset(self) -> int | None:
        """The offset of the last message of the last whole entry; the next fetch asks for the one after it."""
        return self._summary.last_offset

    def __iter__(self) -> Iterator[Message]:
        return _messages(self._data, 0, None, None)

    def __repr__(self) -> str:
        return f"ByteBufferMessageSet({len(self._data)} bytes)"

    @property
    def _summary(self) -> _Summary:
        if self._known_summary is None:
            self._known_summary = _summarize(self._data)
        return self._known_summary


class _Summary(NamedTuple):
    """What entries say without being opened."""

    valid_bytes: int
    first_offset: int | None
    last_offset: int | None


class _Budget:
    """How much one entry may still become, all sets inside of sets together."""

    __slots__ = ("depth", "left", "limit")

    def __init__(self, size: int) -> None:
        self.left = self.limit = limit_for(size)
        self.depth = 0


def _summarize(data: bytes) -> _Summary:
    """Step from entry to entry."""
    unpack = _ENTRY.unpack_from
    first = last = None
    position, end = 0, len(data)
    while end - position >= _SMALLEST_ENTRY:
        offset, size, magic, _ = unpack(data, position)
        if size < MINIMUM_MESSAGE_SIZE or (magic == 2 and size < MINIMUM_BATCH_SIZE):
            raise impossible_size(size)
        after = position + ENTRY_OVERHEAD + size
        if after > end:
            break
        if first is None:
            first = offset
        last = offset if magic != 2 else last_offset_of(data, position, offset)
        position = after
    _look_at_the_rest(data, position)
    return _Summary(position, first, last)


def _messages(data: bytes, base: int, wrapper: Wrapper | None, budget: _Budget | None) -> Iterator[Message]:
    """The messages of a set. `base` is added to the stored offsets; `budget` is that of the entry this set was in."""
    unpack = _ENTRY.unpack_from
    position, end = 0, len(data)
    while end - position >= _SMALLEST_ENTRY:
        offset, size, magic, attributes = unpack(data, position)
        if size < MINIMUM_MESSAGE_SIZE:
            raise impossible_size(size)
        start = position + ENTRY_OVERHEAD
        after = start + size
        if after > end:
            break
        if magic < 2:
            message = LegacyMessage(wrapped(base + offset) if base else offset, data, start, after, wrapper)
            if not attributes & _CODEC_BITS:
                yield message
            else:
                yield from _unwrap(message, budget)
        elif magic == 2 and budget is None:
            yield from read_batch(data, position, after)
        else:
            _refuse(LegacyMessage(wrapped(base + offset), data, start, after, wrapper))
        position = after
    _look_at_the_rest(data, position)


def _unwrap(message: LegacyMessage, outer_budget: _Budget | None) -> Iterator[Message]:
    """The messages inside a compressed one, whose own checksum is not looked at: each of theirs will be.

    Unlike 0.8.2.2: a set inside that ends within a message is an error. Brokers cut what they send, not what is in it.
    """
    value = message.value
    if value is None:
        raise InvalidMessageException(f"Message at offset {message.offset} is compressed, but has no value")
    budget = outer_budget or _Budget(len(value))
    if budget.depth == DEEPEST_NESTING:
        raise DecompressionLimitException(
            f"Message at offset {message.offset} is compressed more than {DEEPEST_NESTING} times", limit=budget.limit
        )
    inside = _decompress(message.attributes & _CODEC_BITS, value, budget)
    summary = _summarize(inside)
    if summary.valid_bytes != len(inside):
        raise InvalidMessageException(f"Message set compressed at offset {message.offset} ends within a message")
    budget.depth += 1
    try:
        yield from _messages(inside, _base_of(message, summary.last_offset), _wrapper_of(message), budget)
    finally:
        budget.depth -= 1


def _decompress(codec: int, value: bytes, budget: _Budget) -> bytes:
    if codec > LZ4:  # zstd is for format 2 only
        raise UnsupportedCodecException(f"{codec} is an unknown compression codec", codec=codec)
    inside = decompress(codec, value, limit=budget.left, check_lz4_header=False)
    budget.left -= len(inside)
    return inside


def _base_of(message: LegacyMessage, last_inside: int | None) -> int:
    """What to add to the offsets inside: format 0 stores them as they are, format 1 counts back from the wrapper's."""
    if message.magic == 0 or last_inside is None:
        return 0
    # Some producers left the wrapper's offset at 0; those inside are right then.
    return wrapped(message.offset - last_inside) if message.offset else 0


def _wrapper_of(message: LegacyMessage) -> Wrapper | None:
    return Wrapper(message.timestamp_type, message.timestamp_ms) if message.magic == 1 else None


def _refuse(message: LegacyMessage) -> None:
    """A format we do not know, if it is one and not just a broken byte."""
    message.ensure_valid()
    raise InvalidMessageException(
        f"Message at offset {message.offset} has format {message.magic}; known are 0, 1 and 2"
    )


def _look_at_the_rest(data: bytes, position: int) -> None:
    """What is too short for an entry is a part of one, unless it is long enough to say that it is not."""
    if len(data) - position >= ENTRY_OVERHEAD:
        size = _SIZE.unpack_from(data, position)[0]
        if size < MINIMUM_MESSAGE_SIZE:
            raise impossible_size(size)
