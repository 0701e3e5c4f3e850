"""Strategies of one's own, as the seeds show them: a partition to a member by chance, or all to everybody."""

from __future__ import annotations

import random
from collections.abc import Mapping

from study.assignors.model import Assignment, Assignor, Member, members_by_topic, partitions_of


def random_assignor(chance: random.Random | None = None) -> Assignor:
    """Each partition to one of its topic's subscribers by chance; pass a seeded one for the same result each time."""
    dice = chance or random.Random()

    def assign_at_random(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
        assignment: Assignment = {name: [] for name in members}
        for topic, names in members_by_topic(members, partitions).items():
            for partition in partitions_of([topic], partitions):
                assignment[dice.choice(names)].append(partition)
        return assignment

    return assign_at_random


def assign_broadcast(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    """Every member gets every partition of its topics: one group reads everything several times.

    Nothing prevents it, and offsets suffer: all members commit to the same place, the last one wins.
    """
    assignment: Assignment = {name: [] for name in members}
    for topic, names in members_by_topic(members, partitions).items():
        for name in names:
            assignment[name] += partitions_of([topic], partitions)
    return assignment
