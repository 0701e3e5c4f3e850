"""Polling until something has come, for tests: a poll may return nothing although there is something to come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
