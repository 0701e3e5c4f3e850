"""A bench whose subjects, cases and whole self fail, for the tests of the frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.bench.promises import AtLeast, Promise
from tests.bench.report import Report

CASES = ("a subject", "every subject", "the case", "well", "the bench")


def cases(*, quick: bool) -> Mapping[str, float]:
    return dict.fromkeys(CASES, 1.0)


def promises() -> Iterator[Promise]:
    yield AtLeast("failing", "a subject", "ours", "peer", 2.0)
    yield AtLeast("failing", "a subject", "bad", "peer", 2.0)


def run(report: Report) -> None:
    for case in CASES[:4]:
        with report.case(case, rounds=2, against="peer") as found:
            if case == "the case":
                raise OSError("the broker is away")
            bad = _fail if case != "well" else float
            for _ in found.rounds():
                found.sample("bad", "s", bad, "1")
                if case == "every subject":
                    found.sample("worse", "s", _fail, "2")
                found.sample("peer", "s", float, "6", more_is_better=False)
                found.sample("ours", "s", float, "2", more_is_better=False)
    raise MemoryError("no memory is left")


def _fail(_: str) -> float:
    raise OSError("it did\nnot go")
