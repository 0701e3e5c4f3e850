"""The end of the process that holds the members, in every way it may come.

query.stop() sends SIGTERM. ZooKeeper must not be talked to in a signal handler, and SIGTERM may arrive while the main
thread is deep in a wait: so the interpreter writes the signal's number into a pipe (set_wakeup_fd), and a thread reads
it. A driver that was killed closes the socket on which the main thread reads; and a parent that is gone is noticed by
looking, in case nobody else tells.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable

LOOK_EVERY_S = 1.0
ENDING = frozenset({signal.SIGTERM, signal.SIGHUP})  # of query.stop(), and of a terminal that was closed


class Lifeline(threading.Thread):
    """Calls `on_end` once, in its own thread, and ends the process."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        super().__init__(name="spark-lifeline", daemon=True)
        self._on_end = on_end
        self._parent = os.getppid()
        self._read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        self._write_end = write_end

    def attach(self) -> None:
        """Called by the main thread, the only one that may."""
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, lambda *_: None)  # a handler, or the default one ends us at once
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        self.start()

    def run(self) -> None:
        while os.getppid() == self._parent:
            readable, _, _ = select.select([self._read_end], [], [], LOOK_EVERY_S)
            if readable and ENDING.intersection(os.read(self._read_end, 64)):
                break
        try:
            self._on_end()
        finally:
            os._exit(0)
