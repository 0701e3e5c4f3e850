"""What holds for every test here: nothing stays behind, neither a thread nor a process nor a directory."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from zkconsumer.testing.errors import WaitTimeout
from zkconsumer.testing.waiting import eventually

pytest_plugins = ["pytester"]

GRACE_S = 10.0

# On a busy machine an example may take any time: that is no failure.
settings.register_profile("untimed", settings(deadline=None, suppress_health_check=[HealthCheck.too_slow]))
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """A test's threads have ended when its fixtures are torn down (autouse: set up first, so torn down last)."""
    before = set(threading.enumerate())
    yield

    def left() -> list[str]:
        return sorted(thread.name for thread in threading.enumerate() if thread not in before)

    try:
        eventually(lambda: not left(), timeout_s=GRACE_S)
    except WaitTimeout:
        pytest.fail(f"threads left behind: {', '.join(left())}")


def pytest_configure(config: pytest.Config) -> None:
    """Servers' directories go into one of this run's own, which has to be empty at its end."""
    config.stash[_OWN_DIRECTORY] = directory = tempfile.mkdtemp(prefix="run-of-zkconsumer-tests-")
    os.environ["TMPDIR"] = tempfile.tempdir = directory


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """All fixtures are torn down by now."""
    left = session.config.stash.get(_LEFT_BY_WORKERS, [])
    try:
        eventually(lambda: not _left_behind(session.config), timeout_s=GRACE_S)
    except WaitTimeout:
        left = [*left, *_left_behind(session.config)]
    if left:
        _complain(session, left)


def _complain(session: pytest.Session, left: list[str]) -> None:
    """Fail the run. A worker of pytest-xdist can only tell the process that started it, which then does."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left behind"] = left
        return
    lines = "\n  ".join(left)
    print(f"\nleft behind by this run:\n  {lines}", file=sys.__stderr__)
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Called by pytest-xdist when a worker has ended."""
    left = getattr(node, "workeroutput", {}).get("left behind")
    node.config.stash.setdefault(_LEFT_BY_WORKERS, []).extend(left or [])


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_OWN_DIRECTORY], ignore_errors=True)


_OWN_DIRECTORY: pytest.StashKey[str] = pytest.StashKey()
_LEFT_BY_WORKERS: pytest.StashKey[list[str]] = pytest.StashKey()


def _left_behind(config: pytest.Config) -> list[str]:
    """Directories of our servers, and living children of this process where the kernel tells (Linux)."""
    found = [str(path) for path in Path(config.stash[_OWN_DIRECTORY]).glob("zkconsumer-*")]
    for task in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        for pid in task.read_text().split():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if command.strip():  # a zombie has none: it has ended, only nobody has asked for its exit code
                found.append(f"process {pid}: {command[:100]}")
    return found
