"""When a consumer rebalances, and in which order (0.8: ZKRebalancerListener).

rebalance() is one attempt, and the heart of the consumer. Its order keeps two promises: what others may already own is
not delivered (fetchers stop and streams are cleared before anything is released), and what was delivered is not
delivered again (offsets are committed while the partitions are still ours).

All members decide alone, from what they read. Those that read at different moments collide when they claim; the later
one gives back what it claimed, waits, and tries again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from fetcher.errors import KafkaException
from fetcher.events import EventPublisher
from fetcher.manager import ConsumerFetcherManager
from fetcher.partition import PartitionTopicInfo
from fetcher.request_order import order_in_a_map, order_in_pools
from fetcher.structs import TopicAndPartition
from zkconsumer.assignment import Assignor, assignor_for, by_topic, mine
from zkconsumer.cluster_view import ClusterView
from zkconsumer.config import ConsumerConfig
from zkconsumer.errors import ConsumerRebalanceFailedException
from zkconsumer.events import (
    RebalanceAttemptFailed,
    RebalanceFinished,
    RebalanceGaveUp,
    RebalanceStarted,
    RebalanceStep,
)
from zkconsumer.offset_commits import OffsetCommitter
from zkconsumer.ownership import PartitionOwnership
from zkconsumer.rebalance_listener import ConsumerRebalanceListener
from zkconsumer.stream_table import StreamTable
from zkconsumer.topic_count import ConsumerThreadId
from zkconsumer.topic_registry import TopicRegistry
from zkconsumer.watches import Watches

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a rebalance works with; all belong to one connector."""

    in_one_session: Callable[[], AbstractContextManager[None]]
    cluster: ClusterView
    ownership: PartitionOwnership
    commits: OffsetCommitter
    fetchers: ConsumerFetcherManager
    streams: StreamTable
    watches: Watches
    events: EventPublisher
    listener: Callable[[], ConsumerRebalanceListener | None]


