"""Groups of the new consumer as values: what an assignor is told, and what it answers.

Pure. Members and topics are named by texts that sort as Java sorts them; partitions of a topic are numbered from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fetcher.java import text_order_key
from fetcher.structs import TopicAndPartition


@dataclass(frozen=True)
class Member:
    """A member's subscription, as it reaches the leader (Java: ConsumerPartitionAssignor.Subscription).

    `owned` is what it was given the last time, None if it never was; only the sticky assignors look at it.
    """

    topics: frozenset[str]
    owned: Sequence[TopicAndPartition] | None = None
    generation: int = 0


Assignment = dict[str, list[TopicAndPartition]]
"""Each member's partitions, in the order of the real assignor."""

Assignor = Callable[[Mapping[str, int], Mapping[str, Member]], Assignment]
"""Number of partitions by topic and members by id in; a topic without partitions is a topic without metadata."""


def in_java_order(names: Iterable[str]) -> list[str]:
    """Sorted as String.compareTo does."""
    return sorted(names, key=text_order_key)


def members_by_topic(members: Mapping[str, Member], partitions: Mapping[str, int]) -> dict[str, list[str]]:
    """Who subscribes to each topic that has partitions, both in order of their names."""
    by_topic: dict[str, list[str]] = {topic: [] for topic in subscribed_topics(members, partitions)}
    for name in in_java_order(members):
        for topic in members[name].topics:
            if topic in by_topic:
                by_topic[topic].append(name)
    return by_topic


def subscribed_topics(members: Mapping[str, Member], partitions: Mapping[str, int]) -> list[str]:
    """Topics with partitions that at least one member subscribes to, by name."""
    wanted: set[str] = set().union(*(member.topics for member in members.values())) if members else set()
    return in_java_order(topic for topic in wanted if partitions.get(topic, 0) > 0)


def partitions_of(topics: Iterable[str], partitions: Mapping[str, int]) -> list[TopicAndPartition]:
    """Of these topics in this order, by number."""
    return [TopicAndPartition(topic, number) for topic in topics for number in range(partitions[topic])]
