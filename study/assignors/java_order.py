"""The order in which java.util.HashMap gives what was put into it: 1.1.1's sticky assignor depends on it.

Pure. Holds while no bucket gets more than eight entries, from where on Java makes a tree of it: hashes that well spread
as those of texts and partitions do not come near it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

from fetcher.java import java_hash
from fetcher.structs import TopicAndPartition

T = TypeVar("T")

_FIRST_TABLE_SIZE = 16


def hash_map_order(keys: Iterable[T], hashes_of: Callable[[list[T]], list[int]]) -> list[T]:
    """By bucket of a table that doubles when it is three quarters full; within one in order of arrival."""
    unique = list(dict.fromkeys(keys))
    size = _FIRST_TABLE_SIZE
    while len(unique) > size * 3 // 4:
        size *= 2
    mask = size - 1
    buckets = [((value & 0xFFFFFFFF) ^ (value & 0xFFFFFFFF) >> 16) & mask for value in hashes_of(unique)]
    return [unique[place] for place in sorted(range(len(unique)), key=buckets.__getitem__)]


def text_map_order(keys: Iterable[str]) -> list[str]:
    """Of a map whose keys are texts."""
    return hash_map_order(keys, _text_hashes)


def text_map_order_newest_first(keys: Iterable[str]) -> list[str]:
    """The same, filled by computeIfAbsent, which puts a new key before the others of its bucket."""
    return hash_map_order(list(dict.fromkeys(keys))[::-1], _text_hashes)


def partition_map_order(keys: Iterable[TopicAndPartition]) -> list[TopicAndPartition]:
    """Of a map whose keys are partitions (org.apache.kafka.common.TopicPartition)."""

    def hashes(of: list[TopicAndPartition]) -> list[int]:
        topic_hash = {topic: 31 * 31 + _hash_of(topic) for topic in {key[0] for key in of}}
        return [31 * number + topic_hash[topic] for topic, number in of]

    return hash_map_order(keys, hashes)


def grouped_by_topic(
    partitions: Iterable[TopicAndPartition], topic_order: Callable[[Iterable[str]], list[str]]
) -> list[TopicAndPartition]:
    """As the leader reads what a member had from its user data, where partitions are grouped by topic in a map."""
    by_topic: dict[str, list[TopicAndPartition]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition)
    return [partition for topic in topic_order(by_topic) for partition in by_topic[topic]]


def _text_hashes(texts: list[str]) -> list[int]:
    return [_hash_of(text) for text in texts]


_hash_of = lru_cache(maxsize=100_000)(java_hash)
"""The same few names are asked for with every member."""
