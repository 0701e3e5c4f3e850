"""The consumer itself (Java: KafkaConsumer): kafka-python does the work, here is what it lacks or does otherwise.

That is: the three exclusive ways to subscribe, the order of commit callbacks, wakeup, interceptors, listeners that may
commit, records by topic, and Java's names of settings.

States: unsubscribed -> (subscribe, assign) -> subscribed -> (unsubscribe) -> unsubscribed; any -> (close) -> closed.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any, Self

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RebalanceInProgressError,
    RetriableError,
    UnknownMemberIdError,
)
from kafka.serializer import Deserializer
from kafka.structs import OffsetAndMetadata as LibraryOffset

from fetcher.errors import KafkaException
from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from study.new_consumer.config import NewConsumerConfig
from study.new_consumer.errors import (
    CommitFailedException,
    ConcurrentModificationException,
    NoOffsetForPartitionException,
    RetriableCommitFailedException,
    WakeupException,
)
from study.new_consumer.interceptors import Interceptors, Offsets
from study.new_consumer.listening import ConsumerRebalanceListener, ListenerThreads
from study.new_consumer.records import ConsumerRecord, ConsumerRecords, PartitionInfo
from study.new_consumer.strategies import strategy_objects
from zkconsumer.errors import IllegalArgumentException, IllegalStateException

log = logging.getLogger(__name__)

SLICE_MS = 50
"""How long poll stays inside the library at a time: so late a wakeup may be seen."""

JOIN_SLICE_MS = 1000
"""As in 1.1.1: a poll that has to join does not end because its own time is over."""

OffsetCommitCallback = Callable[[Offsets, Exception | None], None]

_MOVED_ON = (UnknownMemberIdError, IllegalGenerationError, RebalanceInProgressError, CommitFailedError)


class NewConsumer:
    """For one thread at a time; only wakeup() may come from another."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        """Connects, as in Java. Raises InvalidConfigException for a wrong setting."""
        self.config = NewConsumerConfig(properties)
        self._interceptors = Interceptors(self.config["interceptor.classes"])
        self._consumer = KafkaConsumer(
            **self.config.for_kafka_python(),
            key_deserializer=_AsLibraryWants(self.config["key.deserializer"]),
            value_deserializer=_AsLibraryWants(self.config["value.deserializer"]),
            partition_assignment_strategy=strategy_objects(self.config.strategies()),
            metrics_enabled=False,
        )
        self._answers = _Answers()
        self._consumer._coordinator.completed_offset_commits = self._answers
        self._way: str | None = None
        self._wanted_up = threading.Event()
        self._user: int | None = None
        self._lent_to: int | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what to read

    def subscribe(
        self,
        topics: Collection[str] | None = None,
        *,
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """To topics or to all whose whole name matches; replaces what was subscribed to. No topics: unsubscribe."""
        with self._use():
            if (topics is None) == (pattern is None):
                raise IllegalArgumentException(
                    "Topic collection to subscribe to cannot be null: give topics or a pattern"
                )
            if isinstance(topics, str) or any(not topic or not topic.strip() for topic in topics or ()):
                raise IllegalArgumentException("Topic collection to subscribe to cannot contain null or empty topic")
            if topics is not None and not topics:
                return self._unsubscribe()
            self._take("topics" if pattern is None else "pattern")
            told = ListenerThreads(listener, self._lend, self._wanted_up.set, self._consumer._net) if listener else None
            if pattern is None:
                self._consumer.subscribe(topics=list(topics or ()), listener=told)
            else:
                self._consumer.subscribe(pattern=rf"(?:{pattern})\Z", listener=told)

    def assign(self, partitions: Collection[TopicAndPartition]) -> None:
        """These, without joining the group. None of them: unsubscribe."""
        with self._use():
            if partitions is None:
                raise IllegalArgumentException("Topic partition collection to assign to cannot be null")
            if not partitions:
                return self._unsubscribe()
            self._take("partitions")
            self._consumer.assign([TopicPartition(*partition) for partition in partitions])

    def unsubscribe(self) -> None:
        """Leave the group, and forget everything that was subscribed to or assigned."""
        with self._use():
            self._unsubscribe()

    def subscription(self) -> set[str]:
        with self._use():
            return set(self._consumer.subscription() or ()) if self._way in ("topics", "pattern") else set()

    def assignment(self) -> set[TopicAndPartition]:
        with self._use():
            return _ours(self._consumer.assignment())

    # -- reading

    def poll(self, timeout_s: float) -> ConsumerRecords:
        """Records, as soon as there are any; empty when the time is over. WakeupException after wakeup()."""
        with self._use():
            if self._way is None:
                raise IllegalStateException("Consumer is not subscribed to any topics or assigned any partitions")
            end = monotonic() + timeout_s
            while True:
                self._wake()
                self._run_callbacks()
                left_ms = max(0.0, end - monotonic()) * 1000
                joining = self._way != "partitions" and self._consumer._coordinator.need_rejoin()
                if joining:
                    self._refresh_topics()
                batches = self._poll_library(JOIN_SLICE_MS if joining else min(SLICE_MS, left_ms))
                if batches or left_ms <= SLICE_MS:
                    records = {
                        TopicAndPartition(*partition): [_our_record(record) for record in batch]
                        for partition, batch in batches.items()
                    }
                    return self._interceptors.on_consume(ConsumerRecords(records))

    def wakeup(self) -> None:
        """Called by: any thread. The poll that runs, or else the next, raises WakeupException."""
        self._wanted_up.set()

    def seek(self, partition: TopicAndPartition, offset: int) -> None:
        with self._use():
            if offset < 0:
                raise IllegalArgumentException("seek offset must not be a negative number")
            self._consumer.seek(self._assigned(partition), offset)

    def position(self, partition: TopicAndPartition) -> int:
        with self._use():
            return int(self._consumer.position(self._assigned(partition), timeout_ms=self._api_timeout_ms()))

    def pause(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Fetch none of these until resume(), or until a rebalance."""
        with self._use():
            self._consumer.pause(*[self._assigned(partition) for partition in partitions])

    def resume(self, partitions: Iterable[TopicAndPartition]) -> None:
        with self._use():
            self._consumer.resume(*[self._assigned(partition) for partition in partitions])

    def paused(self) -> set[TopicAndPartition]:
        with self._use():
            return _ours(self._consumer.paused())

    # -- committing

    def commit_sync(self, offsets: Offsets | None = None, timeout_s: float | None = None) -> None:
        """Store positions, or these offsets; trying again until the time is over. Raises what is not passing.

        Callbacks of asynchronous commits that were answered before run before it returns or raises.
        """
        with self._use():
            self._run_callbacks()
            wanted = self._positions() if offsets is None else dict(offsets)
            _check(wanted)
            if not wanted:
                return
            timeout_ms = self._api_timeout_ms() if timeout_s is None else timeout_s * 1000
            try:
                self._consumer.commit(_theirs(wanted), timeout_ms=timeout_ms)
            except _MOVED_ON as error:
                raise CommitFailedException(_MOVED_ON_TEXT) from error
            finally:
                self._run_callbacks()
            self._interceptors.on_commit(wanted)

    def commit_async(self, offsets: Offsets | None = None, callback: OffsetCommitCallback | None = None) -> None:
        """Send it and go on. The callback runs in a later poll, commit or close, in the order of the answers."""
        with self._use():
            self._run_callbacks()
            wanted = self._positions() if offsets is None else dict(offsets)
            told = callback or _log_failure
            try:
                _check(wanted)
            except IllegalArgumentException as error:
                self._answers.add(told, wanted, error)
                return
            if not wanted:
                self._answers.add(told, wanted, None)
                return
            self._consumer.commit_async(_theirs(wanted), callback=_Told(told, wanted))

    def committed(self, partition: TopicAndPartition) -> OffsetAndMetadata | None:
        with self._use():
            found = self._consumer.committed(
                TopicPartition(*partition), metadata=True, timeout_ms=self._api_timeout_ms()
            )
            return None if found is None else OffsetAndMetadata(found.offset, found.metadata)

    # -- asking

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        with self._use():
            self._consumer.partitions_for_topic(topic)
            known = self._consumer._cluster._partitions.get(topic, {})
            return [
                PartitionInfo(
                    topic, number, found.leader_id, found.replica_nodes, found.isr_nodes, found.offline_replicas or []
                )
                for number, found in sorted(known.items())
            ]

    def beginning_offsets(self, partitions: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        with self._use():
            return self._ends(self._consumer.beginning_offsets, partitions)

    def end_offsets(self, partitions: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        """The high watermark, or for read_committed the last stable offset."""
        with self._use():
            return self._ends(self._consumer.end_offsets, partitions)

    def close(self, timeout_s: float = 30.0) -> None:
        """Commit if that is automatic, leave the group, close interceptors and deserializers. Idempotent."""
        if self._closed:
            return
        with self._use():
            self._closed = True
            timeout_ms = min(timeout_s * 1000, self.config["request.timeout.ms"])
            try:
                self._consumer.close(timeout_ms=timeout_ms)
            except Exception as error:
                raise KafkaException("Failed to close kafka consumer") from error
            finally:
                self._run_callbacks()
                self._interceptors.close()

    # -- inside

    @contextmanager
    def _use(self) -> Iterator[None]:
        """One thread at a time; a listener's may come while poll waits for it."""
        me = threading.get_ident()
        if self._lent_to == me:
            yield
            return
        if self._user not in (None, me):
            raise ConcurrentModificationException("KafkaConsumer is not safe for multi-threaded access")
        if self._closed:
            raise IllegalStateException("This consumer has already been closed.")
        before, self._user = self._user, me
        try:
            yield
        finally:
            self._user = before

    def _lend(self, thread_id: int | None) -> None:
        self._lent_to = thread_id

    def _poll_library(self, timeout_ms: float) -> dict[Any, list[Any]]:
        try:
            found: dict[Any, list[Any]] = self._consumer.poll(timeout_ms=timeout_ms)
        except (NoOffsetForPartitionError, OffsetOutOfRangeError) as error:  # auto.offset.reset=none
            where = ", ".join(sorted(f"{one.topic}-{one.partition}" for each in error.args for one in each))
            raise NoOffsetForPartitionException(f"no offset to begin at, and no reset policy, for {where}") from error
        return found

    def _refresh_topics(self) -> None:
        """Before a join: as in 1.1.1, partitions are shared out by fresh metadata.

        The library asks for it too, but shares out by what it knows: nothing in a first join, so that the group gets
        nothing and joins again at once. Asked twice: an answer under way may be older than the subscription.
        """
        coordinator, cluster = self._consumer._coordinator, self._consumer._cluster
        if self._way != "topics" or coordinator.rejoining:  # for patterns the library waits itself
            return
        for _ in range(2):
            try:
                self._consumer._net.run(self._consumer._manager.wait_for, cluster.request_update(), JOIN_SLICE_MS)
            except KafkaTimeoutError:
                return
            if all(cluster.partitions_for_topic(topic) for topic in self._consumer.subscription() or ()):
                return

    def _take(self, way: str) -> None:
        if self._way not in (None, way):
            raise IllegalStateException("Subscription to topics, partitions and pattern are mutually exclusive")
        self._way = way

    def _unsubscribe(self) -> None:
        self._consumer.unsubscribe()
        self._way = None

    def _wake(self) -> None:
        if self._wanted_up.is_set():
            self._wanted_up.clear()
            raise WakeupException("wakeup() was called")

    def _assigned(self, partition: TopicAndPartition) -> TopicPartition:
        if TopicPartition(*partition) not in self._consumer.assignment():
            raise IllegalStateException(f"No current assignment for partition {partition.topic}-{partition.partition}")
        return TopicPartition(*partition)

    def _positions(self) -> dict[TopicAndPartition, OffsetAndMetadata]:
        consumed = self._consumer._subscription.all_consumed_offsets()
        return {TopicAndPartition(*partition): OffsetAndMetadata(found.offset) for partition, found in consumed.items()}

    def _ends(self, ask: Callable[..., Any], partitions: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        found = ask([TopicPartition(*partition) for partition in partitions], timeout_ms=self._api_timeout_ms())
        return {TopicAndPartition(*partition): offset for partition, offset in found.items()}

    def _run_callbacks(self) -> None:
        """Of the commits answered so far: first all interceptors, as in the response handling, then the callbacks."""
        answered = self._answers.taken()
        for _, offsets, error in answered:
            if error is None:
                self._interceptors.on_commit(offsets)
        for callback, offsets, error in answered:
            callback(offsets, error)

    def _api_timeout_ms(self) -> int:
        return int(self.config["default.api.timeout.ms"])


_MOVED_ON_TEXT = (
    "Commit cannot be completed since the group has already rebalanced and assigned the partitions to another member."
    " The time between polls was longer than max.poll.interval.ms, or the commit came while the group rebalanced."
)


class _Told:
    """A user's callback with the offsets as the user knows them, on its way through the library."""

    def __init__(self, callback: OffsetCommitCallback, offsets: Offsets) -> None:
        self.callback = callback
        self.offsets = offsets

    def __call__(self, _offsets: Any, _answer: Any) -> None:
        raise AssertionError("the library's own queue of callbacks is not used")


class _Answers(deque[Any]):
    """In the place of the library's list of answered commits, which it works off backwards (kafka-python 3.0)."""

    def __init__(self) -> None:
        super().__init__()
        self._answered: deque[tuple[Callable[..., None], Offsets, Exception | None]] = deque()

    def appendleft(self, entry: Any) -> None:
        """Called by: the library's network thread, when an answer has come."""
        callback, offsets, answer = entry
        error = _our_error(answer) if isinstance(answer, Exception) else None
        if isinstance(callback, _Told):
            self.add(callback.callback, callback.offsets, error)
            return
        ours = {TopicAndPartition(*key): OffsetAndMetadata(each.offset) for key, each in offsets.items()}
        self.add(lambda _offsets, _error: callback(offsets, answer), ours, error)  # an automatic one

    def add(self, callback: Callable[..., None], offsets: Offsets, error: Exception | None) -> None:
        self._answered.append((callback, offsets, error))

    def taken(self) -> list[tuple[Callable[..., None], Offsets, Exception | None]]:
        return [self._answered.popleft() for _ in range(len(self._answered))]


class _AsLibraryWants(Deserializer):  # type: ignore[misc]  # the library has no types
    """A user's deserializer, `deserialize(topic, data)` or a callable of the data; null stays null."""

    def __init__(self, wanted: Any) -> None:
        self._wanted = wanted

    def deserialize(self, topic: str, headers: Any, data: bytes | None) -> Any:
        if data is None:
            return None
        deserialize = getattr(self._wanted, "deserialize", None)
        return deserialize(topic, data) if deserialize else self._wanted(data)

    def close(self) -> None:
        close = getattr(self._wanted, "close", None)
        if close is not None:
            close()


def _our_error(error: Exception) -> Exception:
    if isinstance(error, _MOVED_ON):
        return CommitFailedException(_MOVED_ON_TEXT)
    if isinstance(error, RetriableError):
        return RetriableCommitFailedException(f"Offset commit failed with a retriable exception: {error}")
    return error


def _check(offsets: Offsets) -> None:
    for each in offsets.values():
        if each.offset < 0:
            raise IllegalArgumentException(f"Invalid offset: {each.offset}")


def _log_failure(offsets: Offsets, error: Exception | None) -> None:
    if error is not None:
        log.error("Offset commit with offsets %s failed", dict(offsets), exc_info=error)


def _our_record(record: Any) -> ConsumerRecord:
    return ConsumerRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.timestamp_type,
        record.serialized_key_size,
        record.serialized_value_size,
        record.headers,
        record.key,
        record.value,
    )


def _ours(partitions: Iterable[Any]) -> set[TopicAndPartition]:
    return {TopicAndPartition(*partition) for partition in partitions}


def _theirs(offsets: Offsets) -> dict[Any, Any]:
    return {
        TopicPartition(*partition): LibraryOffset(each.offset, each.metadata, -1) for partition, each in offsets.items()
    }
