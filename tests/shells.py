"""Real shells at a terminal, to press keys in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from zkconsumer.testing.waiting import eventually

ESCAPES = re.compile(r"\x1b(\[[0-9;?>=]*[a-zA-Z]|\][^\x07\x1b]*(\x07|\x1b\\\\)|[()][A-Z0-9]|[=>78])")
START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
PREPARE = {
    "bash": "bind 'set show-all-if-ambiguous on'; bind 'set bell-style none'; source {}",
    "zsh": "autoload -U compinit && compinit -u -D && source {}",
    "fish": "source {}",
}
TAB, HOME, CLEAR = "\t", "\x01", "\x15"


def needed_shell(name: str) -> None:
    """Skips, or in CI fails, where it is not installed."""
    if shutil.which(name) is None:
        reason = f"{name} is not installed: its completion was not tried"
        if os.environ.get("ZKCONSUMER_ALL_SHELLS"):
            pytest.fail(reason)
        pytest.skip(reason)


class Shell:
    """Somebody types, and reads the screen."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._seen = b""
        self._reader = threading.Thread(target=self._read, name="shell-screen")
        self._reader.start()

    def press(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def run(self, line: str) -> None:
        """Until it has been run."""
        end = len(self._seen)
        self.press(f"{line}; echo do''ne\n")
        eventually(lambda: "\ndone" in self._screen(end), lambda: repr(self._screen()), 60)

    def completed(self, line: str) -> str:
        """What the line has become when TAB was pressed at its end."""
        end = len(self._seen)
        self.press(f"{line}{TAB}{HOME}echo G''OT: \n")
        pattern = re.compile(r"\nGOT: (.*?)\s*\n")
        eventually(lambda: pattern.search(self._screen(end)), lambda: self._screen(end), 60)
        return str(pattern.findall(self._screen(end))[0])

    def offers(self, line: str, *words: str) -> None:
        """Wait until TAB at the end of the line shows these."""
        end = len(self._seen)
        self.press(f"{line}{TAB}")
        eventually(lambda: all(word in self._screen(end) for word in words), lambda: self._screen(end), 60)
        self.press(f"{CLEAR}\n")

    def join(self) -> None:
        self._reader.join()

    def _screen(self, start: int = 0) -> str:
        return ESCAPES.sub("", self._seen[start:].decode(errors="replace")).replace("\r", "")

    def _read(self) -> None:
        try:
            while data := os.read(self._terminal, 65536):
                self._seen += data
        except OSError:  # nobody has the other end any more
            pass


@contextmanager
def interactive(name: str, script: Path) -> Iterator[Shell]:
    """In the script's directory, with the script read and our command to be found."""
    ours, theirs = os.openpty()
    directory = script.parent
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(directory), "TERM": "xterm",
        "XDG_CONFIG_HOME": str(directory), "XDG_DATA_HOME": str(directory), "LANG": "C.UTF-8",
    }  # fmt: skip
    command = ["setsid", "--ctty", *START[name]]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=directory, env=environment)
    os.close(theirs)
    shell = Shell(ours)
    try:
        shell.run(PREPARE[name].format(script))
        yield shell
    finally:
        process.kill()
        process.wait()
        shell.join()
        os.close(ours)
