"""Debian's chromium without a window and without a network: a page's document, its picture, its print."""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
import zlib
from collections import Counter
from pathlib import Path

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--hide-scrollbars", "--virtual-time-budget=10000",
    "--host-resolver-rules=MAP * ~NOTFOUND",
]  # fmt: skip
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

    def _run(self, page: Path, *options: str) -> tuple[str, bytes]:
        with tempfile.TemporaryDirectory(dir="/tmp", prefix="chromium-") as directory:
            out = Path(directory) / "out.png"  # chromium looks at the name
            command = [self._program, *FLAGS, f"--user-data-dir={directory}/profile"]
            command += [option.format(out) for option in options] + [page.as_uri()]
            environment = os.environ | {"TMPDIR": directory}
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment
            )
            assert done.returncode == 0, f"chromium ended with {done.returncode}:\n{done.stderr}"
            return done.stdout, out.read_bytes() if out.exists() else b""


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
