"""A chunk at a time: which records a batch holds, what counts as consumed, and when it waits, ends or fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from fetcher.errors import InvalidMessageException
from tests.builders import Content, batch, message, message_set
from tests.unit.test_streams import TEN, Feed
from zkconsumer import streams
from zkconsumer.decoder import StringDecoder
from zkconsumer.errors import ConsumerTimeoutException, IllegalStateException
from zkconsumer.events import Delivered

Offsets = Callable[[Feed], Iterator[list[int]]]


def by_lists(feed: Feed) -> Iterator[list[int]]:
    return _Offsets(feed.stream.batches(), lambda found: [record.offset for record in found])


def by_arrow(feed: Feed) -> Iterator[list[int]]:
    return _Offsets(feed.stream.arrow_batches(), lambda found: found.column("offset").to_pylist())


class _Offsets:
    """The offsets of each batch; usable after a time-out, as the iterator itself."""

    def __init__(self, batches: Iterator[Any], offsets_of: Callable[[Any], list[int]]) -> None:
        self._batches = batches
        self._offsets_of = offsets_of

    def __iter__(self) -> Iterator[list[int]]:
        return self

    def __next__(self) -> list[int]:
        return self._offsets_of(next(self._batches))


@pytest.fixture(params=[by_lists, by_arrow], ids=["lists", "arrow"])
def batches_of(request: pytest.FixtureRequest) -> Offsets:
    found: Offsets = request.param
    return found


@pytest.mark.parametrize(("magic", "codec"), [(0, "none"), (0, "snappy"), (1, "gzip"), (2, "none"), (2, "zstd")])
def test_a_batch_is_what_a_chunk_holds(batches_of: Offsets, magic: int, codec: str) -> None:
    feed = Feed(timeout_ms=-1)
    feed.put(message_set(TEN[:6], magic, codec))
    feed.put(message_set(TEN[6:], magic, codec), fetch_offset=6)
    feed.queue.put_shutdown()

    assert list(batches_of(feed)) == [list(range(6)), list(range(6, 10))]


def test_all_of_a_batch_counts_as_consumed_when_it_is_handed_out(batches_of: Offsets) -> None:
    feed = Feed()
    feed.put(message_set(TEN[:6], 0))
    feed.put(message_set(TEN[6:], 0), fetch_offset=6)
    batches = batches_of(feed)

    before = feed.info.consumed_offset
    next(batches)

    assert (before, feed.info.consumed_offset) == (0, 6)


def test_a_batch_begins_at_the_consumed_offset(batches_of: Offsets) -> None:
    feed = Feed(consumed_offset=7)
    feed.put(message_set(TEN, 1, "gzip"), fetch_offset=7)

    assert next(batches_of(feed)) == [7, 8, 9]


def test_records_and_batches_take_turns(batches_of: Offsets) -> None:
    """What has_next() has seen is a batch of its own."""
    feed = Feed()
    feed.put(message_set(TEN, 0))
    feed.put(message_set([Content(10), Content(11)], 2), fetch_offset=10)
    batches = batches_of(feed)

    first = feed.iterator.next().offset
    assert feed.iterator.has_next()

    assert [[first], next(batches), next(batches)] == [[0], [1], list(range(2, 10))]
    assert feed.iterator.next().offset == 10
    assert next(batches) == [11]


def test_after_a_rebalance_no_batch_of_the_old_chunk_comes(batches_of: Offsets) -> None:
    feed = Feed()
    feed.put(message_set(TEN, 0))
    feed.iterator.next()

    feed.rebalance()
    feed.put(message_set(TEN[4:6], 0), 4, feed.partition(0, 4))

    assert next(batches_of(feed)) == [4, 5]
    assert feed.info.consumed_offset == 1


def test_a_time_out_leaves_the_iterator_usable(batches_of: Offsets) -> None:
    feed = Feed(timeout_ms=1)
    batches = batches_of(feed)

    for _ in range(2):
        with pytest.raises(ConsumerTimeoutException):
            next(batches)
    feed.put(message_set(TEN, 0))

    assert next(batches) == list(range(10))


def test_a_shutdown_ends_the_batches(batches_of: Offsets) -> None:
    """K4: what is left of the current chunk still comes."""
    feed = Feed(timeout_ms=-1)
    feed.put(message_set(TEN, 0))
    feed.iterator.next()

    feed.stream.shut_down()

    assert list(batches_of(feed)) == [list(range(1, 10))]


def test_what_is_before_a_corrupt_message_is_delivered_first(batches_of: Offsets) -> None:
    """I4, I6: then the error, then the failed state; the position stays before it."""
    feed = Feed()
    feed.put(message_set(TEN[:3], 0) + message(TEN[3], crc=17) + message(TEN[4]))
    batches = batches_of(feed)

    assert next(batches) == [0, 1, 2]
    with pytest.raises(InvalidMessageException, match=r"^Message is corrupt \(stored crc = 17, "):
        next(batches)
    with pytest.raises(IllegalStateException, match=r"^Iterator is in failed state$"):
        next(batches)
    assert feed.info.consumed_offset == 3


def test_an_error_behind_a_batch_meets_the_iterator_too(batches_of: Offsets) -> None:
    feed = Feed()
    feed.put(batch(TEN[:3]) + batch(TEN[3:], crc=17))
    assert next(batches_of(feed)) == [0, 1, 2]

    with pytest.raises(InvalidMessageException):
        feed.iterator.next()


def test_an_error_behind_a_batch_goes_with_its_chunk(batches_of: Offsets) -> None:
    feed = Feed()
    feed.put(batch(TEN[:3]) + batch(TEN[3:], crc=17))
    batches = batches_of(feed)
    next(batches)

    feed.rebalance()
    feed.put(message_set(TEN[3:5], 0), 3, feed.partition(0, 3))

    assert next(batches) == [3, 4]


def test_a_chunk_that_is_huge_inside_is_cut_into_several(batches_of: Offsets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_BATCH_BYTES", 100)
    feed = Feed(timeout_ms=-1)
    feed.put(message_set([Content(offset, None, bytes(60)) for offset in range(5)], 0, "gzip"))
    feed.queue.put_shutdown()

    assert list(batches_of(feed)) == [[0, 1], [2, 3], [4]]


def test_the_end_of_a_chunk_that_is_not_for_users_is_passed_over(batches_of: Offsets) -> None:
    feed = Feed()
    feed.put(batch(TEN[:2], last_offset=8))
    batches = batches_of(feed)
    next(batches)

    with pytest.raises(ConsumerTimeoutException):
        next(batches)

    assert feed.info.consumed_offset == 9


def test_what_was_handed_out_is_told(batches_of: Offsets) -> None:
    """M6"""
    feed = Feed()
    feed.put(message_set(TEN, 0))

    next(batches_of(feed))
    feed.stream.publish_delivered()

    told = [(one.first_offset, one.next_offset, one.count) for one in feed.events if isinstance(one, Delivered)]
    assert told == [(0, 10, 10)]


def test_records_of_a_list_are_decoded_when_read() -> None:
    feed = Feed(key_decoder=StringDecoder(), value_decoder=StringDecoder())
    feed.put(message_set(TEN[:2], 0))

    (found,) = [next(feed.stream.batches())]

    assert [(one.topic, one.partition, one.key, one.message) for one in found] == [
        ("topic1", 0, "k0", "v0"),
        ("topic1", 0, "k1", "v1"),
    ]


ROWS = [
    Content(0, None, b"short", 1000),
    Content(1, b"", None, -1),
    Content(2, b"exactly 12 b", b"thirteen byte", 2000),
    Content(3, b"k" * 40, bytes(range(256)), 3000),
]


@pytest.mark.parametrize("views", [True, False], ids=["views", "copied"])
@pytest.mark.parametrize(("magic", "codec"), [(0, "none"), (1, "none"), (1, "lz4"), (2, "none"), (2, "gzip")])
def test_an_arrow_batch_holds_the_bytes_as_stored(views: bool, magic: int, codec: str) -> None:
    feed = Feed(value_decoder=StringDecoder())
    feed.put(message_set(ROWS[:2], magic, codec) + message_set(ROWS[2:], magic, codec))

    found = next(feed.stream.arrow_batches(views=views))

    found.validate(full=True)
    assert found.schema.names == ["topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value"]
    assert found.schema.field("value").type == (pa.binary_view() if views else pa.binary())
    assert found.column("key").to_pylist() == [row.key for row in ROWS]
    assert found.column("value").to_pylist() == [row.value for row in ROWS]
    assert found.column("topic").to_pylist() == ["topic1"] * 4
    assert found.column("partition").to_pylist() == [0] * 4
    times = [None if magic == 0 or row.timestamp_ms == -1 else row.timestamp_ms for row in ROWS]
    assert found.column("timestamp").cast(pa.int64()).to_pylist() == times


def test_an_arrow_batch_outlives_its_stream() -> None:
    feed = Feed()
    feed.put(message_set(ROWS, 0))
    found = next(feed.stream.arrow_batches())

    del feed

    assert found.column("value").to_pylist() == [row.value for row in ROWS]


def test_a_value_beyond_its_message_ends_an_arrow_batch_before_it() -> None:
    """As a list it fails when the record is read, and the stream goes on; as columns it has to be read at once."""
    record = b"\0\0\0" + b"\x01" + b"\x7e"  # no key, a value of 63 bytes that are not there
    feed = Feed()
    feed.put(message(TEN[0]) + batch([Content(1)], records=bytes([2 * len(record)]) + record))
    batches = feed.stream.arrow_batches()

    assert next(batches).num_rows == 1
    with pytest.raises(InvalidMessageException, match="offset 1 is shorter than its key, value and headers"):
        next(batches)
