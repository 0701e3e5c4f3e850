"""Names for what brokers hold (0.8: kafka.common.TopicAndPartition, kafka.cluster.Broker, OffsetAndMetadata).

Plain values, equal when their fields are; as text they look as they do in 0.8's log lines.
"""

from __future__ import annotations

from typing import NamedTuple


class TopicAndPartition(NamedTuple):
    """One partition of one topic; as text `[topic,partition]`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"[{self.topic},{self.partition}]"


class Broker(NamedTuple):
    """A broker as it registered itself. Another port is another broker: its connections are not shared."""

    id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        """`host:port` (0.8: connectionString)."""
        return f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"id:{self.id},host:{self.host},port:{self.port}"


class OffsetAndMetadata(NamedTuple):
    """What is committed for a partition: the next offset to consume, and a note (0.9: commitOffsets with a map)."""

    offset: int
    metadata: str = ""
