"""Many runs in one table: how long a record waited at most, and what each check found, scenario by consumer. Pure."""

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
    """Of one run: by subject, the checks that found something and how often, and the longest wait and pause."""

    scenario: str
    found: Mapping[str, Mapping[str, int]]
    longest_wait_ms: Mapping[str, int]
    longest_pause_ms: Mapping[str, int]
    longest_stall_ms: Mapping[str, int]


def verdicts_of(scenario: str, figures: Mapping[str, Mapping[str, Any]]) -> Verdicts:
    """`figures` by subject, as in figures.json."""
    return Verdicts(
        scenario,
        {name: {check: one[check] for check in CHECKS if one.get(check)} for name, one in figures.items()},
        {name: one.get("longest_wait_ms", 0) for name, one in figures.items()},
        {name: one.get("longest_pause_ms", 0) for name, one in figures.items()},
        {name: one.get("longest_stall_ms", 0) for name, one in figures.items()},
    )


def subjects_of(runs: Iterable[Verdicts]) -> list[str]:
    """All that occur, in the order of the first run that has them."""
    return list(dict.fromkeys(name for run in runs for name in run.found))


def in_words(run: Verdicts, subject: str) -> str:
    """One cell; empty if the subject was not there."""
    if subject not in run.found:
        return ""
    wait_ms = run.longest_wait_ms[subject]
    said = [f"{wait_ms / 1000:.1f} s"] if wait_ms else []
    said += [f"{number:,} {WORDS[check]}" for check, number in run.found[subject].items()]
    if run.longest_stall_ms[subject]:
        said.append("machine stalled")
    return ", ".join(said) or NOTHING


def as_markdown(runs: Sequence[Verdicts]) -> str:
    subjects = subjects_of(runs)
    lines = [["scenario", *subjects], ["---"] * (len(subjects) + 1)]
    lines += [[f"`{run.scenario}`", *(in_words(run, name) for name in subjects)] for run in runs]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
