"""One owned partition: how far it was fetched and consumed, and where its chunks go (0.8: PartitionTopicInfo).

Two threads write here, each its own number: the fetcher `fetched_offset`, the stream's user `consumed_offset`. Only a
reset writes both.
"""

from __future__ import annotations

import threading

from fetcher.chunk_queue import ChunkQueue, FetchedDataChunk
from fetcher.cursor import ConsumedOffset
from fetcher.errors import KafkaException
from fetcher.message_set import ByteBufferMessageSet
from fetcher.structs import TopicAndPartition

NO_OFFSET = -1


class PartitionTopicInfo(ConsumedOffset):
    """What one generation of ownership knows of a partition; a rebalance makes a new one and revokes this."""

    __slots__ = ("fetch_size", "fetched_offset", "partition", "queue", "revoked", "topic", "was_reset")

    def __init__(
        self,
        topic: str,
        partition: int,
        queue: ChunkQueue,
        fetch_size: int,
        consumed_offset: int = NO_OFFSET,
        fetched_offset: int = NO_OFFSET,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.queue = queue
        self.fetch_size = fetch_size
        self.consumed_offset = consumed_offset
        self.fetched_offset = fetched_offset
        self.was_reset = False  # from then on a chunk may begin before what was consumed
        self.revoked = False  # set when a rebalance clears; chunks of a revoked partition are not delivered

    @property
    def topic_and_partition(self) -> TopicAndPartition:
        return TopicAndPartition(self.topic, self.partition)

    def enqueue(self, messages: ByteBufferMessageSet, fetch_offset: int, stopping: threading.Event | None) -> bool:
        """Hand over what was fetched; waits while the queue is full. False if it was not taken: we are stopping.

        Without a whole entry in it a chunk is put all the same, so that the iterator says "too large".
        Called by: the fetcher threads. Changes: fetched_offset, after the queue took the chunk.
        """
        if self.fetched_offset != fetch_offset:
            raise KafkaException(
                f"Offset doesn't match for partition {self.topic_and_partition} "
                f"pti offset: {self.fetched_offset} fetch offset: {fetch_offset}"
            )
        if not messages.size_in_bytes:
            return True
        last_offset = messages.last_offset  # before the put: it may find the set corrupt
        if self.revoked or not self.queue.put(FetchedDataChunk(messages, self, fetch_offset), stopping):
            return False
        if last_offset is not None:
            self.fetched_offset = last_offset + 1
        return True

    def reset(self, offset: int) -> None:
        """Start anew from here. Called by: leader finder and fetchers, for offsets unknown or out of range.

        Unlike 0.8.2.2: while chunks of before still wait to be read, the consumed offset stays theirs; the stream moves
        it when it comes to the first chunk of after. There it moves at once, and what the old chunks hold, or what the
        new ones hold before it, is skipped.
        """
        if self.consumed_offset == self.fetched_offset:
            self.consumed_offset = offset
        self.was_reset = True
        self.fetched_offset = offset

    def __str__(self) -> str:
        return (
            f"{self.topic}:{self.partition}: fetched offset = {self.fetched_offset}: "
            f"consumed offset = {self.consumed_offset}"
        )

    def __repr__(self) -> str:
        return f"PartitionTopicInfo({self})"
