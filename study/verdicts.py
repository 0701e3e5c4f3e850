"""Many runs in one table: what each check found, scenario by consumer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from study.figures import CHECKS

WORDS = {
    "lost": "lost",
    "duplicated": "again",
    "reordered": "out of order",
    "delivered_by_non_owner": "non-owner",
    "commits_going_back": "back",
}
NOTHING = "–"


class Verdicts(NamedTuple):
    """Of one run: by subject, the checks that found something and how often."""

    scenario: str
    found: Mapping[str, Mapping[str, int]]


def verdicts_of(scenario: str, figures: Mapping[str, Mapping[str, Any]]) -> Verdicts:
    """`figures` by subject, as in figures.json."""
    return Verdicts(
        scenario,
        {name: {check: one[check] for check in CHECKS if one.get(check)} for name, one in figures.items()},
    )


def subjects_of(runs: Iterable[Verdicts]) -> list[str]:
    """All that occur, in the order of the first run that has them."""
    return list(dict.fromkeys(name for run in runs for name in run.found))


def in_words(found: Mapping[str, int] | None) -> str:
    """One cell; empty if the subject was not there."""
    if found is None:
        return ""
    return ", ".join(f"{number:,} {WORDS[check]}" for check, number in found.items()) or NOTHING


def as_markdown(runs: Sequence[Verdicts]) -> str:
    subjects = subjects_of(runs)
    lines = [["scenario", *subjects], ["---"] * (len(subjects) + 1)]
    lines += [[f"`{run.scenario}`", *(in_words(run.found.get(name)) for name in subjects)] for run in runs]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
