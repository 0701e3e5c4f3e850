"""Polling until something has come, for tests: a poll may return nothing although there is something to come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from study.new_consumer import ConsumerRecord, NewConsumer
from zkconsumer.testing.waiting import eventually

TIMEOUT_S = 60.0


def poll_for(consumer: NewConsumer, count: int) -> list[ConsumerRecord]:
    """So many records, or more if the last poll brings more."""
    got: list[ConsumerRecord] = []

    def enough() -> bool:
        got.extend(consumer.poll(0.2))
        return len(got) >= count

    eventually(enough, f"{count} records", timeout_s=TIMEOUT_S)
    return got


def poll_until(consumers: Sequence[NewConsumer], condition: Callable[[], bool], what: str) -> list[ConsumerRecord]:
    """All consumers by turns, so that each takes part in rebalances."""
    got: list[ConsumerRecord] = []

    def there() -> bool:
        for consumer in consumers:
            got.extend(consumer.poll(0.05))
        return condition()

    eventually(there, what, timeout_s=TIMEOUT_S)
    return got


@contextmanager
def polling(consumer: NewConsumer, *, after: Callable[[], object] = lambda: None) -> Iterator[list[ConsumerRecord]]:
    """Another thread polls, so that the group gets on, and does `after` each time; gives what it gets.

    Its errors are raised at the end.
    """
    stopping = threading.Event()
    errors: list[BaseException] = []
    got: list[ConsumerRecord] = []

    def poll() -> None:
        try:
            while not stopping.is_set():
                got.extend(consumer.poll(0.1))
                after()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield got
    finally:
        stopping.set()
        thread.join()
    if errors:
        raise errors[0]
