"""What happened to the consumer, as frozen values (no 0.8 counterpart: there one reads the log).

The events of fetching and the publisher are in fetcher.events; these are the ones about the group. `to_json` writes any
of them as one line of a history.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from fetcher.events import Event
from fetcher.structs import Broker, OffsetAndMetadata, TopicAndPartition
from zkconsumer.topic_count import ConsumerThreadId


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered(Event):
    """This consumer's `ids` node stands."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchFired(Event):
    """ZooKeeper told of a change; `kind` is what was watched: consumers, topic, topics, brokers."""

    kind: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceRequested(Event):
    """Somebody wants a rebalance; requests during one are merged into one more."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStarted(Event):
    """An attempt begins; the first has number 0."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStep(Event):
    """An attempt has come to this step."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceAttemptFailed(Event):
    """An attempt ended without ownership; `error` says why."""

    attempt: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceFinished(Event):
    """Everything assigned is owned; `seconds` counts all attempts and the waits between them."""

    attempts: int
    seconds: float
    owned: tuple[TopicAndPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceGaveUp(Event):
    """All attempts failed: the consumer stays registered and owns nothing."""

    attempts: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsReleased(Event):
    """Their owner nodes are deleted."""

    partitions: tuple[TopicAndPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionClaimed(Event):
    """Its owner node is ours."""

    partition: TopicAndPartition
    thread_id: ConsumerThreadId


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipConflict(Event):
    """Its owner node holds `stored`, which is another's; None: it vanished while we looked."""

    partition: TopicAndPartition
    thread_id: ConsumerThreadId
    stored: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsRolledBack(Event):
    """Not all could be claimed, so these were given up again."""

    partitions: tuple[TopicAndPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered(Event):
    """The application took `count` messages of one chunk, from the first offset up to before the next."""

    partition: TopicAndPartition
    thread_id: ConsumerThreadId
    first_offset: int
    next_offset: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(Event):
    """These offsets are in `storage`, zookeeper or kafka; `written` of them had to be sent there."""

    offsets: Mapping[TopicAndPartition, int | OffsetAndMetadata]
    storage: str
    written: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFailed(Event):
    """A commit was not stored, or not all of it."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSuspended(Event):
    """The connection to ZooKeeper is lost; the session may survive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReconnected(Event):
    """The same session again: nothing was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLost(Event):
    """The session expired: our nodes are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRenewed(Event):
    """A new session after a lost one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownStarted(Event):
    """shutdown() was called for the first time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownFinished(Event):
    """Nothing of the consumer runs any more."""

    seconds: float


def to_json(event: Event) -> str:
    """One line: the event's name and its fields. Partitions are objects; a map over them is a list of objects."""
    values = {field.name: _plain(getattr(event, field.name)) for field in dataclasses.fields(event)}
    return json.dumps({"event": type(event).__name__} | values, ensure_ascii=False, separators=(",", ":"))


def _plain(value: object) -> object:
    match value:
        case TopicAndPartition():
            return {"topic": value.topic, "partition": value.partition}
        case Broker() | OffsetAndMetadata():
            return value._asdict()
        case ConsumerThreadId():
            return str(value)
        case Mapping():
            return _plain_mapping(value)
        case set() | frozenset():
            return [_plain(item) for item in sorted(value, key=str)]
        case list() | tuple():
            return [_plain(item) for item in value]
        case BaseException():
            return f"{type(value).__name__}: {value}"
        case Enum():
            return value.name
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return value.decode("utf-8", "replace")
        case _:
            return str(value)


def _plain_mapping(mapping: Mapping[object, object]) -> object:
    if all(isinstance(key, TopicAndPartition) for key in mapping):
        return [
            {"topic": key.topic, "partition": key.partition, "value": _plain(value)}
            for key, value in mapping.items()
            if isinstance(key, TopicAndPartition)
        ]
    return {str(key): _plain(value) for key, value in mapping.items()}


__all__ = [
    "ClaimsRolledBack",
    "CommitFailed",
    "Committed",
    "Delivered",
    "Event",
    "OwnershipConflict",
    "PartitionClaimed",
    "PartitionsReleased",
    "RebalanceAttemptFailed",
    "RebalanceFinished",
    "RebalanceGaveUp",
    "RebalanceRequested",
    "RebalanceStarted",
    "RebalanceStep",
    "Registered",
    "SessionLost",
    "SessionReconnected",
    "SessionRenewed",
    "SessionSuspended",
    "ShutdownFinished",
    "ShutdownStarted",
    "WatchFired",
    "to_json",
]
