"""Waiting for something to become true, without sleeping through it.

Every time-out is multiplied by ZKCONSUMER_TIME_SCALE (default 1), for machines slower than ours.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from zkconsumer.testing.errors import WaitTimeout

T = TypeVar("T")

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.1


def scaled(seconds: float) -> float:
    """A time-out for this machine."""
    return seconds * float(os.environ.get("ZKCONSUMER_TIME_SCALE", "1"))


def eventually(
    condition: Callable[[], T], what: str | Callable[[], str] = "the condition", timeout_s: float = 20.0
) -> T:
    """The first true result of `condition`; WaitTimeout, naming `what` and the last result, if none comes.

    An AssertionError from the condition counts as "not yet" and is shown if time runs out.
    """
    deadline = time.monotonic() + scaled(timeout_s)
    pause_s = FIRST_PAUSE_S
    while True:
        failure: AssertionError | None = None
        result: T | None = None
        try:
            result = condition()
        except AssertionError as error:
            failure = error
        if failure is None and result:
            return result
        if time.monotonic() >= deadline:
            wanted = what if isinstance(what, str) else what()
            last = f"{failure}" if failure is not None else f"{result!r}"
            raise WaitTimeout(f"{wanted}: not within {scaled(timeout_s):g} s; last seen: {last}") from failure
        threading.Event().wait(pause_s)
        pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)
