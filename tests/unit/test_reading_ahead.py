"""However the records of a chunk are asked for, they come once, in order, and count as consumed one by one.

The reader in Python reads some records at once, which nobody may notice; the compiled one passes the same tests.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetcher.errors import KafkaException
from fetcher.pure_cursor import MessageAndMetadata, _Run
from fetcher.pure_message_set import ByteBufferMessageSet as PureMessageSet
from tests.builders import Content, message_set
from tests.twins import FORMS
from tests.unit.test_streams import Feed
from zkconsumer.errors import ConsumerTimeoutException, IllegalStateException
from zkconsumer.events import Delivered

WAYS = ("next", "next", "next", "has_next", "peek", "batch", "publish")


def one_set(numbers: range, magic: int, codec: str) -> bytes:
    return message_set([Content(number, None, b"value %d" % number) for number in numbers], magic, codec)


class Asking:
    """Asks in whichever way, and compares with what has to come."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.consumed = 0

    def ask(self, way: str) -> None:
        """Raises what the stream raises."""
        iterator = self.feed.iterator
        if way == "next":
            self._came([next(iterator).offset])
        elif way == "has_next":
            assert iterator.has_next()
        elif way == "peek":
            assert iterator.peek().offset == self.consumed
        elif way == "batch":
            self._came([record.offset for record in iterator.next_batch()])
        else:
            self.feed.stream.publish_delivered()
            self.look_at_events()
        assert self.feed.info.consumed_offset == self.consumed

    def _came(self, offsets: list[int]) -> None:
        assert offsets == list(range(self.consumed, self.consumed + len(offsets)))
        self.consumed += len(offsets)

    def look_at_events(self) -> None:
        """Runs of offsets that continue each other, up to what was handed out."""
        told = [event for event in self.feed.events if isinstance(event, Delivered)]
        ends = [0, *(event.next_offset for event in told)]
        assert [event.first_offset for event in told] == ends[:-1]
        assert [event.count for event in told] == [event.next_offset - event.first_offset for event in told]
        assert ends[-1] == self.consumed


@pytest.mark.parametrize(("magic", "codec"), FORMS)
@given(ways=st.lists(st.sampled_from(WAYS), max_size=60), sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4))
@settings(max_examples=25)
def test_in_whatever_way_they_are_asked_for(magic: int, codec: str, ways: list[str], sizes: list[int]) -> None:
    feed = Feed()
    ends = list(accumulate(sizes, initial=0))
    feed.put(b"".join(one_set(range(first, end), magic, codec) for first, end in pairwise(ends)))
    asking = Asking(feed)

    with pytest.raises(ConsumerTimeoutException):
        for way in [*ways, *["next"] * (sum(sizes) + 1)]:
            asking.ask(way)

    assert asking.consumed == sum(sizes)
    asking.look_at_events()


@given(
    ways=st.lists(st.sampled_from(WAYS), max_size=20),
    before=st.integers(0, 25),
    damage=st.sampled_from(["checksum", "offset"]),
)
@settings(max_examples=100)
def test_an_error_comes_at_its_record(ways: list[str], before: int, damage: str) -> None:
    broken = bytearray(one_set(range(before, before + 1), 0, "none"))
    if damage == "offset":
        broken[0:8] = (2**63 - 1).to_bytes(8, "big")
    else:
        broken[-1] ^= 1
    data = one_set(range(before), 0, "none") + broken + one_set(range(before + 1, before + 9), 0, "none")
    feed = Feed()
    feed.put(data)
    asking = Asking(feed)

    # has_next() shows a record whose offset is wrong, and only next() refuses it.
    with pytest.raises(KafkaException, match=r"corrupt|invalid"):
        for way in [*ways, *["next"] * (before + 1)]:
            asking.ask("next" if damage == "offset" and asking.consumed == before else way)

    assert (asking.consumed, feed.info.consumed_offset) == (before, before)
    with pytest.raises(IllegalStateException):
        next(feed.iterator)


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)


@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("magic", [0, 2])
def test_what_a_rebalance_finds_consumed_is_exactly_what_was_handed_out(magic: int) -> None:
    """In the middle of a chunk, at any moment: nothing is handed out after it, and nothing before it is forgotten."""
    chance = random.Random(magic)
    data = b"".join(one_set(range(first, first + 100), magic, "none") for first in range(0, 20_000, 100))
    in_the_middle = 0
    for _ in range(25):
        feed, received = Feed(timeout_ms=20), list[int]()
        feed.put(data)
        reader = threading.Thread(target=read_all, args=(feed, received))
        reader.start()
        at_least = chance.randrange(1, 4000)
        while len(received) < at_least:
            pass
        feed.rebalance()
        consumed = feed.info.consumed_offset
        reader.join()

        assert received == list(range(consumed))
        assert feed.info.consumed_offset == consumed
        told = [event for event in feed.events if isinstance(event, Delivered)]
        assert (sum(event.count for event in told), told[-1].next_offset) == (consumed, consumed)
        in_the_middle += consumed < 20_000
    assert in_the_middle > 0


def read_all(feed: Feed, received: list[int]) -> None:
    """Until nothing comes for a while."""
    try:
        for record in feed.stream:
            received.append(record.offset)
            if record.offset % 50 == 0:
                time.sleep(0)  # others' turn
    except ConsumerTimeoutException:
        pass


@pytest.mark.usefixtures("eager_threads")
def test_a_commit_in_between_never_stores_what_was_not_handed_out() -> None:
    """Offsets are read by another thread while records are handed out."""
    feed, received = Feed(timeout_ms=20), list[int]()
    feed.put(b"".join(one_set(range(first, first + 100), 0, "none") for first in range(0, 20_000, 100)))
    reader = threading.Thread(target=read_all, args=(feed, received))
    reader.start()
    looked = []
    while True:
        was_alive = reader.is_alive()
        at_least = len(received)
        consumed = feed.info.consumed_offset
        at_most = len(received) + 1  # one may be in the hands of the loop
        looked.append(at_least <= consumed <= at_most)
        if not was_alive:
            break
    reader.join()

    assert all(looked)
    assert len(received) == 20_000


def test_a_run_that_is_ended_again_after_a_signal_leaves_the_same() -> None:
    """Ctrl-C between its end and the keeping of its rest: none of that may count as consumed."""
    messages = list(PureMessageSet(one_set(range(10, 15), 0, "none")))
    run = _Run([MessageAndMetadata("topic1", 0, message, None, None) for message in messages], 10)
    assert [next(run.left).offset for _ in range(2)] == [10, 11]

    first, again = run.end(), run.end()

    assert first == again
    assert [record.offset for record in first] == [12, 13, 14]
    assert (run.consumed_offset, next(run.left, None)) == (12, None)
    assert run.take_counts() == (10, 12, 2)
    run.forget()
    assert (run.consumed_offset, run.end()) == (12, [])
