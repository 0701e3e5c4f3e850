"""A child process that is measured: what it printed, its CPU seconds with its start, its peak of resident memory."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

LOOK_EVERY_S = 0.05
TIMEOUT_S = 300.0


class ChildFailed(Exception):
    """It ended with an error, or not at all; its last words are in the text."""


class Ended(NamedTuple):
    output: str
    cpu_s: float
    peak_mib: float


def run_child(
    command: Sequence[str], *, environment: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
) -> Ended:
    """Wait for it, looking at its memory now and then.

    Not ru_maxrss: that of a child starts with the memory of the process that started it.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True
        )
        peak_mib, waiting, deadline_s = 0.0, threading.Event(), time.monotonic() + timeout_s
        try:
            while True:
                peak_mib = _peak_mib(process.pid) or peak_mib
                ended, status, usage = os.wait4(process.pid, os.WNOHANG)
                if ended:
                    process.returncode = os.waitstatus_to_exitcode(status)
                    break
                if time.monotonic() > deadline_s:
                    raise ChildFailed(f"{command[0]} has not ended within {timeout_s:g} s: {_text(errors)[-2000:]}")
                waiting.wait(LOOK_EVERY_S)
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
        if process.returncode != 0:
            raise ChildFailed(f"{command[0]} ended with {process.returncode}: {_text(errors)[-2000:]}")
        return Ended(_text(output), usage.ru_utime + usage.ru_stime, peak_mib)


def _peak_mib(pid: int) -> float:
    """VmHWM; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)


def _text(file: object) -> str:
    file.seek(0)  # type: ignore[attr-defined]
    return str(file.read(), "utf-8", "replace")  # type: ignore[attr-defined]
