"""Commits on a timer (0.8: KafkaScheduler with autoCommit)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from fetcher.threads import ShutdownableThread
from zkconsumer.errors import IllegalArgumentException, ZooKeeperStopped

log = logging.getLogger(__name__)


class AutoCommitter(ShutdownableThread):
    """Calls `commit` at a fixed rate, first after one interval; intervals that were missed are not made up."""

    def __init__(self, consumer_id: str, interval_ms: int, commit: Callable[[], None]) -> None:
        super().__init__("kafka-consumer-scheduler-0")
        if interval_ms < 1:
            raise IllegalArgumentException(f"auto.commit.interval.ms is {interval_ms}: it must be at least 1")
        self._consumer_id = consumer_id
        self._interval_s = interval_ms / 1000
        self._commit = commit
        self._next_s = time.monotonic() + self._interval_s

    def do_work(self) -> None:
        if self.stopping.wait(max(0.0, self._next_s - time.monotonic())):
            return
        try:
            self._commit()
        except ZooKeeperStopped:
            pass  # a shutdown, which commits by itself
        except Exception:
            # The next interval tries again; a commit that fails for good shows in the log each time.
            log.exception("[%s], exception during autoCommit: ", self._consumer_id)
        missed = max(0.0, time.monotonic() - self._next_s) // self._interval_s
        self._next_s += self._interval_s * (1 + missed)
