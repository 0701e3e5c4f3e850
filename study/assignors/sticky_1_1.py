"""The sticky assignor of 0.11 to 2.3 (Java: StickyAssignor), as in 1.1.1.

Even counts first, then as few moves as possible. Members tell what they had as user data, without a generation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fetcher.java import text_order_key
from fetcher.structs import TopicAndPartition
from study.assignors.balancing import Balancer, Owned
from study.assignors.java_order import grouped_by_topic, partition_map_order, text_map_order
from study.assignors.model import Assignment, Member, in_java_order, members_by_topic, partitions_of


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
        topics = sorted(candidates, key=lambda topic: (len(candidates[topic]), text_order_key(topic)))
        order = partitions_of(topics, partitions)
    known = set(existing)
    owned = {
        name: {each: None for each in mine if each in known and each.topic in members[name].topics}
        for name, mine in everything.items()
    }
    taken = {each for mine in owned.values() for each in mine}
    balancer = Balancer(owned, partitions, candidates)
    return balancer.balance([each for each in order if each not in taken], order, new_ones_first=False)


def _by_turns(former: Mapping[str, Owned], existing: Sequence[TopicAndPartition]) -> list[TopicAndPartition]:
    """The member with most partitions left (ties: the greatest id) gives its first, again and again; then the rest.

    So all that still have as many as the fullest give one each, from the greatest id down, then all with one less.
    """
    known = set(existing)
    left = {name: [each for each in mine if each in known] for name, mine in former.items()}
    fullest = max(map(len, left.values()), default=0)
    starting: list[list[str]] = [[] for _ in range(fullest + 1)]
    for name, mine in left.items():
        starting[len(mine)].append(name)
    order: Owned = {}
    giving: list[Iterator[TopicAndPartition]] = []
    names: list[str] = []
    for count in range(fullest, 0, -1):
        if starting[count]:
            names = in_java_order([*names, *starting[count]])[::-1]
            giver = {name: iter(left[name][len(left[name]) - count :]) for name in names}
            giving = [giver[name] for name in names]
        for partitions in giving:
            order[next(partitions)] = None
    return list(order | dict.fromkeys(existing))
