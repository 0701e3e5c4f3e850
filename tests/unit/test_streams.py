"""The iterator of a stream: which messages it gives, and when it waits, ends or fails."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fetcher import compression
from fetcher.chunk_queue import ChunkQueue, FetchedDataChunk
from fetcher.errors import DecompressionLimitException, InvalidMessageException, MessageSizeTooLargeException
from fetcher.events import Event, EventPublisher
from fetcher.message_set import ByteBufferMessageSet
from fetcher.partition import PartitionTopicInfo
from fetcher.structs import TopicAndPartition
from tests.builders import Content, batch, message, message_set, wrap
from zkconsumer.decoder import Decoder, DefaultDecoder, StringDecoder
from zkconsumer.errors import ConsumerTimeoutException, IllegalStateException, KafkaException, NoSuchElementException
from zkconsumer.events import Delivered
from zkconsumer.stream_table import StreamTable
from zkconsumer.streams import ConsumerIterator, KafkaStream
from zkconsumer.testing.waiting import eventually, scaled
from zkconsumer.topic_count import ConsumerThreadId

THREAD = ConsumerThreadId("group1_c1", 0)
TEN = [Content(offset, b"k%d" % offset, b"v%d" % offset) for offset in range(10)]
VECTORS = sorted((Path(__file__).parent.parent / "vectors" / "message-sets").glob("*.bin"))


class Feed:
    """A stream, the queue that fetchers would fill, and one partition of it."""

    def __init__(
        self,
        *,
        consumed_offset: int = 0,
        timeout_ms: int = 0,
        key_decoder: Decoder[Any] | None = None,
        value_decoder: Decoder[Any] | None = None,
        **switches: bool,
    ) -> None:
        self.queue = ChunkQueue(100)
        self.events: list[Event] = []
        self.publisher = EventPublisher(THREAD.consumer_id)
        self.publisher.subscribe(self.events.append)
        self.info = self.partition(0, consumed_offset)
        self.stream: KafkaStream[Any, Any] = KafkaStream(
            self.queue,
            client_id="client1",
            thread_id=THREAD,
            consumer_timeout_ms=timeout_ms,
            key_decoder=key_decoder or DefaultDecoder(),
            value_decoder=value_decoder or DefaultDecoder(),
            events=self.publisher,
            **switches,
        )
        self.iterator: ConsumerIterator[Any, Any] = self.stream.iterator()

    def partition(self, number: int, offset: int) -> PartitionTopicInfo:
        return PartitionTopicInfo("topic1", number, self.queue, 1024, offset, offset)

    def put(self, data: bytes, fetch_offset: int = 0, info: PartitionTopicInfo | None = None) -> None:
        self.queue.put(FetchedDataChunk(ByteBufferMessageSet(data), info or self.info, fetch_offset))

    def rebalance(self) -> None:
        """What a rebalance does to a stream."""
        self.info.revoked = True
        self.queue.clear()
        self.stream.clear()

    def rest(self) -> list[int]:
        """Offsets of all that is there, until it would wait."""
        offsets = []
        while True:
            try:
                offsets.append(self.iterator.next().offset)
            except (ConsumerTimeoutException, NoSuchElementException):
                return offsets


# --- which messages ---


@pytest.mark.parametrize("file", VECTORS, ids=lambda file: file.name[:-4])
def test_all_that_a_real_broker_stored_is_delivered_once_and_in_order(file: Path) -> None:
    """I1: every format and codec, as Kafka's own classes read the same bytes."""
    entries = json.loads(file.with_name(file.name[:-4] + ".json").read_text())
    expected = [
        (record["offset"], record["key"], record["value"])
        for entry in entries
        if not entry["control"]
        for record in entry["records"]
    ]
    feed = Feed()
    feed.put(file.read_bytes())

    received = []
    with pytest.raises(ConsumerTimeoutException):
        for record in feed.stream:
            received.append((record.offset, _hex(record.key), _hex(record.message)))

    assert received == expected
    assert feed.info.consumed_offset == entries[-1]["last_offset"] + 1


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


