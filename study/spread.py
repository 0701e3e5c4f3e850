"""The same scenario played several times: which verdicts are always the same, how far figures lie apart. Pure.

Two subjects have pauses within each other's spread if the middle one of each's runs lies between the least and the
most of the other's; that is asked for the median pause of a run and for its longest one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Any, NamedTuple

from study.figures import CHECKS

SPREAD_FIGURES = ("median_pause_ms", "longest_pause_ms", "rebalances", "rebalance_ms", "partitions_moved", "duplicated")
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
    """One line for each check that says something else of one subject than of another."""
    lines = []
    for (one, first), (other, second) in combinations(runs_of.items(), 2):
        for check in CHECKS:
            if (found_in(first, check) > 0) != (found_in(second, check) > 0):
                lines.append(
                    f"{check.replace('_', ' ')}: {one} in {found_in(first, check)} of {len(first)} runs,"
                    f" {other} in {found_in(second, check)} of {len(second)}"
                )
    return lines


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
        "pauses_apart": pauses_apart(runs_of),
    }  # fmt: skip
