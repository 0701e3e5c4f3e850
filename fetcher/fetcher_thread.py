"""Fetches the partitions of one broker and hands them over (0.8: ConsumerFetcherThread, AbstractFetcherThread).

Rule: its lock guards the table of partitions and nothing else. Fetching, handing over (which blocks while a queue is
full) and asking for offsets happen outside it; then the table is looked at again, because a partition may be gone.

The broker is asked for what comes next before an answer is handed over, so that it works meanwhile. That answer is not
received before: memory holds one answer at a time, and the socket's buffers the beginning of the next.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from fetcher.errors import InvalidMessageException, KafkaException, OffsetOutOfRangeException, class_name_for
from fetcher.events import Enqueued, EventPublisher, Fetched, FetchFailed, OffsetReset, PartitionFailed
from fetcher.fetch_statistics import FetchStatistics
from fetcher.message_set import ByteBufferMessageSet
from fetcher.partition import PartitionTopicInfo
from fetcher.request_order import (
    ADDED_IN_HASH_ORDER,
    FETCHES_IN_HASH_ORDER,
    order_of_additions_in_1_1,
    order_of_fetch,
    order_of_fetch_in_1_1,
    order_of_resets,
)
from fetcher.settings import FetcherSettings
from fetcher.simple_consumer import CONNECTION_ERRORS, FIRST_VERSION_WITH_FULL_ANSWERS, SimpleConsumer
from fetcher.structs import Broker, TopicAndPartition
from fetcher.threads import ShutdownableThread
from fetcher.wire import list_offsets
from fetcher.wire.fetch import FetchedPartition, FetchResponse

log = logging.getLogger(__name__)

IDLE_WAIT_S = 0.2
NO_ERROR = 0
NO_LAG_YET = -1
NOTHING = memoryview(b"")


def reset_time(auto_offset_reset: str) -> int:
    """Where to go on when an offset is missing or out of range."""
    return list_offsets.EARLIEST if auto_offset_reset == "smallest" else list_offsets.LATEST


class ConsumerFetcherThread(ShutdownableThread):
    """Asks one broker for all its partitions in one request, again and again.

    One stream that nobody reads stops all of them: its queue is full, and the hand-over waits.
    """

    def __init__(
        self,
        name: str,
        *,
        fetcher_id: int,
        settings: FetcherSettings,
        consumer: SimpleConsumer,
        statistics: FetchStatistics,
        events: EventPublisher,
        put_back: Callable[[Collection[TopicAndPartition]], None],
        on_death: Callable[[BaseException], None] | None = None,
    ) -> None:
        """`put_back` is told the partitions that need a leader again."""
        super().__init__(name, on_death=on_death)
        self.fetcher_id = fetcher_id
        self._settings = settings
        self._consumer = consumer
        self._statistics = statistics
        self._events = events
        self._put_back = put_back
        self._changed = threading.Condition()  # its lock guards what follows
        self._positions: dict[TopicAndPartition, _Position] = {}  # the first is asked for first
        self._closed = False
        self._ahead: dict[TopicAndPartition, _Asked] = {}  # what was asked for ahead; the thread's own
        self._order: dict[TopicAndPartition, None] = {}  # of the last request, as a release has it

    @property
    def broker(self) -> Broker:
        """The only broker it talks to."""
        return self._consumer.broker

    @property
    def partitions(self) -> tuple[TopicAndPartition, ...]:
        """Those it fetches at the moment."""
        with self._changed:
            return tuple(self._positions)

    @property
    def fetch_version(self) -> int:
        """The version of the last fetch request."""
        return self._consumer.fetch_version

    def lags(self) -> dict[TopicAndPartition, int]:
        """High watermark minus next offset to fetch, of each partition; -1 before its first fetch."""
        with self._changed:
            return {partition: position.lag for partition, position in self._positions.items()}

    def add_partitions(self, infos: Iterable[PartitionTopicInfo]) -> bool:
        """Fetch these too, from their fetched offsets on. False if it has ended. Called by: the leader finder."""
        with self._changed:
            if self._closed:
                return False
            new = {info.topic_and_partition: _Position(info) for info in infos}
            if self._settings.request_versions in ADDED_IN_HASH_ORDER:
                new = {partition: new[partition] for partition in order_of_additions_in_1_1(new)}
                for turn, position in enumerate(new.values()):
                    position.turn = turn
                order = order_of_fetch_in_1_1(self._positions, new)
            else:
                order = [*self._positions, *new]
            have = new | self._positions
            self._positions = {partition: have[partition] for partition in order}
            self._changed.notify_all()
            return True

    def remove_partitions(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Fetch these no longer; a hand-over that waits for room gives up. Called by: anybody."""
        with self._changed:
            removed = [self._positions.pop(partition) for partition in partitions if partition in self._positions]
        _give_up(removed)

    def close(self) -> tuple[TopicAndPartition, ...]:
        """Take no more partitions; what it had. Called by: wake(), and the manager when the thread has died."""
        with self._changed:
            self._closed = True
            removed, self._positions = self._positions, {}
            self._changed.notify_all()
        _give_up(removed.values())
        return tuple(removed)

    def wake(self) -> None:
        self._consumer.abort()
        self.close()

    def finish(self) -> None:
        self._consumer.close()

    def do_work(self) -> None:
        asked, self._ahead = self._ahead or self._collect(), {}
        if not asked:
            return
        new = {partition: one for partition, one in asked.items() if one.offset < 0}
        if new:
            order = self._order_of_resets(new)
            self._give_back([partition for partition in order if not self._reset(partition, new[partition])])
            return
        seconds, size_bytes = self._statistics.response_seconds, self._statistics.response_bytes
        response = self._fetch(self._in_order(self._request(asked)))
        self._statistics.requests += 1
        if response is not None:
            sets = {
                partition: ByteBufferMessageSet(fetched.messages) for partition, fetched in response.partitions.items()
            }
            # Without the bytes: the answer as a whole is not kept while a hand-over waits.
            answer = {
                partition: FetchedPartition(error_code, high_watermark, NOTHING)
                for partition, (error_code, high_watermark, _) in response.partitions.items()
            }
            del response
            self._ask_ahead(asked, answer, sets)  # at once: until then the broker has nothing to do
            if self._events.active:
                self._events.publish(
                    Fetched(
                        consumer_id=self._events.consumer_id,
                        broker=self.broker,
                        seconds=self._statistics.response_seconds - seconds,
                        size_bytes=self._statistics.response_bytes - size_bytes,
                    )
                )
            self._process(asked, answer, sets)

    def _order_of_resets(self, new: Mapping[TopicAndPartition, _Asked]) -> Iterable[TopicAndPartition]:
        if self._settings.request_versions in FETCHES_IN_HASH_ORDER:
            return order_of_resets(new)
        return sorted(new, key=lambda partition: new[partition].position.turn)

    def _request(self, asked: Mapping[TopicAndPartition, _Asked]) -> dict[TopicAndPartition, tuple[int, int]]:
        fetch_size = self._settings.fetch_message_max_bytes
        return {partition: (one.offset, fetch_size) for partition, one in asked.items()}

    def _in_order(self, request: dict[TopicAndPartition, tuple[int, int]]) -> dict[TopicAndPartition, tuple[int, int]]:
        """Of the release whose requests are to be sent, if it goes by hashes."""
        if self._settings.request_versions not in FETCHES_IN_HASH_ORDER:
            return request
        if self._order.keys() != request.keys():
            self._order = dict.fromkeys(order_of_fetch(request))
        return {partition: request[partition] for partition in self._order}

    def _ask_ahead(
        self,
        asked: Mapping[TopicAndPartition, _Asked],
        answer: Mapping[TopicAndPartition, FetchedPartition],
        sets: Mapping[TopicAndPartition, ByteBufferMessageSet],
    ) -> None:
        """Ask for what comes after this answer, if all is well with it and it brings anything."""
        next_offsets: dict[TopicAndPartition, int] = {}
        try:
            for partition, messages in sets.items():
                if answer[partition].error_code != NO_ERROR:
                    return
                if messages.last_offset is not None:
                    next_offsets[partition] = messages.last_offset + 1
        except InvalidMessageException:
            return  # the hand-over will tell
        if not next_offsets:
            return
        with self._changed:
            ahead = {
                partition: _Asked(
                    position,
                    next_offsets.get(partition, position.offset)
                    if partition in asked and asked[partition] == (position, position.offset)
                    else position.offset,
                )
                for partition, position in self._positions.items()
            }
        if not ahead or any(one.offset < 0 for one in ahead.values()):
            return
        if self.fetch_version >= FIRST_VERSION_WITH_FULL_ANSWERS:
            # In the order in which _handed_over() will have put them.
            ahead = dict(sorted(ahead.items(), key=lambda item: item[0] in next_offsets))
        if self._consumer.ask_ahead(self._request(ahead)):
            self._ahead = ahead

    def _collect(self) -> dict[TopicAndPartition, _Asked]:
        with self._changed:
            if not self._positions and not self._closed:
                self._changed.wait(IDLE_WAIT_S)
            return {partition: _Asked(position, position.offset) for partition, position in self._positions.items()}

    def _fetch(self, partitions: Mapping[TopicAndPartition, tuple[int, int]]) -> FetchResponse | None:
        try:
            return self._consumer.fetch(partitions)
        except CONNECTION_ERRORS as error:
            if not self.stopping.is_set():
                self._failed(partitions, error)
            return None

    def _failed(self, partitions: Mapping[TopicAndPartition, tuple[int, int]], error: Exception) -> None:
        request = self._consumer.describe_fetch(partitions)
        cause = f"{type(error).__name__}: {error}"
        log.warning("[%s], Error in fetch %s. Possible cause: %s", self.name, request, cause)
        if self._events.active:
            self._events.publish(FetchFailed(consumer_id=self._events.consumer_id, broker=self.broker, error=cause))
        self._give_back(self.partitions)
        if self._settings.wait_after_fetch_error:
            self.stopping.wait(self._settings.refresh_leader_backoff_s)

    def _process(
        self,
        asked: Mapping[TopicAndPartition, _Asked],
        answer: Mapping[TopicAndPartition, FetchedPartition],
        sets: Mapping[TopicAndPartition, ByteBufferMessageSet],
    ) -> None:
        in_error: list[TopicAndPartition] = []
        fatal: KafkaException | None = None
        for partition, fetched in answer.items():
            one = asked.get(partition)
            if one is None or not self._is_still_wanted(partition, one):
                continue
            try:
                if not self._process_partition(partition, one, fetched, sets[partition]):
                    in_error.append(partition)
            except KafkaException as error:
                # Unlike 0.8.2.2: the others of this answer are handed over before the thread dies.
                fatal = fatal or error
        self._give_back(in_error)
        if fatal is not None:
            raise fatal

    def _is_still_wanted(self, partition: TopicAndPartition, one: _Asked) -> bool:
        with self._changed:
            return self._positions.get(partition) is one.position and one.position.offset == one.offset

    def _process_partition(
        self, partition: TopicAndPartition, one: _Asked, fetched: FetchedPartition, messages: ByteBufferMessageSet
    ) -> bool:
        """False if the partition is in error."""
        if fetched.error_code == NO_ERROR:
            self._hand_over(partition, one, fetched, messages)
            return True
        if fetched.error_code == OffsetOutOfRangeException.code:
            return self._reset(partition, one)
        name = class_name_for(fetched.error_code)
        log.error("[%s], Error for partition %s to broker %d:class %s", self.name, partition, self.broker.id, name)
        if self._events.active:
            self._events.publish(
                PartitionFailed(
                    consumer_id=self._events.consumer_id,
                    partition=partition,
                    broker=self.broker,
                    error_code=fetched.error_code,
                    exception_name=name,
                )
            )
        return False

    def _hand_over(
        self, partition: TopicAndPartition, one: _Asked, fetched: FetchedPartition, messages: ByteBufferMessageSet
    ) -> None:
        position = one.position
        try:
            next_offset = one.offset if messages.last_offset is None else messages.last_offset + 1
            position.lag = fetched.high_watermark - next_offset
            if not position.info.enqueue(messages, one.offset, position.gone):
                return
        except InvalidMessageException as error:
            # As in 0.8.2.2: the same offset is fetched again, in the hope of better bytes.
            line = "[%s], Found invalid messages during fetch for partition %s offset %d error %s"
            log.error(line, self.name, partition, one.offset, error)
            return
        except Exception as error:
            raise KafkaException(f"error processing data for partition {partition} offset {one.offset}") from error
        self._handed_over(partition, one, messages, next_offset)

    def _handed_over(
        self, partition: TopicAndPartition, one: _Asked, messages: ByteBufferMessageSet, next_offset: int
    ) -> None:
        size_bytes = messages.valid_bytes
        self._statistics.bytes += size_bytes
        if not messages.size_in_bytes:
            return
        with self._changed:
            if self._positions.get(partition) is one.position:
                one.position.offset = next_offset
                if self.fetch_version >= FIRST_VERSION_WITH_FULL_ANSWERS:
                    # An answer may be full before its last partition: those that waited come first in the next.
                    self._positions[partition] = self._positions.pop(partition)
        if self._events.active:
            self._events.publish(
                Enqueued(
                    consumer_id=self._events.consumer_id,
                    partition=partition,
                    first_offset=one.offset,
                    next_offset=next_offset,
                    size_bytes=size_bytes,
                )
            )

    def _reset(self, partition: TopicAndPartition, one: _Asked) -> bool:
        """Go on where auto.offset.reset says. False if the broker does not tell where that is."""
        try:
            offset = self._consumer.offsets_before(partition, reset_time(self._settings.auto_offset_reset))
        except CONNECTION_ERRORS:
            if not self.stopping.is_set():
                line = "[%s], Error getting offset for partition %s to broker %d"
                log.error(line, self.name, partition, self.broker.id, exc_info=True)
            return False
        with self._changed:
            if self._positions.get(partition) is not one.position:
                return True
            one.position.offset = offset
            one.position.info.reset(offset)
        if one.offset >= 0:
            line = "[%s], Current offset %d for partition %s out of range; reset offset to %d"
            log.error(line, self.name, one.offset, partition, offset)
        if self._events.active:
            self._events.publish(
                OffsetReset(
                    consumer_id=self._events.consumer_id,
                    partition=partition,
                    old_offset=one.offset,
                    new_offset=offset,
                    out_of_range=one.offset >= 0,
                )
            )
        return True

    def _give_back(self, partitions: Collection[TopicAndPartition]) -> None:
        if partitions and not self.stopping.is_set():
            self.remove_partitions(partitions)
            self._put_back(partitions)


class _Position:
    """Where a partition's next fetch begins.

    `gone` ends a hand-over that waits for room in the queue; `turn`: when its offset is asked for, among those added
    with it.
    """

    __slots__ = ("gone", "info", "lag", "offset", "turn")

    def __init__(self, info: PartitionTopicInfo) -> None:
        self.info = info
        self.offset = info.fetched_offset
        self.lag = NO_LAG_YET
        self.turn = 0
        self.gone = threading.Event()


class _Asked(NamedTuple):
    """What one request asked for: the partition as it was then, at this offset."""

    position: _Position
    offset: int


def _give_up(positions: Iterable[_Position]) -> None:
    """Called without the lock: waking a queue takes the queue's own."""
    for position in positions:
        position.gone.set()
        position.info.queue.wake()


__all__ = ["ConsumerFetcherThread", "reset_time"]
