"""Streams of messages for the application (0.8: KafkaStream, ConsumerIterator, MessageAndMetadata).

One stream, one iterator, one reading thread. A message counts as consumed when next() hands it out: the partition's
consumed offset, which commits store, moves then and only then.

Rule: choosing a message and moving the consumed offset is one step under the iterator's lock, and so is clear(). So
when a rebalance has cleared a stream, every message handed out before is in the commit that follows, and none comes
after. RecordCursor, where it is compiled, does the most frequent case of that step without the lock, in a way that
nothing can come between; stop_reading() ends that.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from fetcher.chunk_queue import SHUTDOWN, ChunkQueue, FetchedDataChunk
from fetcher.cursor import (
    Columns,
    MessageAndMetadata,
    RecordCursor,
    columns_of,
    invalid_offset,
    read_batch,
    read_columns,
    with_direct_next,
)
from fetcher.errors import KafkaException, MessageSizeTooLargeException
from fetcher.events import EventPublisher
from fetcher.message import LARGEST
from fetcher.message_set import Message
from fetcher.partition import PartitionTopicInfo
from zkconsumer.decoder import Decoder, DefaultDecoder
from zkconsumer.errors import ConsumerTimeoutException, IllegalStateException, NoSuchElementException
from zkconsumer.events import Delivered
from zkconsumer.topic_count import ConsumerThreadId

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger(__name__)

MOST_BATCH_BYTES = 64 * 1024 * 1024  # of records; a chunk of compressed sets may hold far more than was fetched

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class KafkaStream(Generic[K, V]):
    """What one thread of the application reads: `for record in stream`. A stream has one iterator, always the same."""

    def __init__(
        self,
        queue: ChunkQueue,
        *,
        client_id: str,
        thread_id: ConsumerThreadId,
        consumer_timeout_ms: int,
        key_decoder: Decoder[K],
        value_decoder: Decoder[V],
        events: EventPublisher,
        drop_ready_item_on_rebalance: bool = False,
        drop_chunk_on_shutdown: bool = False,
    ) -> None:
        self.queue = queue
        self.thread_id = thread_id
        self._client_id = client_id
        self._drop_chunk_on_shutdown = drop_chunk_on_shutdown
        self._iterator = ConsumerIterator(
            queue,
            thread_id=thread_id,
            consumer_timeout_ms=consumer_timeout_ms,
            key_decoder=_unless_default(key_decoder),
            value_decoder=_unless_default(value_decoder),
            events=events,
            drop_ready_item_on_rebalance=drop_ready_item_on_rebalance,
        )

    def __iter__(self) -> ConsumerIterator[K, V]:
        return self._iterator

    def iterator(self) -> ConsumerIterator[K, V]:
        """The stream's only iterator."""
        return self._iterator

    def batches(self) -> Iterator[list[MessageAndMetadata[K, V]]]:
        """The same records, a chunk of a partition at a time; a list is never empty.

        All of a list counts as consumed when it is handed out. One may change between records and batches at will.
        """
        return Batches(self._iterator.next_batch)

    def arrow_batches(self, *, views: bool = True) -> Iterator[pyarrow.RecordBatch]:
        """The same as Arrow record batches, keys and values as stored: decoders are not asked. Needs pyarrow.

        `views`: columns of type binary_view, which point into what was fetched, or was decompressed from it, and keep
        it in memory; False for plain binary columns, copied once, which older readers of Arrow know (Spark is one).
        """
        from zkconsumer.arrow import ArrowForm  # pyarrow is wanted by those only who call this

        form = ArrowForm(views=views)
        return Batches(lambda: self._iterator.next_columns(form.record_batch))

    def clear(self) -> None:
        """Drop the current chunk. Meant for the rebalance."""
        self._iterator.clear()

    def shut_down(self) -> None:
        """Nothing comes any more: the iterator ends when it has used up its chunk.

        As in 0.8.2.2: what is left of the current chunk is still delivered, after the last commit, and so comes again.
        The switch drop_chunk_on_shutdown ends the iterator at once.
        """
        self.queue.clear()
        if self._drop_chunk_on_shutdown:
            self._iterator.end()
        self.queue.put_shutdown()

    def publish_delivered(self) -> None:
        """Tell of what was handed out so far; by itself a stream tells when it is through with a chunk."""
        self._iterator.publish_delivered()

    def __str__(self) -> str:
        return f"{self._client_id} kafka stream"

    def __repr__(self) -> str:
        return f"<KafkaStream {self.thread_id}>"


