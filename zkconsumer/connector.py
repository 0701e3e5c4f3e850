"""The consumer (0.8: kafka.consumer.ZookeeperConsumerConnector): builds, starts and stops its parts.

    config = ConsumerConfig(zookeeper_connect="127.0.0.1:2181", group_id="group1", auto_offset_reset="smallest")
    with ZookeeperConsumerConnector(config) as consumer:
        [stream] = consumer.create_message_streams({"orders": 1})["orders"]
        for record in stream:
            print(record.partition, record.offset, record.message)

The way of a message begins here and goes on in registration, watches, rebalancer, assignment, ownership, offsets; then
through fetcher/manager into the queues that streams.py reads. There is no protocol in this module.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from fetcher.chunk_queue import ChunkQueue
from fetcher.events import Event, EventPublisher
from fetcher.manager import ConsumerFetcherManager
from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from zkconsumer.auto_commit import AutoCommitter
from zkconsumer.cluster_view import ClusterView
from zkconsumer.config import ConsumerConfig
from zkconsumer.decoder import Decoder, DefaultDecoder
from zkconsumer.errors import IllegalStateException, KafkaException, MessageStreamsExistException
from zkconsumer.events import ShutdownFinished, ShutdownStarted
from zkconsumer.kafka_offsets import KafkaOffsets
from zkconsumer.membership import GroupMembership
from zkconsumer.metrics import ConsumerMetrics
from zkconsumer.offset_commits import OffsetCommitter
from zkconsumer.offsets import OffsetStorage, ZooKeeperOffsets
from zkconsumer.ownership import PartitionOwnership
from zkconsumer.rebalance_listener import ConsumerRebalanceListener
from zkconsumer.rebalancer import Parts, Rebalancer
from zkconsumer.registration import ConsumerRegistration, new_consumer_id
from zkconsumer.stream_table import StreamTable
from zkconsumer.streams import KafkaStream
from zkconsumer.topic_count import ConsumerThreadId, StaticTopicCount, WildcardTopicCount
from zkconsumer.topic_filter import TopicFilter
from zkconsumer.watches import Watches
from zkconsumer.zookeeper import ZooKeeper

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")


class ZookeeperConsumerConnector:
    """A member of a consumer group.

    States: new -> (start, or `with`, or the first streams) -> connected -> (create_message_streams…) -> a member of the
    group -> (shutdown) -> shut down. Works once. Any thread may call any method.

    `events` publishes what happens, `metrics` counts it.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        self.config = config
        self.consumer_id = new_consumer_id(config.group_id, config.consumer_id)
        self.events = EventPublisher(self.consumer_id)
        self.metrics = ConsumerMetrics(config.client_id, config.group_id)
        self._stop_metrics = self.metrics.listen(self.events)
        self._stopping = threading.Event()
        self._lifecycle = threading.Lock()
        self._starting = threading.Lock()
        self._is_started = False
        self._has_streams = False
        self._listener: ConsumerRebalanceListener | None = None
        self._auto_committer: AutoCommitter | None = None
        self._build()

    def _build(self) -> None:
        """Make the parts and tell each which others it works with. Nothing connects and no thread starts here."""
        config, emulation = self.config, self.config.emulation
        self._zookeeper = ZooKeeper(
            config.zookeeper_connect,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            connection_timeout_ms=config.zookeeper_connection_timeout_ms,
            options=config.zookeeper_options,
            stopping=self._stopping,
            one_by_one=emulation.asks_zookeeper_one_by_one,
            looks_before_claiming=emulation.empty_parent_data,
        )
        self._cluster = ClusterView(
            self._zookeeper,
            config.group_id,
            exclude_internal_topics=config.exclude_internal_topics,
            emulation=emulation,
        )
        registration = ConsumerRegistration(
            self._zookeeper,
            config.group_id,
            self.consumer_id,
            emulation=emulation,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            events=self.events,
            stopping=self._stopping,
        )
        ownership = PartitionOwnership(self._zookeeper, config.group_id, self.consumer_id, events=self.events)
        self._fetchers = ConsumerFetcherManager(
            consumer_id=self.consumer_id,
            settings=config.fetcher_settings(),
            list_brokers=self._cluster.brokers,
            events=self.events,
            topic_exists=self._cluster.topic_exists,
        )
        self._streams = StreamTable(self.metrics.watch_queue)
        watches = Watches(self._zookeeper, consumer_id=self.consumer_id, events=self.events)
        self._commits = OffsetCommitter(
            self._offset_storages(),
            consumer_id=self.consumer_id,
            config=config,
            consumed_offsets=self._consumed_offsets,
            events=self.events,
            stopping=self._stopping,
        )
        self._rebalancer = Rebalancer(
            self.consumer_id,
            config,
            Parts(
                in_one_session=self._zookeeper.in_one_session,
                cluster=self._cluster,
                ownership=ownership,
                commits=self._commits,
                fetchers=self._fetchers,
                streams=self._streams,
                watches=watches,
                events=self.events,
                listener=lambda: self._listener,
            ),
            self._stopping,
        )
        self._membership = GroupMembership(
            self.consumer_id,
            config,
            zookeeper=self._zookeeper,
            cluster=self._cluster,
            registration=registration,
            watches=watches,
            rebalancer=self._rebalancer,
            events=self.events,
        )
        self.metrics.watch_fetchers(self._fetchers)
        self.metrics.before_reading = self._publish_delivered

    def _offset_storages(self) -> dict[str, OffsetStorage]:
        self._in_kafka: KafkaOffsets | None = None
        in_zookeeper = ZooKeeperOffsets(self._zookeeper, self.config.group_id)
        if self.config.offsets_storage == "zookeeper":
            return {"zookeeper": in_zookeeper}
        self._in_kafka = in_kafka = KafkaOffsets(
            self.config, self._cluster.brokers, consumer_id=self.consumer_id, stopping=self._stopping
        )
        if self.config.dual_commit_enabled:
            return {"kafka": in_kafka, "zookeeper": in_zookeeper}
        return {"kafka": in_kafka}

    # --- what an application calls ---

    def start(self) -> None:
        """Connect to ZooKeeper. Writes nothing. Idempotent; a second caller waits for the first."""
        with self._starting:
            with self._lifecycle:
                if self._stopping.is_set():
                    raise IllegalStateException(f"{self.consumer_id} was shut down: make a new connector")
                if self._is_started:
                    return
                self._is_started = True
            log.info("[%s], Connecting to zookeeper instance at %s", self.consumer_id, self.config.zookeeper_connect)
            try:
                self._zookeeper.start()
                if self._in_kafka is not None and self.config.emulation.imitates_requests:
                    self._in_kafka.connect()
                if self.config.auto_commit_enable:
                    self._start_auto_commit()
            except BaseException:
                self.shutdown()
                raise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()

    @overload
    def create_message_streams(
        self, topic_count_map: Mapping[str, int]
    ) -> dict[str, list[KafkaStream[bytes, bytes]]]: ...

    @overload
    def create_message_streams(
        self, topic_count_map: Mapping[str, int], key_decoder: Decoder[K], value_decoder: Decoder[V]
    ) -> dict[str, list[KafkaStream[K, V]]]: ...

    def create_message_streams(
        self,
        topic_count_map: Mapping[str, int],
        key_decoder: Decoder[Any] | None = None,
        value_decoder: Decoder[Any] | None = None,
    ) -> dict[str, list[KafkaStream[Any, Any]]]:
        """Join the group for these topics: topic -> number of streams. Works once.

        Raises ConsumerRebalanceFailedException if the first rebalance fails; as in 0.8, the consumer is a member then
        all the same, and later events may still give it partitions.
        """
        if topic_count_map is None:
            raise KafkaException("topicCountMap is null")
        topic_count = StaticTopicCount(self.consumer_id, dict(topic_count_map))
        threads_by_topic = topic_count.threads_by_topic()  # checks the counts
        self._claim_streams(
            MessageStreamsExistException("ZookeeperConsumerConnector can create message streams at most once")
        )
        self.start()
        result: dict[str, list[KafkaStream[Any, Any]]] = {}
        for topic, threads in threads_by_topic.items():
            streams = {thread: self._new_stream(thread, key_decoder, value_decoder) for thread in threads}
            self._streams.add(topic, streams)
            result[topic] = list(streams.values())
        self._membership.join(topic_count)
        return result

    @overload
    def create_message_streams_by_filter(
        self, topic_filter: TopicFilter, num_streams: int = 1
    ) -> list[KafkaStream[bytes, bytes]]: ...

    @overload
    def create_message_streams_by_filter(
        self, topic_filter: TopicFilter, num_streams: int, key_decoder: Decoder[K], value_decoder: Decoder[V]
    ) -> list[KafkaStream[K, V]]: ...

    def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        num_streams: int = 1,
        key_decoder: Decoder[Any] | None = None,
        value_decoder: Decoder[Any] | None = None,
    ) -> list[KafkaStream[Any, Any]]:
        """Join the group for all topics a Whitelist or Blacklist allows, now and later; all share these streams."""
        topic_count = WildcardTopicCount(self.consumer_id, topic_filter, num_streams)
        threads = topic_count.threads()  # checks the count
        self._claim_streams(
            KafkaException("Each consumer connector can create message streams by filter at most once.")
        )
        self.start()
        streams = {thread: self._new_stream(thread, key_decoder, value_decoder) for thread in threads}
        self._streams.add_for_all_topics(streams)
        self._membership.join(topic_count)
        return list(streams.values())

    @overload
    def commit_offsets(self, *, retry_on_failure: bool = True) -> None: ...

    @overload
    def commit_offsets(
        self, offsets: Mapping[TopicAndPartition, OffsetAndMetadata], *, retry_on_failure: bool = True
    ) -> None: ...

    def commit_offsets(
        self,
        offsets: Mapping[TopicAndPartition, OffsetAndMetadata] | None = None,
        *,
        retry_on_failure: bool = True,
    ) -> None:
        """Store how far the streams were read, or (0.9) the offsets given: each the next one to deliver."""
        if offsets is None:
            self._commits.commit(retry_on_failure=retry_on_failure)
        else:
            self._commits.commit_these(offsets, retry_on_failure=retry_on_failure)

    def set_consumer_rebalance_listener(self, listener: ConsumerRebalanceListener) -> None:
        """Be told of each rebalance (0.9). Only before streams exist."""
        if self._has_streams:
            raise MessageStreamsExistException(
                "ZookeeperConsumerConnector can only set consumer rebalance listener before creating streams"
            )
        self._listener = listener

    def shutdown(self) -> None:
        """Leave the group: stop fetching, end the streams, store positions (with auto commit), close the session.

        Idempotent, and returns within seconds whatever state the consumer, ZooKeeper or the brokers are in. Not to be
        called by a listener of SessionLost and its like, which runs on ZooKeeper's own thread: RuntimeError.
        """
        if self._zookeeper.is_called_on_its_own_thread:
            raise RuntimeError("shutdown() in a listener of the session would wait for itself: use a thread")
        with self._lifecycle:
            if self._stopping.is_set():
                return
            self._stopping.set()
            was_started = self._is_started
        began_s = time.monotonic()
        log.info("[%s], ZKConsumerConnector shutting down", self.consumer_id)
        self._publish(ShutdownStarted(consumer_id=self.consumer_id))
        self._membership.stop()
        self._commits.wake()
        with self._rebalancer.rebalance_lock:  # until a rebalance under way has noticed
            self._at_shutdown(self._stop_auto_commit)
            self._at_shutdown(self._fetchers.stop_connections)
            self._at_shutdown(self._streams.put_shutdown)
            if was_started and self.config.auto_commit_enable:
                self._at_shutdown(lambda: self._commits.commit(retry_on_failure=True))
            # Last, so that nobody is given our partitions while we still deliver from them.
            self._at_shutdown(self._zookeeper.close)
            self._at_shutdown(self._commits.close)
        self._membership.await_stop()
        seconds = time.monotonic() - began_s
        log.info("[%s], ZKConsumerConnector shutdown completed in %d ms", self.consumer_id, seconds * 1000)
        self._publish(ShutdownFinished(consumer_id=self.consumer_id, seconds=seconds))
        self._stop_metrics()
        self.metrics.close()

    @property
    def owned_partitions(self) -> dict[TopicAndPartition, int]:
        """What this consumer owns now, each with the next offset it delivers (-1: not known yet)."""
        return self._consumed_offsets()

    # --- below ---

    def _consumed_offsets(self) -> dict[TopicAndPartition, int]:
        return self._rebalancer.registry.consumed_offsets()

    def _claim_streams(self, error: Exception) -> None:
        with self._lifecycle:
            if self._has_streams:
                raise error
            self._has_streams = True

    def _new_stream(
        self, thread: ConsumerThreadId, key_decoder: Decoder[Any] | None, value_decoder: Decoder[Any] | None
    ) -> KafkaStream[Any, Any]:
        return KafkaStream(
            ChunkQueue(self.config.queued_max_message_chunks),
            client_id=self.config.client_id,
            thread_id=thread,
            consumer_timeout_ms=self.config.consumer_timeout_ms,
            key_decoder=key_decoder or DefaultDecoder(),
            value_decoder=value_decoder or DefaultDecoder(),
            events=self.events,
            drop_ready_item_on_rebalance=self.config.emulation.drop_ready_item_on_rebalance,
            drop_chunk_on_shutdown=self.config.emulation.drop_chunk_on_shutdown,
        )

    def _publish_delivered(self) -> None:
        """So that a reading of the metrics has every message that was handed out, also of unfinished chunks."""
        for stream in self._streams.streams():
            stream.publish_delivered()

    def _start_auto_commit(self) -> None:
        interval_ms = self.config.auto_commit_interval_ms
        log.info("[%s], starting auto committer every %d ms", self.consumer_id, interval_ms)
        committer = AutoCommitter(self.consumer_id, interval_ms, lambda: self._commits.commit(retry_on_failure=False))
        with self._lifecycle:  # a shutdown either sees it or keeps it from starting
            if not self._stopping.is_set():
                self._auto_committer = committer
                committer.start()

    def _stop_auto_commit(self) -> None:
        if self._auto_committer is not None:
            self._auto_committer.shutdown()

    def _at_shutdown(self, step: Callable[[], None]) -> None:
        """One step that fails must not keep the others from being done."""
        try:
            step()
        except Exception:
            log.critical("[%s], error during consumer connector shutdown", self.consumer_id, exc_info=True)

    def _publish(self, event: Event) -> None:
        if self.events.active:
            self.events.publish(event)


__all__ = ["ZookeeperConsumerConnector"]
