"""Receiving without the GIL, where it is compiled: `receive` of _records.pyx, or None."""

from __future__ import annotations

from collections.abc import Callable

from fetcher.implementation import IMPLEMENTATION

CLOSED, TIMED_OUT = -1, -2

receive: Callable[[int, int, memoryview, int], int] | None

if IMPLEMENTATION == "compiled":
    from fetcher._records import receive
else:
    receive = None
