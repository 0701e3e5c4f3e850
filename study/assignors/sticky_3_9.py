"""The sticky assignors since 2.4 (Java: AbstractStickyAssignor and its two subclasses), as in 3.9.1.

If all members subscribe to the same, each keeps up to its quota and the rest is dealt; else as before, with a first try
that moves only what is new. Members tell their generation: of two that claim a partition the younger claim counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from fetcher.java import text_order_key
from fetcher.structs import TopicAndPartition
from study.assignors.balancing import Balancer
from study.assignors.java_order import grouped_by_topic, text_map_order, text_map_order_newest_first
from study.assignors.model import Assignment, Member, in_java_order, members_by_topic, partitions_of, subscribed_topics


def assign_sticky_3_9(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    """What the members that revoke everything before they join are given."""
    through_user_data = {
        name: Member(
            member.topics,
            None if member.owned is None else grouped_by_topic(member.owned, text_map_order_newest_first),
            member.generation,
        )
        for name, member in members.items()
    }
    return _assign(partitions, through_user_data)


def assign_cooperative_sticky(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    """What they are given in this rebalance: a partition that changes hands is given to nobody yet.

    Its former owner sees that it is gone and joins once more; then it is free, and given to the new one.
    """
    owner_of = {partition: name for name, mine in _claims(partitions, members).items() for partition in mine}
    return {
        name: [partition for partition in mine if owner_of.get(partition, name) == name]
        for name, mine in _assign(partitions, members).items()
    }


def _assign(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    candidates = members_by_topic(members, partitions)
    claims = _claims(partitions, members)
    if len({member.topics for member in members.values()}) <= 1:
        return _fill_quotas(partitions_of(candidates, partitions), claims)
    return _even_out(partitions, members, candidates, claims)


def _claims(partitions: Mapping[str, int], members: Mapping[str, Member]) -> dict[str, list[TopicAndPartition]]:
    """What each member had and nobody has claimed since, of topics that somebody subscribes to."""
    wanted = set(subscribed_topics(members, partitions))
    owner_of: dict[TopicAndPartition, str] = {}
    for name in text_map_order(members):
        for partition in members[name].owned or ():
            other = owner_of.get(partition)
            if other is None or members[name].generation > members[other].generation:
                owner_of[partition] = name
    return {
        name: [
            partition
            for partition in members[name].owned or ()
            if owner_of[partition] == name and partition.topic in wanted
        ]
        for name in text_map_order(members)
    }


def _fill_quotas(
    everything: Iterable[TopicAndPartition], claims: Mapping[str, Sequence[TopicAndPartition]]
) -> Assignment:
    """Everybody subscribes to the same: keep up to the quota, deal the rest to those below it, by name."""
    listed = list(everything)
    quota, fuller_ones = divmod(len(listed), len(claims))
    place_of = {topic: place for place, topic in enumerate(in_java_order({topic for topic, _ in listed}))}
    assignment: Assignment = {name: [] for name in claims}
    below: list[str] = []
    at_quota: list[str] = []
    for name, claimed in claims.items():
        mine = sorted(claimed, key=lambda each: (each[1], place_of[each[0]]))
        if len(mine) < quota:
            assignment[name] += mine
            below.append(name)
        elif len(mine) > quota and fuller_ones:
            assignment[name] += mine[: quota + 1]
            fuller_ones -= 1
            at_quota = at_quota if fuller_ones else []
        else:
            assignment[name] += mine[:quota]
            at_quota += [name] if fuller_ones else []
    kept = {partition for mine in assignment.values() for partition in mine}
    _deal([partition for partition in listed if partition not in kept], assignment, quota, below, at_quota)
    return assignment


def _deal(
    free: Sequence[TopicAndPartition], assignment: Assignment, quota: int, below: list[str], at_quota: list[str]
) -> None:
    """Round and round among those below the quota, then one more to those that are at it, in order."""
    circle = deque(in_java_order(below))
    waiting = deque(in_java_order(at_quota))
    for partition in free:
        if not circle:
            assignment[waiting.popleft()].append(partition)
            continue
        name = circle.popleft()
        assignment[name].append(partition)
        (waiting if len(assignment[name]) == quota else circle).append(name)


def _even_out(
    partitions: Mapping[str, int],
    members: Mapping[str, Member],
    candidates: Mapping[str, Sequence[str]],
    claims: Mapping[str, Sequence[TopicAndPartition]],
) -> Assignment:
    """Subscriptions differ."""
    owned = {
        name: {partition: None for partition in mine if partition.topic in members[name].topics}
        for name, mine in claims.items()
    }
    lost_a_topic = any(len(owned[name]) < len(mine) for name, mine in claims.items())
    topics = sorted(candidates, key=lambda topic: (len(candidates[topic]), text_order_key(topic)))
    order = partitions_of(topics, partitions)
    taken = {partition for mine in owned.values() for partition in mine}
    balancer = Balancer(owned, partitions, candidates)
    free = [partition for partition in order if partition not in taken]
    return balancer.balance(free, order, new_ones_first=not lost_a_topic)