def _unless_default(decoder: Decoder[T]) -> Decoder[T] | None:
    """The default one gives what it gets: it need not be asked."""
    return None if type(decoder) is DefaultDecoder else decoder  # type: ignore[comparison-overlap]


class _Read(NamedTuple, Generic[T]):
    """A batch, what it holds, and the error that ended it."""

    batch: T
    rows: int
    first_offset: int
    last_offset: int
    error: Exception | None


class Batches(Generic[T]):
    """An iterator that can be asked again after a time-out, which a generator could not."""

    def __init__(self, next_batch: Callable[[], T]) -> None:
        self._next_batch = next_batch

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        return self._next_batch()


class _State(Enum):
    NOT_READY = "not ready"
    READY = "ready"
    DONE = "done"
    FAILED = "failed"


@with_direct_next
class ConsumerIterator(RecordCursor[K, V]):
    """The messages of one queue.

    States: NOT_READY (at first, and after each next) -> READY (has_next found one) -> NOT_READY; NOT_READY -> DONE (the
    consumer was shut down); NOT_READY -> FAILED (a corrupt or too large message; for good). A time-out changes nothing.
    """

    def __init__(
        self,
        queue: ChunkQueue,
        *,
        thread_id: ConsumerThreadId,
        consumer_timeout_ms: int,
        key_decoder: Decoder[K] | None,
        value_decoder: Decoder[V] | None,
        events: EventPublisher,
        drop_ready_item_on_rebalance: bool,
    ) -> None:
        self._queue = queue
        self._thread_id = thread_id
        self._timeout_s = None if consumer_timeout_ms < 0 else consumer_timeout_ms / 1000
        self._key_decoder = key_decoder
        self._value_decoder = value_decoder
        self._events = events
        self._drop_ready_item = drop_ready_item_on_rebalance
        self._lock = threading.Lock()
        self._state = _State.NOT_READY
        self._ready: Message | None = None
        self._ready_info: PartitionTopicInfo | None = None
        self._chunk: FetchedDataChunk | None = None
        self._messages: Iterator[Message] = iter(())
        self._error_behind_batch: Exception | None = None
        self._unpublished: deque[Delivered] = deque()

    def __iter__(self) -> ConsumerIterator[K, V]:
        return self

    def next_slowly(self) -> MessageAndMetadata[K, V]:
        """What __next__ does, in all cases."""
        while True:
            with self._lock:
                record = self._read_ahead()
                if record is not None:
                    return record
                message = self._ready_or_next_of_chunk()
                if message is not None:
                    return self._hand_out(message)
                if self._state is _State.DONE:
                    raise StopIteration
            self._take_chunk()

    def next(self) -> MessageAndMetadata[K, V]:
        """The next message; NoSuchElementException when the consumer was shut down."""
        try:
            return self.__next__()
        except StopIteration:
            raise NoSuchElementException(f"{self._thread_id}: no more messages, the consumer was shut down") from None

    def has_next(self) -> bool:
        """Wait for a message without consuming it. False, for ever, once the consumer was shut down."""
        while True:
            with self._lock:
                message = self._ready_or_next_of_chunk()
                if message is not None:
                    self.stop_reading()
                    self._state, self._ready = _State.READY, message
                    return True
                if self._state is _State.DONE:
                    return False
            self._take_chunk()

    def next_batch(self) -> list[MessageAndMetadata[K, V]]:
        """All that is left of the current chunk, or of the next one; StopIteration when the consumer was shut down."""
        return self._next_of_many(lambda info, message: [self._wrap(info, message)], self._read_records)

    def next_columns(self, form: Callable[[PartitionTopicInfo, Columns], T]) -> T:
        """The same, as `form` makes it of columns."""

        def form_one(info: PartitionTopicInfo, message: Message) -> T:
            return form(info, columns_of(message))

        def read(info: PartitionTopicInfo, messages: Iterator[Message]) -> _Read[T]:
            columns, error = read_columns(messages, info.consumed_offset, MOST_BATCH_BYTES)
            return _Read(form(info, columns), columns.rows, columns.first_offset, columns.last_offset, error)

        return self._next_of_many(form_one, read)

    def peek(self) -> MessageAndMetadata[K, V]:
        """The next message, which stays the next one."""
        if not self.has_next():
            raise NoSuchElementException(f"{self._thread_id}: no more messages, the consumer was shut down")
        with self._lock:
            if self._ready is None or self._ready_info is None:  # a rebalance dropped it, with that switch on
                raise NoSuchElementException(f"{self._thread_id}: the message was dropped by a rebalance")
            return self._wrap(self._ready_info, self._ready)

    def clear(self) -> None:
        """Drop the current chunk. Called by: the thread that rebalances."""
        with self._lock:
            self._leave_chunk()
            if self._drop_ready_item and self._state is _State.READY:
                self._state, self._ready, self._ready_info = _State.NOT_READY, None, None
        self._publish()

    def end(self) -> None:
        """Hand out nothing from now on, not even what has_next() has seen. Called by: the thread that shuts down."""
        with self._lock:
            self._leave_chunk()
            if self._state is not _State.FAILED:
                self._state, self._ready, self._ready_info = _State.DONE, None, None
        self._publish()

    def publish_delivered(self) -> None:
        """Tell of what was handed out of the current chunk so far. Called by: any thread."""
        with self._lock:
            if self._chunk is not None:
                self._account_for(self._chunk.info)
        self._publish()

    def _next_of_many(
        self,
        form_one: Callable[[PartitionTopicInfo, Message], T],
        read: Callable[[PartitionTopicInfo, Iterator[Message]], _Read[T]],
    ) -> T:
        while True:
            with self._lock:
                if self._state is _State.READY:  # what has_next() has seen is a batch of its own: its chunk may be gone
                    return self._hand_out_as(form_one)
                if self._state is _State.FAILED:
                    raise IllegalStateException("Iterator is in failed state")
                if self._state is _State.DONE:
                    raise StopIteration
                found = None if self._chunk is None else self._rest_of_chunk(self._chunk, read)
                if found is not None:
                    return found.batch
            self._take_chunk()

    def _read_records(
        self, info: PartitionTopicInfo, messages: Iterator[Message]
    ) -> _Read[list[MessageAndMetadata[K, V]]]:
        records, error = read_batch(
            messages,
            info.topic,
            info.partition,
            self._key_decoder,
            self._value_decoder,
            info.consumed_offset,
            MOST_BATCH_BYTES,
        )
        first_offset, last_offset = (records[0].offset, records[-1].offset) if records else (-1, -1)
        return _Read(records, len(records), first_offset, last_offset, error)

    # --- under the lock ---

    def _hand_out_as(self, form_one: Callable[[PartitionTopicInfo, Message], T]) -> T:
        assert self._ready is not None and self._ready_info is not None
        formed = form_one(self._ready_info, self._ready)
        self._hand_out(self._ready)
        return formed

    def _rest_of_chunk(
        self, chunk: FetchedDataChunk, read: Callable[[PartitionTopicInfo, Iterator[Message]], _Read[T]]
    ) -> _Read[T] | None:
        """Hand out what can be read; an error behind it comes next time. None if nothing was left."""
        try:
            if self._error_behind_batch is not None:
                raise self._error_behind_batch
            self.take_back()
            found = read(chunk.info, self._messages)
            if found.rows == 0 and found.error is not None:
                raise found.error
        except BaseException as error:
            self._fail_in(chunk, error)
            raise
        if found.rows == 0:
            self._end_chunk(chunk)
            return None
        if found.error is not None:
            self.stop_reading()
            self._error_behind_batch = found.error
        chunk.info.consumed_offset = found.last_offset + 1
        self.count(found.first_offset, found.rows)
        return found

    def _ready_or_next_of_chunk(self) -> Message | None:
        if self._state is _State.READY:
            return self._ready
        if self._state is _State.FAILED:
            raise IllegalStateException("Iterator is in failed state")
        if self._chunk is None or self._state is _State.DONE:
            return None
        try:
            return self._next_of_chunk(self._chunk)
        except BaseException as error:
            self._fail_in(self._chunk, error)
            raise

    def _read_ahead(self) -> MessageAndMetadata[K, V] | None:
        if self._state is not _State.NOT_READY or self._chunk is None or self._error_behind_batch is not None:
            return None
        try:
            return self.read_ahead()
        except BaseException as error:
            self._fail_in(self._chunk, error)
            raise

    def _next_of_chunk(self, chunk: FetchedDataChunk) -> Message | None:
        info = chunk.info
        self.take_back()
        if self._error_behind_batch is not None:
            raise self._error_behind_batch
        for message in self._messages:
            # A compressed set is fetched whole: what is before our position was consumed earlier.
            if message.offset >= info.consumed_offset:
                message.ensure_valid()
                self._ready_info = info
                return message
        self._end_chunk(chunk)
        return None

    def _end_chunk(self, chunk: FetchedDataChunk) -> None:
        info, last_offset = chunk.info, chunk.messages.last_offset
        if last_offset is not None and last_offset >= info.consumed_offset:
            # It ended with what is not for users: compacted away, or a control batch.
            info.consumed_offset = min(last_offset + 1, LARGEST)
        self._leave_chunk()

    def _hand_out(self, message: Message) -> MessageAndMetadata[K, V]:
        info = self._ready_info
        assert info is not None
        if message.offset < 0 or message.offset == LARGEST:
            self._fail()
            raise invalid_offset(message.offset)
        info.consumed_offset = message.offset + 1
        self.count(message.offset)
        if self._state is _State.READY:
            self._state, self._ready = _State.NOT_READY, None
            if self._chunk is not None:
                self.read_from(self._messages, info, self._key_decoder, self._value_decoder)
            else:  # a rebalance took its chunk away
                self._account_for(info)
        return self._wrap(info, message)

    def _wrap(self, info: PartitionTopicInfo, message: Message) -> MessageAndMetadata[K, V]:
        return MessageAndMetadata(info.topic, info.partition, message, self._key_decoder, self._value_decoder)

    def _fail(self) -> None:
        self.stop_reading()
        self._state = _State.FAILED

    def _fail_in(self, chunk: FetchedDataChunk, error: BaseException) -> None:
        self._fail()
        error.add_note(f"in {chunk.info}, fetched at offset {chunk.fetch_offset}")  # not in its text, which is 0.8's
        if isinstance(error, KafkaException):
            error.topic_and_partition = chunk.info.topic_and_partition

    def _leave_chunk(self) -> None:
        self.stop_reading()
        self._error_behind_batch = None
        if self._chunk is not None:
            self._account_for(self._chunk.info)
        self._chunk, self._messages = None, iter(())

    def _account_for(self, info: PartitionTopicInfo) -> None:
        """Note what was handed out since the last time; published later, when the lock is free."""
        first_offset, next_offset, count = self.take_counts(info)
        if count and self._events.active:
            self._unpublished.append(
                Delivered(
                    consumer_id=self._thread_id.consumer_id,
                    partition=info.topic_and_partition,
                    thread_id=self._thread_id,
                    first_offset=first_offset,
                    next_offset=next_offset,
                    count=count,
                )
            )

    # --- not under the lock ---

    def _publish(self) -> None:
        while self._unpublished:
            try:
                event = self._unpublished.popleft()
            except IndexError:
                return  # the other thread has it
            self._events.publish(event)

    def _take_chunk(self) -> None:
        """Wait for a chunk and make it the current one. An interrupt here changes nothing.

        Unlike 0.8.2.2: there an interrupted wait leaves the iterator in the failed state.
        """
        self._publish()
        chunk = self._queue.take(self._timeout_s)
        with self._lock:
            if chunk is None:
                raise ConsumerTimeoutException
            if chunk is SHUTDOWN:
                log.debug("[%s], Received the shutdown command", self._thread_id)
                self._state = _State.DONE
                return
            assert isinstance(chunk, FetchedDataChunk)
            # Unlike 0.8.2.2: a chunk taken at the very moment of a rebalance's clearing is not delivered.
            if chunk.info.revoked or self._state is _State.DONE:
                return
            self._begin(chunk)

    def _begin(self, chunk: FetchedDataChunk) -> None:
        info = chunk.info
        if info.consumed_offset < chunk.fetch_offset:
            log.error(
                "[%s], consumed offset: %d doesn't match fetch offset: %d for %s;\n Consumer may lose data",
                self._thread_id.consumer_id,
                info.consumed_offset,
                chunk.fetch_offset,
                str(info),  # as it is now, also for handlers that write later
            )
            info.consumed_offset = chunk.fetch_offset
        elif info.was_reset:
            info.consumed_offset = chunk.fetch_offset  # back to where the reset led
        if not chunk.messages.has_whole_entry:
            self._fail()
            error = MessageSizeTooLargeException(
                "Found a message larger than the maximum fetch size of this consumer on topic "
                f"{info.topic} partition {info.partition} at fetch offset {chunk.fetch_offset}. "
                "Increase the fetch size, or decrease the maximum message size the broker will allow."
            )
            error.topic_and_partition = info.topic_and_partition
            raise error
        self._leave_chunk()
        self._chunk = chunk
        self._messages = iter(chunk.messages)
        self.read_from(self._messages, info, self._key_decoder, self._value_decoder)


__all__ = ["ConsumerIterator", "KafkaStream", "MessageAndMetadata"]
