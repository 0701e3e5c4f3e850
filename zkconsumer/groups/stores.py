"""Where offsets of groups are kept, seen from outside: both stores with the same methods."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from fetcher.admin import HungUp
from fetcher.errors import MalformedResponseException, exception_for
from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from fetcher.wire.group_offsets import StoredOffset
from zkconsumer.emulation import OFFSETS_TOPIC
from zkconsumer.groups.cluster import Cluster, all_partitions
from zkconsumer.groups.kafka_group import UNKNOWN_TOPIC_OR_PARTITION, KafkaGroups
from zkconsumer.groups.zookeeper_group import read_group
from zkconsumer.paths import GroupTopicPaths
from zkconsumer.znodes import encode_offset
from zkconsumer.zookeeper import ZooKeeper

Positions = dict[TopicAndPartition, int]


class Store(Protocol):
    """`name` is what commands call it."""

    name: str

    def read(self, group: str) -> Positions: ...

    def write(self, group: str, offsets: Mapping[TopicAndPartition, int]) -> None: ...

    def remove(self, group: str, partitions: Collection[TopicAndPartition]) -> None: ...

    def is_live(self, group: str) -> bool: ...


class ZooKeeperStore:
    """Nodes below /consumers/GROUP/offsets."""

    name = "zookeeper"

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper

    def read(self, group: str) -> Positions:
        """All that are stored; negative ones mean none, to consumers too."""
        return {
            where: offset
            for where, offset in read_group(self._zookeeper, group, ["offsets"]).stored_offsets().items()
            if offset >= 0
        }

    def write(self, group: str, offsets: Mapping[TopicAndPartition, int]) -> None:
        """As a consumer does."""
        self._zookeeper.update_many(
            {
                GroupTopicPaths(group, topic).offset(number): encode_offset(offset)
                for (topic, number), offset in offsets.items()
            },
            protected=True,
        )

    def remove(self, group: str, partitions: Collection[TopicAndPartition]) -> None:
        """The nodes themselves; directories stay."""
        self._zookeeper.delete_many(GroupTopicPaths(group, topic).offset(number) for topic, number in partitions)

    def is_live(self, group: str) -> bool:
        """Whether somebody is registered."""
        return read_group(self._zookeeper, group, ["ids"]).is_live


class KafkaStore:
    """The group's coordinator."""

    name = "kafka"

    def __init__(self, groups: KafkaGroups, cluster: Cluster) -> None:
        self._groups = groups
        self._cluster = cluster

    def read(self, group: str) -> Positions:
        """All that are stored."""
        return {where: one.offset for where, one in self.read_whole(group).items()}

    def read_whole(self, group: str) -> dict[TopicAndPartition, StoredOffset]:
        """With what was stored along. Before 0.10.2 brokers are asked about each partition there is."""
        topics = self._cluster.topics()
        if OFFSETS_TOPIC not in topics:
            return {}  # and asking would make it
        try:
            stored = self._groups.all_stored(group)
        except (HungUp, MalformedResponseException):  # 0.8 answers it as if it were the version before
            stored = self._groups.stored(group, all_partitions(self._cluster.partitions_of(topics)))
        for where, one in stored.items():
            if one.error_code not in (0, UNKNOWN_TOPIC_OR_PARTITION):
                raise exception_for(one.error_code, f"the offset of {where} of group {group} is not told")
        return {where: one for where, one in stored.items() if one.offset >= 0 and not one.error_code}

    def write(self, group: str, offsets: Mapping[TopicAndPartition, int]) -> None:
        """Refused by the coordinator while the group has members there."""
        self._groups.commit(group, {where: OffsetAndMetadata(offset) for where, offset in offsets.items()})

    def remove(self, group: str, partitions: Collection[TopicAndPartition]) -> None:
        """With the last one the group goes, where brokers can delete groups (1.1 and later)."""
        if not partitions:
            return
        if set(partitions) == set(self.read(group)):
            try:
                self._groups.delete(group)
                return
            except HungUp:
                pass
        self._groups.forget(group, partitions)

    def is_live(self, group: str) -> bool:
        """Whether it has members; KafkaException if nobody can tell."""
        return OFFSETS_TOPIC in self._cluster.topics() and self._groups.has_members(group)
