"""Events: frozen values, and their lines in a history."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from fetcher.events import Enqueued, EventPublisher, FetcherStarted, PartitionsAdded
from fetcher.structs import Broker, OffsetAndMetadata, TopicAndPartition
from zkconsumer import events
from zkconsumer.events import (
    Committed,
    Delivered,
    Event,
    OwnershipConflict,
    PartitionClaimed,
    RebalanceFinished,
    ShutdownStarted,
    to_json,
)
from zkconsumer.topic_count import ConsumerThreadId

WHEN: Any = {"wall_time_s": 1794980898.5, "monotonic_s": 12.25}
TX0 = TopicAndPartition("tx", 0)
TX1 = TopicAndPartition("tx", 1)
THREAD = ConsumerThreadId("g_c1", 10)


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        (ShutdownStarted(consumer_id="g_c1", **WHEN), {"event": "ShutdownStarted"}),
        (
            RebalanceFinished(consumer_id="g_c1", attempts=2, seconds=0.5, owned=(TX0, TX1), **WHEN),
            {
                "event": "RebalanceFinished",
                "attempts": 2,
                "seconds": 0.5,
                "owned": [{"topic": "tx", "partition": 0}, {"topic": "tx", "partition": 1}],
            },
        ),
        (
            PartitionClaimed(consumer_id="g_c1", partition=TX0, thread_id=THREAD, **WHEN),
            {"event": "PartitionClaimed", "partition": {"topic": "tx", "partition": 0}, "thread_id": "g_c1-10"},
        ),
        (
            OwnershipConflict(consumer_id="g_c1", partition=TX0, thread_id=THREAD, stored=None, **WHEN),
            {
                "event": "OwnershipConflict",
                "partition": {"topic": "tx", "partition": 0},
                "thread_id": "g_c1-10",
                "stored": None,
            },
        ),
        (
            Committed(
                consumer_id="g_c1",
                offsets={TX0: 5, TX1: OffsetAndMetadata(6, "é")},
                storage="kafka",
                written=2,
                seconds=1,
                **WHEN,
            ),
            {
                "event": "Committed",
                "offsets": [
                    {"topic": "tx", "partition": 0, "value": 5},
                    {"topic": "tx", "partition": 1, "value": {"offset": 6, "metadata": "é"}},
                ],
                "storage": "kafka",
                "written": 2,
                "seconds": 1,
            },
        ),
        (
            Committed(consumer_id="g_c1", offsets={}, storage="zookeeper", written=0, seconds=1, **WHEN),
            {"event": "Committed", "offsets": [], "storage": "zookeeper", "written": 0, "seconds": 1},
        ),
        (
            FetcherStarted(consumer_id="g_c1", broker=Broker(1, "h", 9092), fetcher_id=0, **WHEN),
            {"event": "FetcherStarted", "broker": {"id": 1, "host": "h", "port": 9092}, "fetcher_id": 0},
        ),
        (
            PartitionsAdded(consumer_id="g_c1", broker=Broker(1, "h", 9092), fetcher_id=0, offsets={TX0: -1}, **WHEN),
            {
                "event": "PartitionsAdded",
                "broker": {"id": 1, "host": "h", "port": 9092},
                "fetcher_id": 0,
                "offsets": [{"topic": "tx", "partition": 0, "value": -1}],
            },
        ),
    ],
    ids=lambda value: value["event"] if isinstance(value, dict) else "",
)
def test_event_is_one_line_of_json(event: Event, fields: dict[str, object]) -> None:
    line = to_json(event)

    assert "\n" not in line
    assert json.loads(line) == {"consumer_id": "g_c1"} | WHEN | fields


def test_every_event_is_listed_frozen_and_described() -> None:
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]

    assert {kind.__name__ for kind in kinds} <= set(events.__all__)
    for kind in kinds:
        assert kind.__doc__
        assert dataclasses.fields(kind)[0].name == "consumer_id"
        assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_listener_gets_the_event_that_was_published() -> None:
    publisher = EventPublisher("g_c1")
    seen: list[Event] = []
    stop = publisher.subscribe(seen.append)
    event = Delivered(consumer_id="g_c1", partition=TX0, thread_id=THREAD, first_offset=5, next_offset=9, count=4)

    publisher.publish(event)
    stop()
    publisher.publish(Enqueued(consumer_id="g_c1", partition=TX0, first_offset=0, next_offset=1, size_bytes=1))

    assert seen == [event]
