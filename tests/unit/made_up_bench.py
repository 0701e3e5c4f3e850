"""Benches that measure nothing, for the tests of the frame: what they do is told by the name of the case."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.bench.promises import AtLeast, Promise
from tests.bench.report import Report

CASES = ("quick", "slow", "later")
OURS, PEER = "ours", "peer"
WHERE = "MADE_UP_BENCH"  # names a directory: a file `pids` there gets processes, `go` lets the slow one go on


def cases(*, quick: bool) -> Mapping[str, float]:
    return dict.fromkeys(CASES, 1.0)


def promises() -> Iterator[Promise]:
    for case in CASES:
        yield AtLeast("made up", case, OURS, PEER, 2.0)


def run(report: Report) -> None:
    for case in CASES:
        if report.takes(case):
            _measure(report, case)


def _measure(report: Report, case: str) -> None:
    with report.case(case, rounds=3, against=PEER) as found:
        for number in found.rounds():
            found.sample(PEER, "M/s", lambda: 1.0)
            if case == "slow" and number == 2:
                _be_slow()
            found.sample(OURS, "M/s", lambda: 3.0)


def _be_slow() -> None:
    """With a process of its own, as those measured are, which does not end with this one by itself."""
    directory = Path(os.environ[WHERE])
    if (directory / "go").exists():
        return
    (Path(tempfile.gettempdir()) / "left").write_text("a file in the bench's own directory")
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(command, start_new_session=True) as child:
        try:
            (directory / "pids").write_text(f"{child.pid} {os.getpid()} {tempfile.gettempdir()}")
            time.sleep(600)
        finally:
            if not (directory / "abrupt").exists():
                child.kill()
