"""A server as a child process that cannot outlive its owner (see _guard.py for how)."""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import signal as signals
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zkconsumer.testing import _guard
from zkconsumer.testing.errors import ServerStartError
from zkconsumer.testing.waiting import scaled

ANSWER_TIMEOUT_S = 30.0
LOG_TAIL_LINES = 40
_READY = 0  # stands for the guard's first message, which answers no request


class GuardedProcess:
    """One temporary directory and, at any time, at most one server process in it.

    The process may be started and ended many times; directory and guard live from the constructor's caller calling
    open() until close(), or until the owner dies.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.directory = Path(tempfile.gettempdir()) / f"zkconsumer-{name}-{secrets.token_hex(6)}"
        self.output = self.directory / "output.log"
        self.pid: int | None = None
        self.exit_code: int | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()
        self._received = b""
        self._answers: dict[int, dict[str, Any]] = {}
        self._requests = 0

    def open(self) -> None:
        """Start the guard, which makes the directory. Does nothing if it runs already."""
        with self._lock:
            if self._guard is not None:
                return
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", _guard.__file__, str(self.directory), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # a Ctrl-C in the terminal reaches the owner only
            )
            self._answer_to(_READY)

    def spawn(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        output: Path | None = None,
        errors: Path | None = None,
    ) -> int:
        """Start the server. Its output is appended to `output` (and `errors`, if that is to be apart)."""
        with self._lock:
            self.exit_code = None
            answer = self._ask(
                do="spawn",
                argv=list(argv),
                environment=None if environment is None else {**os.environ, **environment},
                output=str(output or self.output),
                errors=None if errors is None else str(errors),
            )
            if "error" in answer:
                raise ServerStartError(f"{self.name}: cannot start {argv[0]}: {answer['error']}")
            self.pid = answer["spawned"]
            return answer["spawned"]  # type: ignore[no-any-return]

    def poll(self) -> bool:
        """True while the server runs."""
        with self._lock:
            while self._guard is not None and self._receive(timeout_s=0):
                pass
            return self.pid is not None

    def wait(self, timeout_s: float) -> bool:
        """True if the server has ended (or ends within the time)."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            while self.poll():
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return False
                self._receive(timeout_s=left_s)
            return True

    def signal(self, number: int) -> bool:
        """Send a signal; False if nothing runs."""
        with self._lock:
            return self.poll() and bool(self._ask(do="signal", number=int(number)).get("signalled"))

    def write(self, text: str) -> bool:
        """Write to the server's standard input; False if nothing runs or it does not listen any more."""
        with self._lock:
            return self.poll() and bool(self._ask(do="write", text=text).get("written"))

    def at_death(self, argv: Sequence[str]) -> None:
        """A command the guard runs if the owner dies without closing."""
        self._ask(do="at_death", argv=list(argv))

    def end(self, number: int = signals.SIGTERM, grace_s: float = 20.0) -> None:
        """Ask the server to end, and kill it when it does not in time. Also ends a paused one."""
        if self.signal(number):
            self.signal(signals.SIGCONT)
            if not self.wait(scaled(grace_s)):
                self.signal(signals.SIGKILL)
                self.wait(scaled(grace_s))

    def close(self) -> None:
        """Kill what runs, remove the directory. Idempotent."""
        with self._lock:
            guard, self._guard = self._guard, None
            self.pid = None
            if guard is None:
                return
            assert guard.stdin is not None and guard.stdout is not None
            try:
                guard.stdin.write(b'{"do": "quit"}\n')
                guard.stdin.close()
            except BrokenPipeError:
                pass  # it is gone already
            guard.stdout.close()
            if guard.wait() != 0 and not os.environ.get(_guard.KEEP_FILES):
                shutil.rmtree(self.directory, ignore_errors=True)  # it was killed and could not do it

    def log_tail(self, *paths: Path, lines: int = LOG_TAIL_LINES) -> str:
        """The last lines of the given files (default: the output), for an error message."""
        parts = []
        for path in paths or (self.output,):
            try:
                text = path.read_text(errors="replace")
            except OSError:
                continue
            parts.extend(text.splitlines()[-lines:])
        return "\n".join(parts)

    def _ask(self, **request: Any) -> dict[str, Any]:
        with self._lock:
            if self._guard is None or self._guard.stdin is None:
                raise ServerStartError(f"{self.name}: not started, or closed already")
            try:
                self._requests += 1
                number = self._requests
                self._guard.stdin.write(json.dumps({**request, "id": number}).encode() + b"\n")
                self._guard.stdin.flush()
            except BrokenPipeError:
                raise self._guard_is_gone() from None
            return self._answer_to(number)

    def _answer_to(self, number: int) -> dict[str, Any]:
        """By number: a request that was interrupted (Ctrl-C) leaves an answer nobody waits for."""
        while number not in self._answers:
            if not self._receive(timeout_s=scaled(ANSWER_TIMEOUT_S)):
                raise self._guard_is_gone()
        return self._answers.pop(number)

    def _guard_is_gone(self) -> ServerStartError:
        return ServerStartError(f"{self.name}: its guard process does not answer or was killed from outside")

    def _receive(self, timeout_s: float) -> bool:
        """Take what the guard has said; False if it said nothing in time."""
        assert self._guard is not None and self._guard.stdout is not None
        descriptor = self._guard.stdout.fileno()
        readable, _, _ = select.select([descriptor], [], [], timeout_s)
        if not readable:
            return False
        received = os.read(descriptor, 65536)
        if not received:
            self.pid = None
            return False
        *lines, self._received = (self._received + received).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            if "exited" in answer:
                self.exit_code, self.pid = answer["exited"], None
            else:
                self._answers[answer.get("id", _READY)] = answer
        return True
