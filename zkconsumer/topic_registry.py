"""What a consumer owns between two rebalances (0.8: topicRegistry).

A value: a rebalance puts a new one in the place of the old. What moves inside are the offsets of each partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from fetcher.partition import PartitionTopicInfo
from fetcher.structs import TopicAndPartition


@dataclass(frozen=True, slots=True)
class TopicRegistry:
    """The partitions of one generation. Read by any thread, without a lock."""

    partitions: Mapping[TopicAndPartition, PartitionTopicInfo] = field(default_factory=dict)
    EMPTY: ClassVar[TopicRegistry]

    def __post_init__(self) -> None:
        object.__setattr__(self, "partitions", MappingProxyType(dict(self.partitions)))

    def by_topic(self) -> dict[str, dict[int, PartitionTopicInfo]]:
        """Topic -> partition -> info, both in order."""
        topics: dict[str, dict[int, PartitionTopicInfo]] = {}
        for where in sorted(self.partitions):
            topics.setdefault(where.topic, {})[where.partition] = self.partitions[where]
        return topics

    def consumed_offsets(self) -> dict[TopicAndPartition, int]:
        """What a commit would store now: the next offset the application gets, -1 where none is known yet."""
        return {where: info.consumed_offset for where, info in self.partitions.items()}


TopicRegistry.EMPTY = TopicRegistry()
