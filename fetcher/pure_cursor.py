"""Handing out the records of a chunk, in Python: one by one, or all that are left (0.8: MessageAndMetadata).

_records.pyx does the same, faster: there a record is chosen, counted as consumed and handed out in one step during
which no other thread can run, and only what is more than that comes to next_slowly(). Here all of it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from fetcher.errors import KafkaException
from fetcher.message import LARGEST, NO_TIMESTAMP_MS, Message, wrapped

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


class ConsumedOffset:
    """The one number of a partition that is written a million times a second."""

    __slots__ = ("consumed_offset",)

    consumed_offset: int


class RecordCursor(Generic[K, V]):
    """The iterator of a stream, as far as it is about records of a chunk in memory."""

    _first_offset = -1
    _count = 0

    def __init_subclass__(cls) -> None:
        cls.__next__ = cls.next_slowly  # type: ignore[method-assign]  # without a call in between

    def __iter__(self) -> Iterator[MessageAndMetadata[K, V]]:
        return self

    def __next__(self) -> MessageAndMetadata[K, V]:
        return self.next_slowly()

    def next_slowly(self) -> MessageAndMetadata[K, V]:
        """Whatever is more than the next record of the chunk at hand; here, all."""
        raise NotImplementedError

    def read_from(
        self,
        messages: Iterator[Message],
        info: PartitionTopicInfo,
        key_decoder: Decoder[K] | None,
        value_decoder: Decoder[V] | None,
    ) -> None:
        """Hand out records of these messages from now on."""

    def stop_reading(self) -> None:
        """From now on all is for next_slowly()."""

    def count(self, first_offset: int, number: int = 1) -> None:
        """So many were handed out by next_slowly() or as a batch."""
        if self._count == 0:
            self._first_offset = first_offset
        self._count += number

    def take_counts(self, info: ConsumedOffset) -> tuple[int, int, int]:
        """First offset, next offset and number of those handed out since the last time, in one step."""
        counts = (self._first_offset, info.consumed_offset, self._count)
        self._count = 0
        return counts


def with_direct_next(cls: type[C]) -> type[C]:
    """For a subclass of RecordCursor; here, nothing is left to do."""
    return cls


class Columns(NamedTuple):
    """Messages as Arrow wants them. A column of bytes is a pair of views (or a list of values) and null bits."""

    rows: int
    first_offset: int
    last_offset: int
    offsets: Any
    timestamps: Any
    timestamp_types: Any
    keys: Any
    values: Any
    buffers: list[tuple[bytes, int]] | None  # what the views point into, each from a position on; None: no views


def invalid_offset(offset: int) -> KafkaException:
    """In 0.8's words. The next offset is the one it would store, which wraps as Java's numbers do."""
    return KafkaException(f"Offset returned by the message set is invalid {wrapped(offset + 1)}")


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
    records: list[MessageAndMetadata[K, V]] = []
    try:
        for message in valid_messages(messages, consumed_offset, most_bytes):
            records.append(MessageAndMetadata(topic, partition, message, key_decoder, value_decoder))
    except Exception as error:
        return records, error
    return records, None


def read_columns(
    messages: Iterator[Message], consumed_offset: int, most_bytes: int
) -> tuple[Columns, Exception | None]:
    """The same as columns. What does not lie within its message is an error here, since it is looked at."""
    offsets: list[int] = []
    timestamps: list[int | None] = []
    timestamp_types: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    error: Exception | None = None
    try:
        for message in valid_messages(messages, consumed_offset, most_bytes):
            key, value = message.key, message.value
            offsets.append(message.offset)
            timestamps.append(message.timestamp_ms if message.timestamp_ms != NO_TIMESTAMP_MS else None)
            timestamp_types.append(message.timestamp_type)
            keys.append(key)
            values.append(value)
    except Exception as raised:
        error = raised
    first_offset, last_offset = (offsets[0], offsets[-1]) if offsets else (-1, -1)
    return Columns(
        len(offsets), first_offset, last_offset, offsets, timestamps, timestamp_types, keys, values, None
    ), error


def columns_of(message: Message) -> Columns:
    """A single one."""
    timestamp_ms = message.timestamp_ms if message.timestamp_ms != NO_TIMESTAMP_MS else None
    offset, key, value = message.offset, message.key, message.value
    return Columns(1, offset, offset, [offset], [timestamp_ms], [message.timestamp_type], [key], [value], None)


def valid_messages(messages: Iterator[Message], consumed_offset: int, most_bytes: int) -> Iterator[Message]:
    """Those that a stream would hand out one by one, until they are `most_bytes`."""
    size = 0
    if size >= most_bytes:
        return
    for message in messages:
        if message.offset < consumed_offset:
            continue
        message.ensure_valid()
        if message.offset < 0 or message.offset == LARGEST:
            raise invalid_offset(message.offset)
        yield message
        consumed_offset = message.offset + 1
        size += message.size
        if size >= most_bytes:
            return
