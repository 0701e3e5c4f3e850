"""When positions are stored, in which places, and how often a failing commit is repeated (0.8: commitOffsets).

How a place stores them is its own matter: ZooKeeperOffsets (offsets.py), KafkaOffsets (kafka_offsets.py). With dual
commit there are both, while a group moves from one to the other: Kafka comes first, and what it took goes to ZooKeeper.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from fetcher.errors import KafkaException
from fetcher.events import EventPublisher
from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from zkconsumer.config import ConsumerConfig
from zkconsumer.errors import OffsetCommitFailed
from zkconsumer.events import CommitFailed, Committed
from zkconsumer.kafka_offsets import KafkaOffsets
from zkconsumer.offsets import OffsetStorage, ZooKeeperOffsets
from zkconsumer.rewinds import note_of, start_of

log = logging.getLogger(__name__)

Offsets = Mapping[TopicAndPartition, int | OffsetAndMetadata]

SHUTDOWN_BUDGET_S = 2.5  # retries end by then when the consumer is being shut down


class _Both(NamedTuple):
    """The two places of dual commit."""

    kafka: KafkaOffsets
    zookeeper: ZooKeeperOffsets


class OffsetCommitter:
    """Stores how far the application got; one commit or fetch at a time."""

    def __init__(
        self,
        storages: Mapping[str, OffsetStorage],
        *,
        consumer_id: str,
        config: ConsumerConfig,
        consumed_offsets: Callable[[], Mapping[TopicAndPartition, int]],
        events: EventPublisher,
        stopping: threading.Event,
    ) -> None:
        self._storages = storages
        self._consumer_id = consumer_id
        self._config = config
        self._consumed_offsets = consumed_offsets
        self._events = events
        self._stopping = stopping
        self._lock = threading.Lock()  # 0.8: offsetsChannelLock
        self._noted = _both(storages) if config.emulation.honour_rewind_in_zookeeper else None

    def commit(self, *, retry_on_failure: bool) -> None:
        """Store the positions of all partitions owned now."""
        self._commit(self._positions, retry_on_failure=retry_on_failure)

    def commit_these(self, offsets: Offsets, *, retry_on_failure: bool) -> None:
        """Store given positions. With Kafka storage a failure is logged; with ZooKeeper storage it is raised."""
        self._commit(lambda: offsets, retry_on_failure=retry_on_failure)

    def fetch(self, partitions: Collection[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        """Where to start: the stored positions, -1 for none.

        Of two places the larger one: members that are not on Kafka yet write to ZooKeeper only. See rewinds.py.
        """
        if not partitions:
            return {}
        with self._lock:
            found = [storage.fetch(partitions) for storage in self._storages.values()]
            if self._noted is not None:
                in_kafka, in_zookeeper = found
                notes = self._noted.kafka.notes
                return {
                    where: start_of(in_kafka[where], notes.get(where, ""), in_zookeeper[where]) for where in partitions
                }
        return {where: max(positions[where] for positions in found) for where in partitions}

    def wake(self) -> None:
        """End a wait for Kafka, since the consumer is being shut down. Called by: any thread."""
        for storage in self._storages.values():
            storage.wake()

    def close(self) -> None:
        """Let go of connections."""
        for storage in self._storages.values():
            storage.close()

    def _commit(self, offsets: Callable[[], Offsets], *, retry_on_failure: bool) -> None:
        attempts = 1 + self._retries(retry_on_failure)
        deadline_s = time.monotonic() + SHUTDOWN_BUDGET_S
        for left in reversed(range(attempts)):
            try:
                self._commit_once(offsets)
                return
            except OffsetCommitFailed as error:
                log.error("[%s], Error while committing offsets. %s", self._consumer_id, error)
                self._tell_failure(error)
            except KafkaException as error:  # ZooKeeper's: the caller hears of it
                self._tell_failure(error)
                raise
            if not left or (self._stopping.is_set() and time.monotonic() >= deadline_s):
                return
            self._wait(deadline_s)

    def _positions(self) -> Offsets:
        # Unlike 0.8.2.2: a partition without a position yet (-1) is not sent to Kafka as -1.
        return {where: offset for where, offset in self._consumed_offsets().items() if offset >= 0}

    def _commit_once(self, get_offsets: Callable[[], Offsets]) -> None:
        failure: OffsetCommitFailed | None = None
        successes: list[Committed] = []
        with self._lock:
            # Unlike 0.8.2.2: asked for here. Positions taken before the wait for the lock may be older than what the
            # commit before us stored, and of partitions that are another's by now.
            offsets = get_offsets()
            if not offsets:
                log.debug("[%s], No updates to offsets since last commit.", self._consumer_id)
                return
            for name, storage in self._storages.items():
                if not offsets:  # Kafka took none
                    break
                began_s = time.monotonic()
                try:
                    written = storage.commit(self._with_notes(storage, offsets))
                except OffsetCommitFailed as error:
                    failure = error
                    offsets = {where: offsets[where] for where in error.stored}
                else:
                    seconds = time.monotonic() - began_s
                    successes.append(
                        Committed(
                            consumer_id=self._consumer_id,
                            offsets=offsets,
                            storage=name,
                            written=written,
                            seconds=seconds,
                        )
                    )
        for event in successes:
            self._events.publish(event)
        if failure is not None:
            raise failure

    def _with_notes(self, storage: OffsetStorage, offsets: Offsets) -> Offsets:
        """For Kafka, beside those that have no note of the application: what ZooKeeper holds."""
        noted = self._noted
        if noted is None or storage is not noted.kafka:
            return offsets
        with_notes = dict(offsets)
        for where, given in offsets.items():
            offset, note = given if isinstance(given, OffsetAndMetadata) else (given, "")
            before = noted.zookeeper.last_known(where)
            if not note and before is not None:
                with_notes[where] = OffsetAndMetadata(offset, note_of(before))
        return with_notes

    def _retries(self, retry_on_failure: bool) -> int:
        match self._config.emulation.commit_retries:
            case "at shutdown":  # As in 0.8.2.2: only there, whatever the caller wants
                wanted = retry_on_failure and self._stopping.is_set()
            case "inverted":  # as from 0.9 on
                wanted = not retry_on_failure
            case _:
                wanted = retry_on_failure
        return self._config.offsets_commit_max_retries if wanted else 0

    def _wait(self, deadline_s: float) -> None:
        """The back-off between two tries. A shutdown ends it, unless this is the shutdown's own commit."""
        backoff_s = self._config.offsets_channel_backoff_ms / 1000
        if self._stopping.is_set():
            threading.Event().wait(max(0.0, min(backoff_s, deadline_s - time.monotonic())))
        else:
            self._stopping.wait(backoff_s)

    def _tell_failure(self, error: Exception) -> None:
        if self._events.active:
            self._events.publish(CommitFailed(consumer_id=self._consumer_id, error=str(error)))


def _both(storages: Mapping[str, OffsetStorage]) -> _Both | None:
    """None if there is only one."""
    kafka, zookeeper = storages.get("kafka"), storages.get("zookeeper")
    if isinstance(kafka, KafkaOffsets) and isinstance(zookeeper, ZooKeeperOffsets):
        return _Both(kafka, zookeeper)
    return None
