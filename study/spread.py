"""The same scenario played several times: which verdicts are always the same, how far figures lie apart. Pure.

Two subjects have pauses within each other's spread if the middle one of each's runs lies between the least and the
most of the other's; that is asked for the median pause of a run and for its longest one.

A check that finds something of one subject only, and not in each of its runs, may have met a race that both have: if
counts so far apart come up by chance more often than CHANCE, so many runs do not decide it, and that is what is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import comb
from statistics import median
from typing import Any, NamedTuple

from study.figures import CHECKS

SPREAD_FIGURES = ("median_pause_ms", "longest_pause_ms", "rebalances", "rebalance_ms", "partitions_moved", "duplicated")
CHANCE = 0.05
PAUSES = ("median_pause_ms", "longest_pause_ms")
Run = Mapping[str, Any]
"""The figures of one subject in one run, as in figures.json."""


class Spread(NamedTuple):
    """Of one figure over all runs."""

    least: float
    middle: float
    most: float

    def holds(self, value: float) -> bool:
        """Whether a value lies in it."""
        return self.least <= value <= self.most


def spread_of(runs: Sequence[Run], figure: str) -> Spread:
    """`runs` are those of one subject."""
    values = [run[figure] for run in runs]
    return Spread(min(values), median(values), max(values))


def found_in(runs: Sequence[Run], check: str) -> int:
    """In how many runs a check found something."""
    return sum(not run["verdicts"][check] for run in runs)


def unsteady_verdicts(runs_of: Mapping[str, Sequence[Run]]) -> list[str]:
    """One line for each check that does not say the same of a subject in every run."""
    return [
        f"{subject}: {check.replace('_', ' ')} in {found_in(runs, check)} of {len(runs)} runs"
        for subject, runs in runs_of.items()
        for check in CHECKS
        if found_in(runs, check) not in (0, len(runs))
    ]


def differing_verdicts(runs_of: Mapping[str, Sequence[Run]]) -> list[str]:
    """One line for each check that finds something of one subject always and of another never, or so nearly."""
    return [line for line, is_chance in _one_sided(runs_of) if not is_chance]


def undecided_verdicts(runs_of: Mapping[str, Sequence[Run]]) -> list[str]:
    """One line for each check that found something of one subject only, but so seldom that it may be chance."""
    return [line for line, is_chance in _one_sided(runs_of) if is_chance]


def _one_sided(runs_of: Mapping[str, Sequence[Run]]) -> Iterator[tuple[str, bool]]:
    for (one, first), (other, second) in combinations(runs_of.items(), 2):
        for check in CHECKS:
            mine, theirs = found_in(first, check), found_in(second, check)
            if (mine > 0) != (theirs > 0):
                always = (mine or theirs) == len(first if mine else second)
                line = (
                    f"{check.replace('_', ' ')}: {one} in {mine} of {len(first)} runs,"
                    f" {other} in {theirs} of {len(second)}"
                )
                yield line, not always and chance(mine, len(first), theirs, len(second)) >= CHANCE


def chance(found: int, runs: int, others_found: int, others_runs: int) -> float:
    """How often counts lie at least so far apart if both subjects do the same (Fisher's exact test, both sides)."""
    all_found, all_runs = found + others_found, runs + others_runs

    def weight(mine: int) -> int:
        return comb(runs, mine) * comb(others_runs, all_found - mine)

    possible = [weight(mine) for mine in range(max(0, all_found - others_runs), min(runs, all_found) + 1)]
    return sum(each for each in possible if each <= weight(found)) / comb(all_runs, all_found)


def pauses_apart(runs_of: Mapping[str, Sequence[Run]]) -> list[str]:
    """One line for each two subjects whose pauses do not lie within each other's spread."""
    lines = []
    for (one, first), (other, second) in combinations(runs_of.items(), 2):
        for figure in PAUSES:
            mine, theirs = spread_of(first, figure), spread_of(second, figure)
            if not (mine.holds(theirs.middle) and theirs.holds(mine.middle)):
                lines.append(
                    f"{figure.removesuffix('_ms').replace('_', ' ')}:"
                    f" {one} {mine.middle:.0f} ms ({mine.least:.0f} to {mine.most:.0f}),"
                    f" {other} {theirs.middle:.0f} ms ({theirs.least:.0f} to {theirs.most:.0f})"
                )
    return lines


def as_json(runs_of: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """All of it."""
    return {
        "runs": {subject: len(runs) for subject, runs in runs_of.items()},
        "found": {
            subject: {check: found_in(runs, check) for check in CHECKS} for subject, runs in runs_of.items()
        },
        "spread": {
            subject: {figure: spread_of(runs, figure)._asdict() for figure in SPREAD_FIGURES}
            for subject, runs in runs_of.items()
        },
        "unsteady_verdicts": unsteady_verdicts(runs_of),
        "differing_verdicts": differing_verdicts(runs_of),
        "undecided_verdicts": undecided_verdicts(runs_of),
        "pauses_apart": pauses_apart(runs_of),
    }  # fmt: skip
