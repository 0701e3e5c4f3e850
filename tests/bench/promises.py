"""What is promised of a case, and whether what was found keeps it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.bench.results import CaseFound, Results, there


class Status(StrEnum):
    KEPT = "kept"
    MISSED = "MISSED"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Verdict:
    """A promise in words; `note` says what is to be known of the figure: fewer rounds, an earlier run."""

    bench: str
    case: str
    what: str
    promised: str
    found: str
    spread: str
    status: Status
    note: str = ""


@dataclass(frozen=True)
class AtLeast:
    """`subject` is so many `times` as good as `peer`: in its samples, or in a quantity beside them.

    Where less is better the ratio is turned round, so that more is always better: a third of the CPU seconds is 3.
    """

    bench: str
    case: str
    subject: str
    peer: str
    times: float
    quantity: str = ""
    size: float | None = None

    @property
    def what(self) -> str:
        size = "" if self.size is None else f" at {short(self.size)}"
        return f"{self.subject} against {self.peer}{size}" + (f", {self.quantity}" if self.quantity else "")

    @property
    def promised(self) -> str:
        return f"≥ {short(self.times)}×"

    def judge(self, found: CaseFound) -> tuple[bool, str, str] | None:
        """Whether it is kept, by the median, and the figure with its spread."""
        ratios = found.ratios(self.subject, self.peer, quantity=self.quantity, size=self.size)
        if not ratios:
            return None
        middle = statistics.median(ratios)
        return middle >= self.times, f"{short(middle)}×", spread(ratios)


@dataclass(frozen=True)
class AtMost:
    """The median of a subject's samples is not above so many of their unit."""

    bench: str
    case: str
    subject: str
    most: float
    unit: str

    @property
    def what(self) -> str:
        return self.subject

    @property
    def promised(self) -> str:
        return f"≤ {short(self.most)} {self.unit}"

    def judge(self, found: CaseFound) -> tuple[bool, str, str] | None:
        measured = found.find(self.subject)
        if measured is None:
            return None
        return measured.median <= self.most, f"{short(measured.median)} {self.unit}", spread(there(measured.samples))


@dataclass(frozen=True)
class Slope:
    """A cost grows with its size by no more than this power: 1 is linear, 0 not at all."""

    bench: str
    case: str
    subject: str
    most: float

    @property
    def what(self) -> str:
        return f"{self.subject}, slope"

    @property
    def promised(self) -> str:
        return f"≤ {short(self.most)}"

    def judge(self, found: CaseFound) -> tuple[bool, str, str] | None:
        slope = found.slope(self.subject)
        return None if slope is None else (slope <= self.most, f"{slope:.2f}", "")


Promise = AtLeast | AtMost | Slope


def verdicts(promises: Iterable[Promise], results: Results) -> list[Verdict]:
    """Of those over cases that were planned. Nothing is promised of quick sizes, nor of subjects that were left out."""
    planned = {one.key for one in results.planned}
    if results.quick:
        return []
    return [_verdict(one, results) for one in promises if (one.bench, one.case) in planned and _is_asked(one, results)]


def _is_asked(promise: Promise, results: Results) -> bool:
    found = results.find(promise.bench, promise.case)
    return found is None or promise.judge(found) is not None or not results.run_of(found).subjects


def _verdict(promise: Promise, results: Results) -> Verdict:
    found = results.find(promise.bench, promise.case)
    judged = None if found is None else promise.judge(found)
    words = (promise.bench, promise.case, promise.what, promise.promised)
    if found is None or judged is None:
        return Verdict(*words, "", "", Status.NOT_MEASURED, "" if found is None else found.failure)
    is_kept, figure, spread_of_it = judged
    return Verdict(*words, figure, spread_of_it, Status.KEPT if is_kept else Status.MISSED, note_of(found, results))


def note_of(found: CaseFound, results: Results) -> str:
    """What a reader has to know of a case: empty for a whole one of this run."""
    notes = []
    if not found.is_whole and found.whole_rounds < found.rounds:
        notes.append(f"{found.whole_rounds} of {found.rounds} rounds")
    if len(results.runs) > 1:
        notes.append(f"run {results.number_of(found)}")
    return ", ".join(notes)


def spread(values: Sequence[float]) -> str:
    return f"{short(min(values))}–{short(max(values))}" if len(values) > 1 else ""


def short(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
