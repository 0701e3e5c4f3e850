"""Threads that repeat their work until they are told to stop (0.8: kafka.utils.ShutdownableThread).

Scala interrupts a thread that blocks; Python cannot. Rule: whatever do_work() blocks in, wake() ends.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

log = logging.getLogger(__name__)

JOIN_TIMEOUT_S = 30.0


class ShutdownableThread(ABC):
    """Repeats do_work() until shutdown().

    States: new -> (start) -> running -> (initiate_shutdown) -> stopping -> stopped; or running -> dead, when do_work()
    raises: that is logged, and told to `on_death` in the dying thread. Works once.
    """

    def __init__(self, name: str, *, on_death: Callable[[BaseException], None] | None = None) -> None:
        self.name = name
        self.stopping = threading.Event()
        self._on_death = on_death
        self._lifecycle = threading.Lock()
        self._thread: threading.Thread | None = None

    @abstractmethod
    def do_work(self) -> None:
        """One turn. Runs in this thread; returns early once `stopping` is set."""

    def wake(self) -> None:  # noqa: B027 - a thread that only waits for `stopping` needs no other waker
        """End what do_work() may block in. Called once, by any thread, after `stopping` was set."""

    def finish(self) -> None:  # noqa: B027 - most have nothing to give back
        """Give back what the thread holds. Runs in this thread, when it ends for whatever reason."""

    @property
    def is_running(self) -> bool:
        """True from start() until the thread has ended, for whatever reason."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    @property
    def is_current(self) -> bool:
        """Whether it is this thread that asks."""
        return self._thread is threading.current_thread()

    def start(self) -> None:
        """Begin. A thread that was shut down before never does."""
        with self._lifecycle:
            if self._thread is not None:
                raise RuntimeError(f"[{self.name}] was started before")
            if self.stopping.is_set():
                return
            thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            thread.start()
            self._thread = thread

    def initiate_shutdown(self) -> bool:
        """Tell it to stop, without waiting. False if it was told before."""
        with self._lifecycle:
            if self.stopping.is_set():
                return False
            self.stopping.set()
        log.info("[%s], Shutting down", self.name)
        self.wake()
        return True

    def await_shutdown(self) -> None:
        """Wait until it has stopped. Called by the owner, never by this thread."""
        thread = self._thread
        if thread is not None:
            thread.join(JOIN_TIMEOUT_S)
            if thread.is_alive():
                log.error("[%s], still running %.0f s after shutdown", self.name, JOIN_TIMEOUT_S)
                return
        log.info("[%s], Shutdown completed", self.name)

    def shutdown(self) -> None:
        """Stop and wait. Idempotent; called by the owner, never by this thread."""
        self.initiate_shutdown()
        self.await_shutdown()

    def _run(self) -> None:
        log.info("[%s], Starting ", self.name)
        error: BaseException | None = None
        try:
            while not self.stopping.is_set():
                self.do_work()
        except BaseException as raised:
            # As in 0.8.2.2: what a thread that is being stopped trips over is of no interest.
            if not self.stopping.is_set():
                log.exception("[%s], Error due to ", self.name)
                error = raised
        self.finish()
        log.info("[%s], Stopped ", self.name)
        if error is not None and self._on_death is not None:
            self._on_death(error)


__all__ = ["JOIN_TIMEOUT_S", "ShutdownableThread"]
