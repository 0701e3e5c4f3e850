"""Runs the leader finder and the fetchers of one consumer (0.8: ConsumerFetcherManager, AbstractFetcherManager).

Rule: its lock guards the table of fetchers. Threads are started, given partitions, woken and joined outside it.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from fetcher.events import (
    EventPublisher,
    FetcherDied,
    FetcherStarted,
    FetcherStopped,
    LeaderFinderStarted,
    LeaderFinderStopped,
    PartitionsAdded,
)
from fetcher.fetch_statistics import FetchStatistics, total
from fetcher.fetcher_thread import NO_LAG_YET, ConsumerFetcherThread
from fetcher.java import java_abs, java_hash, to_int32
from fetcher.leader_finder import BrokerAndInitialOffset, LeaderFinderThread, NotAdded, as_buffer
from fetcher.partition import PartitionTopicInfo
from fetcher.settings import FetcherSettings
from fetcher.simple_consumer import AncientBrokers, SimpleConsumer
from fetcher.structs import Broker, TopicAndPartition

log = logging.getLogger(__name__)

BrokerAndFetcherId = tuple[Broker, int]


def fetcher_id(topic: str, partition: int, number_of_fetchers: int) -> int:
    """Which of a broker's fetchers a partition belongs to: the same in every consumer and every run."""
    return java_abs(to_int32(31 * java_hash(topic) + partition)) % number_of_fetchers


