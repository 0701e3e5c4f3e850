"""Commands of ours as child processes, as a user or a script runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from zkconsumer.testing.waiting import eventually, scaled

ENDS_WITHIN_S = 60.0
ROOT = Path(__file__).parents[2]
PASSED_ON = ("PATH", "HOME", "TMPDIR", "JAVA_HOME", "XDG_CACHE_HOME", "ZKCONSUMER_CACHE", "ZKCONSUMER_TIME_SCALE")


class Result(NamedTuple):
    """What a command left behind."""

    exit_code: int
    stdout: bytes
    stderr: str


class CommandProcess:
    """One that runs; its output can be read meanwhile."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        self.process = process
        self._directory = directory

    def stdout(self) -> bytes:
        return (self._directory / "stdout").read_bytes()

    def stderr(self) -> str:
        return (self._directory / "stderr").read_text()

    def await_stdout(self, expected: bytes) -> None:
        """Until exactly this was printed."""
        eventually(lambda: self.stdout() == expected, lambda: f"{expected!r}; stderr: {self.stderr()}", ENDS_WITHIN_S)

    def end(self, number: signal.Signals) -> Result:
        """Send it a signal and wait."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> Result:
        code = self.process.wait(scaled(ENDS_WITHIN_S))
        return Result(code, self.stdout(), self.stderr())


@contextmanager
def command(directory: Path, *arguments: str, stdout: int | None = None) -> Iterator[CommandProcess]:
    """`zkconsumer <arguments>` in the given directory; killed at the end if it still runs."""
    directory.mkdir(exist_ok=True)
    with (directory / "stdout").open("wb") as output, (directory / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            # A test run in the background may have SIGINT ignored, which children inherit: GNU env undoes that.
            ["/usr/bin/env", "--default-signal=INT", sys.executable, "-m", "zkconsumer", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output if stdout is None else stdout,
            stderr=errors,
            cwd=directory,
            env={"PYTHONPATH": str(ROOT), "TZ": "UTC"}
            | {name: os.environ[name] for name in PASSED_ON if name in os.environ},
        )
    try:
        yield CommandProcess(process, directory)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def run_command(directory: Path, *arguments: str) -> Result:
    """Run one to its end."""
    with command(directory, *arguments) as running:
        return running.wait()
