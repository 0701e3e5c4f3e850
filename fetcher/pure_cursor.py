"""Handing out the records of a chunk, in Python: one by one, or all that are left (0.8: MessageAndMetadata).

_records.pyx does the same, faster: there a record is chosen, counted as consumed and handed out in one step during
which no other thread can run. Here that is so for a few records that were made at once: see _Run. What is more than
that comes to next_slowly() in both.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from operator import length_hint
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from fetcher.columns import Columns
from fetcher.message import LARGEST, NO_TIMESTAMP_MS, Message, invalid_offset
from fetcher.pure_message_set import MessageReader

MOST_BYTES_AHEAD = 32 * 1024

if TYPE_CHECKING:
    from fetcher.partition import PartitionTopicInfo

K = TypeVar("K")
V = TypeVar("V")
T_co = TypeVar("T_co", covariant=True)
C = TypeVar("C")


class Decoder(Protocol[T_co]):
    """See zkconsumer.decoder."""

    def from_bytes(self, data: bytes) -> T_co: ...


class MessageAndMetadata(Generic[K, V]):
    """A message and where it came from. `key` and `message` are decoded at each access, by whoever accesses them.

    None as decoder: the bytes as they are.
    """

    __slots__ = ("_key_decoder", "_message", "_value_decoder", "offset", "partition", "topic")

    def __init__(
        self,
        topic: str,
        partition: int,
        message: Message,
        key_decoder: Decoder[K] | None,
        value_decoder: Decoder[V] | None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = message.offset
        self._message = message
        self._key_decoder = key_decoder
        self._value_decoder = value_decoder

    @property
    def key(self) -> K | None:
        """The decoded key; None if it is null, without asking the decoder."""
        data: Any = self._message.key
        return data if data is None or self._key_decoder is None else self._key_decoder.from_bytes(data)

    @property
    def message(self) -> V | None:
        """The decoded value; None if it is null, without asking the decoder."""
        data: Any = self._message.value
        return data if data is None or self._value_decoder is None else self._value_decoder.from_bytes(data)

    @property
    def timestamp(self) -> int:
        """In ms; -1 for messages of format 0, which have none (0.10 on)."""
        return self._message.timestamp_ms

    @property
    def timestamp_type(self) -> int:
        """-1 none, 0 create time, 1 log append time (0.10 on)."""
        return self._message.timestamp_type

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Of messages of format 2; the old consumer never saw them."""
        return self._message.headers

    def __repr__(self) -> str:
        return f"<MessageAndMetadata {self.topic} partition {self.partition} offset {self.offset}>"


class _Run:
    """Records that were read at once, and how many of them were handed out since.

    Rule: the list's iterator is asked for one record, or for all that are left, which ends it. Both are one step in C,
    during which no other thread runs. How many were handed out follows from what is left, so that a record is handed
    out and counted as consumed in that same step, without a lock.
    """

    __slots__ = ("_counted", "_handed_out", "_lock", "_next_offset", "_records", "left")

    def __init__(self, records: list[MessageAndMetadata[Any, Any]], consumed_offset: int) -> None:
        self.left = iter(records)
        self._lock = threading.Lock()  # for all but the records that are handed out
        self._records = records
        self._next_offset = consumed_offset  # before the first, and in the end
        self._counted = 0
        self._handed_out: int | None = None  # from the end on, when nothing is left

    @property
    def consumed_offset(self) -> int:
        with self._lock:
            return self._offset_after(self._number())

    def take_counts(self) -> tuple[int, int, int]:
        """First offset, next offset and number of those handed out since the last time."""
        with self._lock:
            number, counted = self._number(), self._counted
            self._counted = number
            first_offset = self._records[counted].offset if number > counted else -1
            return first_offset, self._offset_after(number), number - counted

    def end(self) -> list[MessageAndMetadata[Any, Any]]:
        """Hand out nothing from now on; what was left. May be repeated if a signal came before that was kept."""
        with self._lock:
            records = self._records
            if self._handed_out is None:
                self._handed_out = len(records) - length_hint(self.left)  # in a thread that gets signals, exactly
                self._handed_out = len(records) - len(list(self.left))
            return records[self._handed_out :]

    def _number(self) -> int:
        return len(self._records) - length_hint(self.left) if self._handed_out is None else self._handed_out

    def _offset_after(self, number: int) -> int:
        return self._records[number - 1].offset + 1 if number else self._next_offset

    def forget(self) -> None:
        """Keep the offset only: records keep their whole chunk."""
        with self._lock:
            self._next_offset = self._offset_after(self._number())
            self._records, self._counted, self._handed_out = [], 0, 0


class ConsumedOffset:
    """The one number of a partition that is written a million times a second, or follows from what is left of a run."""

    __slots__ = ("_consumed_offset", "_run")

    _run: _Run | None

    @property
    def consumed_offset(self) -> int:
        run = self._run
        return self._consumed_offset if run is None else run.consumed_offset

    @consumed_offset.setter
    def consumed_offset(self, offset: int) -> None:
        self._consumed_offset = offset
        self._run = None

    def follow(self, run: _Run) -> None:
        """From now on, until it is set again, it is the run that tells."""
        self._run = run


