"""Nothing stays behind, however a server, its guard or its owner ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from zkconsumer.testing.backends import ProcessBackend
from zkconsumer.testing.errors import ServerStartError
from zkconsumer.testing.ports import HOST
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer

ROUNDS = 25

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def runs(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid: int) -> set[int]:
    children = {
        int(child)
        for task in Path(f"/proc/{pid}/task").glob("*/children")
        for child in task.read_text().split()
        if runs(int(child))
    }
    return children.union(*(descendants(child) for child in children))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def is_listening(address: str) -> bool:
    try:
        socket.create_connection((HOST, int(address.rpartition(":")[2])), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for temporary files, so that whatever is left in there was ours."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def owner(how: str) -> Iterator[subprocess.Popen[str]]:
    script = Path(__file__).with_name("owner.py")
    root = str(script.parent.parent.parent)
    process = subprocess.Popen(
        [sys.executable, str(script), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def told_by(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def everything_is_gone(found: dict[str, Any]) -> bool:
    return not (
        runs(found["server"])
        or runs(found["guard"])
        or Path(found["directory"]).exists()
        or is_listening(found["port"])
    )


def start_and_end(number: int) -> str:
    with ZooKeeperServer() as server:
        if number % 2:
            server.stop()
        return server.connect_string


def test_fifty_servers_two_at_a_time_leave_nothing(temporary: Path) -> None:
    processes, files = descendants(os.getpid()), descriptors()
    addresses: list[str] = []

    with ThreadPoolExecutor(2) as pool:
        for _ in range(ROUNDS):
            pair = list(pool.map(start_and_end, range(2)))
            assert len(set(pair)) == 2
            addresses += pair

    assert len(addresses) == 2 * ROUNDS
    assert descendants(os.getpid()) == processes
    assert descriptors() == files
    assert list(temporary.iterdir()) == []
    assert not any(is_listening(address) for address in addresses)


def test_a_server_dies_with_its_owner(temporary: Path) -> None:
    with owner("waiting") as process:
        found = told_by(process)
        assert runs(found["server"])

        process.kill()

        eventually(lambda: everything_is_gone(found), lambda: f"the end of {found}")
    assert list(temporary.iterdir()) == []


def test_a_server_dies_with_its_owner_even_if_a_forked_child_lives_on(temporary: Path) -> None:
    with owner("forking") as process:
        found = told_by(process)
        try:
            process.kill()

            eventually(lambda: everything_is_gone(found), lambda: f"the end of {found}")
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the child; the group is its own (start_new_session)


def test_a_server_dies_with_its_guard_and_its_owner_cleans_up(temporary: Path) -> None:
    with owner("until told") as process:
        found = told_by(process)

        os.kill(found["guard"], signal.SIGKILL)

        eventually(lambda: not runs(found["server"]), "the end of the server")
        process.communicate(input="")
        assert process.returncode == 0
    eventually(lambda: everything_is_gone(found), "nothing left")
    assert list(temporary.iterdir()) == []


def test_without_its_guard_a_server_cannot_be_started_and_says_why(temporary: Path) -> None:
    with ZooKeeperServer() as server:
        backend = server._backend
        assert isinstance(backend, ProcessBackend)
        assert backend.pid is not None
        guard = int(Path(f"/proc/{backend.pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(guard, signal.SIGKILL)
        eventually(lambda: not server.running)

        with pytest.raises(ServerStartError, match="killed from outside"):
            server.start()


@pytest.mark.parametrize("moment", ["guard", "java", "serving"])
def test_an_interrupt_at_any_moment_leaves_nothing(temporary: Path, moment: str) -> None:
    def has_come(process: subprocess.Popen[str]) -> bool:
        below = descendants(process.pid)
        if moment == "serving":
            return any("binding to port" in file.read_text() for file in temporary.glob("*/output.log"))
        return len(below) >= (1 if moment == "guard" else 2)

    with owner("interrupted") as process:
        eventually(lambda: has_come(process))
        below = descendants(process.pid)

        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)

        assert "KeyboardInterrupt" in errors
        eventually(lambda: not any(runs(pid) for pid in below))
    eventually(lambda: list(temporary.iterdir()) == [])


def test_files_are_kept_on_demand(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZKCONSUMER_KEEP_FILES", "1")

    with ZooKeeperServer() as server, server.client() as client:
        client.create("/a")

    (kept,) = temporary.iterdir()
    assert {"zoo.cfg", "output.log", "data"} <= {file.name for file in kept.iterdir()}
    assert list((kept / "data" / "version-2").glob("log.*"))
    shutil.rmtree(kept)
