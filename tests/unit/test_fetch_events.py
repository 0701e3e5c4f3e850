"""Events: who hears of them, and that nobody who listens can do harm."""

from __future__ import annotations

import dataclasses

import pytest

from fetcher.events import Event, EventPublisher, LeaderFinderStopped


def test_nobody_listens_until_somebody_subscribes_and_after_all_have_left() -> None:
    publisher = EventPublisher("group_host-1")
    assert not publisher.active

    leave = publisher.subscribe(lambda event: None)
    assert publisher.active

    leave()
    leave()
    assert not publisher.active


def test_the_same_listener_may_subscribe_twice_and_leave_once() -> None:
    publisher = EventPublisher("group_host-1")
    heard: list[Event] = []
    leave = publisher.subscribe(heard.append)
    publisher.subscribe(heard.append)
    event = LeaderFinderStopped(consumer_id="group_host-1")

    publisher.publish(event)
    leave()
    publisher.publish(event)

    assert heard == [event] * 3


def test_a_listener_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    publisher = EventPublisher("group_host-1")
    heard: list[Event] = []

    def failing(event: Event) -> None:
        raise ValueError("no room to write")

    publisher.subscribe(failing)
    publisher.subscribe(heard.append)

    publisher.publish(LeaderFinderStopped(consumer_id="group_host-1"))

    assert len(heard) == 1
    assert caplog.messages == ["[group_host-1], a listener failed on LeaderFinderStopped"]


def test_a_listener_may_leave_while_it_is_called() -> None:
    publisher = EventPublisher("group_host-1")
    heard: list[Event] = []

    def once(event: Event) -> None:
        heard.append(event)
        leave()

    leave = publisher.subscribe(once)
    for _ in range(2):
        publisher.publish(LeaderFinderStopped(consumer_id="group_host-1"))

    assert len(heard) == 1


def test_an_event_cannot_be_changed_and_knows_when_it_was() -> None:
    first, second = (LeaderFinderStopped(consumer_id="group_host-1") for _ in range(2))

    assert first.monotonic_s <= second.monotonic_s
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.consumer_id = "other"  # type: ignore[misc]
