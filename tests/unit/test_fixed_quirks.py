"""Quirks of 0.8.2.2 that are mended for everybody, at moments no real broker can be brought into.

docs/compatibility.md names these tests; the numbers Q… are those of its table.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from fetcher.chunk_queue import ChunkQueue, FetchedDataChunk
from fetcher.events import EventPublisher, FetchFailed
from fetcher.fetch_statistics import FetchStatistics
from fetcher.fetcher_thread import ConsumerFetcherThread
from fetcher.message_set import ByteBufferMessageSet
from fetcher.partition import PartitionTopicInfo
from fetcher.settings import FetcherSettings
from fetcher.simple_consumer import SimpleConsumer
from fetcher.structs import Broker, TopicAndPartition
from tests.builders import Content, message_set
from tests.scripted_broker import Answer, HangUp, Request, ScriptedBroker, array, text
from tests.zookeeper.sessions import Background
from zkconsumer.config import ConsumerConfig
from zkconsumer.decoder import DefaultDecoder
from zkconsumer.errors import ConsumerTimeoutException, ZooKeeperStopped
from zkconsumer.kafka_offsets import KafkaOffsets
from zkconsumer.streams import KafkaStream
from zkconsumer.testing.waiting import eventually
from zkconsumer.topic_count import ConsumerThreadId

OFFSET_FETCH, FIND_COORDINATOR = 9, 10
UNKNOWN_ERROR = -1
T0 = TopicAndPartition("t", 0)


def stream_of(queue: ChunkQueue) -> KafkaStream[bytes, bytes]:
    """One that gives up at once when its queue is empty."""
    return KafkaStream(
        queue,
        client_id="client",
        thread_id=ConsumerThreadId("group_c1", 0),
        consumer_timeout_ms=0,
        key_decoder=DefaultDecoder(),
        value_decoder=DefaultDecoder(),
        events=EventPublisher("group_c1"),
    )


def put(info: PartitionTopicInfo, offsets: Sequence[int], *, codec: str = "none") -> None:
    """As a fetcher does that asked for the first of these."""
    data = message_set([Content(offset, value=b"value") for offset in offsets], 0, codec)
    assert info.queue.put(FetchedDataChunk(ByteBufferMessageSet(data), info, offsets[0]))


def taken(stream: KafkaStream[bytes, bytes]) -> list[int]:
    """The offsets of all that is there."""
    offsets = []
    with pytest.raises(ConsumerTimeoutException):
        for record in stream:
            offsets.append(record.offset)
    return offsets


# --- streams ---


def test_a_chunk_taken_while_a_rebalance_clears_is_not_delivered() -> None:
    """Q12: it left the queue before that was emptied, and had not become the current chunk yet."""
    queue = ChunkQueue(2)
    old = PartitionTopicInfo("t", 0, queue, 1000, consumed_offset=0, fetched_offset=0)
    stream = stream_of(queue)
    old.revoked = True  # the rebalance does this before it empties queues and drops chunks
    stream.clear()
    put(old, [0, 1, 2])  # so this is what a reader still holds in its hand

    assert taken(stream) == []

    put(PartitionTopicInfo("t", 0, queue, 1000, consumed_offset=0, fetched_offset=0), [0, 1, 2])
    assert taken(stream) == [0, 1, 2]


def test_of_a_set_that_was_consumed_before_nothing_is_delivered() -> None:
    """Q33: 0.8.2.2 delivers the last message of such a set once more."""
    info = PartitionTopicInfo("t", 0, ChunkQueue(2), 1000, consumed_offset=5, fetched_offset=5)
    put(info, [0, 1, 2, 3, 4], codec="gzip")
    put(info, [5, 6])

    assert taken(stream_of(info.queue)) == [5, 6]
    assert info.consumed_offset == 7


def test_what_was_queued_before_a_reset_is_still_delivered() -> None:
    """Q35: the older chunk first, as in 0.8.2.2; then, unlike there, all that the log holds from the reset on."""
    info = PartitionTopicInfo("t", 0, ChunkQueue(2), 1000, consumed_offset=5, fetched_offset=5)
    put(info, [5, 6])
    info.reset(0)  # out of range, with auto.offset.reset=smallest
    put(info, [0, 1, 2, 3, 4, 5, 6, 7, 8])

    assert taken(stream_of(info.queue)) == [5, 6, 0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert info.consumed_offset == 9


def test_what_was_queued_before_a_reset_to_a_later_offset_is_not_skipped() -> None:
    """Q35: the log was cut behind us while older chunks waited; they are still delivered, then it goes on there."""
    info = PartitionTopicInfo("t", 0, ChunkQueue(2), 1000, consumed_offset=5, fetched_offset=5)
    put(info, [5, 6])
    stream = stream_of(info.queue)
    assert next(iter(stream)).offset == 5
    info.reset(100)
    put(info, [100, 101])

    assert taken(stream) == [6, 100, 101]


# --- offsets kept by Kafka ---


def config(**settings: int) -> ConsumerConfig:
    return ConsumerConfig(
        zookeeper_connect="unused:2181",
        group_id="group",
        offsets_storage="kafka",
        **settings,  # type: ignore[arg-type]
    )


@contextmanager
def offset_manager(answer_fetch: Callable[[], bytes]) -> Iterator[ScriptedBroker]:
    """A broker that says it is the manager, and answers offset fetches as told."""

    def script(request: Request) -> Answer:
        if request.api_key == FIND_COORDINATOR:
            return struct.pack(">hi", 0, 0) + text("127.0.0.1") + struct.pack(">i", server.port)
        assert request.api_key == OFFSET_FETCH
        return answer_fetch()

    with ScriptedBroker(script) as server:
        yield server


def stored(offset: int, error_code: int) -> bytes:
    """An offset fetch response of version 1 for T0."""
    partition = struct.pack(">iq", T0.partition, offset) + text("") + struct.pack(">h", error_code)
    return array([text(T0.topic) + array([partition])])


def test_an_error_nobody_expects_is_not_taken_for_no_offset() -> None:
    """Q20: 0.8.2.2 would reset the partition; here the question is repeated until there is an answer."""
    answers = [stored(-1, UNKNOWN_ERROR), stored(-1, UNKNOWN_ERROR), stored(42, 0)]
    with offset_manager(lambda: answers.pop(0)) as server:
        offsets = KafkaOffsets(
            config(offsets_channel_backoff_ms=1),
            lambda: [server.broker],
            consumer_id="group_c1",
            stopping=threading.Event(),
        )
        try:
            assert offsets.fetch([T0]) == {T0: 42}
        finally:
            offsets.close()


class CountedWaits(threading.Event):
    """Notes how long somebody wants to wait, and does not let it take long."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return super().wait(0.001)


