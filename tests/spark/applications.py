"""Spark applications of these tests, each in a process of its own, so that it can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zkconsumer.testing.waiting import eventually, scaled


class Driver:
    """`python -m tests.spark.<module> <arguments>`, its lines read by a thread; a line begins with a name.

    Ends in order when its input gets a line. One says with "jvm <pid>" where its JVM is.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"tests.spark.{module}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def said(self, name: str) -> list[str]:
        """What stood behind this name, in order."""
        return [line.partition(" ")[2] for line in list(self.lines) if line.partition(" ")[0] == name]

    def number(self, name: str) -> int:
        return int(self.said(name)[-1])

    def wait(self, condition: Callable[[], object], what: str, timeout_s: float) -> None:
        """For what cannot come any more when the application has ended."""

        def is_so() -> bool:
            code = self._process.poll()
            assert code is None, f"{what}: the application has ended with {code}"
            return bool(condition())

        eventually(is_so, what, timeout_s)

    def kill(self) -> None:
        """The Python process and Spark's JVM, without warning. What the JVM started is not touched."""
        for pid in self.said("jvm"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        self._process.kill()
        self._end()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("stop\n")
        self._process.stdin.flush()
        assert self._process.wait(scaled(120)) == 0
        self._end()

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()
        self._end()

    def _end(self) -> None:
        self._process.wait()
        self._reader.join()
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.strip())


def receivers(driver: Driver) -> list[dict[str, Any]]:
    """Those of the last progress, as receiver_driver.py told it."""
    told = driver.said("told")
    found: list[dict[str, Any]] = json.loads(told[-1])["receivers"] if told else []
    return found


def is_running(process: int) -> bool:
    """A zombie runs no more: it waits for whoever inherits it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def java_above(process: int) -> int:
    """The JVM that started this Python process, by way of Spark's daemon."""
    while b"java" not in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0]:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process
