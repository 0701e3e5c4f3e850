"""The queue between fetchers and a stream. Threads here always have a waker, so no test waits for a time to pass."""

from __future__ import annotations

import inspect
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from fetcher.chunk_queue import SHUTDOWN, ChunkQueue, FetchedDataChunk
from fetcher.message_set import ByteBufferMessageSet
from fetcher.partition import PartitionTopicInfo
from zkconsumer.testing.waiting import eventually, scaled

_SOURCE, _FIRST_LINE = inspect.getsourcelines(ChunkQueue.take)
WAITING_LINE = _FIRST_LINE + next(number for number, line in enumerate(_SOURCE) if "_arrived.acquire" in line)


def chunk(number: int, queue: ChunkQueue) -> FetchedDataChunk:
    return FetchedDataChunk(ByteBufferMessageSet(b""), PartitionTopicInfo("t", 0, queue, 1000), number)


class Call:
    """A call in another thread, and what came of it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.results: list[Any] = []
        self._thread = threading.Thread(target=lambda: self.results.append(function()), daemon=True)
        self._thread.start()

    @property
    def ident(self) -> int:
        return self._thread.ident or 0

    @property
    def is_blocked(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join(scaled(20))
        assert not self._thread.is_alive(), "still blocked"
        return self.results[0]


@contextmanager
def blocked_put(queue: ChunkQueue, stopping: threading.Event | None = None) -> Iterator[Call]:
    call = Call(lambda: queue.put(chunk(99, queue), stopping))
    eventually(lambda: waiters_of(queue, "_not_full"), "a put to block")
    yield call


def waiters_of(queue: ChunkQueue, condition: str) -> int:
    return len(getattr(queue, condition)._waiters)


def is_in_take(call: Call) -> bool:
    """Whether its thread stands at the lock that a take waits for."""
    frame = sys._current_frames().get(call.ident)
    return frame is not None and frame.f_code.co_name == "take" and frame.f_lineno == WAITING_LINE


def full_queue(capacity: int = 2) -> ChunkQueue:
    queue = ChunkQueue(capacity)
    for number in range(capacity):
        assert queue.put(chunk(number, queue), threading.Event())
    return queue


def fetch_offset(taken: object) -> int:
    assert isinstance(taken, FetchedDataChunk)
    return taken.fetch_offset


def test_chunks_come_out_in_the_order_they_were_put() -> None:
    queue = full_queue(3)

    assert [fetch_offset(queue.take(0)) for _ in range(3)] == [0, 1, 2]


def test_nothing_comes_in_time_from_an_empty_queue() -> None:
    assert ChunkQueue(2).take(0.001) is None


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_queue_without_room_is_refused(capacity: int) -> None:
    with pytest.raises(ValueError, match=f"queued.max.message.chunks is {capacity}"):
        ChunkQueue(capacity)


def test_a_put_into_a_full_queue_waits_for_a_take() -> None:
    queue = full_queue()
    with blocked_put(queue) as put:
        assert put.is_blocked
        assert len(queue) == 2

        queue.take(0)

        assert put.result() is True
        assert len(queue) == 2


def test_a_put_into_a_full_queue_goes_on_after_clear() -> None:
    queue = full_queue()
    with blocked_put(queue) as put:
        queue.clear()

        assert put.result() is True
        assert fetch_offset(queue.take(0)) == 99


def test_a_blocked_put_gives_up_when_stopping_is_set_and_it_is_woken() -> None:
    queue, stopping = full_queue(), threading.Event()
    with blocked_put(queue, stopping) as put:
        stopping.set()
        queue.wake()

        assert put.result() is False
        assert len(queue) == 2


def test_waking_alone_does_not_end_a_blocked_put() -> None:
    queue, stopping = full_queue(), threading.Event()
    with blocked_put(queue, stopping) as put:
        queue.wake()
        eventually(lambda: waiters_of(queue, "_not_full"), "the put to block again")

        assert put.is_blocked
        queue.take(0)
        assert put.result() is True


def test_waking_lets_all_blocked_puts_look() -> None:
    queue, stopping = full_queue(), threading.Event()
    puts = [Call(lambda: queue.put(chunk(99, queue), stopping)) for _ in range(3)]
    eventually(lambda: waiters_of(queue, "_not_full") == 3, "three puts to block")

    stopping.set()
    queue.wake()

    assert [put.result() for put in puts] == [False, False, False]


def test_nothing_is_put_once_stopping_is_set() -> None:
    queue, stopping = ChunkQueue(2), threading.Event()
    stopping.set()

    assert queue.put(chunk(0, queue), stopping) is False
    assert len(queue) == 0


@pytest.mark.parametrize("timeout_s", [None, 60.0])
def test_a_take_waits_for_a_put(timeout_s: float | None) -> None:
    queue = ChunkQueue(2)
    take = Call(lambda: queue.take(timeout_s))
    eventually(lambda: is_in_take(take), "a take to block")

    queue.put(chunk(7, queue), None)

    assert fetch_offset(take.result()) == 7


def test_a_take_without_time_limit_is_woken_by_shutdown() -> None:
    queue = ChunkQueue(2)
    take = Call(lambda: queue.take(None))
    eventually(lambda: is_in_take(take), "a take to block")

    queue.put_shutdown()

    assert take.result() is SHUTDOWN


def test_the_marker_fits_into_a_full_queue_and_comes_last() -> None:
    queue = full_queue()

    queue.put_shutdown()

    assert [fetch_offset(queue.take(0)) for _ in range(2)] == [0, 1]
    assert queue.take(0) is SHUTDOWN


def test_clearing_drops_chunks_and_leaves_the_marker() -> None:
    queue = full_queue()
    queue.put_shutdown()

    queue.clear()

    assert queue.take(0) is SHUTDOWN
    assert len(queue) == 0


@pytest.fixture
def ctrl_c_is_heard() -> Iterator[None]:
    """A shell lets what it starts with & ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_is_heard")
