"""What if: who gets which partitions under each strategy, old and new, and how many move when a member joins or leaves.

Pure. The old strategies come from zkconsumer.assignment, by release; the new ones from study.assignors.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from study.assignors import (
    Assignment,
    Assignor,
    Member,
    assign_broadcast,
    assign_cooperative_sticky,
    assign_range,
    assign_round_robin,
    assign_sticky_1_1,
    assign_sticky_3_9,
    random_assignor,
)
from study.assignors.model import in_java_order
from zkconsumer.assignment import AssignmentContext, assignor_for
from zkconsumer.cluster_view import assignment_context
from zkconsumer.emulation import Emulation, emulation
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
    def subscriptions(self) -> dict[str, frozenset[str]]:
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
        return self.context_of(whole_group=True)

    def context_of(self, *, whole_group: bool) -> AssignmentContext:
        return assignment_context(
            "plan",
            next(iter(self.threads)),
            self.threads,
            lambda topics: {topic: range(self.topics.get(topic, 0)) for topic in topics},
            whole_group=whole_group,
        )

    def with_member(self, name: str, threads: Mapping[str, int]) -> Group:
        """The same one when asked again: every strategy asks, and what it has computed is kept."""
        wanted = {**self.members, name: threads}
        if self._changed.get("joined") is None or self._changed["joined"].members != wanted:
            self._changed["joined"] = Group(self.topics, wanted)
        return self._changed["joined"]

    def without(self, name: str) -> Group:
        """Likewise."""
        wanted = {each: threads for each, threads in self.members.items() if each != name}
        if self._changed.get("left") is None or self._changed["left"].members != wanted:
            self._changed["left"] = Group(self.topics, wanted)
        return self._changed["left"]

    @cached_property
    def _changed(self) -> dict[str, Group]:
        return {}


@dataclass(frozen=True)
class Change:
    """What a join or leave does. `needless`: moved although their owner stays. `rounds`: rebalances it takes."""

    moved: int
    needless: int
    rounds: int


@dataclass(frozen=True)
class Outcome:
    """One strategy's answer; `problem` instead of an assignment if it refuses the group."""

    strategy: str
    assignment: Assignment
    joined: Change | None
    left: Change | None
    problem: str | None = None

    def counts(self) -> dict[str, int]:
        return {name: len(mine) for name, mine in self.assignment.items()}


Shares = Callable[[Group, Assignment | None], Assignment]
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
    shares = _new(own) if own else STRATEGIES[strategy]
    if strategy == "broadcast" and len(group.members) * sum(group.topics.values()) > _MOST_COPIES:
        return Outcome(strategy, {}, None, None, "everybody would get everything: too much to list")
    try:
        settled, _ = _settled(shares, group, None)
    except IllegalArgumentException as error:
        return Outcome(strategy, {}, None, None, str(error).partition("\n")[0])
    return Outcome(
        strategy,
        {name: settled[name] for name in in_java_order(settled)},
        _change(shares, group.with_member(*join), settled) if join else None,
        _change(shares, group.without(leave), settled) if leave else None,
    )


def _change(shares: Shares, changed: Group, before: Assignment) -> Change | None:
    if not changed.members:
        return None
    try:
        after, rounds = _settled(shares, changed, before)
    except IllegalArgumentException:
        return None
    lost = {name: len(set(mine).difference(after.get(name, ()))) for name, mine in before.items()}
    return Change(sum(lost.values()), sum(lost[name] for name in lost if name in changed.members), rounds)


def _settled(shares: Shares, group: Group, before: Assignment | None) -> tuple[Assignment, int]:
    """The cooperative strategy needs a second rebalance to give what the first one took."""
    assignment = shares(group, before)
    subscribed = {topic for threads in group.members.values() for topic in threads}
    wanted = sum(count for topic, count in group.topics.items() if topic in subscribed)
    for rounds in range(1, _MOST_ROUNDS):
        if sum(map(len, assignment.values())) >= wanted:
            return assignment, rounds
        assignment = shares(group, assignment)
    return assignment, _MOST_ROUNDS


def _new(assign: Assignor) -> Shares:
    def shares(group: Group, before: Assignment | None) -> Assignment:
        members = {
            name: Member(topics, (before or {}).get(name), generation=1) for name, topics in group.subscriptions.items()
        }
        return assign(group.topics, members)

    return shares


def _old(strategy: str, switches: Emulation) -> Shares:
    assign = assignor_for(strategy, switches)

    def shares(group: Group, before: Assignment | None) -> Assignment:
        assignment: Assignment = {name: [] for name in group.members}
        if not group.members:
            return assignment
        for partition, thread in assign(
            _context(group, strategy, switches.reads_partitions_of_the_whole_group)
        ).items():
            assignment[thread.consumer_id].append(partition)
        return assignment

    return shares


def _context(group: Group, strategy: str, whole_group: bool) -> AssignmentContext:
    """As a member sees it that subscribes to everything: each decides for its own topics, and all alike."""
    context = group.context if whole_group or strategy == "range" else group.context_of(whole_group=False)
    if strategy == "range":
        return AssignmentContext(
            context.group,
            context.consumer_id,
            dict.fromkeys(context.consumers_for_topic, ()),
            context.partitions_for_topic,
            context.consumers_for_topic,
            context.consumers,
        )
    return context


STRATEGIES: Mapping[str, Shares] = {
    "old range": _old("range", emulation("0.8.2")),
    "old roundrobin 0.8.2": _old("roundrobin", emulation("0.8.2")),
    "old roundrobin 0.10.2": _old("roundrobin", emulation("0.9").with_switches(round_robin="0.10.2")),
    "old roundrobin 1.1": _old("roundrobin", emulation("1.1")),
    "range": _new(assign_range),
    "roundrobin": _new(assign_round_robin),
    "sticky 1.1": _new(assign_sticky_1_1),
    "sticky 3.9": _new(assign_sticky_3_9),
    "cooperative-sticky": _new(assign_cooperative_sticky),
    "random": _new(random_assignor(random.Random(1))),
    "broadcast": _new(assign_broadcast),
}
"""The old ones share out among threads, the new ones among members. The last two are examples of custom ones.

The old round robin has three algorithms: 0.8.2 to 0.10.1, 0.10.2 to 0.11, 1.0 and 1.1.
"""
