"""Who gets what, against tables recorded from real consumers (0.8.2.2 and 1.1.1)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetcher.structs import TopicAndPartition
from zkconsumer.assignment import (
    AssignmentContext,
    Assignor,
    assign_range,
    assign_round_robin_0_8_2,
    assign_round_robin_0_10_2,
    assign_round_robin_1_0,
    assignor_for,
    by_topic,
    mine,
)
from zkconsumer.emulation import Emulation
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.topic_count import ConsumerThreadId, threads_in_order

ROUND_ROBINS = [assign_round_robin_0_8_2, assign_round_robin_0_10_2, assign_round_robin_1_0]


def context_of(
    members: Mapping[str, Mapping[str, int]],
    partitions: Mapping[str, int],
    me: str | None = None,
    *,
    whole_group: bool = True,
) -> AssignmentContext:
    """A group as one member reads it: member -> topic -> streams, and topic -> number of partitions."""
    me = me or next(iter(members))
    topics = {topic for streams in members.values() for topic in streams}
    return AssignmentContext(
        group="g",
        consumer_id=me,
        my_threads={topic: [ConsumerThreadId(me, n) for n in range(count)] for topic, count in members[me].items()},
        partitions_for_topic={
            topic: list(range(count)) for topic, count in partitions.items() if whole_group or topic in members[me]
        },
        consumers_for_topic={
            topic: threads_in_order(
                ConsumerThreadId(member, n) for member, streams in members.items() for n in range(streams.get(topic, 0))
            )
            for topic in sorted(topics)
        },
        consumers=sorted(members),
    )


def as_text(assignment: Mapping[TopicAndPartition, ConsumerThreadId]) -> dict[str, str]:
    return {f"{topic}{partition}": str(thread) for (topic, partition), thread in assignment.items()}


def test_range_gives_the_first_threads_the_partitions_left_over() -> None:
    """G1: as seen with 0.8.2.2."""
    result = assign_range(context_of({"C1": {"p": 2}, "C2": {"p": 2}}, {"p": 5}))

    assert as_text(result) == {"p0": "C1-0", "p1": "C1-0", "p2": "C1-1", "p3": "C2-0", "p4": "C2-1"}


def test_range_takes_thread_10_before_thread_2() -> None:
    """G2: as seen with 0.8.2.2."""
    result = assign_range(context_of({"C": {"t": 12}}, {"t": 12}))

    assert [str(result[TopicAndPartition("t", partition)]) for partition in range(12)] == [
        "C-0", "C-1", "C-10", "C-11", "C-2", "C-3", "C-4", "C-5", "C-6", "C-7", "C-8", "C-9"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("members", "partitions", "expected"),
    [
        ({"c0": {"t": 1}}, {"t": 2}, {"t0": "c0-0", "t1": "c0-0"}),
        ({"c0": {"t": 1}, "c1": {"t": 1}}, {"t": 2}, {"t0": "c0-0", "t1": "c1-0"}),
        (
            {"w": {"tx": 2, "ty": 2}},
            {"tx": 5, "ty": 3},
            {
                "tx0": "w-0", "tx1": "w-0", "tx2": "w-0", "tx3": "w-1", "tx4": "w-1",
                "ty0": "w-0", "ty1": "w-0", "ty2": "w-1",
            },
        ),
        ({"c": {"t": 3}}, {"t": 1}, {"t0": "c-0"}),
        (
            {"C1": {"A": 1, "B": 1}, "C2": {"A": 1, "B": 1}},
            {"A": 3, "B": 3},
            {"A0": "C1-0", "A1": "C1-0", "A2": "C2-0", "B0": "C1-0", "B1": "C1-0", "B2": "C2-0"},
        ),
        (
            {"g_c10": {"t": 1}, "g_c2": {"t": 1}, "g_c1": {"t": 1}},
            {"t": 3},
            {"t0": "g_c1-0", "t1": "g_c10-0", "t2": "g_c2-0"},
        ),
        ({"c": {"t": 1}}, {"t": 0}, {}),
        ({"c": {"t": 1}}, {}, {}),
        ({"c": {}}, {}, {}),
    ],
    ids=[
        "alone", "two", "wildcard", "idle threads", "extra goes to the first", "text order", "no partitions",
        "unknown topic", "no topic",
    ],
)  # fmt: skip
def test_range_of_the_recorded_cases(
    members: dict[str, dict[str, int]], partitions: dict[str, int], expected: dict[str, str]
) -> None:
    """G5, G6, G13: the table of the behaviour's description."""
    assert as_text(assign_range(context_of(members, partitions))) == expected


def test_range_counts_only_members_that_subscribe_to_the_topic() -> None:
    """G3: C2 takes nothing of A, and B is not mine to share out."""
    result = assign_range(context_of({"C1": {"A": 1}, "C2": {"B": 1}}, {"A": 2}, "C1"))

    assert as_text(result) == {"A0": "C1-0", "A1": "C1-0"}


