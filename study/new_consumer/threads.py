"""Two ways to consume with several threads (seed 003): a consumer for each, or one consumer that feeds workers.

    ConsumerThreads(settings, ["orders"], handle, threads=4).run(stopping)
    WorkerPool(settings, ["orders"], handle, workers=10).run(stopping)

Both store only what `handle` has returned from, so that whoever comes next repeats what was unfinished and loses
nothing. The first keeps the order of each partition and has a connection a thread; the second has one consumer, and
handles records of a partition side by side: order is lost, and a sliding window knows up to where all are done.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from queue import SimpleQueue
from typing import Any

from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from fetcher.threads import ShutdownableThread
from study.new_consumer.config import by_todays_names
from study.new_consumer.consumer import NewConsumer
from study.new_consumer.errors import CommitFailedException
from study.new_consumer.records import ConsumerRecord
from zkconsumer.errors import IllegalArgumentException

log = logging.getLogger(__name__)

POLL_S = 0.1
MOST_UNFINISHED = 1000

Handle = Callable[[ConsumerRecord], None]


class SlidingWindow:
    """The records of one partition that were handed out, in order, until all before them are done.

    Called by: the polling thread only.
    """

    def __init__(self) -> None:
        self._handed_out: deque[int] = deque()
        self._done: set[int] = set()
        self._next: int | None = None

    def hand_out(self, offset: int) -> None:
        self._handed_out.append(offset)

    def done(self, offset: int) -> None:
        """In any order."""
        self._done.add(offset)
        while self._handed_out and self._handed_out[0] in self._done:
            first = self._handed_out.popleft()
            self._done.remove(first)
            self._next = first + 1

    @property
    def unfinished(self) -> int:
        return len(self._handed_out)

    def committable(self) -> int | None:
        """Where whoever comes next has to begin; None if not even the first is done. Never past an unfinished one."""
        return self._next


class ConsumerThreads:
    """A consumer per thread: each polls, handles and commits for itself."""

    def __init__(
        self, properties: Mapping[str, Any], topics: Collection[str], handle: Handle, *, threads: int = 4
    ) -> None:
        self._properties = _by_hand(properties)
        self._topics = topics
        self._handle = handle
        self._number = _at_least_one(threads, "threads")
        self._first_error: BaseException | None = None

    def run(self, stopping: threading.Event) -> None:
        """Until `stopping` is set, or one of the threads fails: then all stop, and its error is raised here."""

        def fail(error: BaseException) -> None:
            self._first_error = self._first_error or error
            stopping.set()

        threads = [
            _PollingThread(f"consumer-thread-{number}", NewConsumer(self._properties), self._topics, self._handle, fail)
            for number in range(self._number)
        ]
        for thread in threads:
            thread.start()
        try:
            stopping.wait()
        finally:
            for thread in threads:
                thread.initiate_shutdown()
            for thread in threads:
                thread.await_shutdown()
        if self._first_error is not None:
            raise self._first_error


class WorkerPool:
    """One consumer that feeds workers. The caller of run() polls and commits; only `handle` runs in the workers."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        topics: Collection[str],
        handle: Handle,
        *,
        workers: int = 4,
        most_unfinished: int = MOST_UNFINISHED,
    ) -> None:
        """`most_unfinished`: a partition with as many is paused, so that slow workers do not fill the memory."""
        self._properties = _by_hand(properties)
        self._topics = topics
        self._handle = handle
        self._workers = _at_least_one(workers, "workers")
        self._most_unfinished = _at_least_one(most_unfinished, "most_unfinished")
        self._windows: dict[TopicAndPartition, SlidingWindow] = {}
        self._stored: dict[TopicAndPartition, int] = {}
        self._to_do: SimpleQueue[tuple[SlidingWindow, ConsumerRecord] | None] = SimpleQueue()
        self._finished: SimpleQueue[tuple[SlidingWindow, ConsumerRecord, BaseException | None]] = SimpleQueue()
        self._under_way = 0
        self._first_error: BaseException | None = None

    def run(self, stopping: threading.Event) -> None:
        """Until `stopping` is set, or a record cannot be handled: its error is raised when the others are done.

        What is done up to the first unfinished record of each partition is stored, that one and all after it are not.
        """
        workers = [_Worker(f"worker-{number}", self._work) for number in range(self._workers)]
        for worker in workers:
            worker.start()
        try:
            with NewConsumer(self._properties) as consumer:
                self._consumer = consumer
                consumer.subscribe(self._topics, listener=self)
                while not stopping.is_set() and self._first_error is None:
                    for record in consumer.poll(POLL_S):
                        window = self._windows[TopicAndPartition(record.topic, record.partition)]
                        window.hand_out(record.offset)
                        self._under_way += 1
                        self._to_do.put((window, record))
                    self._settle()
                    consumer.commit_async(self._to_store())
                    self._hold_back()
                self._finish()
        finally:
            for _ in workers:
                self._to_do.put(None)
            for worker in workers:
                worker.shutdown()
        if self._first_error is not None:
            raise self._first_error

    def on_partitions_assigned(self, partitions: set[TopicAndPartition]) -> None:
        """Called by: the consumer, while poll waits."""
        self._windows.update({one: SlidingWindow() for one in partitions})

    def on_partitions_revoked(self, partitions: set[TopicAndPartition]) -> None:
        """What was handed out is finished first, so that the next owner repeats nothing."""
        self._finish()
        for one in partitions:
            self._windows.pop(one, None)
            self._stored.pop(one, None)

    def _work(self) -> bool:
        """In a worker: one record. False: that was the end."""
        item = self._to_do.get()
        if item is None:
            return False
        window, record = item
        error: BaseException | None = None
        try:
            if self._first_error is None:
                self._handle(record)
            else:
                error = self._first_error  # somebody failed: what has not begun is left to whoever comes next
        except BaseException as raised:
            error = raised
        self._finished.put((window, record, error))
        return True

    def _settle(self) -> None:
        """Take note of what the workers have finished so far."""
        while not self._finished.empty():
            self._note(*self._finished.get())

    def _note(self, window: SlidingWindow, record: ConsumerRecord, error: BaseException | None) -> None:
        self._under_way -= 1
        if error is None:
            window.done(record.offset)
        else:
            self._first_error = self._first_error or error

    def _finish(self) -> None:
        """Wait for all that was handed out, and store what is done."""
        while self._under_way:
            self._note(*self._finished.get())
        try:
            self._consumer.commit_sync(self._to_store())
        except CommitFailedException:
            log.warning("the group has moved on: what was done since the last commit is done again", exc_info=True)

    def _to_store(self) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """What has got further since it was asked last."""
        found = {one: window.committable() for one, window in self._windows.items()}
        new = {one: at for one, at in found.items() if at is not None and at != self._stored.get(one)}
        self._stored.update(new)
        return {one: OffsetAndMetadata(at) for one, at in new.items()}

    def _hold_back(self) -> None:
        """Pause partitions whose windows are full, go on with those that are half empty."""
        paused = self._consumer.paused()
        full = {one for one, window in self._windows.items() if window.unfinished >= self._most_unfinished}
        self._consumer.pause(full - paused)
        ready = {one for one in paused - full if self._windows[one].unfinished <= self._most_unfinished // 2}
        self._consumer.resume(ready)


class _PollingThread(ShutdownableThread):
    """One of ConsumerThreads. It owns its consumer from the start on."""

    def __init__(
        self,
        name: str,
        consumer: NewConsumer,
        topics: Collection[str],
        handle: Handle,
        on_death: Callable[[BaseException], None],
    ) -> None:
        super().__init__(name, on_death=on_death)
        self._consumer = consumer
        self._topics: Collection[str] | None = topics
        self._handle = handle

    def do_work(self) -> None:
        if self._topics is not None:
            self._consumer.subscribe(self._topics)
            self._topics = None
        records = self._consumer.poll(POLL_S)
        done: dict[TopicAndPartition, OffsetAndMetadata] = {}
        try:
            for record in records:
                self._handle(record)
                done[TopicAndPartition(record.topic, record.partition)] = OffsetAndMetadata(record.offset + 1)
        finally:
            try:
                self._consumer.commit_sync(done)
            except CommitFailedException:
                log.warning("[%s] the group has moved on: others do this again", self.name, exc_info=True)

    def wake(self) -> None:
        self._consumer.wakeup()

    def finish(self) -> None:
        self._consumer.close()


class _Worker(ShutdownableThread):
    def __init__(self, name: str, work: Callable[[], bool]) -> None:
        super().__init__(name)
        self._work = work

    def do_work(self) -> None:
        if not self._work():
            self.stopping.set()


def _by_hand(properties: Mapping[str, Any]) -> dict[str, Any]:
    given = by_todays_names(properties)
    if given.get("enable.auto.commit"):
        raise IllegalArgumentException(
            "enable.auto.commit=true stores what was polled, done or not: leave it out, what is done is stored here"
        )
    return {**given, "enable.auto.commit": False}


def _at_least_one(number: int, name: str) -> int:
    if number < 1:
        raise IllegalArgumentException(f"{name}={number}: at least 1 is needed")
    return number