def test_without_brokers_the_search_for_the_offset_manager_waits() -> None:
    """Q29: 0.8.2.2 asks ZooKeeper again at once, as fast as it can."""
    stopping = CountedWaits()
    asked: list[int] = []

    def no_brokers() -> list[Broker]:
        asked.append(len(stopping.waits))
        return []

    offsets = KafkaOffsets(
        config(offsets_channel_backoff_ms=1234), no_brokers, consumer_id="group_c1", stopping=stopping
    )
    searching = Background(lambda: offsets.fetch([T0]))

    eventually(lambda: len(asked) >= 5)
    stopping.set()

    with pytest.raises(ZooKeeperStopped):
        searching.result()
    assert asked[:5] == [0, 1, 2, 3, 4]  # one wait after each look
    assert set(stopping.waits) == {1.234}


@pytest.mark.parametrize("milliseconds", [700, 12_000])
def test_the_offset_manager_is_given_the_time_that_is_set_for_it(milliseconds: int) -> None:
    """Q29: also if the broker asked first is the manager itself; 0.8.2.2 keeps 3000 ms then."""
    with offset_manager(lambda: stored(42, 0)) as server:
        offsets = KafkaOffsets(
            config(offsets_channel_socket_timeout_ms=milliseconds),
            lambda: [server.broker],
            consumer_id="group_c1",
            stopping=threading.Event(),
        )
        try:
            offsets.fetch([T0])

            assert offsets._channel is not None
            assert offsets._channel._read_timeout_s == milliseconds / 1000
            assert server.number_of_connections == 1
        finally:
            offsets.close()


# --- a switch of 0.9 ---


@pytest.mark.parametrize("waits", [False, True], ids=["0.8.2", "0.9"])
def test_a_fetcher_waits_after_an_error_from_0_9_on(waits: bool) -> None:
    """KAFKA-1461: both sides of wait_after_fetch_error; the broker hangs up each time."""
    settings = replace(
        FetcherSettings(client_id="client", request_versions="0.8.2", refresh_leader_backoff_ms=1234),
        wait_after_fetch_error=waits,
    )
    info = PartitionTopicInfo("t", 0, ChunkQueue(2), 1000, consumed_offset=0, fetched_offset=0)
    events = EventPublisher("group_c1")
    failures: list[object] = []
    events.subscribe(lambda event: failures.append(event) if isinstance(event, FetchFailed) else None)

    def again(_partitions: object) -> None:
        fetcher.add_partitions([info])

    with ScriptedBroker(lambda _request: HangUp) as server:
        fetcher = ConsumerFetcherThread(
            "fetcher",
            fetcher_id=0,
            settings=settings,
            consumer=SimpleConsumer(server.broker, settings, owner="fetcher"),
            statistics=FetchStatistics(),
            events=events,
            put_back=again,
        )
        fetcher.stopping = stopping = CountedWaits()
        fetcher.add_partitions([info])
        fetcher.start()
        try:
            eventually(lambda: len(failures) >= 3)
        finally:
            fetcher.shutdown()

    assert (1.234 in stopping.waits) is waits
