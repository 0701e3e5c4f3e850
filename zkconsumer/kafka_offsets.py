"""Positions kept by Kafka (0.8: offsets.storage=kafka, ClientUtils.channelToOffsetManager).

One broker keeps the offsets of a group, the offset manager: found by asking any broker, and again whenever it says that
it is no longer the one. Version 1 of both requests means "in Kafka"; version 0 would mean "in ZooKeeper".
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from fetcher.channel import BlockingChannel
from fetcher.errors import KafkaException, class_name_for
from fetcher.request_order import order_of_commit, order_to_offset_manager
from fetcher.structs import Broker, OffsetAndMetadata, TopicAndPartition
from fetcher.wire.group_offsets import (
    StoredOffsets,
    decode_find_coordinator_response,
    decode_offset_commit_response,
    decode_offset_fetch_response,
    encode_find_coordinator_request,
    encode_offset_commit_request,
    encode_offset_fetch_request,
)
from zkconsumer.config import ConsumerConfig
from zkconsumer.errors import OffsetCommitFailed, ZooKeeperError, ZooKeeperStopped

log = logging.getLogger(__name__)

NONE, UNKNOWN_TOPIC_OR_PARTITION, METADATA_TOO_LARGE = 0, 3, 12
LOADING, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
LOST_MANAGER = {COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR}

# As in 0.8.2.2: nothing to tell one request from another by, and the question for the manager is nobody's.
CORRELATION_ID = 0
FINDER_CLIENT_ID = ""

LEAST_PATIENCE_S = 0.1
SHUTDOWN_BUDGET_S = 1.5  # for the last commit of a consumer that is being shut down: all tries, all brokers


class KafkaOffsets:
    """The offset manager of one group, and the connection to it. Used by one thread at a time.

    no connection -> (the first commit or fetch) -> connected -> (an error, or another manager) -> no connection.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        list_brokers: Callable[[], Sequence[Broker]],
        *,
        consumer_id: str,
        stopping: threading.Event,
    ) -> None:
        self._config = config
        self._list_brokers = list_brokers
        self._consumer_id = consumer_id
        self._stopping = stopping
        self.notes: dict[TopicAndPartition, str] = {}  # stored beside the offsets of the last fetch
        self._channel: BlockingChannel | None = None
        self._give_up_s: float | None = None  # None: until it works
        self._is_woken = False
        self._is_aborted = False
        self._is_asking = False  # what wake() aborts; a connection that is idle is kept for the last commit
        versions = config.emulation.request_versions
        self._commit_version = 2 if versions in ("0.9", "1.1") else 1
        self._fetch_version = 2 if versions == "1.1" else 1
        self._imitates_order = versions != "newest"

    def connect(self) -> None:
        """Find the manager before the first question, as 0.8.2.2 does: until a broker tells, or a shutdown."""
        self._is_asking = True
        try:
            self._connected(even_if_stopping=False)
        finally:
            self._is_asking = False

    def fetch(self, partitions: Collection[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        """The stored positions, -1 for none. Repeated until the manager answers, or the consumer is shut down."""
        while not self._stopping.is_set():
            try:
                answer = self._fetch_once(partitions)
            except ZooKeeperError:
                raise  # the session in which this rebalance began is gone, or the consumer is being shut down
            except (OSError, KafkaException) as error:
                channel = self._channel
                where = f"{channel.host}:{channel.port}" if channel is not None else "the offset manager"
                log.warning(
                    "[%s], Error while fetching offsets from %s. Possible cause: %s", self._consumer_id, where, error
                )
                self._disconnect()
            else:
                if answer is not None:
                    return answer
            self._stopping.wait(self._backoff_s)
        raise ZooKeeperStopped("the consumer was shut down before the offset manager answered")

    def commit(self, offsets: Mapping[TopicAndPartition, int | OffsetAndMetadata]) -> int:
        """Store all of these in one request, changed or not. Raises OffsetCommitFailed with what was not stored.

        As in 0.8.2.2: one request for everything (KAFKA-1510), so that offsets do not expire for want of change.
        """
        self._make_ready_for_the_last_commit()
        full = {w: o if isinstance(o, OffsetAndMetadata) else OffsetAndMetadata(o) for w, o in offsets.items()}
        if self._imitates_order:
            full = {where: full[where] for where in order_to_offset_manager(order_of_commit(full))}
        request = encode_offset_commit_request(
            self._commit_version, CORRELATION_ID, self._config.client_id, self._config.group_id, full
        )
        try:
            codes = decode_offset_commit_response(self._commit_version, self._exchange(request, even_if_stopping=True))
        except ZooKeeperStopped:
            raise  # nobody can tell where the brokers are: another try is of no use
        except (OSError, KafkaException) as error:
            self._disconnect()
            raise OffsetCommitFailed(f"no answer from the offset manager: {error}", {}, frozenset()) from error
        errors = {where: code for where, code in codes.items() if code not in (NONE, METADATA_TOO_LARGE)}
        if LOST_MANAGER & set(errors.values()):
            self._disconnect()
        if errors:
            named = ", ".join(f"{where}: {class_name_for(code)}" for where, code in sorted(errors.items()))
            stored = frozenset(where for where, code in codes.items() if code == NONE)
            raise OffsetCommitFailed(f"the offset manager refused {named}", errors, stored)
        return len(full)

    def wake(self) -> None:
        """End a wait for the manager. Called by: shutdown, any thread, after `stopping` was set."""
        self._give_up_s = time.monotonic() + SHUTDOWN_BUDGET_S
        self._is_woken = True
        channel = self._channel
        if channel is not None and self._is_asking:
            self._is_aborted = True
            channel.abort()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._disconnect()

    # --- one question, one answer ---

    def _fetch_once(self, partitions: Collection[TopicAndPartition]) -> dict[TopicAndPartition, int] | None:
        """None: ask again."""
        if self._imitates_order:
            partitions = order_to_offset_manager(partitions)
        request = encode_offset_fetch_request(
            self._fetch_version, CORRELATION_ID, self._config.client_id, self._config.group_id, partitions
        )
        answer = decode_offset_fetch_response(self._fetch_version, self._exchange(request, even_if_stopping=False))
        codes = {answer.error_code, *(stored.error_code for stored in answer.partitions.values())} - {NONE}
        if LOST_MANAGER & codes:
            log.debug("[%s], Could not fetch offsets (because offset manager has moved).", self._consumer_id)
            self._disconnect()
            return None
        if LOADING in codes:
            log.debug("[%s], Could not fetch offsets (because offset cache is being loaded).", self._consumer_id)
            return None
        return self._positions(partitions, answer)

    def _positions(
        self, partitions: Collection[TopicAndPartition], answer: StoredOffsets
    ) -> dict[TopicAndPartition, int]:
        positions = {}
        for where in partitions:
            stored = answer.partitions.get(where)
            code = answer.error_code if stored is None else stored.error_code
            if code not in (NONE, UNKNOWN_TOPIC_OR_PARTITION):
                # Unlike 0.8.2.2: there any other error counts as "no offset", and the partition is reset.
                raise KafkaException(f"the offset manager refused the offset of {where}: {class_name_for(code)}")
            positions[where] = -1 if stored is None else stored.offset
        self.notes = {where: stored.metadata for where, stored in answer.partitions.items()}
        return positions

    def _exchange(self, request: bytes, *, even_if_stopping: bool) -> memoryview:
        self._is_asking = True
        try:
            if self._is_woken and not even_if_stopping:  # wake() came too early to see that we ask
                raise ZooKeeperStopped("the consumer was shut down before the offset manager was asked")
            channel = self._connected(even_if_stopping)
            channel.send(request)
            return channel.receive()
        finally:
            self._is_asking = False

    def _make_ready_for_the_last_commit(self) -> None:
        """A shutdown's own: over the connection there is, if nobody was waiting on it, and with little patience."""
        if self._is_aborted:
            self._is_aborted = False
            self._disconnect()
        if self._is_woken and self._channel is not None and self._give_up_s is not None:
            self._channel.wait_at_most(max(self._give_up_s - time.monotonic(), LEAST_PATIENCE_S))

    # --- finding the manager ---

    @property
    def _backoff_s(self) -> float:
        return self._config.offsets_channel_backoff_ms / 1000

    def _connected(self, even_if_stopping: bool) -> BlockingChannel:
        """The connection to the manager, which is looked for until it is found or the consumer is shut down."""
        while self._channel is None:
            for broker in random.sample(brokers := list(self._list_brokers()), len(brokers)):
                if self._stopping.is_set() and not even_if_stopping:
                    raise ZooKeeperStopped("the consumer was shut down while the offset manager was looked for")
                if self._find_through(broker):
                    break
            else:
                if self._stopping.is_set():
                    raise KafkaException("no broker tells who the offset manager is, and the consumer is shut down")
                # Unlike 0.8.2.2: that asks again at once, and spins while there are no brokers.
                self._stopping.wait(self._backoff_s)
        return self._channel

    def _find_through(self, broker: Broker) -> bool:
        """Ask this broker who the manager is, and connect to that one."""
        try:
            channel = self._open(broker)
            manager = self._ask_for_manager(channel)
            if manager is not None and manager.address != broker.address:
                self._disconnect()
                self._open(manager)
        except (OSError, KafkaException) as error:
            log.warning(
                "[%s], cannot find the offset manager through broker %s: %s", self._consumer_id, broker.address, error
            )
            manager = None
        if manager is None:
            self._disconnect()
            return False
        log.debug("[%s], Connected to offset manager %s", self._consumer_id, manager.address)
        return True

    def _ask_for_manager(self, channel: BlockingChannel) -> Broker | None:
        channel.send(encode_find_coordinator_request(CORRELATION_ID, FINDER_CLIENT_ID, self._config.group_id))
        answer = decode_find_coordinator_response(channel.receive())
        # The very first question makes the broker create the topic of the offsets: it is not available yet then.
        return answer.broker if answer.error_code == NONE else None

    def _open(self, broker: Broker) -> BlockingChannel:
        give_up_s = self._give_up_s
        timeout_s = self._config.offsets_channel_socket_timeout_ms / 1000
        if give_up_s is not None:
            timeout_s = min(timeout_s, give_up_s - time.monotonic())
            if timeout_s <= 0:
                raise KafkaException("no time left, the consumer is being shut down")
        self._channel = channel = BlockingChannel(
            broker.host,
            broker.port,
            connect_timeout_s=timeout_s,
            read_timeout_s=timeout_s,
            receive_buffer_bytes=self._config.socket_receive_buffer_bytes,
        )
        if give_up_s != self._give_up_s:  # wake() came too early to see this channel
            channel.abort()
        channel.connect()
        return channel

    def _disconnect(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.disconnect()


__all__ = ["KafkaOffsets"]
