"""The parameters of the seeds' tables with their defaults (those of 2.3, the seeds' time), by property key.

Names that a table has wrong, and those of the old consumer, are taken for what is meant, and a warning says so.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zkconsumer.errors import InvalidConfigException

log = logging.getLogger(__name__)

REQUIRED = object()
"""In the place of a default: the user has to say."""

DEFAULTS: Mapping[str, Any] = {
    "bootstrap.servers": REQUIRED,
    "key.deserializer": REQUIRED,
    "value.deserializer": REQUIRED,
    "group.id": None,
    "client.id": "",
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 3_000,
    "max.poll.interval.ms": 300_000,
    "max.poll.records": 500,
    "auto.offset.reset": "latest",
    "enable.auto.commit": True,
    "auto.commit.interval.ms": 5_000,
    "partition.assignment.strategy": ("range",),
    "fetch.min.bytes": 1,
    "fetch.max.bytes": 52_428_800,
    "fetch.max.wait.ms": 500,
    "max.partition.fetch.bytes": 1_048_576,
    "connections.max.idle.ms": 540_000,
    "exclude.internal.topics": True,
    "receive.buffer.bytes": 65_536,
    "send.buffer.bytes": 131_072,
    "request.timeout.ms": 30_000,
    "default.api.timeout.ms": 60_000,
    "metadata.max.age.ms": 300_000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
    "retry.backoff.ms": 100,
    "isolation.level": "read_uncommitted",
    "interceptor.classes": (),
    "check.crcs": True,
    "group.instance.id": None,
    "client.rack": "",
    "allow.auto.create.topics": True,
}

_ALLOWED = {
    "auto.offset.reset": ("latest", "earliest", "none"),
    "isolation.level": ("read_uncommitted", "read_committed"),
}
_OURS = {
    "key.deserializer",
    "value.deserializer",
    "interceptor.classes",
    "partition.assignment.strategy",
    "default.api.timeout.ms",
}
_BUFFERS = ("receive.buffer.bytes", "send.buffer.bytes")
_MISSPELT = {  # as seed 003 has them
    "connection.max.idle.ms": "connections.max.idle.ms",
    "exclude.interval.topics": "exclude.internal.topics",
    "interceptor.class": "interceptor.classes",
}
_OLD_NAMES = {
    "auto.commit.enable": "enable.auto.commit",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
}
_OLD_VALUES = {"auto.offset.reset": {"smallest": "earliest", "largest": "latest"}}
_INSTEAD = {"zookeeper.connect": "the new consumer does not use ZooKeeper: give the brokers as bootstrap.servers"}


@dataclass(frozen=True)
class NewConsumerConfig:
    """Checked when it is made: an unknown key, a missing one or a value that is not allowed is an error at once."""

    properties: Mapping[str, Any]
    values: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        values = {**DEFAULTS, **by_todays_names(self.properties)}
        for key, value in values.items():
            if value is REQUIRED:
                raise InvalidConfigException(f'Missing required configuration "{key}" which has no default value.')
            if key in _ALLOWED and value not in _ALLOWED[key]:
                raise InvalidConfigException(
                    f"Invalid value {value} for configuration {key}: String must be one of: {', '.join(_ALLOWED[key])}"
                )
        if values["heartbeat.interval.ms"] >= values["session.timeout.ms"]:
            raise InvalidConfigException(
                f"heartbeat.interval.ms {values['heartbeat.interval.ms']} must be lower than session.timeout.ms"
                f" {values['session.timeout.ms']}"
            )
        object.__setattr__(self, "values", values)

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def strategies(self) -> Sequence[Any]:
        """One may be given alone."""
        wanted = self["partition.assignment.strategy"]
        return (wanted,) if isinstance(wanted, str) or not isinstance(wanted, Sequence) else wanted

    def for_kafka_python(self) -> dict[str, Any]:
        """What the library understands, under its names."""
        settings = {key.replace(".", "_"): value for key, value in self.values.items() if key not in _OURS}
        for key in _BUFFERS:  # -1: whatever the system takes
            name = key.replace(".", "_")
            settings[name] = None if settings[name] == -1 else settings[name]
        if not settings["client_id"]:
            del settings["client_id"]
        return settings


def by_todays_names(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they are called, with a warning for every other name; InvalidConfigException for unknown ones."""
    named: dict[str, Any] = {}
    for key, value in properties.items():
        name = _MISSPELT.get(key) or _OLD_NAMES.get(key) or key
        if name not in DEFAULTS:
            raise InvalidConfigException(f"{key}: {_INSTEAD.get(key, 'the new consumer has no such setting')}")
        if name != key:
            if name in properties:
                raise InvalidConfigException(f"{key} is another name of {name}, which is given too: leave one out")
            why = "it is called so" if key in _MISSPELT else "that is the new consumer's name for it"
            log.warning("%s is taken as %s: %s", key, name, why)
        meant = _OLD_VALUES.get(name, {}).get(value, value) if isinstance(value, str) else value
        if meant != value:
            log.warning("%s=%s is taken as %s: that is the new consumer's word for it", name, value, meant)
        named[name] = meant
    return named
