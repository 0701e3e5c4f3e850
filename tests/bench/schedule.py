"""How long a run takes: said before it begins, and corrected while it goes on.

What is expected of each case was measured on two cores with nothing else running. A machine that needs longer for the
first cases is taken to need longer for the others too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime

from tests.bench.results import CaseFound, Key, Planned, Results

CERTAIN_AFTER_S = 60.0  # of work: before that, the expected pace counts for more than the one seen


class Schedule:
    def __init__(self, results: Results) -> None:
        self._results = results
        self._current: CaseFound | None = None
        self._current_began_s = 0.0
        self.share = 0.0  # of the present case

    def begin(self, case: CaseFound) -> None:
        self._current, self._current_began_s, self.share = case, time.monotonic(), 0.0

    def text(self) -> str:
        """`14:05, 31 min left`."""
        began = datetime.fromisoformat(self._results.run.began)
        gone_s = (datetime.now(UTC) - began).total_seconds()
        return f"{int(gone_s) // 60:02}:{int(gone_s) % 60:02}, {rough(self.left_s())} left"

    def left_s(self) -> float:
        pace, left_s = self.pace(), 0.0
        done = self._done()
        for one in self._results.planned:
            if one.key in done:
                continue
            expected_s = one.expected_s * pace
            if self._current is not None and one.key == self._current.key:
                expected_s = self._left_of_current_s(expected_s)
            left_s += expected_s
        return left_s

    def pace(self) -> float:
        """How many times as long as expected things take here."""
        expected = {one.key: one.expected_s for one in self._results.planned}
        ended = [one for one in self._of_this_run() if one.key in expected]
        took_s = sum(one.seconds for one in ended)
        expected_s = sum(expected[one.key] for one in ended)
        return (took_s + CERTAIN_AFTER_S) / (expected_s + CERTAIN_AFTER_S)

    def _left_of_current_s(self, expected_s: float) -> float:
        gone_s = time.monotonic() - self._current_began_s
        by_share_s = gone_s * (1 - self.share) / self.share if self.share else expected_s - gone_s
        return max(0.0, by_share_s)

    def _done(self) -> set[Key]:
        """Cases of which there is nothing more to wait for."""
        return {one.key for one in self._results.cases if one.is_whole} | {one.key for one in self._of_this_run()}

    def _of_this_run(self) -> list[CaseFound]:
        """That have ended, with or without a result."""
        return [one for one in self._results.cases if one.run == self._results.run.id and one is not self._current]


def expected_s(planned: Iterable[Planned]) -> float:
    return sum(one.expected_s for one in planned)


def rough(seconds: float) -> str:
    """As one would say it."""
    if seconds >= 90:
        return f"{round(seconds / 60)} min"
    return f"{max(5, round(seconds / 5) * 5)} s"
