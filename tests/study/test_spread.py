"""Several runs of subjects: when verdicts count as the same, and pauses as within each other's spread."""

from __future__ import annotations

from typing import Any

import pytest

from study.figures import CHECKS
from study.spread import chance, differing_verdicts, pauses_apart, spread_of, undecided_verdicts, unsteady_verdicts

Run = dict[str, Any]


def runs(*pauses: int, duplicated: int = 0) -> list[Run]:
    """One run for each of these pauses; the first so many found something delivered again."""
    return [
        {"verdicts": {check: not (check == "duplicated" and number < duplicated) for check in CHECKS}}
        | dict.fromkeys(("median_pause_ms", "longest_pause_ms"), pause)
        for number, pause in enumerate(pauses)
    ]


def test_a_spread_is_least_middle_and_most() -> None:
    assert spread_of(runs(300, 100, 150), "longest_pause_ms") == (100, 150, 300)


def test_a_verdict_that_changes_from_run_to_run_is_named() -> None:
    assert unsteady_verdicts({"a": runs(1, 2, 3, duplicated=1), "b": runs(1, 2, duplicated=2), "c": runs(1)}) == [
        "a: duplicated in 1 of 3 runs"
    ]


def test_a_verdict_that_one_subject_never_gets_is_named() -> None:
    found = {"a": runs(1, 2, duplicated=1), "b": runs(1, 2, duplicated=2), "c": runs(1, 2)}

    assert differing_verdicts(found) == ["duplicated: b in 2 of 2 runs, c in 0 of 2"]
    assert undecided_verdicts(found) == ["duplicated: a in 1 of 2 runs, c in 0 of 2"]


@pytest.mark.parametrize(("found", "differs"), [(1, False), (4, False), (5, True), (10, True)])
def test_what_is_found_seldom_may_be_chance(found: int, differs: bool) -> None:
    """Of ten runs each, 5 against none comes up by chance in 3.3 % of all cases, 4 against none in 8.7 %."""
    ten = {"a": runs(*range(10), duplicated=found), "b": runs(*range(10))}

    assert bool(differing_verdicts(ten)) == differs
    assert bool(undecided_verdicts(ten)) != differs


@pytest.mark.parametrize(
    ("counts", "expected"),
    [((3, 4, 1, 4), 0.4857), ((0, 10, 1, 10), 1.0), ((5, 10, 0, 10), 2 * 252 / 15_504)],
)
def test_chance_is_that_of_fisher_s_exact_test(counts: tuple[int, int, int, int], expected: float) -> None:
    """The first is Fisher's lady tasting tea. The last by hand: all five on one side or all on the other, of 15,504."""
    assert chance(*counts) == pytest.approx(expected, abs=5e-4)


def test_pauses_are_apart_if_either_middle_lies_outside_the_others_spread() -> None:
    wide, inside, outside = runs(100, 200, 900), runs(150, 190, 210), runs(950, 960, 970)

    assert pauses_apart({"wide": wide, "inside": inside}) == []
    assert pauses_apart({"wide": wide, "outside": outside}) == [
        "median pause: wide 200 ms (100 to 900), outside 960 ms (950 to 970)",
        "longest pause: wide 200 ms (100 to 900), outside 960 ms (950 to 970)",
    ]
    assert pauses_apart({"high": runs(800, 900, 950), "wide": wide})  # 200 is not within 800 to 950
