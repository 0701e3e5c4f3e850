"""What one member subscribes to, and with how many streams (0.8: TopicCount, StaticTopicCount, WildcardTopicCount).

Pure. A stream's thread id is the member's id, a dash and a number; it is what stands in an owner node, and it sorts as
text everywhere: thread 10 comes before thread 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from fetcher.java import text_order_key
from fetcher.scala_order import immutable_map_order
from zkconsumer.emulation import INTERNAL_TOPICS
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.topic_filter import Blacklist, TopicFilter, Whitelist
from zkconsumer.znodes import Pattern, Registration


class ConsumerThreadId(NamedTuple):
    """One stream of one member. Compare and sort with `thread_order_key`: the fields' own order is another one."""

    consumer_id: str
    thread: int

    def __str__(self) -> str:
        return f"{self.consumer_id}-{self.thread}"

    @classmethod
    def parse(cls, text: str) -> ConsumerThreadId:
        """From an owner node's data: the number stands behind the last dash."""
        consumer_id, dash, thread = text.rpartition("-")
        if not dash or not (thread.isascii() and thread.isdigit()):
            raise ValueError(f"{text!r} is no thread id: it should end with a dash and a number")
        return cls(consumer_id, int(thread))


@lru_cache(maxsize=16_384)  # a rebalance sorts the same threads once a topic
def thread_order_key(thread_id: ConsumerThreadId) -> bytes:
    """The order all members agree on: that of the text, by UTF-16 units."""
    return text_order_key(str(thread_id))


@dataclass(frozen=True, slots=True)
class StaticTopicCount:
    """Named topics, each with its number of streams; they need not exist."""

    consumer_id: str
    streams_of: Mapping[str, int]

    @property
    def pattern(self) -> Pattern:
        """As written to ZooKeeper."""
        return "static"

    def threads_by_topic(
        self,
        all_topics: Iterable[str] = (),
        *,
        exclude_internal_topics: bool = True,
        internal_topics: frozenset[str] = INTERNAL_TOPICS,
    ) -> dict[str, list[ConsumerThreadId]]:
        """The thread ids of each topic (0.8: getConsumerThreadIdsPerTopic). The arguments matter to wildcards only."""
        return {topic: _threads(self.consumer_id, count, topic) for topic, count in self.streams_of.items()}

    def registration(self, timestamp_ms: int) -> Registration:
        """What to write. Raises IllegalArgumentException before a count below 1 can stop the whole group."""
        for topic, count in self.streams_of.items():
            _check_count(count, topic)
        # As in 0.8.2.2: in the order of a Scala map, which from the fifth topic on is that of their hashes.
        streams_of = {topic: self.streams_of[topic] for topic in immutable_map_order(self.streams_of)}
        return Registration(streams_of, self.pattern, timestamp_ms)


@dataclass(frozen=True, slots=True)
class WildcardTopicCount:
    """All topics that a filter allows, fed into the same streams."""

    consumer_id: str
    topic_filter: TopicFilter
    stream_count: int

    @property
    def pattern(self) -> Pattern:
        """As written to ZooKeeper."""
        return self.topic_filter.pattern

    def threads(self) -> list[ConsumerThreadId]:
        """The thread ids that all topics share."""
        return _threads(self.consumer_id, self.stream_count, str(self.topic_filter))

    def threads_by_topic(
        self,
        all_topics: Iterable[str],
        *,
        exclude_internal_topics: bool = True,
        internal_topics: frozenset[str] = INTERNAL_TOPICS,
    ) -> dict[str, list[ConsumerThreadId]]:
        """Every allowed topic with the same thread ids. Whether internal ones count is the reader's setting."""
        threads = self.threads()
        return {
            topic: list(threads)
            for topic in all_topics
            if self.topic_filter.is_topic_allowed(
                topic, exclude_internal_topics=exclude_internal_topics, internal_topics=internal_topics
            )
        }

    def registration(self, timestamp_ms: int) -> Registration:
        """What to write: the regex instead of a topic."""
        # Unlike 0.8.2.2: checked before it is written (Q27); there a count of 0 is written and stops the group.
        _check_count(self.stream_count, str(self.topic_filter))
        return Registration({str(self.topic_filter): self.stream_count}, self.pattern, timestamp_ms)


TopicCount = StaticTopicCount | WildcardTopicCount


def from_registration(consumer_id: str, registration: Registration) -> TopicCount:
    """What a member's node says (0.8: TopicCount.constructTopicCount). Of a wildcard's entries the first counts."""
    if registration.pattern == "static" or not registration.subscription:
        return StaticTopicCount(consumer_id, dict(registration.subscription))
    regex, stream_count = next(iter(registration.subscription.items()))
    topic_filter = Whitelist(regex) if registration.pattern == "white_list" else Blacklist(regex)
    return WildcardTopicCount(consumer_id, topic_filter, stream_count)


def threads_in_order(threads: Iterable[ConsumerThreadId]) -> Sequence[ConsumerThreadId]:
    """Sorted as every member sorts them."""
    return sorted(threads, key=thread_order_key)


def _threads(consumer_id: str, count: int, topic: str) -> list[ConsumerThreadId]:
    _check_count(count, topic)
    return [ConsumerThreadId(consumer_id, thread) for thread in range(count)]


def _check_count(count: int, topic: str) -> None:
    if count < 1:
        raise IllegalArgumentException(f"assertion failed: {count} streams of {topic}; at least 1 is needed")