def test_range_says_what_it_does_in_0_8s_words(caplog: pytest.LogCaptureFixture) -> None:
    """G4: a warning for each of my idle threads, none for others'."""
    with caplog.at_level(logging.INFO):
        assign_range(context_of({"g_a": {"t": 1}, "g_b": {"t": 2}, "g_c": {"t": 1}}, {"t": 2}, "g_b"))

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "INFO",
            "Consumer g_b rebalancing the following partitions: ArrayBuffer(0, 1) for topic t"
            " with consumers: List(g_a-0, g_b-0, g_b-1, g_c-0)",
        ),
        ("INFO", "g_b-0 attempting to claim partition 1"),
        ("WARNING", "No broker partitions consumed by consumer thread g_b-1 for topic t"),
    ]


def test_round_robin_of_0_8_2_goes_by_the_hash_of_topic_and_partition() -> None:
    """G7, G8: as seen with 0.8.2.2; the order is that of the signed hash of [topic,partition]."""
    topics = {"a": 2, "bb": 2, "zeta": 2}

    result = assign_round_robin_0_8_2(
        context_of({"C1": dict.fromkeys(topics, 2), "C2": dict.fromkeys(topics, 1)}, topics)
    )

    assert list(as_text(result).items()) == [
        ("bb0", "C1-0"), ("bb1", "C1-1"), ("zeta0", "C2-0"), ("zeta1", "C1-0"), ("a0", "C1-1"), ("a1", "C2-0")
    ]  # fmt: skip


def test_round_robin_of_0_8_2_with_one_consumer_and_two_streams() -> None:
    """G7: as seen with 0.8.2.2."""
    result = assign_round_robin_0_8_2(context_of({"c": {"tx": 2, "ty": 2}}, {"tx": 5, "ty": 3}))

    assert as_text(result) == {
        "tx0": "c-0", "tx1": "c-1", "tx2": "c-0", "tx3": "c-1", "tx4": "c-0", "ty0": "c-1", "ty1": "c-0", "ty2": "c-1"
    }  # fmt: skip


def test_round_robin_of_0_8_2_sorts_the_topics_of_the_original_test() -> None:
    """G8: the order recorded for topic1 and topic2."""
    result = assign_round_robin_0_8_2(context_of({"c": {"topic1": 1, "topic2": 1}}, {"topic1": 3, "topic2": 2}))

    assert list(as_text(result)) == ["topic10", "topic11", "topic12", "topic20", "topic21"]


@pytest.mark.parametrize(
    "members",
    [
        {"gRR_r1": {"tx": 1}, "gRR_r2": {"tx": 1, "ty": 1}},
        {"gRR_r1": {"tx": 1, "ty": 1}, "gRR_r2": {"tx": 1, "ty": 2}},
    ],
    ids=["other topics", "other counts"],
)
@pytest.mark.parametrize("me", ["gRR_r1", "gRR_r2"])
def test_round_robin_of_0_8_2_fails_in_every_member_if_subscriptions_differ(
    members: dict[str, dict[str, int]], me: str
) -> None:
    """G9: the whole group stops, with this text."""
    with pytest.raises(IllegalArgumentException) as raised:
        assign_round_robin_0_8_2(context_of(members, {"tx": 1, "ty": 1}, me))

    lines = str(raised.value).split("\n")
    assert lines[0] == (
        "requirement failed: Round-robin assignment is allowed only if all consumers in the group subscribe to the same"
        " topics, AND if the stream counts across topics are identical for a given consumer instance."
    )
    assert sorted(line.partition(" has the following available consumer streams: Set(")[0] for line in lines[1:3]) == [
        "Topic tx",
        "Topic ty",
    ]
    assert lines[3:] == [""]


def test_round_robin_of_a_group_without_topics_is_empty() -> None:
    for assign in ROUND_ROBINS:
        assert assign(context_of({"c": {}}, {})) == {}


def test_round_robin_of_1_0_passes_over_those_who_do_not_subscribe() -> None:
    """G10: as seen with 1.1.1; the order is that of the hash of topic-partition."""
    members = {"C1": {"a": 1, "bb": 1, "zeta": 1}, "C2": {"bb": 1, "zeta": 1}}

    result = assign_round_robin_1_0(context_of(members, {"a": 2, "bb": 2, "zeta": 2}))

    assert list(as_text(result).items()) == [
        ("zeta0", "C1-0"), ("zeta1", "C2-0"), ("a0", "C1-0"), ("a1", "C1-0"), ("bb0", "C2-0"), ("bb1", "C1-0")
    ]  # fmt: skip


