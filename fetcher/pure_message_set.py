"""What a fetch brings, read in Python: entries of message formats 0, 1 and 2, one after the other.

    entry of format 0, 1:  offset 8 | size 4 | crc 4 | magic 1 | attributes 1 | …            see message.py
    entry of format 2:     first offset 8 | size 4 | leader epoch 4 | magic 1 | …            see record_batch.py

An entry of format 0 or 1 is a message, or a wrapper whose value is a compressed message set; one of format 2 a batch.

Rules: a part of an entry at the end is normal, and ignored. A set holds its own copy of its bytes, since what they came
in may hold many others. Whatever the bytes are, reading them gives messages or a KafkaException, and takes no more
memory than compression.limit_for() allows an entry. _records.pyx does the same, faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from fetcher.compression import LZ4, decompress, limit_for
from fetcher.errors import DecompressionLimitException, InvalidMessageException, UnsupportedCodecException
from fetcher.message import (
    LARGEST,
    LOWEST,
    MINIMUM_MESSAGE_SIZE,
    LegacyMessage,
    Message,
    Wrapper,
    impossible_size,
    wrapped,
)
from fetcher.record_batch import MINIMUM_BATCH_SIZE, last_offset_of, read_batch

ENTRY_OVERHEAD = 12  # offset and size, which the size does not count
DEEPEST_NESTING = 8

_SMALLEST_ENTRY = ENTRY_OVERHEAD + MINIMUM_MESSAGE_SIZE
_ENTRY = Struct(">qi4xBB")  # offset, size, magic, attributes (in format 2 a byte of the checksum)
_CHECKED_ENTRY = Struct(">qiIBB")  # the same with its checksum, as formats 0 and 1 have it
_SIZE_AND_MAGIC = Struct(">8xi4xB")
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
        return MessageReader(self._data)

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

    __slots__ = ("left", "limit")

    def __init__(self, size: int) -> None:
        self.left = self.limit = limit_for(size)


def _summarize(data: bytes) -> _Summary:
    """Step from entry to entry."""
    unpack = _SIZE_AND_MAGIC.unpack_from
    position, end, last_entry = 0, len(data), -1
    last_possible = end - _SMALLEST_ENTRY
    while position <= last_possible:
        size, magic = unpack(data, position)
        if size < MINIMUM_MESSAGE_SIZE or (magic == 2 and size < MINIMUM_BATCH_SIZE):
            raise impossible_size(size)
        after = position + ENTRY_OVERHEAD + size
        if after > end:
            break
        if magic == 2:
            last_offset_of(data, position)  # an error if it ends before it begins
        last_entry, position = position, after
    _look_at_the_rest(data, position)
    if last_entry < 0:
        return _Summary(position, None, None)
    return _Summary(position, _ENTRY.unpack_from(data)[0], _last_offset_of_entry(data, last_entry))


def _last_offset_of_entry(data: bytes, position: int) -> int:
    offset, _, magic, _ = _ENTRY.unpack_from(data, position)
    return int(offset) if magic != 2 else last_offset_of(data, position)


class MessageReader:
    """The messages of a set, one after the other, or some at once. An error ends it."""

    __slots__ = ("_base", "_budget", "_data", "_depth", "_error", "_given_back", "_inside", "_position", "_wrapper")

    def __init__(
        self, data: bytes, base: int = 0, wrapper: Wrapper | None = None, budget: _Budget | None = None, depth: int = 0
    ) -> None:
        """`base` is added to the stored offsets; `wrapper`, `budget` and `depth` say what the set was in."""
        self._data = data
        self._base = base
        self._wrapper = wrapper
        self._budget = budget
        self._depth = depth
        self._position = 0
        self._inside: Iterator[Message] | None = None  # the messages of the entry before the position
        self._given_back: list[Message] = []  # the next one last
        self._error: Exception | None = None  # comes after these

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        if self._given_back:
            return self._given_back.pop()
        try:
            if self._error is not None:
                raise self._error
            while True:
                if self._inside is not None:
                    for message in self._inside:
                        return message
                    self._inside = None
                found = self._next_entry()
                if found is not None:
                    return found
        except BaseException:
            self._position, self._inside, self._error = len(self._data), None, None
            raise

    def give_back(self, messages: Sequence[Message]) -> None:
        """These are still to come."""
        self._given_back.extend(reversed(messages))

    def some(self, consumed_offset: int, most_bytes: int) -> list[Message]:
        """Those that a stream would hand out next, found valid, until they are enough bytes.

        None at all if what comes next needs a closer look, by next(): an error, an odd offset, an entry to be opened.
        """
        if self._given_back or self._error is not None:
            return []
        inside = self._inside
        if inside is None:
            return self._some_entries(consumed_offset, most_bytes)
        if isinstance(inside, MessageReader):
            return inside.some(consumed_offset, most_bytes)
        return self._some_records(inside, consumed_offset, most_bytes)

    def _some_entries(self, consumed_offset: int, most_bytes: int) -> list[Message]:
        found: list[Message] = []
        data, base, wrapper, position = self._data, self._base, self._wrapper, self._position
        new, message_class, append, unpack = object.__new__, LegacyMessage, found.append, _CHECKED_ENTRY.unpack_from
        end = len(data)
        last_possible = end - _SMALLEST_ENTRY
        lowest = max(0, consumed_offset)
        while most_bytes > 0 and position <= last_possible:
            offset, size, crc, magic, attributes = unpack(data, position)
            start = position + ENTRY_OVERHEAD
            after = start + size
            if magic > 1 or attributes & _CODEC_BITS or after > end or size < MINIMUM_MESSAGE_SIZE:
                break
            offset += base
            if offset >= lowest:
                if crc32(data[start + 4 : after]) != crc or offset >= LARGEST:
                    break
                message = new(message_class)  # what its __init__ does, without the call
                message.offset = offset
                message._data = data
                message._start = start
                message._end = after
                message._wrapper = wrapper
                append(message)
                lowest = offset + 1
                most_bytes -= size
            elif offset >= consumed_offset or offset < LOWEST:
                break
            position = after
        self._position = position
        return found

    def _some_records(self, records: Iterator[Message], consumed_offset: int, most_bytes: int) -> list[Message]:
        """Those of a batch, whose checksum was looked at."""
        found: list[Message] = []
        lowest = max(0, consumed_offset)
        try:
            for record in records:
                offset = record.offset
                if lowest <= offset < LARGEST:
                    found.append(record)
                    lowest = offset + 1
                    most_bytes -= record._end - record._start
                    if most_bytes <= 0:
                        break
                elif offset >= consumed_offset:
                    self._given_back.append(record)
                    break
        except Exception as error:
            self._error = error
        return found

    def _next_entry(self) -> Message | None:
        """A message, or None: there are others inside of the entry. StopIteration at the end."""
        data, position = self._data, self._position
        end = len(data)
        if end - position < _SMALLEST_ENTRY:
            _look_at_the_rest(data, position)
            raise StopIteration
        offset, size, magic, attributes = _ENTRY.unpack_from(data, position)
        if size < MINIMUM_MESSAGE_SIZE:
            raise impossible_size(size)
        start = position + ENTRY_OVERHEAD
        after = start + size
        if after > end:
            _look_at_the_rest(data, position)
            raise StopIteration
        self._position = after
        if magic == 2 and self._budget is None:
            self._inside = read_batch(data, position, after)
            return None
        message = LegacyMessage(wrapped(self._base + offset), data, start, after, self._wrapper)
        if magic >= 2:
            _refuse(message)
        if not attributes & _CODEC_BITS:
            return message
        self._inside = self._unwrap(message)
        return None

    def _unwrap(self, message: LegacyMessage) -> Iterator[Message]:
        """The messages inside a compressed one, whose own checksum is not looked at: each of theirs will be.

        Unlike 0.8.2.2: a set inside that ends within a message is an error. Brokers cut what they send, not what is in
        it.
        """
        value = message.value
        if value is None:
            raise InvalidMessageException(f"Message at offset {message.offset} is compressed, but has no value")
        budget = self._budget or _Budget(len(value))
        if self._depth == DEEPEST_NESTING:
            raise DecompressionLimitException(
                f"Message at offset {message.offset} is compressed more than {DEEPEST_NESTING} times",
                limit=budget.limit,
            )
        inside = _decompress(message.attributes & _CODEC_BITS, value, budget)
        summary = _summarize(inside)
        if summary.valid_bytes != len(inside):
            raise InvalidMessageException(f"Message set compressed at offset {message.offset} ends within a message")
        base = _base_of(message, summary.last_offset)
        return MessageReader(inside, base, _wrapper_of(message), budget, self._depth + 1)


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