class ConsumerFetcherManager:
    """States: stopped -> (start_connections) -> running -> (stop_connections) -> stopped, once a rebalance.

    Called by: the rebalancer, one call at a time. What can be read (lags, statistics, threads) any thread may read.
    """

    def __init__(
        self,
        *,
        consumer_id: str,
        settings: FetcherSettings,
        list_brokers: Callable[[], Sequence[Broker]],
        events: EventPublisher,
        topic_exists: Callable[[str], bool] | None = None,
    ) -> None:
        """`list_brokers` is called by the leader finder and may raise: then it is called again a little later."""
        self.name = f"ConsumerFetcherManager-{time.time_ns() // 1_000_000}"
        self._consumer_id = consumer_id
        self._settings = settings
        self._list_brokers = list_brokers
        self._events = events
        self._topic_exists = topic_exists
        self._correlation_ids = itertools.count()  # over the consumer's life, as in 0.8.2.2
        self._ancient_brokers = AncientBrokers()
        self._statistics: dict[BrokerAndFetcherId, FetchStatistics] = {}  # over the consumer's life
        self._infos: Mapping[TopicAndPartition, PartitionTopicInfo] = {}
        self._lock = threading.Lock()  # guards what follows
        self._leader_finder: LeaderFinderThread | None = None
        self._fetchers: dict[BrokerAndFetcherId, ConsumerFetcherThread] = {}

    @property
    def fetcher_threads(self) -> tuple[ConsumerFetcherThread, ...]:
        """Those that are there at the moment."""
        with self._lock:
            return tuple(self._fetchers.values())

    @property
    def partitions_without_leader(self) -> tuple[TopicAndPartition, ...]:
        """Those that nobody fetches at the moment."""
        with self._lock:
            finder = self._leader_finder
        return () if finder is None else finder.partitions_without_leader

    def start_connections(self, partitions: Iterable[PartitionTopicInfo]) -> None:
        """Fetch these, each from its fetched offset on. Returns at once: leaders are found in the background."""
        infos = {info.topic_and_partition: info for info in partitions}
        finder = self._new_leader_finder(infos)
        with self._lock:
            if self._leader_finder is not None:
                raise RuntimeError(f"[{self.name}] is running: stop_connections() comes first")
            self._leader_finder, self._infos = finder, infos
        finder.start()
        finder.put(infos)
        if self._events.active:
            self._events.publish(LeaderFinderStarted(consumer_id=self._consumer_id, partitions=tuple(infos)))

    def stop_connections(self) -> None:
        """Stop the leader finder, then all fetchers, wherever they wait; nothing is enqueued afterwards. Idempotent."""
        log.info("[%s] Stopping leader finder thread", self.name)
        with self._lock:
            finder = self._leader_finder
        if finder is not None:
            finder.shutdown()
            if self._events.active:
                self._events.publish(LeaderFinderStopped(consumer_id=self._consumer_id))
        log.info("[%s] Stopping all fetchers", self.name)
        with self._lock:
            fetchers = list(self._fetchers.values())
            self._fetchers = {}
            self._leader_finder, self._infos = None, {}
        self._stop(fetchers)
        log.info("[%s] All connections stopped", self.name)

    shutdown = stop_connections

    def lag_of(self) -> dict[TopicAndPartition, int]:
        """High watermark minus next offset to fetch by partition; -1 before the first fetch (0.8: ConsumerLag)."""
        lags = dict.fromkeys(self._infos, NO_LAG_YET)
        for fetcher in self.fetcher_threads:
            lags.update(fetcher.lags())
        return lags

    def max_lag(self) -> int:
        """The largest of them, at least 0."""
        return max([0, *self.lag_of().values()])

    def statistics(self) -> dict[Broker, FetchStatistics]:
        """What was fetched from each broker since this manager was made."""
        by_broker: dict[Broker, list[FetchStatistics]] = {}
        for (broker, _), statistics in list(self._statistics.items()):
            by_broker.setdefault(broker, []).append(statistics)
        return {broker: total(parts) for broker, parts in by_broker.items()}

    def statistics_by_fetcher(self) -> dict[BrokerAndFetcherId, FetchStatistics]:
        """The same, of each (broker, fetcher id); these values go on counting."""
        return dict(self._statistics)

    def _new_leader_finder(self, infos: Mapping[TopicAndPartition, PartitionTopicInfo]) -> LeaderFinderThread:
        finder = LeaderFinderThread(
            f"{self._consumer_id}-leader-finder-thread",
            settings=self._settings,
            infos=infos,
            list_brokers=self._list_brokers,
            topic_exists=self._topic_exists,
            connect=self._connect,
            correlation_ids=self._correlation_ids,
            add_fetchers=lambda leaders: self._add_fetchers(finder, leaders),
            stop_idle_fetchers=self._stop_idle_fetchers,
            events=self._events,
        )
        return finder

    def _connect(self, broker: Broker, owner: str) -> SimpleConsumer:
        return SimpleConsumer(broker, self._settings, owner=owner, ancient_brokers=self._ancient_brokers)

    def _add_fetchers(
        self, finder: LeaderFinderThread, leaders: Mapping[TopicAndPartition, BrokerAndInitialOffset]
    ) -> NotAdded:
        """Give each partition to its fetcher; those that could not be given. Called by: the leader finder."""
        groups: dict[BrokerAndFetcherId, list[TopicAndPartition]] = {}
        for partition, (broker, _) in leaders.items():
            key = (broker, fetcher_id(*partition, self._settings.num_consumer_fetchers))
            groups.setdefault(key, []).append(partition)
        not_added: NotAdded = {}
        for key, partitions in groups.items():
            try:
                if not self._add(finder, key, partitions):
                    not_added |= dict.fromkeys(partitions)
            except RuntimeError as error:  # the system gives us no more threads
                not_added |= dict.fromkeys(partitions, error)
        added = [
            f"[{partition}, initOffset {offset} to broker {broker}] "
            for partition, (broker, offset) in leaders.items()
            if partition not in not_added
        ]
        log.info("[%s] Added fetcher for partitions %s", self.name, as_buffer(added))
        return not_added

    def _add(
        self, finder: LeaderFinderThread, key: BrokerAndFetcherId, partitions: Sequence[TopicAndPartition]
    ) -> bool:
        fetcher, is_new = self._fetcher(finder, key)
        if fetcher is None:
            return False
        infos = [finder.infos[partition] for partition in partitions]
        offsets = {info.topic_and_partition: info.fetched_offset for info in infos}
        if not fetcher.add_partitions(infos):
            return False
        self._publish_added(key, offsets, is_new=is_new)
        if is_new:
            self._start(key, fetcher)
        return True

    def _publish_added(
        self, key: BrokerAndFetcherId, offsets: Mapping[TopicAndPartition, int], *, is_new: bool
    ) -> None:
        broker, number = key
        if self._events.active and is_new:  # before it starts, or what it does would be heard of first
            self._events.publish(FetcherStarted(consumer_id=self._consumer_id, broker=broker, fetcher_id=number))
        if self._events.active:
            self._events.publish(
                PartitionsAdded(consumer_id=self._consumer_id, broker=broker, fetcher_id=number, offsets=offsets)
            )

    def _start(self, key: BrokerAndFetcherId, fetcher: ConsumerFetcherThread) -> None:
        try:
            fetcher.start()
        except BaseException:  # leave no fetcher that does not fetch
            with self._lock:
                self._fetchers.pop(key, None)
            fetcher.close()
            raise

    def _fetcher(
        self, finder: LeaderFinderThread, key: BrokerAndFetcherId
    ) -> tuple[ConsumerFetcherThread | None, bool]:
        """The fetcher of this broker and number, and whether it is new; none if connections are being stopped."""
        with self._lock:
            if finder is not self._leader_finder or finder.stopping.is_set():
                return None, False
            if key in self._fetchers:
                return self._fetchers[key], False
            self._fetchers[key] = fetcher = self._new_fetcher(key, finder)
            return fetcher, True

    def _new_fetcher(self, key: BrokerAndFetcherId, finder: LeaderFinderThread) -> ConsumerFetcherThread:
        broker, number = key
        name = f"ConsumerFetcherThread-{self._consumer_id}-{number}-{broker.id}"
        statistics = self._statistics.setdefault(key, FetchStatistics())
        fetcher = ConsumerFetcherThread(
            name,
            fetcher_id=number,
            settings=self._settings,
            consumer=SimpleConsumer(
                broker, self._settings, owner=name, ancient_brokers=self._ancient_brokers, statistics=statistics
            ),
            statistics=statistics,
            events=self._events,
            put_back=finder.put,
            on_death=lambda error: self._fetcher_died(key, fetcher, finder, error),
        )
        return fetcher

    def _fetcher_died(
        self, key: BrokerAndFetcherId, fetcher: ConsumerFetcherThread, finder: LeaderFinderThread, error: BaseException
    ) -> None:
        """Unlike 0.8.2.2: its partitions are fetched again, by a new thread. Called by: the dying fetcher."""
        with self._lock:
            if self._fetchers.get(key) is fetcher:
                del self._fetchers[key]
        partitions = fetcher.close()
        broker, number = key
        if self._events.active:
            self._events.publish(
                FetcherDied(consumer_id=self._consumer_id, broker=broker, fetcher_id=number, error=repr(error))
            )
        finder.put(partitions)

    def _stop_idle_fetchers(self) -> None:
        """Called by: the leader finder, who alone gives partitions to fetchers."""
        with self._lock:
            idle = [fetcher for fetcher in self._fetchers.values() if not fetcher.partitions]
            for fetcher in idle:
                del self._fetchers[(fetcher.broker, fetcher.fetcher_id)]
        self._stop(idle)

    def _stop(self, fetchers: Sequence[ConsumerFetcherThread]) -> None:
        for fetcher in fetchers:  # all are told before one is waited for
            fetcher.initiate_shutdown()
        for fetcher in fetchers:
            fetcher.await_shutdown()
            if self._events.active:
                self._events.publish(
                    FetcherStopped(consumer_id=self._consumer_id, broker=fetcher.broker, fetcher_id=fetcher.fetcher_id)
                )


__all__ = ["ConsumerFetcherManager", "fetcher_id"]