def test_round_robin_of_0_10_2_keeps_the_old_order_without_its_precondition() -> None:
    """G10: order bb, zeta, a as in 0.8.2; C2 is passed over for a, the pointer stays behind the one chosen."""
    members = {"C1": {"a": 1, "bb": 1, "zeta": 1}, "C2": {"bb": 1, "zeta": 1}}

    result = assign_round_robin_0_10_2(context_of(members, {"a": 2, "bb": 2, "zeta": 2}))

    assert list(as_text(result).items()) == [
        ("bb0", "C1-0"), ("bb1", "C2-0"), ("zeta0", "C1-0"), ("zeta1", "C2-0"), ("a0", "C1-0"), ("a1", "C1-0")
    ]  # fmt: skip


@pytest.mark.parametrize("assign", ROUND_ROBINS)
def test_round_robin_names_the_consumers_in_the_log(assign: Assignor, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assign(context_of({"g_a": {"t": 1}, "g_b": {"t": 1}}, {"t": 2}))

    row = "Vector" if assign is assign_round_robin_1_0 else "ArrayBuffer"
    assert caplog.messages == [
        "Starting round-robin assignment with consumers ArrayBuffer(g_a, g_b)",
        f"Consumer g_a rebalancing the following partitions for topic t: {row}(0, 1)",
    ]


MEMBERS = st.dictionaries(
    st.integers(0, 40).map("g_c{}".format),
    st.dictionaries(st.sampled_from(["a", "bb", "zeta", "Aa", "BB"]), st.integers(1, 12), max_size=5),
    min_size=1,
    max_size=10,
)
PARTITIONS = st.fixed_dictionaries({topic: st.integers(0, 30) for topic in ("a", "bb", "zeta", "Aa", "BB")})


@settings(max_examples=60)
@given(MEMBERS, PARTITIONS)
def test_all_members_together_own_each_partition_of_range_once(
    members: dict[str, dict[str, int]], partitions: dict[str, int]
) -> None:
    """G11: unique and complete, as PartitionAssignorTest checks."""
    subscribed = {topic for streams in members.values() for topic in streams}
    owned: Counter[TopicAndPartition] = Counter()

    for member in members:
        owned.update(mine(assign_range(context_of(members, partitions, member, whole_group=False)), member).keys())

    assert owned == {TopicAndPartition(topic, n): 1 for topic in subscribed for n in range(partitions[topic])}


@pytest.mark.parametrize("assign", ROUND_ROBINS)
@settings(max_examples=40)
@given(st.dictionaries(st.integers(0, 40).map("g_c{}".format), st.integers(1, 8), min_size=1, max_size=10), PARTITIONS)
def test_round_robin_owns_each_partition_once_and_evenly(
    assign: Assignor, streams: dict[str, int], partitions: dict[str, int]
) -> None:
    """G11: equal subscriptions: unique, complete, and no two threads differ by more than one."""
    members = {member: dict.fromkeys(partitions, count) for member, count in streams.items()}
    owned: Counter[TopicAndPartition] = Counter()
    load = Counter({str(ConsumerThreadId(member, n)): 0 for member, count in streams.items() for n in range(count)})

    for member in members:
        part = mine(assign(context_of(members, partitions, member)), member)
        owned.update(part.keys())
        load.update(map(str, part.values()))

    assert owned == {TopicAndPartition(topic, n): 1 for topic in partitions for n in range(partitions[topic])}
    assert max(load.values()) - min(load.values()) <= 1


@pytest.mark.parametrize("assign", [assign_round_robin_0_10_2, assign_round_robin_1_0])
@settings(max_examples=60)
@given(MEMBERS, PARTITIONS)
def test_later_round_robin_gives_partitions_only_to_subscribers(
    assign: Assignor, members: dict[str, dict[str, int]], partitions: dict[str, int]
) -> None:
    """G11: complete, and each owner subscribes to the topic, whatever the members subscribe to."""
    subscribed = {topic for streams in members.values() for topic in streams}

    result = assign(context_of(members, partitions))

    assert set(result) == {TopicAndPartition(topic, n) for topic in subscribed for n in range(partitions[topic])}
    assert all(thread.thread < members[thread.consumer_id][topic] for (topic, _), thread in result.items())


@pytest.mark.parametrize(
    ("strategy", "round_robin", "expected"),
    [
        ("range", "0.8.2", assign_range),
        ("roundrobin", "0.8.2", assign_round_robin_0_8_2),
        ("roundrobin", "0.10.2", assign_round_robin_0_10_2),
        ("roundrobin", "1.0", assign_round_robin_1_0),
        ("anything", "0.8.2", assign_range),
    ],
)
def test_strategy_and_release_choose_the_algorithm(strategy: str, round_robin: str, expected: Assignor) -> None:
    """B8: what is not roundrobin is range."""
    assert assignor_for(strategy, Emulation().with_switches(round_robin=round_robin)) is expected


def test_assignment_is_shown_to_listeners_by_topic() -> None:
    thread = ConsumerThreadId("c", 0)

    assert by_topic({TopicAndPartition("a", 1): thread, TopicAndPartition("b", 0): thread}) == {
        "a": {1: thread},
        "b": {0: thread},
    }
