"""Which fetcher a partition belongs to; and what a manager does without any broker."""

from __future__ import annotations

import pytest

from fetcher.events import EventPublisher
from fetcher.manager import ConsumerFetcherManager, fetcher_id
from fetcher.settings import FetcherSettings

# legacy-consumer.md, section 11.1
TABLE = {
    "t1": {2: [1, 0, 1, 0, 1], 3: [0, 1, 2, 0, 1], 4: [3, 0, 1, 2, 3]},
    "topic1": {2: [0, 1, 0, 1, 0], 3: [0, 2, 1, 0, 2], 4: [2, 1, 0, 3, 2]},
    "my-topic": {2: [0, 1, 0, 1, 0], 3: [0, 1, 2, 0, 1], 4: [2, 3, 0, 1, 2]},
    "polygenelubricants": {2: [0, 1, 0, 1, 0], 3: [0, 1, 0, 2, 1], 4: [0, 3, 2, 1, 0]},
}


@pytest.mark.parametrize("number_of_fetchers", [2, 3, 4])
@pytest.mark.parametrize("topic", TABLE)
def test_fetcher_ids_are_those_of_the_table(topic: str, number_of_fetchers: int) -> None:
    """H1: fetcher id = abs(31 · hash(topic) + partition) mod num.consumer.fetchers, in 32 bits."""
    ids = [fetcher_id(topic, partition, number_of_fetchers) for partition in range(5)]

    assert ids == TABLE[topic][number_of_fetchers]


def test_one_fetcher_fetches_everything() -> None:
    assert {fetcher_id(topic, partition, 1) for topic in TABLE for partition in range(50)} == {0}


def test_stopping_what_never_started_is_no_error() -> None:
    manager = ConsumerFetcherManager(
        consumer_id="group_host-1",
        settings=FetcherSettings(client_id="group"),
        list_brokers=list,
        events=EventPublisher("group_host-1"),
    )

    manager.stop_connections()
    manager.stop_connections()

    assert manager.fetcher_threads == ()
    assert manager.lag_of() == {}
    assert manager.max_lag() == 0
