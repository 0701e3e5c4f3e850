"""What the runner can do to a member, whichever consumer it is; and what a member is told."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from zkconsumer.testing.errors import ServerStartError
from zkconsumer.testing.process import GuardedProcess
from zkconsumer.testing.waiting import eventually

START_TIMEOUT_S = 60.0
LEAVE_TIMEOUT_S = 30.0
Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The same for every subject; what a protocol does not know it leaves aside."""

    name: str
    group: str
    topics: tuple[str, ...]
    pattern: str | None  # instead of topics: all whose name matches, also later ones
    zookeeper_connect: str
    bootstrap_servers: str
    session_timeout_ms: int
    commit_interval_ms: int
    work_ms: int  # for each record, by the application
    history: str = ""  # the file a member's process writes its lines to

    @staticmethod
    def read(path: str) -> MemberSettings:
        """What write() wrote."""
        stored = json.loads(Path(path).read_text())
        return MemberSettings(**{**stored, "topics": tuple(stored["topics"])})

    def write(self, path: Path) -> None:
        """For the member's process."""
        path.write_text(json.dumps(asdict(self)))


class Member(Protocol):
    """One member of a group. start() returns when its process is up; it joins by itself."""

    def start(self) -> None: ...

    def stop(self) -> None:
        """Leave in order, and end."""

    def kill(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None:
        """End it whatever it does, remove its files. Idempotent."""

    def lines(self) -> list[Line]:
        """What it told since the last call: kind delivered, assigned or revoked."""


class ProcessMember:
    """A member whose process writes its own lines, see study.subjects.reporting."""

    def __init__(
        self, settings: MemberSettings, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self._process = GuardedProcess(f"member-{settings.name}")
        self._history = self._process.directory / "history.jsonl"
        self._settings = replace(settings, history=str(self._history))
        self._command = list(command)
        self._environment = environment
        self._position = 0

    def start(self) -> None:
        self._process.open()
        self._settings.write(self._process.directory / "settings.json")
        self._process.spawn(
            [*self._command, str(self._process.directory / "settings.json")], environment=self._environment
        )
        eventually(self._is_up, f"{self._process.name} up", START_TIMEOUT_S)

    def stop(self) -> None:
        self._process.end(signal.SIGTERM, LEAVE_TIMEOUT_S)

    def kill(self) -> None:
        self._process.end(signal.SIGKILL)

    def pause(self) -> None:
        self._process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.signal(signal.SIGCONT)

    def close(self) -> None:
        self._process.end(signal.SIGKILL)
        self._process.close()

    def lines(self) -> list[Line]:
        if not self._history.exists():
            return []
        with self._history.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        return [json.loads(line) for line in whole.splitlines()]

    def _is_up(self) -> bool:
        if not self._process.poll():
            raise ServerStartError(f"{self._process.name} ended while it started", self._process.log_tail())
        return self._history.exists()


def python_member(module: str, settings: MemberSettings) -> ProcessMember:
    """A member that is one of the modules beside this one."""
    return ProcessMember(settings, [sys.executable, "-m", f"study.subjects.{module}"])
