"""Strategies of one's own, as the seeds show them: a partition to a member by chance, or all to everybody."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import repeat

from study.assignors.model import Assignment, Assignor, Member
from study.assignors.numbering import Held, NumberedAssignor, Question, by_name


def random_assignor(chance: random.Random | None = None) -> Assignor:
    """Each partition to one of its topic's subscribers by chance; pass a seeded one for the same result each time."""
    share = share_at_random(chance)

    def assign_at_random(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
        return by_name(share, partitions, members)

    return assign_at_random


def assign_broadcast(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    """Every member gets every partition of its topics: one group reads everything several times.

    Nothing prevents it, and offsets suffer: all members commit to the same place, the last one wins.
    """
    return by_name(share_with_everybody, partitions, members)


def share_at_random(chance: random.Random | None = None) -> NumberedAssignor:
    """random_assignor() in numbers."""
    dice = chance or random.Random()

    def share(question: Question) -> Held:
        roster = question.roster
        held: Held = {name: [] for name in roster.topics_of}
        for topic, names in roster.candidates.items():
            lists = [held[name] for name in names]
            partitions = roster.numbering.range_of(topic)
            for number, mine in zip(partitions, map(dice.choice, repeat(lists, len(partitions))), strict=True):
                mine.append(number)
        return held

    return share


def share_with_everybody(question: Question) -> Held:
    """assign_broadcast() in numbers. Members that subscribe to the same are given the same list."""
    roster = question.roster
    of_subscription = {
        topics: roster.numbering.numbers_of(topic for topic in roster.candidates if topic in topics)
        for topics in roster.subscriptions
    }
    return {name: of_subscription[topics] for name, topics in roster.topics_of.items()}
