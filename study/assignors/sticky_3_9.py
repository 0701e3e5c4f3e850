"""The sticky assignors since 2.4 (Java: AbstractStickyAssignor and its two subclasses), as in 3.9.1.

If all members subscribe to the same, each keeps up to its quota and the rest is dealt; else as before, with a first try
that moves only what is new. Members tell their generation: of two that claim a partition the younger claim counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from study.assignors.balancing import Balancer, deal
from study.assignors.java_order import grouped_by_topic, text_map_order_newest_first
from study.assignors.model import Assignment, Member, in_java_order
from study.assignors.numbering import Held, Question, Roster, by_name


def assign_sticky_3_9(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    """What the members that revoke everything before they join are given."""
    return by_name(share_sticky_3_9, partitions, members)


def assign_cooperative_sticky(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    """What they are given in this rebalance: a partition that changes hands is given to nobody yet.

    Its former owner sees that it is gone and joins once more; then it is free, and given to the new one.
    """
    return by_name(share_cooperative_sticky, partitions, members)


def share_sticky_3_9(question: Question) -> Held:
    """assign_sticky_3_9() in numbers."""
    roster = question.roster
    if _alike(roster):  # then the order in which members tell what they had is of no matter
        return _fill_quotas(roster, _claims(question))
    topic_of = roster.numbering.topic_of
    through_user_data = {
        name: grouped_by_topic(mine, topic_of, text_map_order_newest_first) for name, mine in question.owned.items()
    }
    return _even_out(roster, _claims(Question(roster, through_user_data, question.generations)))


def share_cooperative_sticky(question: Question) -> Held:
    """assign_cooperative_sticky() in numbers."""
    roster = question.roster
    claims = _claims(question)
    owner_of: list[str | None] = [None] * len(roster.numbering)
    for name, mine in claims.items():
        for number in mine:
            owner_of[number] = name
    held = _fill_quotas(roster, claims) if _alike(roster) else _even_out(roster, claims)
    return {name: [number for number in mine if (owner_of[number] or name) == name] for name, mine in held.items()}


def _alike(roster: Roster) -> bool:
    return len(roster.subscriptions) <= 1


def _claims(question: Question) -> Held:
    """What each member had and nobody has claimed since, of topics that somebody subscribes to."""
    roster, owned, topic_of = question.roster, question.owned, question.roster.numbering.topic_of
    owner_of: dict[int, str] = {}
    if sum(map(len, owned.values())) > len(set(chain.from_iterable(owned.values()))):
        generation = question.generations
        for name in roster.names_in_map_order:
            for number in owned.get(name, ()):
                other = owner_of.get(number)
                if other is None or generation.get(name, 0) > generation.get(other, 0):
                    owner_of[number] = name
    return {
        name: [
            number
            for number in owned.get(name, ())
            if topic_of[number] in roster.candidates and owner_of.get(number, name) == name
        ]
        for name in roster.names_in_map_order
    }


def _fill_quotas(roster: Roster, claims: Mapping[str, Sequence[int]]) -> Held:
    """Everybody subscribes to the same: keep up to the quota, deal the rest to those below it, by name."""
    quota, fuller_ones = divmod(len(roster.everything), len(claims))
    held: Held = {}
    below: list[str] = []
    at_quota: list[str] = []
    for name, claimed in claims.items():
        mine = sorted(claimed, key=roster.numbering.across_topics.__getitem__)
        if len(mine) < quota:
            below.append(name)
        elif len(mine) > quota and fuller_ones:
            del mine[quota + 1 :]
            fuller_ones -= 1
            at_quota = at_quota if fuller_ones else []
        else:
            del mine[quota:]
            at_quota += [name] if fuller_ones else []
        held[name] = mine
    _fill_up(roster.unclaimed(held, roster.everything), held, quota, in_java_order(below), in_java_order(at_quota))
    return held


def _fill_up(free: Sequence[int], held: Held, quota: int, below: list[str], at_quota: list[str]) -> None:
    """Round and round among those below the quota, then one more to those that are at it, in order."""
    while below:
        rounds = min(quota - len(held[name]) for name in below)
        deal(free[: rounds * len(below)], below, held)
        free = free[rounds * len(below) :]
        at_quota += [name for name in below if len(held[name]) == quota]
        below = [name for name in below if len(held[name]) < quota]
    for place, number in enumerate(free):
        held[at_quota[place]].append(number)


def _even_out(roster: Roster, claims: Mapping[str, Sequence[int]]) -> Held:
    """Subscriptions differ."""
    topic_of = roster.numbering.topic_of
    owned = {
        name: list(dict.fromkeys(number for number in mine if topic_of[number] in roster.topics_of[name]))
        for name, mine in claims.items()
    }
    lost_a_topic = any(len(owned[name]) < len(mine) for name, mine in claims.items())
    order = roster.rarest_first
    free = roster.unclaimed(owned, order)
    return Balancer(owned, roster).balance(free, order, new_ones_first=not lost_a_topic)
