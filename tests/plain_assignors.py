"""The assignors and the moves of `zkconsumer plan` the plain way, partition by partition: what quick ones must equal.

They were compared with the real classes' answers (tests/vectors) before anything was made quick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

from fetcher.java import java_hash, text_order_key
from fetcher.structs import TopicAndPartition
from study.assignors import Assignment, Assignor, Member
from zkconsumer.assignment import AssignmentContext
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.topic_count import thread_order_key

Owned = dict[TopicAndPartition, None]
MOST_ROUNDS = 10


def in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=text_order_key)


def candidates_of(members: Mapping[str, Member], partitions: Mapping[str, int]) -> dict[str, list[str]]:
    wanted = {topic for member in members.values() for topic in member.topics if partitions.get(topic, 0)}
    return {topic: in_order(name for name in members if topic in members[name].topics) for topic in in_order(wanted)}


def listed(topics: Iterable[str], partitions: Mapping[str, int]) -> list[TopicAndPartition]:
    return [TopicAndPartition(topic, number) for topic in topics for number in range(partitions[topic])]


def map_order(keys: Iterable[TopicAndPartition] | Iterable[str]) -> list:  # type: ignore[type-arg]
    """Of a java.util.HashMap."""
    unique = list(dict.fromkeys(keys))
    size = 16
    while len(unique) > size * 3 // 4:
        size *= 2

    def bucket(key: TopicAndPartition | str) -> int:
        value = java_hash(key) if isinstance(key, str) else 31 * key.partition + 31 * 31 + java_hash(key.topic)
        return ((value & 0xFFFFFFFF) ^ (value & 0xFFFFFFFF) >> 16) & size - 1

    return sorted(unique, key=bucket)


def newest_first(keys: Iterable[str]) -> list[str]:
    return map_order(list(dict.fromkeys(keys))[::-1])


def grouped(
    partitions: Iterable[TopicAndPartition], order: Callable[[Iterable[str]], list[str]]
) -> list[TopicAndPartition]:
    kept = list(partitions)
    return [each for topic in order(topic for topic, _ in kept) for each in kept if each.topic == topic]


# --- the new consumer's


def plain_range(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    assignment: Assignment = {name: [] for name in members}
    for topic, names in candidates_of(members, partitions).items():
        each, rest = divmod(partitions[topic], len(names))
        numbers = iter(range(partitions[topic]))
        for place, name in enumerate(names):
            assignment[name] += [TopicAndPartition(topic, next(numbers)) for _ in range(each + (place < rest))]
    return assignment


def plain_round_robin(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    assignment: Assignment = {name: [] for name in members}
    circle = in_order(members)
    pointer = 0
    for partition in listed(candidates_of(members, partitions), partitions):
        while partition.topic not in members[circle[pointer % len(circle)]].topics:
            pointer += 1
        assignment[circle[pointer % len(circle)]].append(partition)
        pointer += 1
    return assignment


def plain_sticky_1_1(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    candidates = candidates_of(members, partitions)
    former = {
        name: dict.fromkeys(grouped(member.owned, map_order))
        for name, member in members.items()
        if member.owned is not None
    }
    everything = {name: former.get(name, {}) for name in map_order(members)}
    existing = map_order(listed(map_order(candidates), partitions))
    alike = len({frozenset(member.topics & candidates.keys()) for member in members.values()}) == 1
    if former and alike:
        left = {name: [each for each in mine if each in existing] for name, mine in everything.items()}
        order: Owned = {}
        while any(left.values()):
            fullest = max(left, key=lambda name: (len(left[name]), text_order_key(name)))
            order[left[fullest].pop(0)] = None
        in_turn = list(order | dict.fromkeys(existing))
    else:
        in_turn = rarest_first(candidates, partitions)
    owned = {
        name: {each: None for each in mine if each in existing and each.topic in members[name].topics}
        for name, mine in everything.items()
    }
    taken = {each for mine in owned.values() for each in mine}
    balancer = PlainBalancer(owned, partitions, candidates)
    return balancer.balance([each for each in in_turn if each not in taken], in_turn, new_ones_first=False)


def plain_sticky_3_9(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    through_user_data = {
        name: Member(
            member.topics,
            None if member.owned is None else grouped(member.owned, newest_first),
            member.generation,
        )
        for name, member in members.items()
    }
    return assigned_3_9(partitions, through_user_data)


def plain_cooperative_sticky(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    owner_of = {partition: name for name, mine in claims_of(partitions, members).items() for partition in mine}
    return {
        name: [partition for partition in mine if owner_of.get(partition, name) == name]
        for name, mine in assigned_3_9(partitions, members).items()
    }


def assigned_3_9(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    candidates = candidates_of(members, partitions)
    claims = claims_of(partitions, members)
    if len({member.topics for member in members.values()}) <= 1:
        return quotas_filled(listed(candidates, partitions), claims)
    owned = {
        name: {partition: None for partition in mine if partition.topic in members[name].topics}
        for name, mine in claims.items()
    }
    lost_a_topic = any(len(owned[name]) < len(mine) for name, mine in claims.items())
    order = rarest_first(candidates, partitions)
    taken = {partition for mine in owned.values() for partition in mine}
    free = [partition for partition in order if partition not in taken]
    return PlainBalancer(owned, partitions, candidates).balance(free, order, new_ones_first=not lost_a_topic)


def rarest_first(candidates: Mapping[str, Sequence[str]], partitions: Mapping[str, int]) -> list[TopicAndPartition]:
    return listed(sorted(candidates, key=lambda topic: (len(candidates[topic]), text_order_key(topic))), partitions)


def claims_of(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    candidates = candidates_of(members, partitions)
    owner_of: dict[TopicAndPartition, str] = {}
    for name in map_order(members):
        for partition in members[name].owned or ():
            other = owner_of.get(partition)
            if other is None or members[name].generation > members[other].generation:
                owner_of[partition] = name
    return {
        name: [each for each in members[name].owned or () if owner_of[each] == name and each.topic in candidates]
        for name in map_order(members)
    }


def quotas_filled(everything: Sequence[TopicAndPartition], claims: Assignment) -> Assignment:
    quota, fuller_ones = divmod(len(everything), len(claims))
    assignment: Assignment = {}
    at_quota: list[str] = []
    for name, claimed in claims.items():
        mine = sorted(claimed, key=lambda each: (each.partition, text_order_key(each.topic)))
        keep = quota + 1 if fuller_ones and len(mine) > quota else quota
        if keep > quota:
            fuller_ones -= 1
            at_quota = at_quota if fuller_ones else []
        elif len(mine) >= quota and fuller_ones:
            at_quota.append(name)
        assignment[name] = mine[:keep]
    kept = {partition for mine in assignment.values() for partition in mine}
    circle = in_order(name for name, mine in assignment.items() if len(mine) < quota)
    waiting = in_order(at_quota)
    for partition in everything:
        if partition in kept:
            continue
        if not circle:
            assignment[waiting.pop(0)].append(partition)
            continue
        name = circle.pop(0)
        assignment[name].append(partition)
        (waiting if len(assignment[name]) == quota else circle).append(name)
    return assignment


class PlainBalancer:
    def __init__(
        self, owned: dict[str, Owned], partitions: Mapping[str, int], candidates: Mapping[str, Sequence[str]]
    ) -> None:
        self.owned = owned
        self.owner_of = {partition: name for name, mine in owned.items() for partition in mine}
        self.partitions = partitions
        self.candidates = candidates
        self.made: dict[TopicAndPartition, tuple[str, str]] = {}
        self.moved: dict[tuple[str, str, str], Owned] = {}

    def balance(
        self, unassigned: Sequence[TopicAndPartition], order: Sequence[TopicAndPartition], *, new_ones_first: bool
    ) -> Assignment:
        initializing = not any(self.owned.values())
        for partition in unassigned:
            name = self.emptiest(partition.topic)
            self.owned[name][partition] = None
            self.owner_of[partition] = name
        fixed = {name: self.owned.pop(name) for name in list(self.owned) if self.is_fixed(name)}
        before = {name: dict(mine) for name, mine in self.owned.items()}
        if new_ones_first:
            self.reassign([each for each in unassigned if len(self.candidates[each.topic]) > 1])
        moved = self.reassign([each for each in order if len(self.candidates[each.topic]) > 1])
        if not initializing and moved and score(self.owned) >= score(before):
            self.owned = before
        return {name: list(mine) for name, mine in (self.owned | fixed).items()}

    def is_fixed(self, name: str) -> bool:
        possible = sum(self.partitions[topic] for topic, names in self.candidates.items() if name in names)
        movable = any(len(self.candidates[topic]) > 1 for topic, _ in self.owned[name])
        return len(self.owned[name]) >= possible and not movable

    def emptiest(self, topic: str) -> str:
        able = (name for name in self.candidates[topic] if name in self.owned)
        return min(able, key=lambda name: (len(self.owned[name]), text_order_key(name)))

    def reassign(self, order: Sequence[TopicAndPartition]) -> bool:
        performed = modified = False
        while True:
            modified = False
            for partition in order:
                if self.balanced():
                    break
                target = self.emptiest(partition.topic)
                if len(self.owned[self.owner_of[partition]]) > len(self.owned[target]) + 1:
                    self.move(partition, target)
                    performed = modified = True
            if not modified:
                return performed

    def balanced(self) -> bool:
        counts = {name: len(mine) for name, mine in self.owned.items()}
        if not counts or max(counts.values()) - min(counts.values()) <= 1:
            return True
        return not any(
            counts[poor] < counts[rich]
            for names in self.candidates.values()
            for poor in names
            if poor in counts
            for rich in names
            if rich in counts and any(each.topic in self.shared(names) for each in self.owned[rich])
        )

    def shared(self, names: Sequence[str]) -> set[str]:
        return {topic for topic, others in self.candidates.items() if others == names}

    def move(self, wanted: TopicAndPartition, target: str) -> None:
        origin = self.made[wanted][0] if wanted in self.made else self.owner_of[wanted]
        opposite = self.moved.get((wanted.topic, target, origin))
        partition = map_order(opposite)[0] if opposite else wanted
        source = self.owner_of[partition]
        made = self.made.pop(partition, None)
        if made:
            del self.moved[(partition.topic, *made)][partition]
        movement = (made[0] if made else source, target)
        if movement[0] != target:
            self.made[partition] = movement
            self.moved.setdefault((partition.topic, *movement), {})[partition] = None
        del self.owned[source][partition]
        self.owned[target][partition] = None
        self.owner_of[partition] = target


def score(owned: Mapping[str, Owned]) -> int:
    return sum(abs(len(one) - len(other)) for one, other in combinations(owned.values(), 2))


NEW: Mapping[str, Assignor] = {
    "range": plain_range,
    "roundrobin": plain_round_robin,
    "sticky 1.1": plain_sticky_1_1,
    "sticky 3.9": plain_sticky_3_9,
    "cooperative-sticky": plain_cooperative_sticky,
}

# --- the old consumer's, of what a member reads


def old_range(context: AssignmentContext) -> Assignment:
    assignment: Assignment = {name: [] for name in context.consumers}
    for topic, threads in context.consumers_for_topic.items():
        each, rest = divmod(len(context.partitions_for_topic[topic]), len(threads))
        numbers = iter(sorted(context.partitions_for_topic[topic]))
        for place, thread in enumerate(threads):
            assignment[thread.consumer_id] += [
                TopicAndPartition(topic, next(numbers)) for _ in range(each + (place < rest))
            ]
    return assignment


def old_round_robin(context: AssignmentContext, text: str, *, alike: bool) -> Assignment:
    """`text`: of a partition. `alike`: all must have the same threads for each topic."""
    threads = {thread for ids in context.consumers_for_topic.values() for thread in ids}
    if alike and any(set(ids) != threads for ids in context.consumers_for_topic.values()):
        raise IllegalArgumentException("they differ")
    circle = sorted(threads, key=thread_order_key)
    assignment: Assignment = {name: [] for name in context.consumers}
    partitions = [
        TopicAndPartition(topic, number)
        for topic, numbers in context.partitions_for_topic.items()
        for number in sorted(numbers)
        if context.consumers_for_topic.get(topic)
    ]
    pointer = 0
    for partition in sorted(partitions, key=lambda each: java_hash(text.format(*each))):
        while circle[pointer % len(circle)] not in context.consumers_for_topic[partition.topic]:
            pointer += 1
        assignment[circle[pointer % len(circle)].consumer_id].append(partition)
        pointer += 1
    return assignment
