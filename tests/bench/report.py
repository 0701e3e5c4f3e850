"""What a bench found: samples by bench, case and subject; as tables of ratios, and as JSON.

A bench adds one `Measured` for each subject of a case. All subjects of a case are measured in turn, round by round,
so that sample n of one and sample n of another were taken under the same weather; ratios are formed round by round.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from rich.console import Console
from rich.table import Table

UNKNOWN_WIDTH = 130


@dataclass(frozen=True)
class Measured:
    """The samples of one subject in one case; `beside` are further quantities of the same rounds ("CPU s", "MiB")."""

    bench: str
    case: str
    subject: str
    unit: str
    samples: Sequence[float]
    more_is_better: bool = True
    beside: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    """A promise over two subjects of a case: `subject` is at least `at_least` times as good as `peer`.

    Of `quantity` (a name in `beside`), or of the samples themselves where that is empty. Where less is
    better, the ratio is turned round, so that more is always better: a third of the CPU seconds is `at_least=3`.
    """

    bench: str
    case: str
    subject: str
    peer: str
    at_least: float
    quantity: str = ""


@dataclass(frozen=True)
class Growth:
    """What a thing costs by its size, as (size, samples). Promised: the slope of the logarithms is not above `at_most`.

    1 is linear; a little more is allowed for what a machine adds by itself. None promises nothing: for peers.
    """

    bench: str
    case: str
    subject: str
    size: str
    unit: str
    points: Sequence[tuple[float, Sequence[float]]]
    at_most: float | None = 1.1

    @property
    def slope(self) -> float:
        """By least squares, through the medians."""
        sizes = [math.log(size) for size, _ in self.points]
        costs = [math.log(statistics.median(samples)) for _, samples in self.points]
        return statistics.linear_regression(sizes, costs).slope


class Report:
    def __init__(
        self,
        *,
        quick: bool = False,
        only: Sequence[str] = (),
        subjects: Sequence[str] = (),
        rounds: int | None = None,
        console: Console | None = None,
    ) -> None:
        """`only` cases and `subjects` with these names, in which * stands for anything; all if there is none."""
        self.quick = quick
        self.only = tuple(only)
        self.subjects = tuple(subjects)
        self._rounds = rounds
        self.console = console or _console()
        self.measured: list[Measured] = []
        self.wanted: list[Wanted] = []
        self.growths: list[Growth] = []
        self.references: dict[tuple[str, str], str] = {}  # by bench and case, as shown

    def progress(self, text: str) -> None:
        self.console.print(text, style="dim")

    def takes(self, case: str) -> bool:
        """Whether this case is wanted."""
        return _is_named(case, self.only)

    def taken(self, subjects: Sequence[str]) -> list[str]:
        """Those of a case that are wanted; the first always is, since ratios are formed against it."""
        return [name for name in subjects if name == subjects[0] or _is_named(name, self.subjects)]

    def rounds(self, usual: int) -> int:
        """How often each subject is measured."""
        return self._rounds or (1 if self.quick else usual)

    def add(self, *measured: Measured) -> None:
        self.measured.extend(measured)

    def want(self, *wanted: Wanted) -> None:
        """Of cases and subjects that are left out, nothing is promised."""
        there = {(one.bench, one.case, one.subject) for one in self.measured}
        self.wanted.extend(
            want
            for want in wanted
            if self.takes(want.case)
            and (not self.subjects or {(want.bench, want.case, name) for name in (want.subject, want.peer)} <= there)
        )

    def show_case(self, bench: str, case: str, against: str) -> None:
        """A table of one case, with each subject's ratio to the subject `against`; over 1 is better than it."""
        rows = [one for one in self.measured if (one.bench, one.case) == (bench, case)]
        reference = self.find(bench, case, against)
        beside = list(dict.fromkeys(name for one in rows for name in one.beside))
        self.references[bench, case] = against
        rounds = len(reference.samples)
        title = f"{bench}: {case} (medians of {rounds}, least–most; × is against {against})"
        table = Table()
        table.add_column("subject", no_wrap=True)
        for column in (reference.unit, "", "×", "", *beside):
            table.add_column(column, justify="right", no_wrap=True)
        for one in rows:
            ratios = ratios_of(one, reference)
            others = [_short(statistics.median(one.beside[name])) if name in one.beside else "" for name in beside]
            table.add_row(one.subject, *_median_and_spread(one.samples), *_median_and_spread(ratios), *others)
        self.console.print(f"\n{title}")
        self.console.print(table)

    def grow(self, *growths: Growth) -> None:
        self.growths.extend(growths)

    def show_wanted(self) -> bool:
        """Each promise and what was found; whether all were kept."""
        if not self.wanted and not self.growths:
            return True
        table = Table(title="promised, and found", title_justify="left")
        for column in ("bench", "case", "what", "promised", "found", ""):
            table.add_column(column)
        verdicts = []
        for want in self.wanted:
            found = statistics.median(self.ratios_for(want))
            what = f"{want.subject} against {want.peer}" + (f", {want.quantity}" if want.quantity else "")
            verdicts.append(found >= want.at_least)
            promised = f"≥ {_short(want.at_least)}×"
            table.add_row(want.bench, want.case, what, promised, f"{_short(found)}×", _verdict(verdicts[-1]))
        for growth in self.growths:
            what = f"{growth.subject}: {growth.unit} by {growth.size}, slope"
            promised, verdict = "", ""
            if growth.at_most is not None:
                verdicts.append(growth.slope <= growth.at_most)
                promised, verdict = f"≤ {_short(growth.at_most)}", _verdict(verdicts[-1])
            table.add_row(growth.bench, growth.case, what, promised, f"{growth.slope:.2f}", verdict)
        self.console.print(table)
        return all(verdicts)

    def ratios_for(self, want: Wanted) -> list[float]:
        subject = self.find(want.bench, want.case, want.subject)
        peer = self.find(want.bench, want.case, want.peer)
        if not want.quantity:
            return ratios_of(subject, peer)
        pairs = zip(subject.beside[want.quantity], peer.beside[want.quantity], strict=True)
        return [theirs / ours for ours, theirs in pairs]

    def find(self, bench: str, case: str, subject: str) -> Measured:
        for one in self.measured:
            if (one.bench, one.case, one.subject) == (bench, case, subject):
                return one
        raise LookupError(f"nothing was measured for {bench}, {case}, {subject}")

    def write_json(self, path: Path) -> None:
        machine = {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
        wanted = [
            dataclasses.asdict(want) | {"found": statistics.median(self.ratios_for(want))} for want in self.wanted
        ]
        measured = [dataclasses.asdict(one) for one in self.measured]
        growths = [dataclasses.asdict(growth) | {"slope": growth.slope} for growth in self.growths]
        found = {"machine": machine, "measured": measured, "wanted": wanted, "growths": growths}
        path.write_text(json.dumps(found, indent=1) + "\n")


def _console() -> Console:
    """Where no terminal says how wide it is, wide enough for the tables."""
    console = Console(highlight=False)
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(highlight=False, width=UNKNOWN_WIDTH)


def _is_named(name: str, names: Sequence[str]) -> bool:
    return not names or any(fnmatchcase(name, one) for one in names)


def ratios_of(subject: Measured, reference: Measured) -> list[float]:
    """Round by round, how many times as good as the reference."""
    pairs = list(zip(subject.samples, reference.samples, strict=True))
    return [ours / theirs if subject.more_is_better else theirs / ours for ours, theirs in pairs]


def _verdict(kept: bool) -> str:
    return "kept" if kept else "NOT KEPT"


def _median_and_spread(values: Sequence[float]) -> tuple[str, str]:
    spread = f"{_short(min(values))}–{_short(max(values))}" if len(values) > 1 else ""
    return _short(statistics.median(values)), spread


def _short(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
