"""What if: who gets which partitions under each strategy, old and new, and how many move when a member joins or leaves.

Pure. The old strategies come from zkconsumer.assignment, by release; the new ones from study.assignors.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import cycle

from study.assignors import Assignment, Assignor, Member
from study.assignors.dealing import share_by_range, share_round_robin
from study.assignors.model import in_java_order
from study.assignors.numbering import Held, NumberedAssignor, Numbering, Question, Roster
from study.assignors.own import share_at_random, share_with_everybody
from study.assignors.sticky_1_1 import share_sticky_1_1
from study.assignors.sticky_3_9 import share_cooperative_sticky, share_sticky_3_9
from zkconsumer.assignment import AssignmentContext, Circle, common_threads, hash_order, runs_of
from zkconsumer.cluster_view import assignment_context, partitions_in_map_order
from zkconsumer.emulation import RoundRobin
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.topic_count import ConsumerThreadId

NEWCOMER = "newcomer"
_MOST_ROUNDS = 10
_MOST_COPIES = 1_000_000


@dataclass(frozen=True)
class Group:
    """Topics with their number of partitions, and members with their number of threads by topic."""

    topics: Mapping[str, int]
    members: Mapping[str, Mapping[str, int]]

    @cached_property
    def numbering(self) -> Numbering:
        return Numbering(self.topics)

    @cached_property
    def roster(self) -> Roster:
        return Roster(self.numbering, self._subscriptions())

    def _subscriptions(self) -> dict[str, frozenset[str]]:
        """Each member's topics; equal ones are one object."""
        known: dict[frozenset[str], frozenset[str]] = {}
        by_mapping: dict[int, frozenset[str]] = {}
        for threads in self.members.values():
            if id(threads) not in by_mapping:
                topics = frozenset(threads)
                by_mapping[id(threads)] = known.setdefault(topics, topics)
        return {name: by_mapping[id(threads)] for name, threads in self.members.items()}

    @cached_property
    def threads(self) -> dict[str, dict[str, list[ConsumerThreadId]]]:
        """Each old member's threads by topic."""
        found = {}
        for name, counts in self.members.items():
            of_count = {n: [ConsumerThreadId(name, number) for number in range(n)] for n in set(counts.values())}
            found[name] = {topic: of_count[n] for topic, n in counts.items()}
        return found

    @cached_property
    def context(self) -> AssignmentContext:
        """What an old member sees that looks at all topics of the group."""
        return assignment_context(
            "plan",
            next(iter(self.threads)),
            self.threads,
            self.partitions,
            whole_group=True,
        )

    def partitions(self, topics: Iterable[str]) -> dict[str, range]:
        """Their numbers, of topics that are not there too."""
        return {topic: range(self.topics.get(topic, 0)) for topic in topics}

    def with_member(self, name: str, threads: Mapping[str, int]) -> Group:
        """The same one when asked again: every strategy asks, and what it has computed is kept."""
        return self._changed_to("joined", {**self.members, name: threads})

    def without(self, name: str) -> Group:
        """Likewise."""
        return self._changed_to("left", {each: threads for each, threads in self.members.items() if each != name})

    def _changed_to(self, how: str, members: Mapping[str, Mapping[str, int]]) -> Group:
        known = self._changed.get(how)
        if known is None or known.members != members:
            known = self._changed[how] = Group(self.topics, members)
            known.__dict__["numbering"] = self.numbering  # a partition has the same number everywhere
        return known

    @cached_property
    def _changed(self) -> dict[str, Group]:
        return {}


@dataclass(frozen=True)
class Change:
    """What a join or leave does. `needless`: moved although their owner stays. `rounds`: rebalances it takes.

    `gave` and `took`: how many partitions each member lost and got; members that did neither are left out.
    """

    moved: int
    needless: int
    rounds: int
    gave: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    took: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Outcome:
    """One strategy's answer; `problem` instead of anybody's partitions if it refuses the group."""

    strategy: str
    numbering: Numbering
    held: Held
    joined: Change | None = None
    left: Change | None = None
    problem: str | None = None

    @cached_property
    def assignment(self) -> Assignment:
        partition_of = self.numbering.partition_of
        return {name: [partition_of[number] for number in mine] for name, mine in self.held.items()}

    def counts(self) -> dict[str, int]:
        return {name: len(mine) for name, mine in self.held.items()}


Shares = Callable[[Group, Held | None], Held]
"""Who gets what, given what everybody had."""


def plan(
    group: Group,
    strategy: str,
    *,
    join: tuple[str, Mapping[str, int]] | None,
    leave: str | None,
    own: Assignor | None = None,
) -> Outcome:
    """One strategy's answer for the group, and for the group with one more and with one less.

    By its name in STRATEGIES, or `own` under a name of its own.
    """
    shares = _own(own) if own else STRATEGIES[strategy]
    if strategy == "broadcast" and len(group.members) * group.numbering.total > _MOST_COPIES:
        return _refused(strategy, group, "everybody would get everything: too much to list")
    try:
        settled, _ = _settled(shares, group, None)
    except IllegalArgumentException as error:
        return _refused(strategy, group, str(error).partition("\n")[0])
    return Outcome(
        strategy,
        group.numbering,
        {name: settled[name] for name in in_java_order(settled)},
        _change(shares, group.with_member(*join), settled) if join else None,
        _change(shares, group.without(leave), settled) if leave else None,
    )


