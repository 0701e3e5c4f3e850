"""In which order the releases name partitions and topics when they ask brokers and ZooKeeper for them.

It is that of Scala's hash maps, and means nothing; but servers that log what they are asked know a consumer by it. Used
only where requests are to be those of a release: working it out takes a while for thousands of partitions.

0.8.2.2 and 0.9 name partitions by hash in every fetch. 1.1 does it when a fetcher is given partitions; from then on
those that got something go to the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fetcher.java import java_hash
from fetcher.scala_order import (
    case_class_hash,
    concurrent_map_order,
    immutable_map_order,
    immutable_set_order,
    mutable_map_order,
    mutable_set_order,
)
from fetcher.settings import RequestVersions
from fetcher.structs import TopicAndPartition

FETCHES_IN_HASH_ORDER: frozenset[RequestVersions] = frozenset({"0.8.2", "0.9"})
ADDED_IN_HASH_ORDER: frozenset[RequestVersions] = frozenset({"1.1"})

_TABLES_OF_LEADERS = 3  # from the answer to what a fetcher is given, each made of the one before


def hash_of_partition(where: TopicAndPartition) -> int:
    """TopicAndPartition.hashCode."""
    return case_class_hash([java_hash(where.topic), where.partition])


def hash_of_partition_in_1_1(where: TopicAndPartition) -> int:
    """TopicPartition.hashCode, by which 1.1 goes in what concerns fetching."""
    return 31 * (31 + where.partition) + java_hash(where.topic)


def order_in_a_map(partitions: Iterable[TopicAndPartition]) -> list[TopicAndPartition]:
    """Of a rebalance's claims, and of tables of leaders and positions."""
    return mutable_map_order(partitions, hash_of_partition)


def order_in_pools(partitions: Iterable[TopicAndPartition]) -> list[TopicAndPartition]:
    """Of the registry of what is owned, by which it is released: a pool of topics with a pool of partitions each."""
    by_topic: dict[str, list[int]] = {}
    for where in partitions:
        by_topic.setdefault(where.topic, []).append(where.partition)
    return [
        TopicAndPartition(topic, partition)
        for topic in concurrent_map_order(by_topic)
        for partition in concurrent_map_order(by_topic[topic], lambda number: number)
    ]


def order_of_commit(partitions: Iterable[TopicAndPartition]) -> list[TopicAndPartition]:
    """Of the map of offsets to store, made of the registry."""
    return immutable_map_order(partitions, hash_of_partition)


def order_of_fetch(partitions: Iterable[TopicAndPartition]) -> list[TopicAndPartition]:
    """From the table of positions to that of the builder, then to a map that does not change, then to one a topic."""
    built = order_in_a_map(order_in_a_map(partitions))
    by_topic = _by_topic(immutable_map_order(built, hash_of_partition))
    topics = _order_of_groups(by_topic)
    return [where for topic in topics for where in immutable_map_order(by_topic[topic], hash_of_partition)]


def order_of_additions_in_1_1(partitions: Iterable[TopicAndPartition]) -> list[TopicAndPartition]:
    """Of those that one fetcher is given, whose offsets are asked for in this order: `partitions` are in that of the
    answer that named their leaders."""
    in_tables = list(partitions)
    for _ in range(_TABLES_OF_LEADERS):
        in_tables = mutable_map_order(in_tables, hash_of_partition_in_1_1)
    return immutable_map_order(in_tables, hash_of_partition_in_1_1)


def order_of_fetch_in_1_1(
    fetched: Iterable[TopicAndPartition], added: Iterable[TopicAndPartition]
) -> list[TopicAndPartition]:
    """What a fetcher has from now on, which keeps topics together: `fetched` and `added` are in order."""
    by_topic = _by_topic(immutable_map_order([*fetched, *added], hash_of_partition_in_1_1))
    return [where for topic in by_topic.values() for where in topic]


def order_to_offset_manager(partitions: Iterable[TopicAndPartition]) -> list[TopicAndPartition]:
    """The offset manager is asked topic by topic; of each its partitions in the order given."""
    by_topic = _by_topic(partitions)
    return [where for topic in _order_of_groups(by_topic) for where in by_topic[topic]]


def order_of_resets(partitions: Iterable[TopicAndPartition]) -> list[TopicAndPartition]:
    """Of those whose offset is asked for: from the table of leaders to the map of what one fetcher is given."""
    return immutable_map_order(order_in_a_map(partitions), hash_of_partition)


def order_of_metadata(topics: Sequence[str]) -> list[str]:
    """From the set of partitions without a leader to that of their topics."""
    return immutable_set_order(mutable_set_order(topics), java_hash)


def _by_topic(partitions: Iterable[TopicAndPartition]) -> dict[str, list[TopicAndPartition]]:
    by_topic: dict[str, list[TopicAndPartition]] = {}
    for where in partitions:
        by_topic.setdefault(where.topic, []).append(where)
    return by_topic


def _order_of_groups(by_topic: Iterable[str]) -> list[str]:
    """Of what groupBy returns."""
    return immutable_map_order(mutable_map_order(by_topic))


__all__ = [
    "ADDED_IN_HASH_ORDER",
    "FETCHES_IN_HASH_ORDER",
    "hash_of_partition",
    "hash_of_partition_in_1_1",
    "order_in_a_map",
    "order_in_pools",
    "order_of_additions_in_1_1",
    "order_of_commit",
    "order_of_fetch",
    "order_of_fetch_in_1_1",
    "order_of_metadata",
    "order_of_resets",
    "order_to_offset_manager",
]
