"""Groups of the new consumer as values: what an assignor is told, and what it answers.

Pure. Members and topics are named by texts that sort as Java sorts them; partitions of a topic are numbered from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat

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


def partitions_of(topics: Iterable[str], partitions: Mapping[str, int]) -> list[TopicAndPartition]:
    """Of these topics in this order, by number."""
    make = partial(tuple.__new__, TopicAndPartition)  # what the class does itself, in a third of the time
    return [one for topic in topics for one in map(make, zip(repeat(topic), range(partitions[topic])))]
