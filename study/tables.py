"""What a terminal shows of runs: figures down, consumers across, so that it fits eighty columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from study.figures import CHECKS, Figures
from study.spread import (
    SPREAD_FIGURES,
    Run,
    differing_verdicts,
    found_in,
    pauses_apart,
    spread_of,
    undecided_verdicts,
    unsteady_verdicts,
)
from study.verdicts import WORDS, Verdicts, in_words, subjects_of
from study.words import duration, happened, means

LABELS = {
    "produced": "records produced",
    "lost": "lost",
    "duplicated": "delivered again",
    "reordered": "out of order",
    "delivered_by_non_owner": "by a non-owner",
    "commits_going_back": "commits going back",
    "rebalances": "rebalances",
    "rebalance_ms": "time in rebalances",
    "partitions_stopped": "partitions stopped",
    "partitions_moved": "partitions moved",
    "median_pause_ms": "median pause",
    "longest_pause_ms": "longest pause",
    "longest_wait_ms": "longest wait",
    "most_lag": "most lag, records",
    "zookeeper_packets": "ZooKeeper packets",
    "most_watches": "ZooKeeper watches",
}
_FOUND = "again: records delivered again; non-owner: delivered by one; back: commits going back"
WIDE = 4
"""From more consumers on, columns are headed by short names."""


def show(console: Console, rows: Sequence[Figures], folder: Path) -> None:
    """The table, the words, the path."""
    table = _table("", (one.title if len(rows) <= WIDE else one.subject for one in rows))
    for field, label in LABELS.items():
        table.add_row(label, *(_cell(field, getattr(one, field)) for one in rows))
    console.print(table)
    for one in rows:
        console.print(happened(one), markup=False)
        console.print()
    console.print("what it means for a migration", style="bold")
    for line in means(rows):
        console.print(f"* {line}", markup=False)
    console.print(f"\nreport: {(folder / 'report.html').resolve()}", markup=False, soft_wrap=True)


def show_comparison(
    console: Console, first: Mapping[str, Any], second: Mapping[str, Any], differing: Mapping[str, Sequence[str]]
) -> None:
    """Two runs, the figures of each subject beside each other."""
    table = _table("first run / second run", differing)
    for field, label in LABELS.items():
        cells = []
        for name in differing:
            pair = [run[name].get(field, 0) for run in (first, second)]
            bad = field in CHECKS and any(pair)
            cells.append(Text(" / ".join(_value(field, value) for value in pair), "red" if bad else ""))
        table.add_row(label, *cells)
    console.print(table)
    for name, checks in differing.items():
        words = ", ".join(check.replace("_", " ") for check in checks)
        console.print(f"{name}: " + (f"verdicts differ: {words}" if checks else "same verdicts"), markup=False)


def show_spread(console: Console, runs_of: Mapping[str, Sequence[Run]]) -> None:
    """Checks as in how many runs they found something, figures as middle (least – most)."""
    table = _table("", (f"{name}, {len(runs)} runs" for name, runs in runs_of.items()))
    for check in CHECKS:
        found = [(found_in(runs, check), len(runs)) for runs in runs_of.values()]
        table.add_row(LABELS[check], *(Text(f"in {bad} of {of}" if bad else "never") for bad, of in found))
    table.add_section()
    for figure in SPREAD_FIGURES:
        cells = []
        for runs in runs_of.values():
            least, middle, most = (_value(figure, round(value)) for value in spread_of(runs, figure))
            cells.append(f"{middle} ({least} – {most})")
        table.add_row(LABELS[figure], *cells)
    console.print(table)
    for title, lines in (
        ("verdicts are the same in every run", unsteady_verdicts(runs_of)),
        ("verdicts are the same for all subjects", differing_verdicts(runs_of)),
        ("pauses lie within each other's spread", pauses_apart(runs_of)),
    ):
        if len(runs_of) > 1 or "every run" in title:
            console.print(Text(f"{title}: ") + Text("no" if lines else "yes", "red" if lines else "green"))
            for line in lines:
                console.print(f"  {line}", markup=False)
    undecided = undecided_verdicts(runs_of)
    if undecided:
        console.print("found of one subject only, so seldom that it may be chance (more --runs decide it):")
        for line in undecided:
            console.print(f"  {line}", markup=False)


def show_verdicts(console: Console, runs: Sequence[Verdicts]) -> None:
    """A line a run and a column a consumer; of many consumers, a line for each of them."""
    subjects = subjects_of(runs)
    if len(subjects) > WIDE:
        _show_long_verdicts(console, runs)
        return
    table = Table(pad_edge=False)
    for heading in ("", *subjects):
        table.add_column(Text(heading), overflow="fold")
    for run in runs:
        cells = (Text(in_words(run, name), "red" if "lost" in run.found.get(name, {}) else "") for name in subjects)
        table.add_row(run.scenario, *cells)
    console.print(table)
    console.print(f"seconds: how long a record waited at most; {_FOUND}", style="dim")


def _show_long_verdicts(console: Console, runs: Sequence[Verdicts]) -> None:
    checks = [check for check in CHECKS if any(check in found for run in runs for found in run.found.values())]
    table = Table(pad_edge=False, collapse_padding=True, box=SIMPLE_HEAD)  # so it fits eighty columns
    for heading in ("", ""):
        table.add_column(heading, no_wrap=True)
    for heading in ("wait", "pause", *(WORDS[check] for check in checks)):
        table.add_column(heading, justify="right", min_width=5)
    for run in runs:
        for number, (subject, found) in enumerate(run.found.items()):
            times = (run.longest_wait_ms[subject], run.longest_pause_ms[subject])
            cells = [f"{value / 1000:.1f} s" if value else "" for value in times]
            counts = (_cell(check, found[check]) if check in found else Text("") for check in checks)
            table.add_row("" if number else run.scenario, subject, *cells, *counts)
        table.add_section()
    console.print(table)
    console.print(
        f"wait: the longest of a record; pause: the longest of a partition that changed hands; {_FOUND}", style="dim"
    )


def _table(title: str, headings: Any) -> Table:
    table = Table(title=title or None, title_justify="left", pad_edge=False)
    table.add_column("", no_wrap=True)
    for heading in headings:
        table.add_column(Text(heading), justify="right")
    return table


def _cell(field: str, value: int) -> Text:
    return Text(_value(field, value), "bold red" if field in CHECKS and value else "")


def _value(field: str, value: int) -> str:
    return duration(value) if field.endswith("_ms") else f"{value:,}"
