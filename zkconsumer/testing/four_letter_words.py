"""ZooKeeper's four letter words: what a server says about itself, without a session and without touching one.

Rule: sessions are signed 64-bit numbers, as in `KazooClient.client_id[0]`; ZooKeeper prints them unsigned in hex.
"""

from __future__ import annotations

import re
import socket
from typing import NamedTuple

from zkconsumer.testing.errors import ServerError

ANSWER_TIMEOUT_S = 5.0
NOT_SERVING = "not currently serving requests"


class ServerSession(NamedTuple):
    """A session as the server sees it."""

    id: int
    ephemerals: tuple[str, ...]
    connected: bool  # False: the server waits for its client to come back, or for its time to be over
    timeout_ms: int | None  # as granted; known while it is connected


def ask(address: str, word: str, *, timeout_s: float = ANSWER_TIMEOUT_S) -> str:
    """The answer of the server at "host:port" to a word such as "srvr". OSError if none comes."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
        connection.sendall(word.encode())
        answer = bytearray()
        while received := connection.recv(65536):
            answer += received
    text = answer.decode(errors="replace")
    if "is not in the whitelist" in text:
        raise ServerError(f"{address} does not answer {word!r}: its 4lw.commands.whitelist has to name it")
    return text


def read_watches(wchp: str) -> dict[str, set[int]]:
    """Path -> sessions, from the answer to "wchp"."""
    watches: dict[str, set[int]] = {}
    path = ""
    for line in filter(None, wchp.splitlines()):
        if line.startswith("/"):
            path = line
        else:
            watches.setdefault(path, set()).add(_session(line))
    return watches


def read_sessions(dump: str, cons: str) -> dict[int, ServerSession]:
    """All sessions that have not ended, by number, from the answers to "dump" and "cons"."""
    tracked, _, rest = dump.partition("ephemeral nodes dump:")
    owned, _, _ = rest.partition("Connections dump:")
    ephemerals: dict[int, list[str]] = {
        _session(number): [] for number in re.findall(r"^\s*(0x[0-9a-f]+)", tracked, re.M)
    }
    owner = 0
    for line in owned.splitlines():
        if line.startswith("0x"):
            owner = _session(line.rstrip(":"))
        elif line.startswith("\t/"):
            ephemerals.setdefault(owner, []).append(line[1:])
    granted = {_session(sid): int(timeout) for sid, timeout in re.findall(r"sid=(0x[0-9a-f]+),.*?\bto=(\d+)", cons)}
    return {
        number: ServerSession(number, tuple(sorted(paths)), number in granted, granted.get(number))
        for number, paths in ephemerals.items()
    }


def read_mode(srvr: str) -> str | None:
    """ "standalone", "leader", "follower" or "observer", from the answer to "srvr"; None if it does not serve."""
    found = re.search(r"^Mode: (\w+)", srvr, re.M)
    return found[1] if found else None


def _session(hexadecimal: str) -> int:
    return int.from_bytes(int(hexadecimal.strip(), 16).to_bytes(8, "big"), "big", signed=True)
