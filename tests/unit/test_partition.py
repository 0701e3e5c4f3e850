"""Handing over what was fetched (0.8: PartitionTopicInfo.enqueue)."""

from __future__ import annotations

import threading

import pytest

from fetcher.chunk_queue import ChunkQueue, FetchedDataChunk
from fetcher.errors import InvalidMessageException, KafkaException
from fetcher.message_set import ByteBufferMessageSet
from fetcher.partition import PartitionTopicInfo
from fetcher.structs import TopicAndPartition
from tests.builders import Content, batch, message, wrapper

RUNNING = threading.Event()
TWO_MESSAGES = message(Content(20, b"k", b"v")) + message(Content(25, b"k", b"w"))


def partition_at(offset: int, queue: ChunkQueue | None = None) -> PartitionTopicInfo:
    return PartitionTopicInfo("t", 0, queue or ChunkQueue(2), 1000, consumed_offset=offset, fetched_offset=offset)


def only_chunk(partition: PartitionTopicInfo) -> FetchedDataChunk:
    taken = partition.queue.take(0)
    assert isinstance(taken, FetchedDataChunk)
    assert len(partition.queue) == 0
    return taken


@pytest.mark.parametrize(
    ("data", "next_offset"),
    [
        (TWO_MESSAGES, 26),
        (TWO_MESSAGES + message(Content(26, b"k", b"x"))[:-1], 26),
        (wrapper([Content(20), Content(29)], 0, "gzip"), 30),
        (wrapper([Content(20), Content(29)], 1, "gzip"), 30),
        (batch([Content(20), Content(22)], last_offset=31), 32),
    ],
    ids=["messages", "a part at the end", "format 0 compressed", "format 1 compressed", "format 2 compacted"],
)
def test_the_next_fetch_is_after_the_last_whole_entry(data: bytes, next_offset: int) -> None:
    partition = partition_at(20)
    messages = ByteBufferMessageSet(data)

    assert partition.enqueue(messages, 20, RUNNING) is True

    assert partition.fetched_offset == next_offset
    assert partition.consumed_offset == 20
    assert only_chunk(partition) == FetchedDataChunk(messages, partition, 20)


def test_a_part_of_a_message_alone_is_queued_and_fetched_again() -> None:
    partition = partition_at(20)

    assert partition.enqueue(ByteBufferMessageSet(TWO_MESSAGES[:20]), 20, RUNNING) is True

    assert partition.fetched_offset == 20
    assert not only_chunk(partition).messages.has_whole_entry


def test_nothing_fetched_is_nothing_queued() -> None:
    partition = partition_at(20)

    assert partition.enqueue(ByteBufferMessageSet(b""), 20, RUNNING) is True

    assert partition.fetched_offset == 20
    assert len(partition.queue) == 0


def test_an_answer_for_another_offset_is_refused() -> None:
    """H11: in 0.8's words."""
    partition = partition_at(20)

    with pytest.raises(KafkaException) as caught:
        partition.enqueue(ByteBufferMessageSet(TWO_MESSAGES), 19, RUNNING)

    assert str(caught.value) == "Offset doesn't match for partition [t,0] pti offset: 20 fetch offset: 19"
    assert len(partition.queue) == 0


def test_a_corrupt_size_is_found_before_anything_is_queued() -> None:
    """H12: so that the same offset is fetched again."""
    partition = partition_at(20)

    with pytest.raises(InvalidMessageException, match=r"^Message found with corrupt size \(3\)$"):
        partition.enqueue(ByteBufferMessageSet(TWO_MESSAGES + bytes(11) + b"\x03" + bytes(30)), 20, RUNNING)

    assert partition.fetched_offset == 20
    assert len(partition.queue) == 0


def test_a_put_that_is_given_up_leaves_the_offset_where_it_was() -> None:
    partition, stopping = partition_at(20), threading.Event()
    stopping.set()

    assert partition.enqueue(ByteBufferMessageSet(TWO_MESSAGES), 20, stopping) is False

    assert partition.fetched_offset == 20
    assert len(partition.queue) == 0


def test_a_revoked_partition_takes_nothing() -> None:
    partition = partition_at(20)
    partition.revoked = True

    assert partition.enqueue(ByteBufferMessageSet(TWO_MESSAGES), 20, RUNNING) is False

    assert len(partition.queue) == 0


def test_a_reset_moves_both_offsets() -> None:
    partition = partition_at(99999)

    partition.reset(20)

    assert str(partition) == "t:0: fetched offset = 20: consumed offset = 20"
    assert partition.topic_and_partition == TopicAndPartition("t", 0)


def test_a_new_partition_has_no_offsets() -> None:
    assert str(PartitionTopicInfo("t", 0, ChunkQueue(1), 1000)) == "t:0: fetched offset = -1: consumed offset = -1"