@pytest.mark.parametrize(
    ("magic", "codec"), [(0, "gzip"), (0, "lz4"), (1, "snappy"), (1, "gzip"), (2, "none"), (2, "zstd")]
)
def test_reading_begins_at_the_consumed_offset_inside_of_a_compressed_set(magic: int, codec: str) -> None:
    """I2: ten messages in one set, consumed offset 5, then the end: exactly 5 to 9 (ConsumerIteratorTest)."""
    feed = Feed(consumed_offset=5, timeout_ms=-1)
    feed.put(message_set(TEN, magic, codec), fetch_offset=5)
    feed.queue.put_shutdown()

    received = [(record.offset, record.key, record.message) for record in feed.stream]

    assert received == [(n, b"k%d" % n, b"v%d" % n) for n in range(5, 10)]
    assert not feed.iterator.has_next()
    assert len(feed.queue) == 0


def test_a_partial_last_entry_is_ignored() -> None:
    """I3: a fetch ends in the middle of a message, which the next one brings whole."""
    data = message_set(TEN, 0)
    feed = Feed()
    feed.put(data[:-1])
    feed.put(message(TEN[9]), fetch_offset=9)

    assert feed.rest() == list(range(10))


def test_a_set_whose_messages_are_all_below_the_consumed_offset_gives_none() -> None:
    """Q33: 0.8.2.2 delivers the last of them once more."""
    feed = Feed(consumed_offset=10)
    feed.put(message_set(TEN, 0, "gzip"), fetch_offset=10)
    feed.put(message(Content(10, None, b"v10")), fetch_offset=10)

    assert feed.rest() == [10]


def test_a_set_that_ends_in_what_is_not_for_users_moves_the_consumed_offset_past_it() -> None:
    """I17: else a partition that ends with a control batch is never caught up with."""
    control = batch([Content(10, b"\0\0\0\1", b"\0\0\0\0\0\0")], attributes=0x30)
    feed = Feed()
    feed.put(message_set(TEN, 2) + control)

    assert feed.rest() == list(range(10))
    assert feed.info.consumed_offset == 11


def test_chunks_of_several_partitions_keep_their_own_positions() -> None:
    """I17: one stream, two partitions; each one's messages come in order."""
    feed = Feed()
    other = feed.partition(7, 100)
    feed.put(message(TEN[0]))
    feed.put(message(Content(100, None, b"x")), 100, other)
    feed.put(message(TEN[1]), 1)

    received = [(record.partition, record.offset) for record in (feed.iterator.next() for _ in range(3))]

    assert received == [(0, 0), (7, 100), (0, 1)]
    assert (feed.info.consumed_offset, other.consumed_offset) == (2, 101)


def test_a_consumed_offset_behind_the_chunk_is_reported_and_set_forward(caplog: pytest.LogCaptureFixture) -> None:
    """I16: word for word, and delivery goes on from there."""
    feed = Feed(consumed_offset=3)
    feed.info.fetched_offset = 10
    feed.put(message_set(TEN[5:], 0), fetch_offset=5)

    with caplog.at_level(logging.ERROR):
        received = feed.rest()

    assert received == [5, 6, 7, 8, 9]
    assert [record.getMessage() for record in caplog.records] == [
        "[group1_c1], consumed offset: 3 doesn't match fetch offset: 5 for topic1:0: fetched offset = 10: "
        "consumed offset = 3;\n Consumer may lose data"
    ]


# --- has_next, next, peek ---


def test_has_next_moves_nothing_and_next_moves_the_consumed_offset() -> None:
    """I9: a message counts as consumed when next() returns it."""
    feed = Feed()
    feed.put(message_set(TEN, 0))

    assert feed.iterator.has_next() and feed.iterator.has_next()
    before = feed.info.consumed_offset
    feed.iterator.next()

    assert (before, feed.info.consumed_offset) == (0, 1)


def test_peek_shows_the_next_message_and_leaves_it_there() -> None:
    """I9: peek is has_next with a look."""
    feed = Feed()
    feed.put(message_set(TEN, 0))

    assert [feed.iterator.peek().offset, feed.iterator.peek().offset, feed.iterator.next().offset] == [0, 0, 0]
    assert feed.info.consumed_offset == 1


def test_a_stream_has_one_iterator() -> None:
    """I8: whoever begins a second loop goes on where the first one stopped."""
    feed = Feed()
    feed.put(message_set(TEN, 0))

    first = next(iter(feed.stream))

    assert iter(feed.stream) is feed.stream.iterator()
    assert [first.offset, next(iter(feed.stream)).offset] == [0, 1]


def test_the_text_form_is_that_of_0_8() -> None:
    """I15: `<client.id> kafka stream`."""
    assert str(Feed().stream) == "client1 kafka stream"


