"""Receiving without the GIL, where it is compiled: `receive` and `receive_answer` of _records.pyx, or None."""

from __future__ import annotations

from collections.abc import Callable

from fetcher.implementation import IMPLEMENTATION

CLOSED, TIMED_OUT, WOKEN = -1, -2, -3

receive: Callable[[int, int, memoryview, int], int] | None
receive_answer: Callable[[int, int, int, int, int, int], tuple[int, int, bytes | None]] | None

if IMPLEMENTATION == "compiled":
    from fetcher._records import receive, receive_answer
else:
    receive = receive_answer = None
