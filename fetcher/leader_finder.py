"""Finds who leads the partitions nobody fetches, and gives them to fetchers (0.8: LeaderFinderThread).

Rule: it asks brokers over connections of its own, one at a time, and holds its lock only to look at its set.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from fetcher.errors import KafkaException
from fetcher.events import EventPublisher, LeadersFound, LeadersNotFound, OffsetReset
from fetcher.fetcher_thread import reset_time
from fetcher.partition import PartitionTopicInfo
from fetcher.request_order import order_of_metadata
from fetcher.settings import FetcherSettings
from fetcher.simple_consumer import CONNECTION_ERRORS, SimpleConsumer
from fetcher.structs import Broker, TopicAndPartition
from fetcher.threads import ShutdownableThread
from fetcher.wire.metadata import TopicMetadata

log = logging.getLogger(__name__)

T = TypeVar("T")

Leaders = Mapping[TopicAndPartition, Broker]
NotAdded = dict[TopicAndPartition, Exception | None]
"""Partitions that no fetcher took, and why, if that is known."""


class BrokerAndInitialOffset(NamedTuple):
    """Where to fetch a partition, and the offset it had before a missing one was reset."""

    broker: Broker
    initial_offset: int


class LeaderFinderThread(ShutdownableThread):
    """Sleeps while every partition has a fetcher; else looks again every refresh.leader.backoff.ms."""

    def __init__(
        self,
        name: str,
        *,
        settings: FetcherSettings,
        infos: Mapping[TopicAndPartition, PartitionTopicInfo],
        list_brokers: Callable[[], Sequence[Broker]],
        topic_exists: Callable[[str], bool] | None,
        connect: Callable[[Broker, str], SimpleConsumer],
        correlation_ids: Iterator[int],
        add_fetchers: Callable[[Mapping[TopicAndPartition, BrokerAndInitialOffset]], NotAdded],
        stop_idle_fetchers: Callable[[], None],
        events: EventPublisher,
    ) -> None:
        """`add_fetchers` answers with those it could not add; `connect` is given a broker and our name."""
        super().__init__(name)
        self._settings = settings
        self.infos = infos
        self._list_brokers = list_brokers
        self._topic_exists = topic_exists
        self._connect = connect
        self._correlation_ids = correlation_ids
        self._add_fetchers = add_fetchers
        self._stop_idle_fetchers = stop_idle_fetchers
        self._events = events
        self._changed = threading.Condition()  # its lock guards what follows
        self._without_leader: dict[TopicAndPartition, None] = {}  # a set that keeps its order
        self._consumer: SimpleConsumer | None = None

    @property
    def partitions_without_leader(self) -> tuple[TopicAndPartition, ...]:
        """Those it looks for."""
        with self._changed:
            return tuple(self._without_leader)

    def put(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Look for the leaders of these. Called by: the manager, and fetchers that cannot go on with them."""
        with self._changed:
            self._without_leader.update(dict.fromkeys(partitions))
            self._changed.notify_all()

    def wake(self) -> None:
        with self._changed:
            consumer = self._consumer
            self._changed.notify_all()
        if consumer is not None:
            consumer.abort()

    def do_work(self) -> None:
        wanted = self._wait_for_partitions()
        if self.stopping.is_set():
            return
        self._give_to_fetchers(self._find_leaders(wanted))
        if not self.stopping.is_set():
            self._stop_idle_fetchers()
        self.stopping.wait(self._settings.refresh_leader_backoff_s)

    def _wait_for_partitions(self) -> tuple[TopicAndPartition, ...]:
        with self._changed:
            self._changed.wait_for(lambda: self._without_leader or self.stopping.is_set())
            return tuple(self._without_leader)

    def _find_leaders(self, wanted: Sequence[TopicAndPartition]) -> Leaders:
        try:
            found = self._leaders_by_metadata(wanted)
        except Exception as error:  # brokers, ZooKeeper, whatever: it is tried again
            if not self.stopping.is_set():
                self._not_found(wanted, error)
            return {}
        with self._changed:
            for partition in found:
                self._without_leader.pop(partition, None)
        return found

    def _not_found(self, wanted: Sequence[TopicAndPartition], error: Exception) -> None:
        line = "[%s], Failed to find leader for %s"
        log.warning(line, self.name, as_set(wanted), exc_info=error)
        if self._events.active:
            self._events.publish(
                LeadersNotFound(consumer_id=self._events.consumer_id, partitions=tuple(wanted), cause=str(error))
            )

    def _leaders_by_metadata(self, wanted: Sequence[TopicAndPartition]) -> Leaders:
        topics = list(dict.fromkeys(topic for topic, _ in wanted))
        if self._settings.only_topics_in_zookeeper and self._topic_exists is not None:
            topics = [topic for topic in topics if self._topic_exists(topic)]
        if not topics:
            return {}
        if self._settings.request_versions == "newest":
            leaders = self._fetch_topic_metadata(topics).leaders
            return {partition: leaders[partition] for partition in wanted if partition in leaders}
        # As in 0.8.2.2: what goes on from here goes on in the order of the answer.
        leaders = self._fetch_topic_metadata(order_of_metadata(topics)).leaders
        lacking = set(wanted)
        return {partition: broker for partition, broker in leaders.items() if partition in lacking}

    def _fetch_topic_metadata(self, topics: Sequence[str]) -> TopicMetadata:
        """Ask one broker after the other, in random order (0.8: ClientUtils.fetchTopicMetadata)."""
        brokers = list(self._list_brokers())
        random.shuffle(brokers)
        correlation_id = next(self._correlation_ids)
        cause: Exception | None = None
        for broker in brokers:
            line = "[%s], Fetching metadata from broker %s with correlation id %d for %d topic(s) %s"
            log.info(line, self.name, broker, correlation_id, len(topics), as_set(topics))
            try:
                return self._with_connection(broker, lambda consumer: consumer.metadata(topics, correlation_id))
            except CONNECTION_ERRORS as error:
                if self.stopping.is_set():
                    raise
                line = "[%s], Fetching topic metadata with correlation id %d for topics [%s] from broker [%s] failed"
                log.warning(line, self.name, correlation_id, as_set(topics), broker, exc_info=error)
                cause = error
        raise KafkaException(
            f"fetching topic metadata for topics [{as_set(topics)}] from broker [{as_buffer(brokers)}] failed"
        ) from cause

    def _give_to_fetchers(self, leaders: Leaders) -> None:
        before = {partition: self.infos[partition].fetched_offset for partition in leaders}
        failed: dict[TopicAndPartition, Exception | None] = {}
        # As in 0.8.2.2, if its requests are asked for: the fetcher asks, over its own connection, one by one.
        if self._settings.request_versions == "newest":
            failed |= self._reset_those_without_offset(leaders)
        ready = {partition: broker for partition, broker in leaders.items() if partition not in failed}
        if self._events.active and ready:
            self._events.publish(LeadersFound(consumer_id=self._events.consumer_id, partitions=ready))
        failed |= self._add_fetchers(
            {partition: BrokerAndInitialOffset(broker, before[partition]) for partition, broker in ready.items()}
        )
        if failed and not self.stopping.is_set():
            line = "[%s], Failed to add leader for partitions %s; will retry"
            cause = next((error for error in failed.values() if error is not None), None)
            log.warning(line, self.name, ",".join(map(str, failed)), exc_info=cause)
            self.put(failed)

    def _reset_those_without_offset(self, leaders: Leaders) -> dict[TopicAndPartition, Exception]:
        """Set the start of partitions that have none, with one request a leader; those for which that failed."""
        by_broker: dict[Broker, list[TopicAndPartition]] = {}
        for partition, broker in leaders.items():
            if self.infos[partition].fetched_offset < 0:
                by_broker.setdefault(broker, []).append(partition)
        failed: dict[TopicAndPartition, Exception] = {}
        for broker, partitions in by_broker.items():
            for partition, offset in self._start_offsets(broker, partitions).items():
                if isinstance(offset, Exception):
                    failed[partition] = offset
                else:
                    self._reset(partition, offset)
        return failed

    def _start_offsets(
        self, broker: Broker, partitions: Sequence[TopicAndPartition]
    ) -> Mapping[TopicAndPartition, int | Exception]:
        time = reset_time(self._settings.auto_offset_reset)
        try:
            return self._with_connection(broker, lambda consumer: consumer.offsets_of(partitions, time))
        except CONNECTION_ERRORS as error:
            return dict.fromkeys(partitions, error)

    def _reset(self, partition: TopicAndPartition, offset: int) -> None:
        info = self.infos[partition]
        old_offset = info.fetched_offset
        info.reset(offset)
        if self._events.active:
            self._events.publish(
                OffsetReset(
                    consumer_id=self._events.consumer_id,
                    partition=partition,
                    old_offset=old_offset,
                    new_offset=offset,
                    out_of_range=False,
                )
            )

    def _with_connection(self, broker: Broker, ask: Callable[[SimpleConsumer], T]) -> T:
        """Ask over a connection that wake() can abort, and close it."""
        consumer = self._connect(broker, self.name)
        with self._changed:
            self._consumer = consumer
        try:
            if self.stopping.is_set():  # wake() may have come too early to see the connection
                consumer.abort()
            return ask(consumer)
        finally:
            with self._changed:
                self._consumer = None
            consumer.close()


def as_set(items: Iterable[object]) -> str:
    """As Scala writes a set."""
    return f"Set({', '.join(map(str, items))})"


def as_buffer(items: Iterable[object]) -> str:
    """As Scala writes an ArrayBuffer."""
    return f"ArrayBuffer({', '.join(map(str, items))})"


__all__ = ["BrokerAndInitialOffset", "LeaderFinderThread", "Leaders", "NotAdded", "as_buffer"]
