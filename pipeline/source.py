"""format("zkconsumer"): what Spark asks a Python data source for, and the bounded read.

Objects here are pickled and sent about: they hold settings and nothing that is connected. A batch read is planned in a
process of the driver, once, and read by tasks; a stream is in group.py.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from fetcher.structs import Broker, TopicAndPartition
from pipeline.cluster import Brokers, Limits
from pipeline.errors import PipelineError, UnknownOption, as_one_line
from pipeline.options import SourceOptions
from pipeline.ranges import OffsetRange
from pipeline.rows import SCHEMA, RowForm, checked_columns
from zkconsumer.cluster_view import ClusterView
from zkconsumer.config import ConsumerConfig
from zkconsumer.errors import KafkaException, ZkTimeoutException
from zkconsumer.kafka_offsets import KafkaOffsets
from zkconsumer.offsets import OffsetStorage, ZooKeeperOffsets
from zkconsumer.topic_filter import Whitelist
from zkconsumer.zookeeper import ZooKeeper

MOST_TOPICS_SHOWN = 10


class ZkConsumerDataSource(DataSource):
    """Made anew in every process that needs it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        with told_in_one_line():
            self._options = SourceOptions.of(options)

    @classmethod
    def name(cls) -> str:
        return "zkconsumer"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        with told_in_one_line():
            return RangesReader(self._options, checked_columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pipeline.group import GroupStreamReader

        with told_in_one_line():
            return GroupStreamReader(self._options, checked_columns(schema))


class RangePartition(InputPartition):
    """One task's work, with all it has to know: tasks talk to ZooKeeper only if none of the brokers answers."""

    def __init__(self, found: OffsetRange, brokers: Sequence[Broker]) -> None:
        super().__init__(found)
        self.brokers = tuple(brokers)


class RangesReader(DataSourceReader):
    """From stored or given offsets up to given ones or the end, joining no group and committing nothing."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        with told_in_one_line(), connected(self._options.config) as zookeeper:
            cluster = cluster_view(zookeeper, self._options.config)
            wanted = partitions_of(cluster, self._options)
            brokers = cluster.brokers()
            if not brokers:
                raise PipelineError(f"no broker is registered at {self._options.config.zookeeper_connect}")
            with brokers_of(self._options, brokers) as connections:
                limits = connections.limits(wanted)
            missing = sorted(set(wanted) - set(limits))
            if missing:
                raise PipelineError(f"nobody leads {', '.join(map(str, missing))} at the moment")
            ranges = self._ranges(limits, stored_offsets(zookeeper, cluster, self._options.config, wanted))
        return [RangePartition(found, brokers) for found in ranges if found.length > 0]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self._options, self._columns)

    def _ranges(
        self, limits: Mapping[TopicAndPartition, Limits], stored: Mapping[TopicAndPartition, int]
    ) -> list[OffsetRange]:
        reset_to_first = self._options.config.auto_offset_reset == "smallest"
        ranges = []
        for where, (first, following) in sorted(limits.items()):
            start = {"earliest": first, "latest": following, "stored": stored[where]}.get(str(self._options.starting))
            if not isinstance(self._options.starting, str):
                start = self._options.starting.get(where.topic, {}).get(where.partition, stored[where])
            if start is None or start < 0:
                start = first if reset_to_first else following
            until = following
            if not isinstance(self._options.ending, str):
                until = self._options.ending.get(where.topic, {}).get(where.partition, following)
            if not first <= start <= following:
                raise PipelineError(
                    f"{where} holds offsets {first} to {following - 1}: it cannot be read from {start} on"
                )
            if until > following:
                raise PipelineError(
                    f"{where} holds offsets {first} to {following - 1}: it cannot be read up to {until}"
                )
            ranges.append(OffsetRange(where, start, until))
        return ranges


def read_partition(partition: InputPartition, options: SourceOptions, columns: tuple[str, ...]) -> Iterator[Any]:
    """The rows of a range, in Spark's form. Runs in a task."""
    if not isinstance(partition, RangePartition):  # Spark makes one of its own where there are none
        return
    found: OffsetRange = partition.value
    form = RowForm(columns, found.thread)
    with told_in_one_line(), brokers_of(options, partition.brokers) as connections:
        for batch in connections.read(found, fail_on_data_loss=options.fail_on_data_loss):
            yield form.spark_batch(batch)


def brokers_of(options: SourceOptions, known: Sequence[Broker]) -> Brokers:
    """Connections to these, and to those that come instead. Opens nothing."""

    def look_up() -> list[Broker]:
        with connected(options.config) as zookeeper:
            return cluster_view(zookeeper, options.config).brokers()

    settings = options.config.fetcher_settings()
    return Brokers(known, settings, look_up=look_up, leader_timeout_s=options.leader_timeout_s)


# --- the cluster, read ---


@contextmanager
def told_in_one_line() -> Iterator[None]:
    """What is wrong with options or servers is told without a stack."""
    try:
        yield
    except KafkaException as error:
        raise as_one_line(error) from None


@contextmanager
def connected(config: ConsumerConfig) -> Iterator[ZooKeeper]:
    """A session for looking, which writes nothing."""
    zookeeper = ZooKeeper(
        config.zookeeper_connect,
        session_timeout_ms=config.zookeeper_session_timeout_ms,
        connection_timeout_ms=config.zookeeper_connection_timeout_ms,
        options=config.zookeeper_options,
    )
    try:
        try:
            zookeeper.start()
        except ZkTimeoutException as error:
            raise PipelineError(f"zookeeper.connect={config.zookeeper_connect}: {error} ms; is it there?") from None
        yield zookeeper
    finally:
        zookeeper.close()


def cluster_view(zookeeper: ZooKeeper, config: ConsumerConfig) -> ClusterView:
    return ClusterView(
        zookeeper,
        config.group_id,
        exclude_internal_topics=config.exclude_internal_topics,
        emulation=config.emulation,
    )


def partitions_of(cluster: ClusterView, options: SourceOptions) -> list[TopicAndPartition]:
    """All of the topics asked for; UnknownOption for a topic that does not exist."""
    topics = list(options.streams_of)
    if options.pattern is not None:
        allowed = Whitelist(options.pattern)
        exclude = options.config.exclude_internal_topics
        topics = [t for t in cluster.topics() if allowed.is_topic_allowed(t, exclude_internal_topics=exclude)]
    found = cluster.partitions_for(topics)
    for topic in topics:
        if not found[topic]:
            raise UnknownOption(
                f"option topics: there is no topic {topic} at {options.config.zookeeper_connect}; "
                + _topics_like(topic, cluster.topics())
            )
    return [TopicAndPartition(topic, partition) for topic in topics for partition in found[topic]]


def _topics_like(topic: str, topics: Sequence[str]) -> str:
    """Of many, those that may have been meant."""
    near = difflib.get_close_matches(topic, topics)
    if near:
        return f"did you mean {' or '.join(near)}?"
    shown = ", ".join(topics[:MOST_TOPICS_SHOWN]) or "none"
    more = len(topics) - MOST_TOPICS_SHOWN
    return f"topics are: {shown}" + (f" and {more} more" if more > 0 else "")


def stored_offsets(
    zookeeper: ZooKeeper, cluster: ClusterView, config: ConsumerConfig, wanted: Sequence[TopicAndPartition]
) -> dict[TopicAndPartition, int]:
    """Where the group stands, -1 where it stands nowhere; of two places the larger one, as a member does it."""
    import threading

    storages: list[OffsetStorage] = []
    if config.offsets_storage == "kafka":
        storages.append(KafkaOffsets(config, cluster.brokers, consumer_id="spark", stopping=threading.Event()))
    if config.offsets_storage == "zookeeper" or config.dual_commit_enabled:
        storages.append(ZooKeeperOffsets(zookeeper, config.group_id))
    try:
        found = [storage.fetch(wanted) for storage in storages]
    finally:
        for storage in storages:
            storage.close()
    return {where: max(positions[where] for positions in found) for where in wanted}
