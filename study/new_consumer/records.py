"""What poll returns, by partition and by topic, and the other values of the new consumer's interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fetcher.structs import OffsetAndMetadata, TopicAndPartition

__all__ = ["ConsumerRecord", "ConsumerRecords", "OffsetAndMetadata", "PartitionInfo"]


class ConsumerRecord(NamedTuple):
    """One message. `timestamp_type`: 0 is CreateTime, 1 LogAppendTime."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    serialized_key_size: int
    serialized_value_size: int
    headers: Sequence[tuple[str, bytes]]
    key: Any
    value: Any


class PartitionInfo(NamedTuple):
    """Where a partition is: broker ids."""

    topic: str
    partition: int
    leader: int
    replicas: Sequence[int]
    in_sync_replicas: Sequence[int]
    offline_replicas: Sequence[int]


class ConsumerRecords:
    """The records of one poll; iterating goes partition by partition. Never changed: interceptors make new ones."""

    def __init__(self, by_partition: Mapping[TopicAndPartition, Sequence[ConsumerRecord]]) -> None:
        self._by_partition = {partition: list(records) for partition, records in by_partition.items()}

    def partitions(self) -> set[TopicAndPartition]:
        return set(self._by_partition)

    def records(self, of: TopicAndPartition | str) -> list[ConsumerRecord]:
        """Of a partition, or of all partitions of a topic."""
        if isinstance(of, str):
            return [record for record in self if record.topic == of]
        return list(self._by_partition.get(of, ()))

    def count(self) -> int:
        return sum(map(len, self._by_partition.values()))

    def is_empty(self) -> bool:
        return self.count() == 0

    def __len__(self) -> int:
        return self.count()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return (record for records in self._by_partition.values() for record in records)
