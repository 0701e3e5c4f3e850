"""What happened, as frozen values that anybody may listen to; here those of fetching.

No 0.8 counterpart: there one reads the log. Tests, the study and the metrics listen to these; nothing reads logs back.
Rule: nothing is built while nobody listens, and a listener cannot hurt the thread that publishes:

    if events.active:
        events.publish(FetcherStarted(consumer_id=events.consumer_id, broker=broker, fetcher_id=0))
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fetcher.structs import Broker, TopicAndPartition

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Who, and when by the calendar and by a clock that never jumps."""

    consumer_id: str
    wall_time_s: float = field(default_factory=time.time)
    monotonic_s: float = field(default_factory=time.monotonic)


Listener = Callable[[Event], None]


class EventPublisher:
    """Calls every listener, in the thread in which it happens. Any thread may call any method."""

    def __init__(self, consumer_id: str) -> None:
        self.consumer_id = consumer_id
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()  # replaced as a whole, so that publish() needs no lock

    @property
    def active(self) -> bool:
        """True while anybody listens."""
        return bool(self._listeners)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event from now on; the result ends that. A listener should return quickly."""

        def entry(event: Event) -> None:  # with an identity of its own: the same listener may subscribe twice
            listener(event)

        with self._lock:
            self._listeners = (*self._listeners, entry)

        def unsubscribe() -> None:
            with self._lock:
                self._listeners = tuple(other for other in self._listeners if other is not entry)

        return unsubscribe

    def publish(self, event: Event) -> None:
        """Tell everybody. What a listener raises is logged and goes no further."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                log.exception("[%s], a listener failed on %s", self.consumer_id, type(event).__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderFinderStarted(Event):
    """Partitions were given to a new leader finder."""

    partitions: tuple[TopicAndPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderFinderStopped(Event):
    """It has ended: no partition moves to a fetcher any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadersFound(Event):
    """These partitions have a leader and are about to be fetched from it."""

    partitions: Mapping[TopicAndPartition, Broker]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadersNotFound(Event):
    """Looking for the leaders of these failed; it is tried again after refresh.leader.backoff.ms."""

    partitions: tuple[TopicAndPartition, ...]
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherStarted(Event):
    """A fetcher thread, with one connection to this broker, has begun."""

    broker: Broker
    fetcher_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherStopped(Event):
    """A fetcher thread was asked to end, and has."""

    broker: Broker
    fetcher_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherDied(Event):
    """A fetcher thread ended by an error; its partitions go back to the leader finder."""

    broker: Broker
    fetcher_id: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsAdded(Event):
    """A fetcher fetches these too, from these offsets on."""

    broker: Broker
    fetcher_id: int
    offsets: Mapping[TopicAndPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched(Event):
    """A fetch request was answered, after this time and with so many bytes."""

    broker: Broker
    seconds: float
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFailed(Event):
    """A fetch request got no answer, not even when sent again."""

    broker: Broker
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFailed(Event):
    """The broker answered a fetch with an error for this partition, which goes back to the leader finder."""

    partition: TopicAndPartition
    broker: Broker
    error_code: int
    exception_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetReset(Event):
    """By auto.offset.reset: out of range, or (out_of_range=False) no offset was stored."""

    partition: TopicAndPartition
    old_offset: int
    new_offset: int
    out_of_range: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued(Event):
    """A chunk was put into the queue of its stream."""

    partition: TopicAndPartition
    first_offset: int
    next_offset: int
    size_bytes: int


__all__ = [
    "Enqueued",
    "Event",
    "EventPublisher",
    "FetchFailed",
    "Fetched",
    "FetcherDied",
    "FetcherStarted",
    "FetcherStopped",
    "LeaderFinderStarted",
    "LeaderFinderStopped",
    "LeadersFound",
    "LeadersNotFound",
    "Listener",
    "OffsetReset",
    "PartitionFailed",
    "PartitionsAdded",
]
