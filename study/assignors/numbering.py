"""Partitions and groups as numbers: a plan shares out a hundred thousand partitions again and again.

Pure. Assignors compute with numbers; what goes in and comes out of them by name is translated here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat

from fetcher.structs import TopicAndPartition
from study.assignors.java_order import spread_partition_hash, text_map_order
from study.assignors.model import Assignment, Member, in_java_order, partitions_of


class Numbering:
    """Each partition's number: topics in order of their names, in each its partitions from 0.

    A partition that is not there, but that a member still says it had, gets a number behind all others.
    """

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self.counts = partitions
        self.topics = in_java_order(topic for topic, count in partitions.items() if count > 0)
        self.first: dict[str, int] = {}
        self.total = 0
        for topic in self.topics:
            self.first[topic] = self.total
            self.total += partitions[topic]
        self._gone: dict[TopicAndPartition, int] = {}

    def __len__(self) -> int:
        return self.total + len(self._gone)

    def range_of(self, topic: str) -> range:
        first = self.first[topic]
        return range(first, first + self.counts[topic])

    def numbers_of(self, topics: Iterable[str]) -> list[int]:
        """Of these topics in this order."""
        return list(chain.from_iterable(map(self.range_of, topics)))

    @cached_property
    def topic_of(self) -> list[str]:
        """By number."""
        return list(chain.from_iterable(repeat(topic, self.counts[topic]) for topic in self.topics))

    @cached_property
    def partition_of(self) -> list[TopicAndPartition]:
        """By number."""
        return partitions_of(self.topics, self.counts)

    @cached_property
    def across_topics(self) -> list[int]:
        """By number, what sorts as (partition, topic) does."""
        step = len(self.topics)
        rows = (range(place, place + step * self.counts[topic], step) for place, topic in enumerate(self.topics))
        return list(chain.from_iterable(rows))

    @cached_property
    def spread_hash(self) -> list[int]:
        """By number, by which java.util.HashMap chooses a bucket."""
        of = spread_partition_hash
        return list(chain.from_iterable(map(of(topic), range(self.counts[topic])) for topic in self.topics))

    def number(self, partition: TopicAndPartition) -> int:
        topic, number = partition
        if 0 <= number < self.counts.get(topic, 0):
            return self.first[topic] + number
        if partition not in self._gone:
            self._gone[partition] = len(self)
            place = self.topics.index(topic) if topic in self.first else 0  # nobody asks where a topic is gone
            self.topic_of.append(topic)
            self.partition_of.append(partition)
            self.across_topics.append(number * len(self.topics) + place)
            self.spread_hash.append(spread_partition_hash(topic)(number))
        return self._gone[partition]

    def is_gone(self, number: int) -> bool:
        return number >= self.total


class Roster:
    """Who subscribes to what. What every assignor asks is found out once."""

    def __init__(self, numbering: Numbering, topics_of: Mapping[str, frozenset[str]]) -> None:
        self.numbering = numbering
        self.topics_of = topics_of

    @cached_property
    def names(self) -> list[str]:
        """In Java's order."""
        return in_java_order(self.topics_of)

    @cached_property
    def names_in_map_order(self) -> list[str]:
        return text_map_order(self.topics_of)

    @cached_property
    def subscriptions(self) -> set[frozenset[str]]:
        """Different ones."""
        return set({id(topics): topics for topics in self.topics_of.values()}.values())

    @cached_property
    def candidates(self) -> dict[str, Sequence[str]]:
        """Who subscribes to each topic that has partitions, both in order of their names.

        Topics that the same members subscribe to have the same list, not an equal one.
        """
        by_subscription: dict[frozenset[str], list[str]] = {}
        for name in self.names:
            by_subscription.setdefault(self.topics_of[name], []).append(name)
        place_of = {name: place for place, name in enumerate(self.names)}
        lists: dict[tuple[int, ...], list[str]] = {}
        by_topic: dict[str, Sequence[str]] = {}
        for topic in self.numbering.topics:
            parts = [each for topics, each in by_subscription.items() if topic in topics]
            key = tuple(map(id, parts))
            if key not in lists:
                lists[key] = parts[0] if len(parts) == 1 else sorted(chain(*parts), key=place_of.__getitem__)
            if parts:
                by_topic[topic] = lists[key]
        return by_topic

    @cached_property
    def everything(self) -> list[int]:
        """The numbers of all partitions that somebody subscribes to, in order."""
        return self.numbering.numbers_of(self.candidates)

    @cached_property
    def rarest_first(self) -> list[int]:
        """The same, topics with few subscribers first."""
        return self.numbering.numbers_of(sorted(self.candidates, key=lambda topic: len(self.candidates[topic])))

    def unclaimed(self, claims: Mapping[str, Iterable[int]], order: Iterable[int]) -> list[int]:
        """Those of `order` that nobody has."""
        free = bytearray(b"\1") * len(self.numbering)
        for mine in claims.values():
            for number in mine:
                free[number] = 0
        return [number for number in order if free[number]]


Held = dict[str, list[int]]
"""Each member's partitions by number, in the order of the real assignor."""


@dataclass(frozen=True)
class Question:
    """A group and what its members had (absent: it is new), in which generation (absent: 0)."""

    roster: Roster
    owned: Mapping[str, Sequence[int]]
    generations: Mapping[str, int]


NumberedAssignor = Callable[[Question], Held]
"""Does not change what it is given."""


def by_name(assign: NumberedAssignor, partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    """What a numbered assignor answers, by name."""
    numbering = Numbering(partitions)
    roster = Roster(numbering, {name: member.topics for name, member in members.items()})
    owned = {
        name: list(map(numbering.number, member.owned)) for name, member in members.items() if member.owned is not None
    }
    held = assign(Question(roster, owned, {name: member.generation for name, member in members.items()}))
    return {name: [numbering.partition_of[number] for number in mine] for name, mine in held.items()}
