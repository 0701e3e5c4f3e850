"""Range and round robin of the new consumer (Java: RangeAssignor, RoundRobinAssignor), the same from 0.9 to 3.9.

Unlike the old ones they share out among members, not threads, and the order is that of names, not of hashes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from study.assignors.model import Assignment, Member
from study.assignors.numbering import Held, Question, by_name


def assign_range(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    """Cut each topic into runs, one for each member that subscribes to it; the first take one of the rest each."""
    return by_name(share_by_range, partitions, members)


def assign_round_robin(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    """Deal all topics' partitions in one circle of members, passing over those that do not subscribe to the topic."""
    return by_name(share_round_robin, partitions, members)


def share_by_range(question: Question) -> Held:
    """assign_range() in numbers."""
    roster = question.roster
    held: Held = {name: [] for name in roster.topics_of}
    for topic, names in roster.candidates.items():
        partitions = roster.numbering.range_of(topic)
        each, rest = divmod(len(partitions), len(names))
        start = 0
        for place, name in enumerate(names):
            end = start + each + (place < rest)
            held[name] += partitions[start:end]
            start = end
    return held


def share_round_robin(question: Question) -> Held:
    """assign_round_robin() in numbers: within a topic each of its subscribers gets every so-and-so-manieth."""
    roster = question.roster
    held: Held = {name: [] for name in roster.topics_of}
    place_of = {name: place for place, name in enumerate(roster.names)}
    places_of = {id(names): [place_of[name] for name in names] for names in roster.candidates.values()}
    pointer = 0  # goes on from topic to topic: the seeds' table, which begins again with each, is wrong
    for topic, names in roster.candidates.items():
        partitions, places = roster.numbering.range_of(topic), places_of[id(names)]
        first = bisect_left(places, pointer) % len(places)
        for turn in range(min(len(partitions), len(places))):
            name = names[(first + turn) % len(places)]
            held[name] += partitions[turn :: len(places)]
        pointer = (places[(first + len(partitions) - 1) % len(places)] + 1) % len(roster.names)
    return held
