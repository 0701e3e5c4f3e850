"""The order in which java.util.HashMap gives what was put into it: 1.1.1's sticky assignor depends on it.

Pure. Holds while no bucket gets more than eight entries, from where on Java makes a tree of it: hashes that well spread
as those of texts and partitions do not come near it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache

from fetcher.java import java_hash

_FIRST_TABLE_SIZE = 16


def text_map_order(keys: Iterable[str]) -> list[str]:
    """Of a java.util.HashMap whose keys are texts: by bucket of a table, which doubles when it is three quarters full;

    within a bucket in order of arrival.
    """
    unique = list(dict.fromkeys(keys))
    mask = _table_size(len(unique)) - 1
    return sorted(unique, key=lambda key: _spread_text_hash(key) & mask)


def text_map_order_newest_first(keys: Iterable[str]) -> list[str]:
    """The same, filled by computeIfAbsent, which puts a new key before the others of its bucket."""
    return text_map_order(list(dict.fromkeys(keys))[::-1])


def first_of_map(numbers: Collection[int], spread_hash: Sequence[int]) -> int:
    """The first of a map whose keys have these hashes, found without putting the others in order."""
    mask = _table_size(len(numbers)) - 1
    return min(numbers, key=lambda number: spread_hash[number] & mask)


def in_map_of(size: int, numbers: Iterable[int], spread_hash: Sequence[int]) -> list[int]:
    """In the order in which a map with `size` keys gives these, if they were put in in this order."""
    mask = _table_size(size) - 1
    return sorted(numbers, key=lambda number: spread_hash[number] & mask)


def spread_partition_hash(topic: str) -> Callable[[int], int]:
    """By which a map chooses the bucket of a partition of this topic (org.apache.kafka.common.TopicPartition)."""
    topic_hash = 31 * 31 + _hash_of(topic)

    def spread(partition: int) -> int:
        return _spread(31 * partition + topic_hash)

    return spread


def grouped_by_topic(
    numbers: Iterable[int], topic_of: Sequence[str], topic_order: Callable[[Iterable[str]], list[str]]
) -> list[int]:
    """As the leader reads what a member had from its user data, where partitions are grouped by topic in a map."""
    by_topic: dict[str, list[int]] = {}
    for number in numbers:
        topic = topic_of[number]
        if topic in by_topic:
            by_topic[topic].append(number)
        else:
            by_topic[topic] = [number]
    return [number for topic in topic_order(by_topic) for number in by_topic[topic]]


def _table_size(keys: int) -> int:
    size = _FIRST_TABLE_SIZE
    while keys > size * 3 // 4:
        size *= 2
    return size


def _spread(value: int) -> int:
    return (value & 0xFFFFFFFF) ^ (value & 0xFFFFFFFF) >> 16


_hash_of = lru_cache(maxsize=100_000)(java_hash)
"""The same few names are asked for with every member."""


@lru_cache(maxsize=100_000)
def _spread_text_hash(text: str) -> int:
    return _spread(java_hash(text))
