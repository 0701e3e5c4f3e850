"""Brokers without a group: who leads, from where to where a partition reaches, and the records of a range.

Used by whoever plans a batch and by the tasks that read it. Connections live as long as one `with`.
"""

from __future__ import annotations

import bisect
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from fetcher.cursor import read_columns
from fetcher.errors import KafkaException, LeaderNotAvailableException, OffsetOutOfRangeException, exception_for
from fetcher.message_set import ByteBufferMessageSet
from fetcher.partition import PartitionTopicInfo
from fetcher.settings import FetcherSettings
from fetcher.simple_consumer import CONNECTION_ERRORS, SimpleConsumer
from fetcher.structs import Broker, TopicAndPartition
from fetcher.wire.list_offsets import EARLIEST, LATEST
from pipeline.errors import DataLost
from pipeline.ranges import OffsetRange

log = logging.getLogger(__name__)

NAME = "spark"
LOOK_AGAIN_AFTER_S = 2.0
MOST_BATCH_BYTES = 16 * 1024 * 1024
LARGEST_FETCH = 64 * 1024 * 1024


class Limits(NamedTuple):
    """The first offset a partition holds, and the next it will get."""

    first: int
    next: int


class Brokers:
    """Connections to brokers, made when needed. Used by one thread.

    Who leads is asked of any broker that is known, and brokers tell of each other. When none of them answers, or what
    they say is of no use twice in a row, their registrations are read again: all may have moved.
    """

    def __init__(
        self,
        brokers: Sequence[Broker],
        settings: FetcherSettings,
        *,
        look_up: Callable[[], Sequence[Broker]],
        leader_timeout_s: float,
    ) -> None:
        """`look_up` reads the registrations; `leader_timeout_s` is how long a read waits for a leader that answers."""
        self._known = {broker.id: broker for broker in brokers}
        self._settings = settings
        self._look_up = look_up
        self._leader_timeout_s = leader_timeout_s
        self._looked_at_s = -LOOK_AGAIN_AFTER_S
        self._failures: Counter[TopicAndPartition] = Counter()  # in a row
        self._connections: dict[Broker, SimpleConsumer] = {}
        self._leaders: dict[TopicAndPartition, Broker] = {}
        self._pause = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    @property
    def known(self) -> tuple[Broker, ...]:
        """Brokers as far as they are known now."""
        return tuple(self._known.values())

    def next_offsets(self, partitions: Collection[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        """Up to where each can be read; one that nobody leads now is left out."""
        return self._offsets(partitions, LATEST)

    def limits(self, partitions: Collection[TopicAndPartition]) -> dict[TopicAndPartition, Limits]:
        """Both ends; one that nobody leads now is left out."""
        ends = self._offsets(partitions, LATEST)
        firsts = self._offsets(list(ends), EARLIEST)
        return {where: Limits(first, ends[where]) for where, first in firsts.items()}

    def read(self, found: OffsetRange, *, fail_on_data_loss: bool) -> Iterator[Any]:
        """The records of a range as Arrow batches, whose keys and values point into what was fetched."""
        from zkconsumer.arrow import ArrowForm

        form = ArrowForm(views=True)
        offset, size = found.start, self._settings.fetch_message_max_bytes
        info, silent_since_s = _info(found.where), None
        while offset < found.until:
            try:
                messages = self._fetch(found.where, offset, size)
            except OffsetOutOfRangeException:
                offset = self._after_gap(found, offset, fail_on_data_loss)
                continue
            if not messages.has_whole_entry:
                if messages.size_in_bytes:
                    size = _larger(size, found.where, offset)
                    continue
                # A new leader shows all it has when its followers have it too, or are known to be gone.
                silent_since_s = silent_since_s or time.monotonic()
                if time.monotonic() - silent_since_s > self._leader_timeout_s:
                    raise KafkaException(f"{found.where}: the broker shows nothing from offset {offset} on")
                continue
            silent_since_s = None
            following = max(offset, (messages.last_offset or 0) + 1)
            if following < found.until:  # the broker works while Spark takes these
                self._connection(self._leaders[found.where]).ask_ahead({found.where: (following, size)})
            iterator = iter(messages)
            while offset < found.until:
                columns, error = read_columns(iterator, offset, MOST_BATCH_BYTES)
                if columns.rows:
                    batch = form.record_batch(info, columns)
                    offset = columns.last_offset + 1
                    yield batch if offset <= found.until else _before(batch, found.until)
                if error is not None:
                    raise error
                if not columns.rows:
                    break
            offset = max(offset, following)

    # --- how ---

    def _after_gap(self, found: OffsetRange, offset: int, fail_on_data_loss: bool) -> int:
        limits = self.limits([found.where]).get(found.where)
        if limits is None:  # whoever said so leads no more: the next one is asked again
            return offset
        first = found.until if limits.next <= offset else max(limits.first, offset + 1)
        if fail_on_data_loss:
            raise DataLost(
                f"{found.where}: offsets {offset} to {min(first, found.until) - 1} were planned and are no longer on"
                " the broker (retention, or the topic was made anew); option fail.on.data.loss=false goes on without"
            )
        return first

    def _fetch(self, where: TopicAndPartition, offset: int, size: int) -> ByteBufferMessageSet:
        """Asks the leader, and whoever is leader next, until one answers."""
        deadline_s = time.monotonic() + self._leader_timeout_s
        while True:
            try:
                answer = self._leader(where).fetch({where: (offset, size)}).partitions[where]
                if answer.error_code == 0:
                    del self._failures[where]
                    return ByteBufferMessageSet(answer.messages)
                failure: Exception = exception_for(answer.error_code)
                if isinstance(failure, OffsetOutOfRangeException):
                    raise failure
            except OffsetOutOfRangeException:
                raise
            except CONNECTION_ERRORS as error:
                failure = error
            self._forget(where)
            if time.monotonic() >= deadline_s:
                raise KafkaException(
                    f"{where} could not be read from offset {offset} on for {self._leader_timeout_s:g} s"
                    f" (leader.timeout.ms): {failure}"
                ) from failure
            self._pause.wait(self._settings.refresh_leader_backoff_s)

    def _offsets(self, partitions: Collection[TopicAndPartition], time: int) -> dict[TopicAndPartition, int]:
        found: dict[TopicAndPartition, int] = {}
        for broker, wanted in self._by_leader(partitions).items():
            try:
                answers: Mapping[TopicAndPartition, int | KafkaException]
                answers = self._connection(broker).offsets_of(wanted, time)
            except CONNECTION_ERRORS as error:
                answers = dict.fromkeys(wanted, KafkaException(str(error)))
            for where, answer in answers.items():
                if isinstance(answer, KafkaException):
                    self._forget(where)
                else:
                    found[where] = answer
                    del self._failures[where]
        return found

    def _by_leader(self, partitions: Collection[TopicAndPartition]) -> dict[Broker, list[TopicAndPartition]]:
        if not self._leaders.keys() >= set(partitions):
            self._find_leaders(partitions)
        found: dict[Broker, list[TopicAndPartition]] = {}
        for where in partitions:
            if where not in self._leaders:
                self._failures[where] += 1
            else:
                found.setdefault(self._leaders[where], []).append(where)
        return found

    def _leader(self, where: TopicAndPartition) -> SimpleConsumer:
        if where not in self._leaders:
            self._find_leaders([where])
        if where not in self._leaders:
            raise LeaderNotAvailableException(f"nobody leads {where}")
        return self._connection(self._leaders[where])

    def _find_leaders(self, partitions: Collection[TopicAndPartition]) -> None:
        missing = [where for where in partitions if where not in self._leaders]
        topics = sorted({where.topic for where in missing})
        answered = self._ask_who_leads(topics)
        in_doubt = not answered or any(self._failures[where] > 1 for where in missing)
        if in_doubt and self._look_again():
            self._ask_who_leads(topics)

    def _ask_who_leads(self, topics: Sequence[str]) -> bool:
        """False: no broker answers."""
        for broker in random.sample(self.known, len(self._known)):
            try:
                answer = self._connection(broker).metadata(topics, 0)
            except CONNECTION_ERRORS:
                self._drop(broker)
                continue
            self._leaders |= answer.leaders
            self._known |= answer.brokers
            return True
        return False

    def _look_again(self) -> bool:
        """Read the registrations. False: they cannot be read, hold nobody, or were read just now."""
        if time.monotonic() - self._looked_at_s < LOOK_AGAIN_AFTER_S:
            return False
        try:
            found = self._look_up()
        except KafkaException as error:  # ZooKeeper is away, or out of reach of executors
            log.warning("brokers' registrations could not be read: %s", error)
            found = ()
        self._looked_at_s = time.monotonic()
        if found:
            self._known = {broker.id: broker for broker in found}
        return bool(found)

    def _connection(self, broker: Broker) -> SimpleConsumer:
        if broker not in self._connections:
            self._connections[broker] = SimpleConsumer(broker, self._settings, owner=NAME)
        return self._connections[broker]

    def _forget(self, where: TopicAndPartition) -> None:
        self._failures[where] += 1
        broker = self._leaders.pop(where, None)
        if broker is not None:
            self._drop(broker)

    def _drop(self, broker: Broker) -> None:
        connection = self._connections.pop(broker, None)
        if connection is not None:
            connection.close()


def _info(where: TopicAndPartition) -> PartitionTopicInfo:
    """What zkconsumer.arrow wants to know of a chunk; nothing is queued."""
    from fetcher.chunk_queue import ChunkQueue

    return PartitionTopicInfo(
        where.topic, where.partition, ChunkQueue(1), consumed_offset=0, fetched_offset=0, fetch_size=0
    )


def _before(batch: Any, until: int) -> Any:
    """The rows up to before an offset; offsets grow."""
    offsets = batch.column("offset")
    return batch.slice(0, bisect.bisect_left(range(len(offsets)), until, key=lambda row: offsets[row].as_py()))


def _larger(size: int, where: TopicAndPartition, offset: int) -> int:
    if size >= LARGEST_FETCH:
        raise KafkaException(f"{where}: the message at offset {offset} is larger than {LARGEST_FETCH:,} bytes")
    return min(size * 4, LARGEST_FETCH)