class RecordCursor(Generic[K, V]):
    """The iterator of a stream, as far as it is about records of a chunk in memory.

    Some records are made at once, which is faster, and handed out by __next__ without the lock: see _Run. All else
    happens under the lock.
    """

    _info: PartitionTopicInfo
    _run: _Run | None = None
    _ahead: Iterator[MessageAndMetadata[K, V]] = iter(())  # what is left of the run
    _most_bytes = 1
    _reader: MessageReader | None = None
    _first_offset = -1
    _count = 0

    def __iter__(self) -> Iterator[MessageAndMetadata[K, V]]:
        return self

    def __next__(self) -> MessageAndMetadata[K, V]:
        for record in self._ahead:
            return record
        return self.next_slowly()

    def next_slowly(self) -> MessageAndMetadata[K, V]:
        """Whatever is more than the next record that is ready."""
        raise NotImplementedError

    def read_from(
        self,
        messages: Iterator[Message],
        info: PartitionTopicInfo,
        key_decoder: Decoder[K] | None,
        value_decoder: Decoder[V] | None,
    ) -> None:
        """Hand out records of these messages from now on; one by one if they are another kind of iterator."""
        self._info = info
        self._decoders = key_decoder, value_decoder
        self._reader = messages if isinstance(messages, MessageReader) else None

    def read_ahead(self) -> MessageAndMetadata[K, V] | None:
        """Hand out a record, with some behind it ready for __next__, more each time. None: see MessageReader.some()."""
        if self._reader is None:
            return None
        self.take_back()
        info, consumed_offset = self._info, self._info.consumed_offset
        messages = self._reader.some(consumed_offset, self._most_bytes)
        if not messages:
            return None
        self._most_bytes = min(2 * self._most_bytes, MOST_BYTES_AHEAD)
        self._run = run = _Run(_wrapped(messages, info.topic, info.partition, *self._decoders), consumed_offset)
        info.follow(run)
        self._ahead = run.left
        return next(run.left)

    def take_back(self) -> None:
        """What is ready is still to come, for whoever asks the messages themselves."""
        run = self._run
        if run is None:
            return
        rest = run.end()
        if rest and self._reader is not None:
            self._most_bytes = 1
            self._reader.give_back([record._message for record in rest])
        self._count_run()
        self._run = None
        run.forget()

    def stop_reading(self) -> None:
        """From now on all is for next_slowly()."""
        self.take_back()
        self._reader = None

    def count(self, first_offset: int, number: int = 1) -> None:
        """So many were handed out by next_slowly() or as a batch."""
        if self._count == 0:
            self._first_offset = first_offset
        self._count += number

    def take_counts(self, info: ConsumedOffset) -> tuple[int, int, int]:
        """First offset, next offset and number of those handed out since the last time, in one step."""
        next_offset = info.consumed_offset if self._run is None else self._count_run()
        counts = (self._first_offset, next_offset, self._count)
        self._count = 0
        return counts

    def _count_run(self) -> int:
        """The next offset."""
        assert self._run is not None
        first_offset, next_offset, number = self._run.take_counts()
        if number:
            self.count(first_offset, number)
        return next_offset


def with_direct_next(cls: type[C]) -> type[C]:
    """For a subclass of RecordCursor; here, nothing is left to do."""
    return cls


def read_batch(
    messages: Iterator[Message],
    topic: str,
    partition: int,
    key_decoder: Decoder[K] | None,
    value_decoder: Decoder[V] | None,
    consumed_offset: int,
    most_bytes: int,
) -> tuple[list[MessageAndMetadata[K, V]], Exception | None]:
    """Records from `consumed_offset` on, and the error that came after them, if one did."""
    found, error = _valid_messages(messages, consumed_offset, most_bytes)
    return _wrapped(found, topic, partition, key_decoder, value_decoder), error


def _wrapped(
    messages: Iterable[Message],
    topic: str,
    partition: int,
    key_decoder: Decoder[K] | None,
    value_decoder: Decoder[V] | None,
) -> list[MessageAndMetadata[K, V]]:
    records: list[MessageAndMetadata[K, V]] = []
    new, append = object.__new__, records.append
    for message in messages:
        record = new(MessageAndMetadata)  # what its __init__ does, without the call
        record.topic = topic
        record.partition = partition
        record.offset = message.offset
        record._message = message
        record._key_decoder = key_decoder
        record._value_decoder = value_decoder
        append(record)
    return records


def read_columns(
    messages: Iterator[Message], consumed_offset: int, most_bytes: int
) -> tuple[Columns, Exception | None]:
    """The same as columns. What does not lie within its message is an error here, since it is looked at."""
    found, error = _valid_messages(messages, consumed_offset, most_bytes)
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    try:
        for message in found:
            key, value = message.key, message.value
            keys.append(key)
            values.append(value)
    except Exception as raised:
        error = raised
    del found[len(keys) :]
    offsets = [message.offset for message in found]
    timestamps = [None if (time_ms := message.timestamp_ms) == NO_TIMESTAMP_MS else time_ms for message in found]
    types = [message.timestamp_type for message in found]
    first_offset, last_offset = (offsets[0], offsets[-1]) if offsets else (-1, -1)
    return Columns(len(offsets), first_offset, last_offset, offsets, timestamps, types, keys, values, None), error


def _valid_messages(
    messages: Iterator[Message], consumed_offset: int, most_bytes: int
) -> tuple[list[Message], Exception | None]:
    """Those that a stream would hand out one by one, until they are `most_bytes`, and the error behind them."""
    found: list[Message] = []
    left_bytes = most_bytes
    some = messages.some if isinstance(messages, MessageReader) else None
    try:
        while left_bytes > 0:
            if some is not None and (several := some(consumed_offset, left_bytes)):
                found += several
                consumed_offset = several[-1].offset + 1
                left_bytes -= sum([message._end - message._start for message in several])
                continue
            message = next(messages, None)
            if message is None:
                break
            if message.offset < consumed_offset:
                continue
            message.ensure_valid()
            if message.offset < 0 or message.offset == LARGEST:
                raise invalid_offset(message.offset)
            found.append(message)
            consumed_offset = message.offset + 1
            left_bytes -= message.size
    except Exception as error:
        return found, error
    return found, None