def test_a_time_out_leaves_the_iterator_usable_twice_in_a_row() -> None:
    """I5: and what comes later is delivered."""
    feed = Feed(timeout_ms=1)

    with pytest.raises(ConsumerTimeoutException):
        feed.iterator.has_next()
    with pytest.raises(ConsumerTimeoutException):
        feed.iterator.next()
    feed.put(message_set(TEN, 0))

    assert feed.rest() == list(range(10))


def test_a_waiting_iterator_gets_what_arrives() -> None:
    """I5: without consumer.timeout.ms it waits for ever."""
    feed = Feed(timeout_ms=-1)
    received: list[int] = []
    reader = threading.Thread(target=lambda: received.extend(record.offset for record in feed.stream))
    reader.start()

    feed.put(message_set(TEN, 0))
    eventually(lambda: received == list(range(10)), "ten messages")
    feed.queue.put_shutdown()

    reader.join(scaled(10))
    assert not reader.is_alive()


# --- the end ---


def test_after_the_end_there_is_nothing_for_ever() -> None:
    """I7: has_next is false, next raises NoSuchElementException, a loop ends; each as often as one likes."""
    feed = Feed(timeout_ms=-1)
    feed.queue.put_shutdown()

    for _ in range(2):
        assert not feed.iterator.has_next()
        with pytest.raises(NoSuchElementException):
            feed.iterator.next()
        with pytest.raises(NoSuchElementException):
            feed.iterator.peek()
        assert list(feed.stream) == []


def test_the_rest_of_the_chunk_is_delivered_after_a_shutdown() -> None:
    """K4, Q13: as 0.8.2.2 does; queued chunks are gone."""
    feed = Feed(timeout_ms=-1)
    feed.put(message_set(TEN[:5], 0))
    feed.put(message_set(TEN[5:], 0), fetch_offset=5)
    first = feed.iterator.next()

    feed.stream.shut_down()

    assert [first.offset, *feed.rest()] == [0, 1, 2, 3, 4]


def test_with_the_switch_a_shutdown_ends_the_stream_at_once() -> None:
    """Q13: drop_chunk_on_shutdown; also a message that has_next() has seen is not handed out any more."""
    feed = Feed(timeout_ms=-1, drop_chunk_on_shutdown=True)
    feed.put(message_set(TEN, 0))
    feed.iterator.next()
    assert feed.iterator.has_next()

    feed.stream.shut_down()

    assert not feed.iterator.has_next()
    assert feed.rest() == []
    assert feed.info.consumed_offset == 1


@pytest.mark.parametrize("way", ["topic", "wildcard"])
def test_a_stream_added_after_the_shutdown_ends_at_once(way: str) -> None:
    """K3: who creates streams while another thread shuts down must not wait for ever."""
    feed = Feed(timeout_ms=-1)
    table = StreamTable(lambda topic, thread, size: None)
    table.put_shutdown()

    if way == "topic":
        table.add("topic1", {THREAD: feed.stream})
    else:
        table.add_for_all_topics({THREAD: feed.stream})

    assert not feed.iterator.has_next()


class SlowQueue(ChunkQueue):
    """Stops between taking a chunk and returning it: the moment in which others may do something."""

    def __init__(self) -> None:
        super().__init__(10)
        self.has_taken = threading.Event()
        self.go_on = threading.Event()

    def take(self, timeout_s: float | None = None) -> Any:
        chunk = super().take(timeout_s)
        if isinstance(chunk, FetchedDataChunk):
            self.has_taken.set()
            self.go_on.wait(scaled(10))
        return chunk


@pytest.fixture
def slow() -> Iterator[tuple[Feed, list[int], threading.Thread]]:
    """A feed whose reader is just taking the chunk of TEN."""
    feed = Feed(timeout_ms=-1, drop_chunk_on_shutdown=True)
    queue = SlowQueue()
    feed.queue = feed.stream.queue = feed.iterator._queue = queue
    received: list[int] = []
    reader = threading.Thread(target=lambda: received.extend(record.offset for record in feed.stream))
    feed.put(message_set(TEN, 0))
    reader.start()
    assert queue.has_taken.wait(scaled(10))
    yield feed, received, reader
    queue.go_on.set()
    queue.put_shutdown()
    reader.join(scaled(10))


def test_a_chunk_taken_at_the_moment_of_a_rebalance_is_not_delivered(
    slow: tuple[Feed, list[int], threading.Thread],
) -> None:
    """Q12: another consumer may own the partition by now."""
    feed, received, reader = slow

    feed.rebalance()
    feed.queue.go_on.set()  # type: ignore[attr-defined]
    feed.queue.put_shutdown()
    reader.join(scaled(10))

    assert (received, feed.info.consumed_offset) == ([], 0)


