"""Debian's chromium without a window and without a network: a page's document, its picture, its print, its keyboard."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from zkconsumer.testing.waiting import eventually

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND",
]  # fmt: skip
UNTIL_DRAWN = "--virtual-time-budget=10000"
KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "Space": (32, " "), "ArrowRight": (39, "")}
TIMEOUT_S = 120
Colour = tuple[int, int, int]


class Browser:
    """One at a time. Its files lie in a short path of their own: a socket's may have 107 characters only."""

    def __init__(self, program: str) -> None:
        self._program = program

    def document(self, page: Path) -> str:
        """The page as it stands after its scripts ran."""
        return self._run(page, "--dump-dom")[0]

    def picture(self, page: Path, *, width: int, height: int) -> Counter[Colour]:
        """How many points of each colour a window of this size shows, every second of them."""
        size = f"--window-size={width},{height}"
        return colours_of(self._run(page, size, "--force-device-scale-factor=0.5", "--screenshot={}")[1])

    def printed(self, page: Path) -> bytes:
        """As PDF."""
        return self._run(page, "--no-pdf-header-footer", "--print-to-pdf={}")[1]

    @contextmanager
    def opened(self, page: Path, *, width: int = 1200, height: int = 900) -> Iterator[Tab]:
        """A page one can use, once all its charts are drawn. The browser is told what to do through pipes."""
        with ExitStack() as closing:
            directory = tempfile.mkdtemp(dir="/tmp", prefix="chromium-")
            closing.callback(eventually, lambda: _gone(directory), f"nothing left in {directory}", timeout_s=TIMEOUT_S)
            (its_end, write), (read, its_answers) = os.pipe(), os.pipe()
            for end in (write, read):
                closing.callback(os.close, end)
            flags = [*FLAGS, f"--user-data-dir={directory}/profile", f"--window-size={width},{height}"]
            command = [self._program, *flags, "--remote-debugging-pipe", "about:blank"]
            given = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (its_end, its_answers)]  # it wants them as 3 and 4
            for end in (its_end, its_answers):
                os.close(end)
            process = subprocess.Popen(
                ["bash", "-c", f'exec "$@" 3<&{given[0]} 4>&{given[1]}', "chromium", *command],
                pass_fds=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=os.environ | {"TMPDIR": directory}, start_new_session=True,
            )  # fmt: skip
            for end in given:
                os.close(end)
            closing.callback(_ended, process)
            yield Tab(_Pipe(read, write), page.as_uri())

    def _run(self, page: Path, *options: str) -> tuple[str, bytes]:
        with tempfile.TemporaryDirectory(dir="/tmp", prefix="chromium-") as directory:
            out = Path(directory) / "out.png"  # chromium looks at the name
            command = [self._program, *FLAGS, UNTIL_DRAWN, f"--user-data-dir={directory}/profile"]
            command += [option.format(out) for option in options] + [page.as_uri()]
            environment = os.environ | {"TMPDIR": directory}
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment
            )
            assert done.returncode == 0, f"chromium ended with {done.returncode}:\n{done.stderr}"
            return done.stdout, out.read_bytes() if out.exists() else b""


class Tab:
    """One page and its keyboard."""

    def __init__(self, pipe: _Pipe, address: str) -> None:
        self._pipe = pipe
        target = pipe.ask("Target.createTarget", url=address)["targetId"]
        self._session = pipe.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        eventually(
            lambda: self.value(
                "location.protocol == 'file:' && document.readyState == 'complete' &&"
                " [...document.querySelectorAll('.plotly-graph-div')].every(one => one._fullLayout)"
            ),
            f"{address} drawn",
            timeout_s=TIMEOUT_S,
        )

    def value(self, expression: str) -> Any:
        """What JavaScript makes of it."""
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, *, shift: bool = False) -> None:
        code, text = KEYS[key]
        about = {"key": text if key == "Space" else key, "code": key, "windowsVirtualKeyCode": code}
        about["modifiers"] = 8 if shift else 0
        self._ask("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **about)
        self._ask("Input.dispatchKeyEvent", type="keyUp", **about)

    def print(self) -> bytes:
        """As PDF."""
        return base64.b64decode(self._ask("Page.printToPDF", preferCSSPageSize=True)["data"])

    def read_aloud(self) -> list[tuple[str, str, str]]:
        """What a screen reader is told, in order: role, name, and the level of headings."""
        self._ask("Accessibility.enable")
        nodes = self._ask("Accessibility.getFullAXTree")["nodes"]
        by_id = {node["nodeId"]: node for node in nodes}
        told, waiting = [], [nodes[0]]
        while waiting:
            node = waiting.pop()
            waiting += [by_id[child] for child in reversed(node.get("childIds", [])) if child in by_id]
            if not node["ignored"]:
                more = {one["name"]: one["value"].get("value") for one in node.get("properties", ())}
                name = node.get("name", {}).get("value", "")
                told.append((node["role"]["value"], name, str(more.get("level", ""))))
        return told

    def _ask(self, method: str, **parameters: Any) -> Any:
        return self._pipe.ask(method, session=self._session, **parameters)


class _Pipe:
    """Chromium's protocol for tools: JSON, each message ended by a zero."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._unread = b""
        self._number = 0

    def ask(self, method: str, *, session: str = "", **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        os.write(self._write, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _next(self) -> Any:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._read], [], [], TIMEOUT_S)
            data = os.read(self._read, 1 << 20) if ready else b""
            assert data, "chromium ended, or does not answer"
            self._unread += data
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)


def _ended(process: subprocess.Popen[bytes]) -> None:
    """With all of its helpers."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(TIMEOUT_S)


def _gone(directory: str) -> bool:
    """Helpers that are about to die may still write."""
    shutil.rmtree(directory, ignore_errors=True)
    return not Path(directory).exists()


def colours_of(png: bytes) -> Counter[Colour]:
    """Points by colour, of a picture with eight bits a channel that is not interlaced, as chromium writes."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height, depth, kind, _, _, interlaced = struct.unpack_from(">IIBBBBB", png, 16)
    assert depth == 8 and kind in (2, 6) and not interlaced
    data, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += length + 12
    lines, step = zlib.decompress(data), {2: 3, 6: 4}[kind]
    size, above = width * step, bytes(width * step)
    found: Counter[Colour] = Counter()
    for row in range(height):
        start = row * (size + 1)
        above = _unfiltered(lines[start], lines[start + 1 : start + 1 + size], above, step)
        found.update(zip(above[0::step], above[1::step], above[2::step], strict=True))
    return found


def _unfiltered(how: int, line: bytes, above: bytes, step: int) -> bytes:
    """PNG's five filters: each byte is told as its difference from a guess."""
    if how == 0:
        return line
    if how == 2:
        return bytes((one + up) & 255 for one, up in zip(line, above, strict=True))
    done = bytearray(len(line))
    for at, one in enumerate(line):
        left, up = (done[at - step] if at >= step else 0), above[at]
        corner = above[at - step] if at >= step else 0
        if how == 1:
            guess = left
        elif how == 3:
            guess = (left + up) // 2
        else:
            straight = left + up - corner
            guess = min((left, up, corner), key=lambda each: abs(straight - each))
        done[at] = (one + guess) & 255
    return bytes(done)
