"""The guesser of the conformance tests: sees what is there to see, and nothing where nothing is."""

from __future__ import annotations

import random

import pytest

from tests.conformance.guesser import Guesser, Member, SingleClue, Verdict, Weigher, judge, telltales

WAYS = pytest.mark.parametrize("make", [Weigher, SingleClue])


def members(groups: int, telling: float, *, seed: int = 1) -> list[Member]:
    """Four a group, two of them ours. One clue in thirty tells, with this likelihood; the others are by chance."""
    dice = random.Random(seed)
    found = []
    for number in range(groups):
        for is_ours in (True, False, True, False):
            clues = {f"clue {one}" for one in range(29) if dice.random() < 0.5}
            clues |= {"telling"} if is_ours is (dice.random() < telling) else set()
            measures = {"quick": dice.gauss(3 if is_ours and telling == 1 else 0, 1)}
            found.append(Member(f"group {number}", is_ours, frozenset(clues), measures))
    return found


@WAYS
def test_a_clue_that_always_tells_is_found(make: type[Guesser]) -> None:
    verdict = judge(members(8, telling=1.0), make)

    assert verdict.chance < 0.001
    assert "telling" in verdict.best_clues or make is Weigher


@WAYS
def test_where_nothing_tells_it_is_right_as_often_as_a_coin(make: type[Guesser]) -> None:
    """Of many such trials about half."""
    verdicts = [judge(members(8, telling=0.5, seed=seed), make) for seed in range(12)]

    share = sum(verdict.right for verdict in verdicts) / sum(verdict.of for verdict in verdicts)
    assert 0.4 < share < 0.6


def test_many_weak_clues_are_added_up() -> None:
    dice = random.Random(2)
    weak = [
        Member(
            f"group {number}",
            is_ours,
            frozenset(f"clue {one}" for one in range(40) if dice.random() < (0.65 if is_ours else 0.35)),
            {},
        )
        for number in range(8)
        for is_ours in (True, False, True, False)
    ]

    assert judge(weak, Weigher).chance < 0.001


@WAYS
def test_measures_are_judged_by_the_threshold_that_parts_them(make: type[Guesser]) -> None:
    assert judge(members(8, telling=1.0), make, by_the_clock=True).chance < 0.001
    assert judge(members(8, telling=0.5), make, by_the_clock=True).chance > 0.001


def test_it_says_what_gives_a_member_away() -> None:
    assert telltales(members(8, telling=1.0), least=0.95) == [(1.0, "telling")]


@pytest.mark.parametrize(
    ("right", "of", "chance"), [(0, 4, 1.0), (2, 4, 11 / 16), (4, 4, 1 / 16), (31, 32, 33 / 2**32)]
)
def test_chance_is_that_of_a_coin_to_be_right_as_often(right: int, of: int, chance: float) -> None:
    assert Verdict(right, of).chance == pytest.approx(chance)
