"""What a bench is told, and where it puts what it finds.

A bench is a module of this package with `cases(quick=…)`, the names of its cases and the seconds each is expected to
take; `promises()`; and `run(report)`, which measures those that the report takes:

    with report.case("100 B", rounds=5, against="Scala 0.8.2.2") as case:
        for _ in case.rounds():
            for subject in subjects:
                case.sample(subject.name, "M/s", subject.measure, task)

Each sample is in the file before the next one begins. A subject that fails is left out from then on, a case that fails
is left, and the next one goes on.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape

from tests.bench.promises import short
from tests.bench.results import CaseFound, Measured, Results
from tests.bench.schedule import Schedule
from tests.bench.tables import case_table

UNKNOWN_WIDTH = 130
FAILURES_THAT_END_A_CASE = 2  # one after the other: it is not the subject then, but the servers


class Sample(NamedTuple):
    """What one round found of one subject, and what beside it."""

    value: float
    beside: Mapping[str, float]


class CaseFailed(Exception):
    """Nothing more can be measured in this case."""


class Report:
    def __init__(
        self,
        bench: str,
        results: Results,
        *,
        path: Path | None = None,
        only: Collection[str] | None = None,
        subjects: Sequence[str] = (),
        rounds: int | None = None,
        console: Console | None = None,
    ) -> None:
        """`only` these cases, and `subjects` with these names, in which * stands for anything; all if there is none."""
        self.bench = bench
        self.results = results
        self.quick = results.quick
        self.console = console or wide_console()
        self._path = path
        self._only = only
        self._subjects = tuple(subjects)
        self._rounds = rounds
        self._schedule = Schedule(results)
        self._since_s = time.monotonic()  # what a case needs to be set up is its own

    def progress(self, text: str) -> None:
        self.console.print(f"\\[{self._schedule.text()}] {escape(text)}", style="dim")

    def takes(self, case: str) -> bool:
        """Whether this case is wanted."""
        return self._only is None or case in self._only

    def taken(self, subjects: Sequence[str]) -> list[str]:
        """Those of a case that are wanted; the first always is, since ratios are formed against it."""
        return [name for name in subjects if name == subjects[0] or is_named(name, self._subjects)]

    def rounds(self, usual: int) -> int:
        """How often each subject is measured."""
        return self._rounds or (1 if self.quick else usual)

    @contextmanager
    def case(self, name: str, *, rounds: int, against: str = "", grows_by: str = "") -> Iterator[CaseReport]:
        """One case, kept whatever happens in it. An error in it is said, and ends it; the next one may well work."""
        found = CaseFound(self.bench, name, self.results.run.id, self.rounds(rounds), against, grows_by)
        self._schedule.begin(found)
        try:
            yield CaseReport(self, found)
            found.is_whole = found.whole_rounds == found.rounds and not any(one.failure for one in found.measured)
        except Exception as error:
            found.failure = one_line(error)
            if not isinstance(error, CaseFailed):
                self.console.print(escape(traceback.format_exc()), style="dim")
            self.console.print(f"{self.bench}: {escape(name)} failed: {escape(found.failure)}", style="red")
        finally:
            now_s = time.monotonic()
            found.seconds, self._since_s = now_s - self._since_s, now_s
            self.keep(found)
        if found.measured:
            self.console.print(case_table(found, self.results))

    def keep(self, found: CaseFound) -> None:
        """In the file; an earlier run's of the same case stays there for as long as it is worth more."""
        earlier = self.results.find(*found.key)
        if earlier is None or earlier is found or found.is_whole or found.whole_rounds > earlier.whole_rounds:
            self.results.replace(found)
        if self._path is not None:
            self.results.write(self._path)

    def done(self, share: float) -> None:
        """So much of the present case."""
        self._schedule.share = share


class CaseReport:
    """Takes the samples of one case."""

    def __init__(self, report: Report, found: CaseFound) -> None:
        self._report = report
        self._found = found
        self._round = 0
        self._this_round = 0
        self._failed_in_a_row = 0

    def rounds(self) -> Iterator[int]:
        for number in range(1, self._found.rounds + 1):
            self._round, self._this_round = number, 0
            yield number

    def sample(
        self,
        subject: str,
        unit: str,
        measure: Callable[..., float | Sample],
        *arguments: Any,
        more_is_better: bool = True,
        size: float | None = None,
    ) -> None:
        """Measure once, by `measure(*arguments)`, and keep it; nothing where this subject failed before."""
        measured = self._measured(subject, unit, more_is_better, size)
        if measured.failure:
            return
        at = "" if size is None else f" at {short(size)}"
        said = f"{self._found.case}, {self._round} of {self._found.rounds}: {subject}{at}"
        try:
            found = measure(*arguments)
        except Exception as error:
            measured.failure = one_line(error)
            self._report.console.print(f"{escape(said)} failed: {escape(measured.failure)}", style="red")
            self._report.keep(self._found)
            self._failed_in_a_row += 1
            if self._failed_in_a_row == FAILURES_THAT_END_A_CASE:
                raise CaseFailed(f"{subject} and the one before failed: {measured.failure}") from None
            return
        self._failed_in_a_row = 0
        sample = found if isinstance(found, Sample) else Sample(found, {})
        measured.samples.append(sample.value)
        for name, value in sample.beside.items():
            measured.beside.setdefault(name, []).append(value)
        self._this_round += 1
        self._report.done(self._share())
        self._report.keep(self._found)
        self._report.progress(f"{said} {short(sample.value)} {unit}")

    def total(self, subject: str, unit: str) -> None:
        """The last round's samples of all subjects so far together, as a subject of its own."""
        parts = [one for one in self._found.measured if one.subject != subject]
        if not any(one.failure for one in parts):
            self.sample(subject, unit, lambda: sum(one.samples[-1] or 0.0 for one in parts), more_is_better=False)

    def _measured(self, subject: str, unit: str, more_is_better: bool, size: float | None) -> Measured:
        for one in self._found.measured:
            if (one.subject, one.size) == (subject, size):
                return one
        self._found.measured.append(Measured(subject, unit, [], more_is_better, size=size))
        return self._found.measured[-1]

    def _share(self) -> float:
        """How much of the case is done; in the first round nobody knows how many samples make one."""
        of_this = self._this_round / len(self._found.measured) if self._round > 1 else 0.5
        return (self._round - 1 + of_this) / self._found.rounds


def wide_console() -> Console:
    """Where no terminal says how wide it is, wide enough for the tables."""
    console = Console(highlight=False)
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(highlight=False, width=UNKNOWN_WIDTH)


def is_named(name: str, names: Sequence[str]) -> bool:
    return not names or any(fnmatchcase(name, one) for one in names)


def one_line(error: BaseException) -> str:
    """The last line usually says most: of a traceback, of a program's last words."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[0] if len(lines) == 1 else " … ".join([lines[0], lines[-1]]) if lines else ""
    return f"{type(error).__name__}: {said}"[:500]
