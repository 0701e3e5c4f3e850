"""The new consumer's assignors against tables of the seeds, and against what the real classes answered."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fetcher.structs import TopicAndPartition
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

RECORDED = Path(__file__).parents[1] / "vectors" / "new-assignment" / "assignments.json"

ASSIGNORS: Mapping[tuple[str, str], Assignor] = {
    ("1.1.1", "range"): assign_range,
    ("3.9.1", "range"): assign_range,
    ("1.1.1", "roundrobin"): assign_round_robin,
    ("3.9.1", "roundrobin"): assign_round_robin,
    ("1.1.1", "sticky"): assign_sticky_1_1,
    ("3.9.1", "sticky"): assign_sticky_3_9,
    ("3.9.1", "cooperative-sticky"): assign_cooperative_sticky,
}


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return groups


@pytest.mark.parametrize(("release", "strategy"), ASSIGNORS, ids=" ".join)
def test_answers_are_those_of_the_real_assignors(recorded: list[dict[str, Any]], release: str, strategy: str) -> None:
    """P1, P2, P3, P4: 100 rebalances each, most of them after a change, with what members had before."""
    asked = [case for case in recorded if (case["release"], case["strategy"]) == (release, strategy)]
    assert len(asked) == 100

    for case in asked:
        members = {name: member_of(member) for name, member in case["members"].items()}
        answer = ASSIGNORS[release, strategy](case["topics"], members)

        assert ordered(answer) == ordered({name: partitions(mine) for name, mine in case["answer"].items()}), case


@pytest.mark.parametrize(("release", "strategy"), [key for key in ASSIGNORS if "sticky" in key[1]], ids=" ".join)
def test_sticky_answers_have_the_same_order_too(recorded: list[dict[str, Any]], release: str, strategy: str) -> None:
    """The next rebalance begins with it."""
    for case in recorded:
        if (case["release"], case["strategy"]) == (release, strategy):
            members = {name: member_of(member) for name, member in case["members"].items()}
            answer = ASSIGNORS[release, strategy](case["topics"], members)

            assert answer == {name: partitions(mine) for name, mine in case["answer"].items()}, case


def table(text: str) -> dict[str, list[str]]:
    """`c0: t1p0 t1p1 · c1: …` as the spec writes it."""
    rows = (row.partition(":") for row in text.split("·"))
    return {name.strip(): sorted(cells.split()) for name, _, cells in rows}


def shown(assignment: Assignment) -> dict[str, list[str]]:
    return {name: sorted(f"{topic}p{number}" for topic, number in mine) for name, mine in assignment.items()}


def alike(names: str, *topics: str) -> dict[str, Member]:
    return {name: Member(frozenset(topics)) for name in names.split()}


SEEDS_UNEVEN = {
    name: Member(frozenset(["t1", "t2"] if name in "c0 c1 c2" else ["t2"])) for name in ["c0", "c1", "c2", "c3", "c4"]
}
STAIRS = {
    "C0": Member(frozenset(["t0"])),
    "C1": Member(frozenset(["t0", "t1"])),
    "C2": Member(frozenset(["t0", "t1", "t2"])),
}
WITHOUT_C0 = {name: STAIRS[name] for name in ("C1", "C2")}
TWOS = {"t0": 2, "t1": 2, "t2": 2, "t3": 2}
THREES = {"t0": 3, "t1": 3}


@pytest.mark.parametrize(
    ("partitions", "members", "expected"),
    [
        ({"t": 7}, alike("c0 c1 c2 c3 c4", "t"), "c0: tp0 tp1 · c1: tp2 tp3 · c2: tp4 · c3: tp5 · c4: tp6"),
        ({"t": 7}, alike("c0 c1 c2", "t"), "c0: tp0 tp1 tp2 · c1: tp3 tp4 · c2: tp5 tp6"),
        ({"t": 2}, alike("C0 C1 C2", "t"), "C0: tp0 · C1: tp1 · C2:"),
        ({"t": 3}, alike("C10 C2 C1", "t"), "C1: tp0 · C10: tp1 · C2: tp2"),
        (THREES, alike("C0 C1", "t0", "t1"), "C0: t0p0 t0p1 t1p0 t1p1 · C1: t0p2 t1p2"),
        (
            {"t1": 5, "t2": 7},
            SEEDS_UNEVEN,
            "c0: t1p0 t1p1 t2p0 t2p1 · c1: t1p2 t1p3 t2p2 t2p3 · c2: t1p4 t2p4 · c3: t2p5 · c4: t2p6",
        ),
    ],
)
def test_range_tables(partitions: dict[str, int], members: dict[str, Member], expected: str) -> None:
    """P1"""
    assert shown(assign_range(partitions, members)) == table(expected)


@pytest.mark.parametrize(
    ("partitions", "members", "expected"),
    [
        ({"t": 7}, alike("c0 c1 c2", "t"), "c0: tp0 tp3 tp6 · c1: tp1 tp4 · c2: tp2 tp5"),
        ({"t": 2}, alike("C0 C1 C2", "t"), "C0: tp0 · C1: tp1 · C2:"),
        (THREES, alike("C0 C1", "t0", "t1"), "C0: t0p0 t0p2 t1p1 · C1: t0p1 t1p0 t1p2"),
        ({"t0": 1, "t1": 2, "t2": 3}, STAIRS, "C0: t0p0 · C1: t1p0 · C2: t1p1 t2p0 t2p1 t2p2"),
        ({"t0": 1, "t1": 2, "t2": 3}, WITHOUT_C0, "C1: t0p0 t1p1 · C2: t1p0 t2p0 t2p1 t2p2"),
        (TWOS, alike("C0 C1 C2", *TWOS), "C0: t0p0 t1p1 t3p0 · C1: t0p1 t2p0 t3p1 · C2: t1p0 t2p1"),
        (TWOS, alike("C0 C2", *TWOS), "C0: t0p0 t1p0 t2p0 t3p0 · C2: t0p1 t1p1 t2p1 t3p1"),
        # The seeds say that t2 begins again at c0. It does not.
        (
            {"t1": 5, "t2": 7},
            SEEDS_UNEVEN,
            "c0: t1p0 t1p3 t2p3 · c1: t1p1 t1p4 t2p4 · c2: t1p2 t2p0 t2p5 · c3: t2p1 t2p6 · c4: t2p2",
        ),
    ],
)
def test_round_robin_tables(partitions: dict[str, int], members: dict[str, Member], expected: str) -> None:
    """P2"""
    assert shown(assign_round_robin(partitions, members)) == table(expected)


@pytest.mark.parametrize("assign", [assign_sticky_1_1, assign_sticky_3_9], ids=["1.1.1", "3.9.1"])
@pytest.mark.parametrize(
    ("partitions", "members", "expected"),
    [
        (THREES, alike("C0 C1", "t0", "t1"), "C0: t0p0 t0p2 t1p1 · C1: t0p1 t1p0 t1p2"),
        (
            {"t1": 5, "t2": 7},
            SEEDS_UNEVEN,
            "c0: t1p0 t1p3 t2p5 · c1: t1p1 t1p4 t2p6 · c2: t1p2 t2p2 · c3: t2p0 t2p3 · c4: t2p1 t2p4",
        ),
        ({"t0": 1, "t1": 2, "t2": 3}, STAIRS, "C0: t0p0 · C1: t1p0 t1p1 · C2: t2p0 t2p1 t2p2"),
        (TWOS, alike("C0 C1 C2", *TWOS), "C0: t0p0 t1p1 t3p0 · C1: t0p1 t2p0 t3p1 · C2: t1p0 t2p1"),
    ],
)
def test_sticky_tables(assign: Assignor, partitions: dict[str, int], members: dict[str, Member], expected: str) -> None:
    """P3: the first time, nobody having had anything."""
    assert shown(assign(partitions, members)) == table(expected)


@pytest.mark.parametrize(
    ("assign", "expected"),
    [
        (assign_sticky_1_1, "C0: t0p0 t1p1 t3p0 t2p0 · C2: t1p0 t2p1 t0p1 t3p1"),
        (assign_sticky_3_9, "C0: t0p0 t3p0 t1p1 t0p1 · C2: t1p0 t2p1 t2p0 t3p1"),
    ],
    ids=["1.1.1", "3.9.1"],
)
def test_sticky_after_a_loss(assign: Assignor, expected: str) -> None:
    """P4: C1 has gone; nobody loses what it had."""
    first = assign(TWOS, alike("C0 C1 C2", *TWOS))
    left = {name: Member(frozenset(TWOS), first[name], generation=1) for name in ("C0", "C2")}

    assert shown(assign(TWOS, left)) == table(expected)


def test_a_partition_that_changes_hands_cooperatively_belongs_to_nobody_in_between() -> None:
    """The first rebalance takes, the second gives."""
    alone = assign_cooperative_sticky({"t": 4}, alike("a", "t"))
    both = {"a": Member(frozenset(["t"]), alone["a"], 1), "b": Member(frozenset(["t"]), (), 1)}

    first = assign_cooperative_sticky({"t": 4}, both)
    assert shown(first) == table("a: tp0 tp1 · b:")

    second = assign_cooperative_sticky({"t": 4}, {name: Member(frozenset(["t"]), first[name], 2) for name in first})
    assert shown(second) == table("a: tp0 tp1 · b: tp2 tp3")


def test_the_seeds_random_strategy_gives_each_partition_to_one_subscriber() -> None:
    assignment = random_assignor(random.Random(1))({"t1": 5, "t2": 7}, SEEDS_UNEVEN)

    given = [partition for mine in assignment.values() for partition in mine]
    assert len(given) == len(set(given)) == 12
    assert {topic for name in ("c3", "c4") for topic, _ in assignment[name]} <= {"t2"}


def test_the_seeds_broadcast_strategy_gives_everything_to_everybody() -> None:
    assert shown(assign_broadcast({"t": 2, "u": 1}, {"a": Member(frozenset("tu")), "b": Member(frozenset("t"))})) == {
        "a": ["tp0", "tp1", "up0"],
        "b": ["tp0", "tp1"],
    }


def member_of(fields: Mapping[str, Any]) -> Member:
    owned = None if fields["owned"] is None else tuple(partitions(fields["owned"]))
    return Member(frozenset(fields["topics"]), owned, fields["generation"])


def partitions(pairs: list[list[Any]]) -> list[TopicAndPartition]:
    return [TopicAndPartition(topic, number) for topic, number in pairs]


def ordered(assignment: Assignment) -> Assignment:
    return {name: sorted(mine) for name, mine in assignment.items()}
