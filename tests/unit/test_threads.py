"""Threads that repeat their work: started, stopped, dying."""

from __future__ import annotations

import logging
import threading

import pytest

from fetcher.threads import ShutdownableThread
from zkconsumer.testing.waiting import eventually, scaled


class Worker(ShutdownableThread):
    """Waits in each turn for something that only wake() brings."""

    def __init__(self, *, error: Exception | None = None) -> None:
        self.deaths: list[BaseException] = []
        super().__init__("worker-1", on_death=self.deaths.append)
        self.turns = 0
        self.finished = 0
        self.error = error
        self._woken = threading.Event()

    def do_work(self) -> None:
        self.turns += 1
        if self.error is not None:
            raise self.error
        self._woken.wait(scaled(60))

    def wake(self) -> None:
        self._woken.set()

    def finish(self) -> None:
        self.finished += 1


def test_a_thread_lives_from_start_to_shutdown_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """M3: a thread has the name it was given; its life is four lines of the log."""
    caplog.set_level(logging.INFO)
    worker = Worker()
    worker.start()
    eventually(lambda: worker.turns == 1)
    assert worker.is_running
    assert "worker-1" in [thread.name for thread in threading.enumerate()]

    worker.shutdown()

    assert not worker.is_running
    assert (worker.turns, worker.finished, worker.deaths) == (1, 1, [])
    assert caplog.messages == [
        "[worker-1], Starting ",
        "[worker-1], Shutting down",
        "[worker-1], Stopped ",
        "[worker-1], Shutdown completed",
    ]


def test_shutdown_can_be_called_again_and_by_many() -> None:
    worker = Worker()
    worker.start()
    others = [threading.Thread(target=worker.shutdown, name=f"stopper-{n}") for n in range(4)]
    for other in others:
        other.start()
    for other in others:
        other.join(scaled(20))
    worker.shutdown()

    assert not worker.is_running
    assert worker.finished == 1


def test_a_thread_shut_down_before_it_started_never_works() -> None:
    worker = Worker()
    worker.shutdown()
    worker.start()

    assert not worker.is_running
    assert worker.turns == 0


def test_starting_twice_is_an_error() -> None:
    worker = Worker()
    worker.start()
    with pytest.raises(RuntimeError, match="worker-1"):
        worker.start()
    worker.shutdown()


def test_an_error_ends_the_thread_and_reaches_its_owner(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("out of luck")
    worker = Worker(error=error)
    worker.start()
    eventually(lambda: not worker.is_running)

    assert (worker.turns, worker.finished, worker.deaths) == (1, 1, [error])
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "[worker-1], Error due to "
    assert record.exc_info is not None and record.exc_info[1] is error
    worker.shutdown()


def test_an_error_while_stopping_is_no_death(caplog: pytest.LogCaptureFixture) -> None:
    class Tripping(Worker):
        def do_work(self) -> None:
            super().do_work()
            raise ValueError("the socket was closed under me")

    worker = Tripping()
    worker.start()
    eventually(lambda: worker.turns == 1)

    worker.shutdown()

    assert (worker.finished, worker.deaths) == (1, [])
    assert not [record for record in caplog.records if record.levelno == logging.ERROR]