def test_a_chunk_taken_at_the_moment_of_a_shutdown_is_not_delivered_with_the_switch(
    slow: tuple[Feed, list[int], threading.Thread],
) -> None:
    """Q13: drop_chunk_on_shutdown holds whatever the reader is doing."""
    feed, received, reader = slow

    feed.stream.shut_down()
    feed.queue.go_on.set()  # type: ignore[attr-defined]
    reader.join(scaled(10))

    assert not reader.is_alive()
    assert (received, feed.info.consumed_offset) == ([], 0)


# --- a rebalance ---


def test_a_rebalance_drops_the_current_chunk() -> None:
    """I14: what comes next is what the new owner's chunks hold."""
    feed = Feed()
    feed.put(message_set(TEN, 0))
    feed.iterator.next()

    feed.rebalance()
    feed.put(message(TEN[1]), 1, feed.partition(0, 1))

    assert feed.rest() == [1]


@pytest.mark.parametrize(("switch", "expected"), [(False, [4, 4, 5]), (True, [4, 5])], ids=["0.8.2", "fixed"])
def test_a_message_seen_before_a_rebalance_and_taken_after_it(switch: bool, expected: list[int]) -> None:
    """I13, Q11: comes twice as in 0.8.2.2, or with drop_ready_item_on_rebalance once."""
    feed = Feed(consumed_offset=4, drop_ready_item_on_rebalance=switch)
    feed.put(message_set(TEN[4:], 0), fetch_offset=4)
    assert feed.iterator.has_next()

    feed.rebalance()
    new = feed.partition(0, 4)
    feed.put(message_set(TEN[4:6], 0), 4, new)

    assert feed.rest() == expected
    assert new.consumed_offset == 6


# --- what is wrong with a message ---


def test_a_wrong_checksum_fails_the_iterator_for_good_and_loses_no_position() -> None:
    """I4, I6: the text of 0.8, the place beside it; what was before it has been delivered."""
    bad = message(TEN[1], crc=12345)
    feed = Feed()
    feed.put(message(TEN[0]) + bad + message(TEN[2]))
    feed.iterator.next()

    with pytest.raises(
        InvalidMessageException, match=r"^Message is corrupt \(stored crc = 12345, computed crc = \d+\)"
    ) as raised:
        feed.iterator.next()

    assert raised.value.topic_and_partition == TopicAndPartition("topic1", 0)
    assert "topic1:0" in "".join(raised.value.__notes__)
    assert feed.info.consumed_offset == 1
    for call in (feed.iterator.has_next, feed.iterator.next, feed.iterator.peek):
        with pytest.raises(IllegalStateException, match=r"^Iterator is in failed state$"):
            call()


