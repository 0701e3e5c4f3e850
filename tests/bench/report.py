"""What a bench found: samples by bench, case and subject; as tables of ratios, and as JSON.

A bench adds one `Measured` for each subject of a case. All subjects of a case are measured in turn, round by round,
so that sample n of one and sample n of another were taken under the same weather; ratios are formed round by round.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table


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


class Report:
    def __init__(self, *, quick: bool = False, console: Console | None = None) -> None:
        self.quick = quick
        self.console = console or Console(highlight=False)
        self.measured: list[Measured] = []
        self.wanted: list[Wanted] = []

    def progress(self, text: str) -> None:
        self.console.print(text, style="dim")

    def add(self, *measured: Measured) -> None:
        self.measured.extend(measured)

    def want(self, *wanted: Wanted) -> None:
        self.wanted.extend(wanted)

    def show_case(self, bench: str, case: str, against: str) -> None:
        """A table of one case, with each subject's ratio to the subject `against`; over 1 is better than it."""
        rows = [one for one in self.measured if (one.bench, one.case) == (bench, case)]
        reference = self.find(bench, case, against)
        beside = list(dict.fromkeys(name for one in rows for name in one.beside))
        rounds = len(reference.samples)
        table = Table(title=f"{bench}: {case} ({rounds} rounds, median, least–most)", title_justify="left")
        table.add_column("subject")
        for column in (reference.unit, "spread", f"× {against}", "spread", *beside):
            table.add_column(column, justify="right")
        for one in rows:
            ratios = ratios_of(one, reference)
            others = [_short(statistics.median(one.beside[name])) if name in one.beside else "" for name in beside]
            table.add_row(one.subject, *_median_and_spread(one.samples), *_median_and_spread(ratios), *others)
        self.console.print(table)

    def show_wanted(self) -> bool:
        """Each promise and what was found; whether all were kept."""
        if not self.wanted:
            return True
        table = Table(title="promised, and found", title_justify="left")
        for column in ("bench", "case", "what", "promised", "found", ""):
            table.add_column(column)
        kept = True
        for want in self.wanted:
            found = statistics.median(self.ratios_for(want))
            kept = kept and found >= want.at_least
            what = f"{want.subject} against {want.peer}" + (f", {want.quantity}" if want.quantity else "")
            verdict = "kept" if found >= want.at_least else "NOT KEPT"
            table.add_row(want.bench, want.case, what, f"≥ {_short(want.at_least)}×", f"{_short(found)}×", verdict)
        self.console.print(table)
        return kept

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
        path.write_text(json.dumps({"machine": machine, "measured": measured, "wanted": wanted}, indent=1) + "\n")


def ratios_of(subject: Measured, reference: Measured) -> list[float]:
    """Round by round, how many times as good as the reference."""
    pairs = list(zip(subject.samples, reference.samples, strict=True))
    return [ours / theirs if subject.more_is_better else theirs / ours for ours, theirs in pairs]


def _median_and_spread(values: Sequence[float]) -> tuple[str, str]:
    return _short(statistics.median(values)), f"{_short(min(values))}–{_short(max(values))}"


def _short(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
