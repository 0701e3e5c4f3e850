"""Benches as processes that are waited for: signals are handed on to them, and what they leave behind is ended."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

ENDS_WITHIN_S = 90.0  # servers, Spark and groups are shut down in order
ORPHANS_END_WITHIN_S = 5.0
LOOK_EVERY_S = 0.2
PR_SET_CHILD_SUBREAPER = 36


class Children:
    """One at a time. The first signal asks it to end, the second kills it.

    Used with `with`, for as long as signals are its own.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._process: subprocess.Popen[str] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._handle)
        if sys.platform == "linux":  # whose parent dies becomes our child, and is seen
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def run(self, command: Sequence[str], told: str, timeout_s: float) -> str:
        """Why it ended before it was done; empty if it was."""
        directory = Path(tempfile.mkdtemp(prefix="bench-"))
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                text=True,
                env=os.environ | {"TMPDIR": str(directory), "SPARK_LOCAL_DIRS": str(directory)},
                start_new_session=True,  # Ctrl-C in a terminal comes by us
            )
            return self._wait(self._process, told, timeout_s)
        finally:
            self._process = None
            _end_orphans()
            shutil.rmtree(directory, ignore_errors=True)

    def _wait(self, process: subprocess.Popen[str], told: str, timeout_s: float) -> str:
        assert process.stdin is not None
        if self.received is not None:  # before it was there to be asked
            process.terminate()
        try:
            process.stdin.write(f"{told}\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # how it ended is asked below
        deadline_s, asked = time.monotonic() + timeout_s, False
        while True:
            try:
                code = process.wait(LOOK_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                if self.received is not None and not asked:
                    asked, deadline_s = True, time.monotonic() + ENDS_WITHIN_S
                if time.monotonic() > deadline_s:
                    if asked:
                        process.kill()
                    process.terminate()
                    asked, deadline_s = True, time.monotonic() + ENDS_WITHIN_S
        process.stdin.close()
        if self.received is None and asked:
            return f"it had not ended after {timeout_s:.0f} s"
        return "" if code == 0 else f"ended with {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"

    def _handle(self, number: int, _: FrameType | None) -> None:
        process, is_first = self._process, self.received is None
        self.received = self.received or number
        if process is not None:
            (process.terminate if is_first else process.kill)()


def _end_orphans() -> None:
    """What has lost its parent is ours now. Guards of servers clear away and end by themselves; others are killed."""
    deadline_s, waiting = time.monotonic() + ORPHANS_END_WITHIN_S, threading.Event()
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return  # there is none
        if time.monotonic() > deadline_s:
            for pid in _children():
                os.kill(pid, signal.SIGKILL)
        waiting.wait(LOOK_EVERY_S)


def _children() -> list[int]:
    """Of this process."""
    tasks = Path("/proc/self/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split()]