def test_a_failed_iterator_stays_failed_after_a_rebalance_and_a_shutdown() -> None:
    """I6: with all switches on, too."""
    feed = Feed(drop_ready_item_on_rebalance=True, drop_chunk_on_shutdown=True)
    feed.put(message(TEN[0], crc=1))
    with pytest.raises(InvalidMessageException):
        feed.iterator.next()

    feed.rebalance()
    feed.stream.shut_down()

    with pytest.raises(IllegalStateException):
        feed.iterator.has_next()


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_a_set_that_would_fill_the_memory_is_a_typed_error(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """I6: a decompression bomb; it names its partition, and the position stays."""
    monkeypatch.setattr(compression, "LIMIT_BYTES", 1000)
    monkeypatch.setattr(compression, "LIMIT_RATIO", 2)
    feed = Feed()
    feed.put(wrap(message(Content(0, None, bytes(1_000_000))), 0, 0, codec))

    with pytest.raises(DecompressionLimitException) as raised:
        feed.iterator.next()

    assert raised.value.topic_and_partition == TopicAndPartition("topic1", 0)
    assert feed.info.consumed_offset == 0


def test_a_message_larger_than_the_fetch_size_is_named_and_ends_the_stream() -> None:
    """H10, I6: the text of legacy §13.2; the position stays."""
    feed = Feed(consumed_offset=3)
    feed.put(message(Content(3, None, bytes(100)))[:50], fetch_offset=3)

    with pytest.raises(MessageSizeTooLargeException) as raised:
        feed.iterator.next()

    assert str(raised.value) == (
        "Found a message larger than the maximum fetch size of this consumer on topic topic1 partition 0 at fetch "
        "offset 3. Increase the fetch size, or decrease the maximum message size the broker will allow."
    )
    assert raised.value.topic_and_partition == TopicAndPartition("topic1", 0)
    with pytest.raises(IllegalStateException):
        feed.iterator.next()
    assert feed.info.consumed_offset == 3


def test_a_negative_offset_is_refused() -> None:
    """I6: `Offset returned by the message set is invalid`, when next() is about to store it."""
    feed = Feed(consumed_offset=-10)
    feed.put(message(Content(-5, None, b"x")), fetch_offset=-10)

    with pytest.raises(KafkaException, match=r"^Offset returned by the message set is invalid -4$"):
        feed.iterator.next()
    with pytest.raises(IllegalStateException):
        feed.iterator.next()


# --- decoding ---


class CountingDecoder:
    """Notes what it was asked; fails if told so."""

    def __init__(self, *, fails: bool = False) -> None:
        self.asked: list[bytes] = []
        self._fails = fails

    def from_bytes(self, data: bytes) -> str:
        self.asked.append(data)
        if self._fails:
            raise ValueError("cannot decode this")
        return data.decode()


def test_null_keys_and_values_are_none_and_no_decoder_is_asked() -> None:
    """I10: in all formats the same; empty is not null."""
    keys, values = CountingDecoder(), CountingDecoder()
    feed = Feed(key_decoder=keys, value_decoder=values)
    feed.put(message_set([Content(0, None, None)], 0) + message_set([Content(1, b"", b"")], 2))

    received = [(record.key, record.message) for record in (feed.iterator.next(), feed.iterator.next())]

    assert received == [(None, None), ("", "")]
    assert (keys.asked, values.asked) == ([b""], [b""])


def test_decoding_happens_at_each_access() -> None:
    """I12: and not before."""
    values = CountingDecoder()
    feed = Feed(value_decoder=values)
    feed.put(message_set(TEN, 0))

    record = feed.iterator.next()
    before = list(values.asked)
    texts = [record.message, record.message]

    assert (before, texts, values.asked) == ([], ["v0", "v0"], [b"v0", b"v0"])


def test_a_failing_decoder_raises_at_the_access_and_harms_nothing() -> None:
    """I11: the iteration goes on: offsets 5, 6, ... (ConsumerIteratorTest)."""
    feed = Feed(consumed_offset=5, timeout_ms=-1, value_decoder=CountingDecoder(fails=True))
    feed.put(message_set(TEN, 0, "gzip"), fetch_offset=5)
    feed.queue.put_shutdown()

    offsets = []
    for record in feed.stream:
        with pytest.raises(ValueError, match="cannot decode this"):
            _ = record.message
        offsets.append(record.offset)

    assert offsets == [5, 6, 7, 8, 9]


def test_a_string_decoder_gives_text() -> None:
    """I12: testConsumerDecoder of legacy §21."""
    feed = Feed(key_decoder=StringDecoder(), value_decoder=StringDecoder())
    feed.put(message_set(TEN[:1], 1, "snappy"))

    record = feed.iterator.next()

    assert (record.key, record.message) == ("k0", "v0")


# --- what is told ---


def test_what_was_handed_out_is_told_when_its_chunk_is_through() -> None:
    """M6: one event a chunk, none a message; unread chunks tell nothing."""
    feed = Feed()
    feed.put(message_set(TEN[:4], 0))
    feed.put(message_set(TEN[4:], 0), fetch_offset=4)

    for _ in range(5):
        feed.iterator.next()
    feed.stream.publish_delivered()

    told = [(event.first_offset, event.next_offset, event.count) for event in feed.events if _is_delivered(event)]  # type: ignore[attr-defined]
    assert told == [(0, 4, 4), (4, 5, 1)]


def _is_delivered(event: Event) -> bool:
    return isinstance(event, Delivered)


def test_what_is_handed_out_after_a_rebalance_is_told_once() -> None:
    """M6: the message that was READY belongs to its old partition and is counted too."""
    feed = Feed()
    feed.put(message_set(TEN, 0))
    feed.iterator.next()
    assert feed.iterator.has_next()

    feed.rebalance()
    feed.iterator.next()
    feed.stream.publish_delivered()

    told = [(event.first_offset, event.count) for event in feed.events if _is_delivered(event)]  # type: ignore[attr-defined]
    assert told == [(0, 1), (1, 1)]
