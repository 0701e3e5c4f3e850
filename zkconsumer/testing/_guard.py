"""The guard: a small process between a test and its server, so that nothing stays when the test is killed.

Run as a script of its own (`python -I -S _guard.py DIRECTORY OWNER`), standard library only. It makes DIRECTORY, starts
the server when told to, and passes signals on. When its standard input ends or the process OWNER does, because it was
closed or was killed with no chance to say anything, it kills the server, runs the registered clean-up commands and
removes DIRECTORY. Only the server's parent may signal it: while it is not reaped its pid cannot belong to anybody else.

Messages are JSON lines. In: {"do": "spawn" | "signal" | "write" | "at_death" | "quit", "id": number, …}. Out: one
answer to each, with its id, and {"exited": code} when the server ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from typing import Any

PR_SET_PDEATHSIG = 1
KEEP_FILES = "ZKCONSUMER_KEEP_FILES"


class Guard:
    """States: idle → (spawn) running → (the server ends) idle … → (quit or end of input) gone."""

    def __init__(self, directory: str, owner: int) -> None:
        self._directory = directory
        self._owner = owner
        self._server: subprocess.Popen[bytes] | None = None
        self._at_death: list[list[str]] = []
        self._input = b""
        self._wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, who then stops us in order
        self._told_to_end = False

    def run(self) -> None:
        os.mkdir(self._directory, 0o700)
        orderly = False
        try:
            self._say({"ready": os.getpid()})
            orderly = self._serve()
        finally:
            self._clean_up(orderly)

    def _serve(self) -> bool:
        """Until told to quit (True), or until the owner is gone (False)."""
        watched = [0, self._wake_read, *self._watch_owner()]
        while not self._told_to_end:
            readable, _, _ = select.select(watched, [], [])
            if any(descriptor in readable for descriptor in watched[2:]):
                return False
            if self._wake_read in readable:
                os.read(self._wake_read, 4096)
                self._report_exit()
            if 0 in readable:
                received = os.read(0, 65536)
                if not received:
                    return False
                *lines, self._input = (self._input + received).split(b"\n")
                for line in lines:
                    request = json.loads(line)
                    if request["do"] == "quit":
                        return True
                    self._say({**self._answer(request), "id": request["id"]})
        return False

    def _watch_owner(self) -> list[int]:
        """Something that becomes readable when the owner ends: a child it forked may keep our input open. Linux."""
        if not hasattr(os, "pidfd_open"):
            return []
        try:
            descriptor = os.pidfd_open(self._owner)
        except ProcessLookupError:
            self._told_to_end = True
            return []
        except OSError:  # a kernel before 5.3, or a sandbox: the end of our input has to do
            return []
        if os.getppid() != self._owner:  # it has ended, and its number may be another's by now
            self._told_to_end = True
        return [descriptor]

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            match request["do"]:
                case "spawn":
                    return {"spawned": self._spawn(request)}
                case "signal":
                    return {"signalled": self._signal(request["number"])}
                case "write":
                    return {"written": self._write(request["text"])}
                case "at_death":
                    self._at_death.append(request["argv"])
                    return {"noted": True}
            return {"error": f"unknown request {request['do']!r}"}
        except OSError as error:
            return {"error": f"{error.strerror}: {error.filename}" if error.filename else str(error)}

    def _spawn(self, request: dict[str, Any]) -> int:
        if self._server is not None:
            raise OSError("already running")
        with open(request["output"], "ab") as output:
            self._server = subprocess.Popen(
                request["argv"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output if request["errors"] is None else open(request["errors"], "ab"),  # noqa: SIM115
                cwd=self._directory,
                env=request["environment"],
                preexec_fn=_die_with_parent,  # noqa: PLW1509  (this process has one thread)
            )
        return self._server.pid

    def _signal(self, number: int) -> bool:
        if self._server is None:
            return False
        self._server.send_signal(number)
        if number == signal.SIGSTOP:  # answered when every thread stands still; an end is left for poll() to find
            os.waitid(os.P_PID, self._server.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        return True

    def _write(self, text: str) -> bool:
        if self._server is None or self._server.stdin is None:
            return False
        try:
            self._server.stdin.write(text.encode())
            self._server.stdin.flush()
        except BrokenPipeError:
            return False
        return True

    def _report_exit(self) -> None:
        if self._server is not None and self._server.poll() is not None:
            code, self._server = self._server.returncode, None
            self._say({"exited": code})

    def _note(self, number: int, _frame: object) -> None:
        if number != signal.SIGCHLD:
            self._told_to_end = True

    def _say(self, answer: dict[str, Any]) -> None:
        try:
            os.write(1, json.dumps(answer).encode() + b"\n")
        except BrokenPipeError:
            self._told_to_end = True

    def _clean_up(self, orderly: bool) -> None:
        if self._server is not None:
            self._server.kill()  # also ends a paused one
            self._server.wait()
        if not orderly:
            null = subprocess.DEVNULL
            for argv in self._at_death:
                subprocess.run(argv, stdin=null, stdout=null, stderr=null, check=False)
        if not os.environ.get(KEEP_FILES):
            shutil.rmtree(self._directory, ignore_errors=True)


def _die_with_parent() -> None:
    """The server must not outlive even a guard that is killed itself. Linux only; elsewhere the guard has to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    Guard(sys.argv[1], int(sys.argv[2])).run()
