"""`python -m tests.bench` with benches that measure nothing: interrupted, resumed, merged, failing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import results
from tests.unit import made_up_bench
from zkconsumer.testing.waiting import eventually

COMMAND = """
import sys
from tests.bench.__main__ import Bench, main
names = {"made up": "tests.unit.made_up_bench", "failing": "tests.unit.failing_bench", "absent": "tests.unit.no_bench"}
taken = sys.argv[1].split(",")
sys.exit(main(sys.argv[2:], {name: Bench(module, "nothing") for name, module in names.items() if name in taken}))
"""
ENDS_WITHIN_S = 60


class Started:
    """The command, on its way, in `directory`."""

    def __init__(self, directory: Path, benches: str, *arguments: str) -> None:
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, benches, "--output", str(directory), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {made_up_bench.WHERE: str(directory), "COLUMNS": "200"},
            start_new_session=True,
        )

    def end(self) -> str:
        """What it printed."""
        return self.process.communicate(timeout=ENDS_WITHIN_S)[0]

    def pids(self) -> list[int]:
        """Of the slow subject and its bench, once they are there."""
        file = self.directory / "pids"
        eventually(lambda: file.exists() and file.read_text().count(" ") == 2, timeout_s=ENDS_WITHIN_S)
        return [int(pid) for pid in file.read_text().split()[:2]]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Started]]:
    every: list[Started] = []
    yield every
    for one in every:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("is_abrupt", [False, True], ids=["that clears away", "that leaves a process"])
def test_a_signal_keeps_what_was_measured_and_leaves_nothing(
    tmp_path: Path, started: list[Started], number: int, code: int, is_abrupt: bool
) -> None:
    if is_abrupt:
        (tmp_path / "abrupt").touch()
    bench = Started(tmp_path, "made up")
    started.append(bench)
    pids = bench.pids()

    bench.process.send_signal(number)
    said = bench.end()

    assert bench.process.returncode == code, said
    assert not any(is_alive(pid) for pid in pids)
    assert not Path((tmp_path / "pids").read_text().split(" ", 2)[2]).exists()
    assert f"ended by {signal.Signals(number).name}" in said
    assert "made up: slow: 1 of 3 rounds" in said
    assert "made up: later: not measured" in said
    assert "1 not measured" in said
    found = results.read(tmp_path / "bench.json")
    assert [(one.case, one.is_whole, one.whole_rounds) for one in found.cases] == [
        ("quick", True, 3),
        ("slow", False, 1),
    ]
    assert [one.samples for one in found.cases[1].measured] == [[1.0, 1.0], [3.0]]
    assert found.run.ended.startswith(signal.Signals(number).name)
    assert "This report is not whole" in (tmp_path / "bench.html").read_text()


def test_a_bench_ends_with_the_process_that_started_it(tmp_path: Path, started: list[Started]) -> None:
    bench = Started(tmp_path, "made up")
    started.append(bench)
    pids = bench.pids()

    bench.process.kill()
    bench.end()

    eventually(lambda: not any(is_alive(pid) for pid in pids), timeout_s=ENDS_WITHIN_S)
    assert [one.case for one in results.read(tmp_path / "bench.json").cases] == ["quick", "slow"]


def test_resuming_measures_what_is_lacking(tmp_path: Path, started: list[Started]) -> None:
    bench = Started(tmp_path, "made up")
    started.append(bench)
    bench.pids()
    bench.process.terminate()
    bench.end()
    (tmp_path / "go").touch()

    again = Started(tmp_path, "made up", "--resume")
    started.append(again)
    said = again.end()

    assert again.process.returncode == 0, said
    found = results.read(tmp_path / "bench.json")
    first, second = (one.id for one in found.runs)
    assert [(one.case, one.run, one.is_whole) for one in found.cases] == [
        ("quick", first, True),
        ("slow", second, True),
        ("later", second, True),
    ]
    assert "2 cases of made up" in said
    assert ["run 1" in said, "run 2" in said] == [True, True]

    once_more = Started(tmp_path, "made up", "--resume")
    started.append(once_more)
    assert "nothing is left to be measured" in once_more.end()
    assert once_more.process.returncode == 0


def test_a_piece_of_another_run_is_merged_into_one_report(tmp_path: Path, started: list[Started]) -> None:
    (tmp_path / "go").touch()
    for name in ("quick", "later"):
        started.append(Started(tmp_path / name, "made up", "--case", name))
        assert "promises: 1 kept" in started[-1].end()

    files = [str(tmp_path / name / "bench.json") for name in ("later", "quick")]
    started.append(Started(tmp_path / "both", "made up", "--merge", *files))
    said = started[-1].end()

    assert started[-1].process.returncode == 0, said
    assert "promises: 2 kept" in said
    found = results.read(tmp_path / "both" / "bench.json")
    assert len({one.run for one in found.cases}) == 2


def test_a_new_run_puts_an_earlier_one_aside(tmp_path: Path, started: list[Started]) -> None:
    for _ in range(2):
        started.append(Started(tmp_path, "made up", "--case", "quick"))
        started[-1].end()

    files = sorted(path.name for path in tmp_path.glob("*.json"))

    assert len(files) == 2
    assert "bench.json" in files


def test_what_fails_takes_nothing_else_with_it(tmp_path: Path, started: list[Started]) -> None:
    (tmp_path / "go").touch()
    bench = Started(tmp_path, "absent,failing,made up")
    started.append(bench)

    said = bench.end()

    assert bench.process.returncode == 1, said
    found = json.loads((tmp_path / "bench.json").read_text())
    cases = {one["case"]: one for one in found["cases"]}
    assert list(cases) == ["quick", "slow", "later", "a subject", "every subject", "the case", "well"]
    assert [one["subject"] for one in cases["a subject"]["measured"] if len(one["samples"]) == 2] == ["peer", "ours"]
    assert "bad: OSError: it did … not go" in said
    assert cases["every subject"]["failure"].startswith("CaseFailed: worse and the one before failed")
    assert cases["the case"]["failure"] == "OSError: the broker is away"
    assert cases["well"]["is_whole"]
    assert found["failures"]["failing"] == "MemoryError: no memory is left"
    assert "No module named 'tests.unit.no_bench'" in found["failures"]["absent"]
    assert "failing: the bench: MemoryError: no memory is left" in said
    assert "promises: 4 kept, 1 not measured" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["other"], "no bench is called other; there are made up"),
        (["--case", "other"], "no case is called other; there are quick; slow; later"),
        (["--rounds", "0"], "0 is not a positive number"),
        (["--resume"], "bench.json: No such file or directory"),
        (["--merge", "absent.json"], "absent.json: No such file or directory"),
    ],
)
def test_a_mistake_is_said_in_a_line(tmp_path: Path, started: list[Started], arguments: list[str], said: str) -> None:
    started.append(Started(tmp_path, "made up", *arguments))

    assert started[-1].end().splitlines()[-1].endswith(said)
    assert started[-1].process.returncode == 2
    assert list(tmp_path.iterdir()) == []
