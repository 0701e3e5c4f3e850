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
from tests.new_consumer_tables import (
    ASSIGNORS,
    RANGE,
    ROUND_ROBIN,
    SEEDS_UNEVEN,
    STICKY,
    STICKY_WITHOUT_C1,
    TWOS,
    Row,
    alike,
    ordered,
    shown,
    table,
)

RECORDED = Path(__file__).parents[1] / "vectors" / "new-assignment" / "assignments.json"


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


@pytest.mark.parametrize("row", RANGE)
def test_range_tables(row: Row) -> None:
    """P1"""
    assert shown(assign_range(row.partitions, row.members)) == table(row.expected)


@pytest.mark.parametrize("row", ROUND_ROBIN)
def test_round_robin_tables(row: Row) -> None:
    """P2"""
    assert shown(assign_round_robin(row.partitions, row.members)) == table(row.expected)


@pytest.mark.parametrize("assign", [assign_sticky_1_1, assign_sticky_3_9], ids=["1.1.1", "3.9.1"])
@pytest.mark.parametrize("row", STICKY)
def test_sticky_tables(assign: Assignor, row: Row) -> None:
    """P3: the first time, nobody having had anything."""
    assert shown(assign(row.partitions, row.members)) == table(row.expected)


@pytest.mark.parametrize(("release", "expected"), STICKY_WITHOUT_C1.items(), ids=STICKY_WITHOUT_C1)
def test_sticky_after_a_loss(release: str, expected: str) -> None:
    """P4: C1 has gone; nobody loses what it had."""
    assign = ASSIGNORS[release, "sticky"]
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
