"""Receiving without the GIL, sending without letting it go, where that is compiled, in _records.pyx; or None."""

from __future__ import annotations

from collections.abc import Callable

from fetcher.implementation import IMPLEMENTATION

CLOSED, TIMED_OUT, WOKEN = -1, -2, -3

receive: Callable[[int, int, memoryview, int], int] | None
receive_answer: Callable[[int, int, int, int, int, int], tuple[int, int, bytes | None]] | None
send_some: Callable[[int, memoryview], int] | None

if IMPLEMENTATION == "compiled":
    from fetcher._records import receive, receive_answer, send_some
else:
    receive = receive_answer = send_some = None
