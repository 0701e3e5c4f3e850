"""The sticky assignor of 0.11 to 2.3 (Java: StickyAssignor), as in 1.1.1.

Even counts first, then as few moves as possible. Members tell what they had as user data, without a generation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fetcher.java import text_order_key
from fetcher.structs import TopicAndPartition
from study.assignors.balancing import Balancer, ByCount, Owned
from study.assignors.java_order import grouped_by_topic, partition_map_order, text_map_order
from study.assignors.model import Assignment, Member, members_by_topic, partitions_of


def assign_sticky_1_1(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    """Keep what members had, give the rest to those with fewest, then even out."""
    candidates = members_by_topic(members, partitions)
    former = {
        name: dict.fromkeys(grouped_by_topic(member.owned, text_map_order))
        for name, member in members.items()
        if member.owned is not None
    }
    everything = {name: former.get(name, {}) for name in text_map_order(members)}
    existing = partition_map_order(partitions_of(text_map_order(candidates), partitions))
    alike = len({frozenset(member.topics & candidates.keys()) for member in members.values()}) == 1
    if former and alike:
        order = _by_turns(everything, existing)
    else:
        order = sorted(
            existing, key=lambda each: (len(candidates[each.topic]), text_order_key(each.topic), each.partition)
        )
    known = set(existing)
    owned = {
        name: {each: None for each in mine if each in known and each.topic in members[name].topics}
        for name, mine in everything.items()
    }
    taken = {each for mine in owned.values() for each in mine}
    balancer = Balancer(owned, partitions, candidates)
    return balancer.balance([each for each in order if each not in taken], order, new_ones_first=False)


def _by_turns(former: Mapping[str, Owned], existing: Sequence[TopicAndPartition]) -> list[TopicAndPartition]:
    """The member with most partitions left (ties: the greatest id) gives its first, again and again; then the rest."""
    known = set(existing)
    left = {name: {each: None for each in mine if each in known} for name, mine in former.items()}
    by_count = ByCount(left)
    order: Owned = {}
    while name := by_count.last_with_any():
        by_count.remove(name)
        first = next(iter(left[name]))
        del left[name][first]
        order[first] = None
        by_count.add(name)
    return list(order | dict.fromkeys(existing))