def test_ctrl_c_ends_a_take_that_waits() -> None:
    queue, main_thread = ChunkQueue(2), threading.get_ident()

    def is_waiting() -> bool:
        return sys._current_frames()[main_thread].f_lineno == WAITING_LINE

    def press_when_waiting() -> None:
        eventually(is_waiting, "the take to block")
        # As a user would: Python overlooks a signal that comes in the moment before the thread sleeps.
        while is_waiting():
            signal.pthread_kill(main_thread, signal.SIGINT)
            threading.Event().wait(0.2)

    Call(press_when_waiting)
    with pytest.raises(KeyboardInterrupt):
        queue.take(None)

    queue.put(chunk(5, queue), None)
    assert fetch_offset(queue.take(0)) == 5


def test_ctrl_c_in_a_take_never_costs_a_chunk() -> None:
    queue, stopping, count = ChunkQueue(2), threading.Event(), 2000
    put = Call(lambda: [queue.put(chunk(number, queue), stopping) for number in range(count)])

    taken: list[int] = []
    with signals_that_interrupt(queue.take) as interrupted:
        while len(taken) < count:
            next_one = None
            try:
                next_one = queue.take(scaled(20))
            except KeyboardInterrupt:
                continue
            taken.append(fetch_offset(next_one))

    assert taken == list(range(count))
    assert all(put.result())
    assert interrupted


class InterruptingLock:
    """Does what a signal does that arrives while the lock is let go: it raises right afterwards, once."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self.armed = True

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt


def test_a_chunk_taken_when_ctrl_c_comes_goes_back_to_the_front() -> None:
    queue = full_queue(2)
    queue._lock = InterruptingLock(queue._lock)  # type: ignore[assignment]

    with pytest.raises(KeyboardInterrupt):
        queue.take(0)

    assert [fetch_offset(queue.take(0)) for _ in range(2)] == [0, 1]
    assert queue.take(0) is None


@contextmanager
def signals_that_interrupt(method: Any) -> Iterator[list[int]]:
    """Signals all the time, of which those that arrive in this very method raise KeyboardInterrupt."""
    interrupted: list[int] = []
    done, main_thread = threading.Event(), threading.get_ident()

    def handle(number: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code is method.__func__.__code__:
            interrupted.append(frame.f_lineno)
            raise KeyboardInterrupt

    def press() -> None:
        while not done.wait(0.0002):
            signal.pthread_kill(main_thread, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handle)
    pressing = Call(press)
    try:
        yield interrupted
    finally:
        done.set()
        pressing.result()
        signal.signal(signal.SIGUSR1, before)


def test_many_fetchers_and_a_stream_lose_and_repeat_nothing() -> None:
    queue, stopping, starts = ChunkQueue(2), threading.Event(), (0, 1000, 2000)

    def put_200(start: int) -> Call:
        return Call(lambda: [queue.put(chunk(start + number, queue), stopping) for number in range(200)])

    puts = [put_200(start) for start in starts]
    taken = [fetch_offset(queue.take(scaled(20))) for _ in range(600)]

    assert all(all(put.result()) for put in puts)
    for start in starts:
        assert [offset for offset in taken if start <= offset < start + 1000] == list(range(start, start + 200))
    assert queue.take(0) is None
