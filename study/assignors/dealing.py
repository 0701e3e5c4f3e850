"""Range and round robin of the new consumer (Java: RangeAssignor, RoundRobinAssignor), the same from 0.9 to 3.9.

Unlike the old ones they share out among members, not threads, and the order is that of names, not of hashes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from study.assignors.model import (
    Assignment,
    Member,
    in_java_order,
    members_by_topic,
    partitions_of,
    subscribed_topics,
)


def assign_range(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    """Cut each topic into runs, one for each member that subscribes to it; the first take one of the rest each."""
    assignment: Assignment = {name: [] for name in members}
    for topic, names in members_by_topic(members, partitions).items():
        each, rest = divmod(partitions[topic], len(names))
        everything = partitions_of([topic], partitions)
        start = 0
        for place, name in enumerate(names):
            end = start + each + (place < rest)
            assignment[name] += everything[start:end]
            start = end
    return assignment


def assign_round_robin(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    """Deal all topics' partitions in one circle of members, passing over those that do not subscribe to the topic."""
    assignment: Assignment = {name: [] for name in members}
    circle = in_java_order(members)
    place_of = {name: place for place, name in enumerate(circle)}
    places = {
        topic: [place_of[name] for name in names] for topic, names in members_by_topic(members, partitions).items()
    }
    pointer = 0  # goes on from topic to topic: the seeds' table, which begins again with each, is wrong
    for partition in partitions_of(subscribed_topics(members, partitions), partitions):
        candidates = places[partition.topic]
        place = candidates[bisect_left(candidates, pointer) % len(candidates)]
        assignment[circle[place]].append(partition)
        pointer = (place + 1) % len(circle)
    return assignment