class Rebalancer:
    """Rebalances of one consumer, one at a time, under rebalance_lock.

    The registry is what this consumer owns now: replaced by each successful rebalance, empty while nothing is owned.
    Read without a lock by commits and metrics; replaced as a whole.
    """

    def __init__(self, consumer_id: str, config: ConsumerConfig, parts: Parts, stopping: threading.Event) -> None:
        self.rebalance_lock = threading.RLock()
        self.ensure_member: Callable[[], None] = lambda: None  # set by the membership, which needs us to exist first
        self.registry = TopicRegistry.EMPTY
        self._consumer_id = consumer_id
        self._config = config
        self._parts = parts
        self._stopping = stopping
        self._fetching: Collection[PartitionTopicInfo] = ()  # not the registry, which a lost session empties at once
        self._kept: Mapping[TopicAndPartition, ConsumerThreadId] | None = None  # what is claimed, while it is fetched
        self._assign: Assignor = assignor_for(config.partition_assignment_strategy, config.emulation)

    def synced_rebalance(self, reason: str) -> None:
        """Try up to rebalance.max.retries times. Raises ConsumerRebalanceFailedException when all of them failed.

        Called by: the user's thread for the first one, then the watcher executor. Returns early on shutdown.
        """
        began_s = time.monotonic()
        with self.rebalance_lock:
            for attempt in range(self._config.rebalance_max_retries):
                if self._stopping.is_set():
                    return
                if self._try(attempt, reason):
                    self._tell_finished(attempt + 1, time.monotonic() - began_s)
                    return
                log.info(
                    "[%s], Rebalancing attempt failed. Clearing the cache before the next rebalancing operation is "
                    "triggered",
                    self._consumer_id,
                )
                self._close_fetchers_after_failure()
                # As in 0.8.2.2: also after the last attempt. Unlike 0.8.2.2: a shutdown ends the wait (KAFKA-1848).
                self._stopping.wait(self._config.rebalance_backoff_ms / 1000)
            if self._stopping.is_set():
                return
        if self._parts.events.active:
            attempts = self._config.rebalance_max_retries
            seconds = time.monotonic() - began_s
            self._parts.events.publish(
                RebalanceGaveUp(consumer_id=self._consumer_id, attempts=attempts, seconds=seconds)
            )
        raise ConsumerRebalanceFailedException(self._consumer_id, self._config.rebalance_max_retries)

    def _try(self, attempt: int, reason: str) -> bool:
        log.info("[%s], begin rebalancing consumer %s try #%d", self._consumer_id, self._consumer_id, attempt)
        events = self._parts.events
        if events.active:
            events.publish(RebalanceStarted(consumer_id=self._consumer_id, attempt=attempt, reason=reason))
        done, cause = False, "a partition is still owned by another consumer"
        try:
            # Or a session lost between two steps would go unnoticed: nodes claimed by somebody who is no member.
            with self._parts.in_one_session():
                self.ensure_member()
                done = self.rebalance()
        except Exception as error:
            # As in 0.8.2.2: any error ends the attempt, not the consumer. What was wrong may be gone at the next one.
            cause = f"{type(error).__name__}: {error}"
            if not self._stopping.is_set():
                log.info("[%s], exception during rebalance ", self._consumer_id, exc_info=True)
        if not done and events.active:
            events.publish(RebalanceAttemptFailed(consumer_id=self._consumer_id, attempt=attempt, error=cause))
        log.info("[%s], end rebalancing consumer %s try #%d", self._consumer_id, self._consumer_id, attempt)
        return done

    def rebalance(self) -> bool:
        """One attempt. False: another one after rebalance.backoff.ms."""
        parts = self._parts
        my_topics = parts.cluster.my_threads(self._consumer_id)
        if not parts.cluster.brokers() and not self._watch_for_brokers():
            return True
        if self._config.emulation.keep_what_does_not_change and self._has_all_it_gets():
            return True
        self._close_fetchers(topics=my_topics)  # first, or we deliver what others already own
        self._call_before_releasing_partitions()
        self._release_all()
        context = parts.cluster.read_group(self._consumer_id)
        self._step("assign")
        assignment = self._assign(context)
        to_claim = self._in_order(mine(assignment, self._consumer_id))
        self._step("read offsets")
        registry = self._new_registry(to_claim, parts.commits.fetch(to_claim))
        self._step("claim")
        if not parts.ownership.claim_all(to_claim):
            return False
        self.registry = registry
        self._call_before_starting_fetchers(assignment)
        self._start_fetchers(registry)
        self._kept = to_claim
        return True

    def forget_ownership(self, *, commit_first: bool) -> None:
        """Own nothing, since the session that owned it is gone. As in 0.8.2.2: fetchers go on until the rebalance.

        With `commit_first` they stop here, and positions are stored of partitions that no other member has taken over
        meanwhile.
        """
        if commit_first and self.registry.partitions:
            self._stop_and_clear(topics=None)  # or what is delivered after the commit comes again
        owned, self.registry = self.registry, TopicRegistry.EMPTY
        self._kept = None
        if commit_first and owned.partitions:
            free = self._parts.ownership.without_owner(owned.partitions)
            positions = {where: offset for where, offset in owned.consumed_offsets().items() if where in free}
            self._parts.commits.commit_these(positions, retry_on_failure=False)

    # --- the steps ---

    def _has_all_it_gets(self) -> bool:
        """Whether it would claim what it owns, and owns it."""
        kept = self._kept
        if kept is None:
            return False
        assignment = self._assign(self._parts.cluster.read_group(self._consumer_id))
        return mine(assignment, self._consumer_id) == kept and self._parts.ownership.holds_all(kept)

    def _watch_for_brokers(self) -> bool:
        """From now on the first broker triggers a rebalance. True if it came before we watched.

        Unlike 0.8.2.2, which does not look again: it would miss that one, and wait for good.
        """
        log.warning("[%s], no brokers found when trying to rebalance.", self._consumer_id)
        self._parts.watches.watch_brokers()
        self._parts.watches.wait_until_set()
        return bool(self._parts.cluster.brokers())

    def _close_fetchers(self, topics: Collection[str] | None) -> None:
        """Stop fetching, drop what was fetched (None: of all topics), store how far the application got."""
        self._stop_and_clear(topics)
        log.info("[%s], Committing all offsets after clearing the fetcher queues", self._consumer_id)
        if self._config.auto_commit_enable:
            self._step("commit")
            self._parts.commits.commit(retry_on_failure=True)

    def _close_fetchers_after_failure(self) -> None:
        try:
            self._close_fetchers(topics=None)
        except KafkaException:
            # Unlike 0.8.2.2: a commit that fails here, as without a session, does not cost the attempts that are left.
            if not self._stopping.is_set():
                log.info("[%s], exception during rebalance ", self._consumer_id, exc_info=True)

    def _stop_and_clear(self, topics: Collection[str] | None) -> None:
        self._step("stop fetchers")
        self._kept = None
        self._parts.fetchers.stop_connections()
        self._step("clear streams")
        for info in self._fetching:
            info.revoked = True
        self._fetching = ()
        self._parts.streams.clear(topics)
        log.info("[%s], Cleared all relevant queues for this fetcher", self._consumer_id)
        log.info("[%s], Cleared the data chunks in all the consumer message iterators", self._consumer_id)

    def _call_before_releasing_partitions(self) -> None:
        listener = self._parts.listener()
        if listener is not None:
            log.info("[%s], Invoking rebalance listener before relasing partition ownerships.", self._consumer_id)
            owned = {topic: set(partitions) for topic, partitions in self.registry.by_topic().items()}
            listener.before_releasing_partitions(owned)

    def _release_all(self) -> None:
        log.info("[%s], Releasing partition ownership", self._consumer_id)
        self._step("release")
        owned, self.registry = self.registry, TopicRegistry.EMPTY
        self._parts.ownership.release_all(owned.partitions)

    def _in_order(
        self, to_claim: Mapping[TopicAndPartition, ConsumerThreadId]
    ) -> Mapping[TopicAndPartition, ConsumerThreadId]:
        """That of 0.8.2.2's map of claims, where servers may tell us by it."""
        if not self._config.emulation.imitates_requests:
            return to_claim
        return {where: to_claim[where] for where in order_in_a_map(to_claim)}

    def _new_registry(
        self, mine: Mapping[TopicAndPartition, ConsumerThreadId], offsets: Mapping[TopicAndPartition, int]
    ) -> TopicRegistry:
        infos = {}
        for where, thread in mine.items():
            info = PartitionTopicInfo(
                where.topic,
                where.partition,
                self._parts.streams.queue_of(where.topic, thread),
                consumed_offset=offsets[where],
                fetched_offset=offsets[where],
                fetch_size=self._config.fetch_message_max_bytes,
            )
            log.debug("[%s], %s selected new offset %d", self._consumer_id, info, offsets[where])
            infos[where] = info
        if self._config.emulation.imitates_requests:
            infos = {where: infos[where] for where in order_in_pools(infos)}
        return TopicRegistry(infos)

    def _call_before_starting_fetchers(self, assignment: Mapping[TopicAndPartition, ConsumerThreadId]) -> None:
        listener = self._parts.listener()
        if listener is not None:
            log.info("[%s], Invoking rebalance listener before starting fetchers.", self._consumer_id)
            listener.before_starting_fetchers(self._consumer_id, by_topic(assignment))

    def _start_fetchers(self, registry: TopicRegistry) -> None:
        infos = sorted(registry.partitions.values(), key=lambda info: info.partition)
        selected = ",".join(map(str, infos))
        log.info("[%s], Consumer %s selected partitions : %s", self._consumer_id, self._consumer_id, selected)
        self._step("start fetchers")
        self._fetching = infos
        self._parts.fetchers.start_connections(infos)

    def _step(self, name: str) -> None:
        if self._parts.events.active:
            self._parts.events.publish(RebalanceStep(consumer_id=self._consumer_id, name=name))

    def _tell_finished(self, attempts: int, seconds: float) -> None:
        if self._parts.events.active:
            owned = tuple(sorted(self.registry.partitions))
            self._parts.events.publish(
                RebalanceFinished(consumer_id=self._consumer_id, attempts=attempts, seconds=seconds, owned=owned)
            )


__all__ = ["Parts", "Rebalancer"]
