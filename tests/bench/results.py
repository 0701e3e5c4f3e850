"""What benches found, and the file that keeps it: written anew after every sample, so that nothing measured is lost.

A case is always of one run: all its subjects were measured in turn, round by round, on the same servers. Sample n of
one and sample n of another were taken under the same weather, and ratios are formed round by round. Cases of several
runs can stand in one file; each says which run it is of.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import platform
import secrets
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Key = tuple[str, str]
"""Bench and case."""
Samples = list[float | None]
"""By round; None where a subject failed."""


class NoResults(Exception):
    """A file that is not there or holds something else."""


@dataclass
class Measured:
    """One subject of a case; `beside` are further quantities of the same rounds ("CPU s/M", "MiB")."""

    subject: str
    unit: str
    samples: Samples
    more_is_better: bool = True
    beside: dict[str, Samples] = field(default_factory=dict)
    size: float | None = None  # where a case asks how a cost grows
    failure: str = ""  # why it has no more samples

    @property
    def median(self) -> float:
        return statistics.median(there(self.samples))


@dataclass
class CaseFound:
    """A case as one run found it. `against`: whom ratios are formed to; `grows_by`: what sizes are counted in."""

    bench: str
    case: str
    run: str
    rounds: int  # that were to be measured
    against: str = ""
    grows_by: str = ""
    is_whole: bool = False
    failure: str = ""
    seconds: float = 0.0
    measured: list[Measured] = field(default_factory=list)

    @property
    def key(self) -> Key:
        return self.bench, self.case

    @property
    def whole_rounds(self) -> int:
        """That every subject got through, apart from those that failed."""
        return min((len(one.samples) for one in self.measured if not one.failure), default=0)

    @property
    def subjects(self) -> list[str]:
        return list(dict.fromkeys(one.subject for one in self.measured))

    @property
    def sizes(self) -> list[float | None]:
        return list(dict.fromkeys(one.size for one in self.measured))

    def find(self, subject: str, size: float | None = None) -> Measured | None:
        """None too where it has no sample."""
        for one in self.measured:
            if (one.subject, one.size) == (subject, size):
                return one if there(one.samples) else None
        return None

    def ratios(self, subject: str, peer: str, *, quantity: str = "", size: float | None = None) -> list[float]:
        """How many times as good as the peer, in each round that both have; empty if there is none.

        Of `quantity`, a name in `beside`, less is always better.
        """
        ours, theirs = self.find(subject, size), self.find(peer, size)
        if ours is None or theirs is None:
            return []
        more_is_better = ours.more_is_better and not quantity
        pairs = list(zip(_values(ours, quantity), _values(theirs, quantity), strict=False))
        both = [(mine, its) for mine, its in pairs if mine is not None and its is not None]
        return [mine / its if more_is_better else its / mine for mine, its in both]

    def points(self, subject: str) -> list[tuple[float, list[float]]]:
        """Samples by size, smallest first."""
        found = [(one.size, there(one.samples)) for one in self.measured if one.subject == subject]
        return sorted((size, samples) for size, samples in found if size is not None and samples)

    def slope(self, subject: str) -> float | None:
        """Of the logarithms, by least squares through the medians: 0 is constant, 1 linear; None without two."""
        points = self.points(subject)
        if len(points) < 2:
            return None
        sizes = [math.log(size) for size, _ in points]
        costs = [math.log(statistics.median(samples)) for _, samples in points]
        return statistics.linear_regression(sizes, costs).slope


@dataclass
class Run:
    """One start of `make bench`; `ended` is empty while it lasts, and stays so if it was killed."""

    id: str
    began: str
    arguments: list[str]
    machine: dict[str, Any]
    quick: bool = False
    subjects: list[str] = field(default_factory=list)  # if only some were asked for
    ended: str = ""


@dataclass
class Planned:
    """A case that was to be measured, and how long that was expected to take."""

    bench: str
    case: str
    expected_s: float

    @property
    def key(self) -> Key:
        return self.bench, self.case


@dataclass
class Results:
    runs: list[Run] = field(default_factory=list)
    planned: list[Planned] = field(default_factory=list)
    cases: list[CaseFound] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)  # of benches as a whole

    @property
    def run(self) -> Run:
        """The one that goes on, or was the last."""
        return self.runs[-1]

    @property
    def quick(self) -> bool:
        return any(run.quick for run in self.runs)

    def run_of(self, found: CaseFound) -> Run:
        return next(run for run in self.runs if run.id == found.run)

    def number_of(self, found: CaseFound) -> int:
        """Its run's, from 1, as the runs are listed."""
        return self.runs.index(self.run_of(found)) + 1

    def find(self, bench: str, case: str) -> CaseFound | None:
        return next((one for one in self.cases if one.key == (bench, case)), None)

    def replace(self, found: CaseFound) -> None:
        """Put in the place of what an earlier run found, or at the end."""
        keys = [one.key for one in self.cases]
        if found.key in keys:
            self.cases[keys.index(found.key)] = found
        else:
            self.cases.append(found)

    def lacking(self) -> list[Planned]:
        """What is planned and not there as a whole."""
        whole = {one.key for one in self.cases if one.is_whole}
        return [one for one in self.planned if one.key not in whole]

    def write(self, path: Path) -> None:
        """At once: whoever reads it, or is killed meanwhile, finds the old or the new."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            beside.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)


def read(path: Path) -> Results:
    try:
        found = json.loads(path.read_text())
        return Results(
            [Run(**run) for run in found["runs"]],
            [Planned(**planned) for planned in found["planned"]],
            [_case(case) for case in found["cases"]],
            dict(found["failures"]),
        )
    except OSError as error:
        raise NoResults(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise NoResults(f"{path}: these are no results of a bench") from None


def _case(found: dict[str, Any]) -> CaseFound:
    return CaseFound(**found | {"measured": [Measured(**one) for one in found["measured"]]})


def merged(several: Iterable[Results]) -> Results:
    """One of all: of each case the whole one, or the one with most rounds; of equal ones the later run's."""
    every = list(several)
    if len({results.quick for results in every}) > 1:
        raise NoResults("quick results and full ones cannot stand in one report: their cases have other sizes")
    runs = sorted({run.id: run for results in every for run in results.runs}.values(), key=lambda run: run.began)
    order = {run.id: number for number, run in enumerate(runs)}
    planned = {one.key: one for results in every for one in results.planned}
    best: dict[Key, CaseFound] = {}
    for case in (case for results in every for case in results.cases):
        other = best.get(case.key)
        if other is None or _worth(case, order) >= _worth(other, order):
            best[case.key] = case
    places = {key: number for number, key in enumerate(planned)}
    cases = sorted(best.values(), key=lambda case: places.get(case.key, len(places)))
    failures = {bench: text for results in every for bench, text in results.failures.items()}
    left = {bench for bench, _ in planned if any(key[0] == bench and key not in best for key in planned)}
    return Results(
        runs, list(planned.values()), cases, {bench: text for bench, text in failures.items() if bench in left}
    )


def _worth(case: CaseFound, order: dict[str, int]) -> tuple[bool, int, int]:
    return case.is_whole, case.whole_rounds, order[case.run]


def new_run(arguments: Sequence[str], *, quick: bool, subjects: Sequence[str] = ()) -> Run:
    began = datetime.now(UTC)
    machine = {
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "system": platform.platform(),
        "commit": _commit(),
    }
    began_text = began.isoformat(timespec="seconds").removesuffix("+00:00") + "Z"
    return Run(
        f"{began:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}", began_text, list(arguments), machine, quick, list(subjects)
    )


def _commit() -> str:
    """Empty outside of a clone."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def there(samples: Samples) -> list[float]:
    return [sample for sample in samples if sample is not None]


def _values(measured: Measured, quantity: str) -> Samples:
    return measured.beside.get(quantity, []) if quantity else measured.samples
