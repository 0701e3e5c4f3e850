"""What plan and its assignors answer quickly, with numbers, is what they answer the plain way, for odd groups too."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetcher.structs import TopicAndPartition
from study.assignors import (
    Assignment,
    Assignor,
    Member,
    assign_cooperative_sticky,
    assign_range,
    assign_round_robin,
    assign_sticky_1_1,
    assign_sticky_3_9,
)
from study.plan import Change, Group, plan
from tests.plain_assignors import MOST_ROUNDS, NEW, old_range, old_round_robin
from zkconsumer.assignment import AssignmentContext
from zkconsumer.cluster_view import assignment_context
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.topic_count import ConsumerThreadId

QUICK: Mapping[str, Assignor] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
    "sticky 1.1": assign_sticky_1_1,
    "sticky 3.9": assign_sticky_3_9,
    "cooperative-sticky": assign_cooperative_sticky,
}
OLD = ["old range", "old roundrobin 0.8.2", "old roundrobin 0.10.2", "old roundrobin 1.1"]

# Aa and BB have equal hashes, and so have what is made of them; the others sort oddly as texts.
TOPICS = st.sampled_from(["Aa", "BB", "AaAa", "AaBB", "BBAa", "t0", "t1", "t10", "t2", "polygenelubricants"])
NAMES = st.sampled_from(["Aa", "BB", "c0", "c1", "c10", "c2", "C3", "é", "\uffee", "\U0001f600", "z", "host-17949"])
PARTITIONS = st.dictionaries(TOPICS, st.one_of(st.integers(0, 13), st.just(120)), min_size=1, max_size=6)


@st.composite
def groups(draw: st.DrawFn) -> tuple[Group, tuple[str, Mapping[str, int]], str]:
    """A group, who joins it, and who leaves it."""
    partitions = draw(PARTITIONS)
    threads = st.dictionaries(st.sampled_from(sorted(partitions)), st.integers(1, 11), max_size=6)
    equal = draw(st.one_of(st.none(), threads))
    members = draw(st.dictionaries(NAMES, threads if equal is None else st.just(equal), min_size=1, max_size=8))
    newcomer = draw(NAMES.filter(lambda name: name not in members))
    joins = draw(threads if equal is None else st.just(equal))
    return Group(partitions, members), (newcomer, joins), draw(st.sampled_from(sorted(members)))


@settings(max_examples=150)
@given(groups(), st.sampled_from([*NEW, *OLD]))
def test_a_plan_is_what_it_is_the_plain_way(
    asked: tuple[Group, tuple[str, Mapping[str, int]], str], strategy: str
) -> None:
    group, join, leave = asked

    outcome = plan(group, strategy, join=join, leave=leave)

    try:
        expected, _ = plain_shares(strategy, group, None)
    except IllegalArgumentException:
        assert outcome.problem and not outcome.assignment
        return
    assert outcome.problem is None
    answer = outcome.assignment
    assert answer == expected if strategy in NEW else ordered(answer) == ordered(expected)
    assert outcome.joined == plain_change(strategy, group.with_member(*join), expected)
    assert outcome.left == plain_change(strategy, group.without(leave), expected)


@st.composite
def rebalances(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, Member]]:
    """Members say what they had: also what is gone, what others say too, and what they subscribe to no more."""
    partitions = draw(PARTITIONS)
    had = st.lists(st.builds(TopicAndPartition, TOPICS, st.integers(0, 14)), unique=True, max_size=25)
    topics = st.frozensets(TOPICS, max_size=6)
    equal = draw(st.one_of(st.none(), topics))
    member = st.builds(
        Member, topics if equal is None else st.just(equal), st.one_of(st.none(), had), st.integers(-1, 2)
    )
    return partitions, draw(st.dictionaries(NAMES, member, min_size=1, max_size=8))


@pytest.mark.parametrize("strategy", NEW)
@settings(max_examples=150)
@given(rebalances())
def test_an_assignor_answers_what_it_answers_the_plain_way(
    strategy: str, asked: tuple[dict[str, int], dict[str, Member]]
) -> None:
    assert answer_of(QUICK[strategy], *asked) == answer_of(NEW[strategy], *asked)


def answer_of(
    assign: Assignor, partitions: Mapping[str, int], members: Mapping[str, Member]
) -> Assignment | type[IndexError]:
    """Some that hold on to partitions that are gone leave too many over: that is an error either way."""
    try:
        return assign(partitions, members)
    except IndexError:
        return IndexError


def plain_shares(strategy: str, group: Group, before: Assignment | None) -> tuple[Assignment, int]:
    """Who gets what, and after how many rebalances."""
    wanted = sum(
        count for topic, count in group.topics.items() if any(topic in threads for threads in group.members.values())
    )
    answer = plain_answer(strategy, group, before)
    rounds = 1
    while sum(map(len, answer.values())) < wanted and rounds < MOST_ROUNDS:
        answer = plain_answer(strategy, group, answer)
        rounds += 1
    return answer, rounds


def plain_answer(strategy: str, group: Group, before: Assignment | None) -> Assignment:
    if strategy in NEW:
        members = {
            name: Member(frozenset(threads), (before or {}).get(name), 1) for name, threads in group.members.items()
        }
        return NEW[strategy](group.topics, members)
    context = context_of(group, whole_group=strategy != "old roundrobin 0.8.2")
    if strategy == "old range":
        return old_range(context)
    text = "{}-{}" if strategy == "old roundrobin 1.1" else "[{},{}]"
    return old_round_robin(context, text, alike=strategy == "old roundrobin 0.8.2")


def context_of(group: Group, *, whole_group: bool) -> AssignmentContext:
    return assignment_context(
        "g",
        next(iter(group.members)),
        {
            name: {topic: [ConsumerThreadId(name, number) for number in range(count)] for topic, count in mine.items()}
            for name, mine in group.members.items()
        },
        lambda topics: {topic: range(group.topics[topic]) for topic in topics},
        whole_group=whole_group,
    )


def plain_change(strategy: str, changed: Group, before: Assignment) -> Change | None:
    if not changed.members:
        return None
    try:
        after, rounds = plain_shares(strategy, changed, before)
    except IllegalArgumentException:
        return None
    lost = [
        (name, partition) for name, mine in before.items() for partition in mine if partition not in after.get(name, ())
    ]
    return Change(len(lost), sum(name in changed.members for name, _ in lost), rounds)


def ordered(assignment: Assignment) -> Assignment:
    return {name: sorted(mine) for name, mine in assignment.items()}
