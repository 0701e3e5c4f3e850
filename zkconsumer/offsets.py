"""Where a group's positions are kept: the next offset to deliver of each partition (0.8: commitOffsets, fetchOffsets).

An OffsetStorage is ZooKeeper (here), Kafka, or both (kafka_offsets.py). -1 means that none is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from fetcher.request_order import order_of_commit
from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from zkconsumer.errors import UnreadableZnode
from zkconsumer.paths import GroupTopicPaths
from zkconsumer.znodes import decode_offset, encode_offset
from zkconsumer.zookeeper import ZooKeeper

NO_OFFSET = -1


class OffsetStorage(Protocol):
    """Called by one thread at a time."""

    def fetch(self, partitions: Collection[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        """The stored offset of each of these, -1 if there is none."""

    def commit(self, offsets: Mapping[TopicAndPartition, int | OffsetAndMetadata]) -> int:
        """Store these; how many were really written."""

    def wake(self) -> None:
        """End a wait, since the consumer is being shut down. Called by: any thread."""

    def close(self) -> None:
        """Let go of connections."""


class ZooKeeperOffsets:
    """One persistent node a partition. Nobody checks who writes: the last writer wins.

    What was last read or written is remembered, and not written again. Nothing from outside changes that memory: what
    a tool writes is seen by the next fetch, and lost if a commit comes first.
    """

    def __init__(self, zookeeper: ZooKeeper, group: str) -> None:
        self._zookeeper = zookeeper
        self._group = group
        self._checkpoints: dict[TopicAndPartition, int] = {}  # 0.8: checkpointedZkOffsets

    def fetch(self, partitions: Collection[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        """As every rebalance does. UnreadableZnode names a node that holds no number."""
        path_of = {where: self._path(where) for where in partitions}
        stored = self._zookeeper.read_many(path_of.values())
        offsets = {where: _decode(path, stored[path]) for where, path in path_of.items()}
        # Unlike 0.8.2.2: with dual commit, what ZooKeeper holds, not the larger one of Kafka. A node that is behind is
        # then brought up to date by the first commit.
        self._checkpoints.update(offsets)
        return offsets

    def commit(self, offsets: Mapping[TopicAndPartition, int | OffsetAndMetadata]) -> int:
        """Write those that differ from what is remembered."""
        # Unlike 0.9: a partition never read here is written whatever its offset; there 0 counted as written.
        changed = {
            where: offset
            for where, given in offsets.items()
            if (offset := _plain(given)) >= 0 and offset != self._checkpoints.get(where)
        }
        if self._zookeeper.one_by_one:
            changed = {where: changed[where] for where in order_of_commit(offsets) if where in changed}
        data_of = {self._path(where): encode_offset(offset) for where, offset in changed.items()}
        self._zookeeper.update_many(data_of, protected=True)
        self._checkpoints.update(changed)
        return len(changed)

    def last_known(self, where: TopicAndPartition) -> int | None:
        """What was last read (-1: no offset) or written; None if neither was done."""
        return self._checkpoints.get(where)

    def wake(self) -> None:
        """Nothing to do: `stopping` ends the waits of the connector's ZooKeeper."""

    def close(self) -> None:
        """Nothing to do: the session is the connector's."""

    def _path(self, where: TopicAndPartition) -> str:
        return GroupTopicPaths(self._group, where.topic).offset(where.partition)


def _plain(offset: int | OffsetAndMetadata) -> int:
    # A note that comes with it has no place in ZooKeeper.
    return offset.offset if isinstance(offset, OffsetAndMetadata) else offset


def _decode(path: str, data: bytes | None) -> int:
    if data is None:
        return NO_OFFSET
    try:
        return max(decode_offset(data), NO_OFFSET)
    except UnreadableZnode as error:
        raise error.at(path) from None