def _refused(strategy: str, group: Group, problem: str) -> Outcome:
    return Outcome(strategy, group.numbering, {}, problem=problem)


def _change(shares: Shares, changed: Group, before: Held) -> Change | None:
    if not changed.members:
        return None
    try:
        after, rounds = _settled(shares, changed, before)
    except IllegalArgumentException:
        return None
    gave = {name: _lost(mine, after.get(name, [])) for name, mine in before.items()}
    took = {name: len(mine) - len(before.get(name, ())) + gave.get(name, 0) for name, mine in after.items()}
    return Change(
        sum(gave.values()),
        sum(gave[name] for name in gave if name in changed.members),
        rounds,
        {name: count for name, count in gave.items() if count},
        {name: count for name, count in took.items() if count},
    )


def _lost(before: list[int], after: list[int]) -> int:
    if not after or before == after:
        return len(before) if not after else 0
    return len(set(before).difference(after))


def _settled(shares: Shares, group: Group, before: Held | None) -> tuple[Held, int]:
    """The cooperative strategy needs a second rebalance to give what the first one took."""
    held = shares(group, before)
    wanted = len(group.roster.everything)
    for rounds in range(1, _MOST_ROUNDS):
        if sum(map(len, held.values())) >= wanted:
            return held, rounds
        held = shares(group, held)
    return held, _MOST_ROUNDS


def _new(assign: NumberedAssignor) -> Shares:
    def shares(group: Group, before: Held | None) -> Held:
        owned = {} if before is None else {name: mine for name, mine in before.items() if name in group.members}
        return assign(Question(group.roster, owned, dict.fromkeys(owned, 1)))

    return shares


def _own(assign: Assignor) -> Shares:
    def shares(group: Group, before: Held | None) -> Held:
        partition_of, number = group.numbering.partition_of, group.numbering.number
        owned = {name: [partition_of[each] for each in mine] for name, mine in (before or {}).items()}
        members = {
            name: Member(topics, owned.get(name), generation=1) for name, topics in group.roster.topics_of.items()
        }
        return {name: list(map(number, mine)) for name, mine in assign(group.topics, members).items()}

    return shares


def _old_range(group: Group, _before: Held | None) -> Held:
    held: Held = {name: [] for name in group.members}
    for topic, threads in group.context.consumers_for_topic.items() if group.members else ():
        if topic in group.numbering.first:
            runs = runs_of(group.numbering.range_of(topic), len(threads))
            for thread, run in zip(threads, runs, strict=False):
                held[thread.consumer_id] += run
    return held


def _old_round_robin(release: RoundRobin) -> Shares:
    """As a member sees it that subscribes to everything: each decides for its own topics, and all alike."""

    def shares(group: Group, _before: Held | None) -> Held:
        held: Held = {name: [] for name in group.members}
        if not group.members:
            return held
        context, topic_of = group.context, group.numbering.topic_of
        seen = context.partitions_for_topic
        places: Iterable[int | None]
        if release == "0.8.2":
            threads = common_threads(context.consumers_for_topic)
            seen = partitions_in_map_order(context.my_threads, group.partitions)
            order = _in_hash_order(group.numbering, tuple(seen), release) if threads else []
            places = cycle(range(len(threads)))
        else:
            circle = Circle(context.consumers_for_topic)
            threads = circle.threads
            order = _in_hash_order(group.numbering, tuple(seen), release)
            places = circle.places([topic_of[number] for number in order])
        lists = [held[thread.consumer_id] for thread in threads]
        for number, place in zip(order, places, strict=False):
            if place is not None:
                lists[place].append(number)
        return held

    return shares


@lru_cache(maxsize=4)  # a member more or less does not change it
def _in_hash_order(numbering: Numbering, topics: Sequence[str], release: RoundRobin) -> list[int]:
    there = [topic for topic in topics if topic in numbering.first]
    numbers = numbering.numbers_of(there)
    partitions = {topic: range(numbering.counts[topic]) for topic in there}
    return [numbers[place] for place in hash_order(partitions, release)]


STRATEGIES: Mapping[str, Shares] = {
    "old range": _old_range,
    "old roundrobin 0.8.2": _old_round_robin("0.8.2"),
    "old roundrobin 0.10.2": _old_round_robin("0.10.2"),
    "old roundrobin 1.1": _old_round_robin("1.0"),
    "range": _new(share_by_range),
    "roundrobin": _new(share_round_robin),
    "sticky 1.1": _new(share_sticky_1_1),
    "sticky 3.9": _new(share_sticky_3_9),
    "cooperative-sticky": _new(share_cooperative_sticky),
    "random": _new(share_at_random(random.Random(1))),
    "broadcast": _new(share_with_everybody),
}
"""The old ones share out among threads, the new ones among members. The last two are examples of custom ones.

The old round robin has three algorithms: 0.8.2 to 0.10.1, 0.10.2 to 0.11, 1.0 and 1.1.
"""
