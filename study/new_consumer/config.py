"""The parameters of the seeds' tables with their defaults (those of 2.3, the seeds' time), by property key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zkconsumer.errors import InvalidConfigException

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


@dataclass(frozen=True)
class NewConsumerConfig:
    """Checked when it is made: an unknown key, a missing one or a value that is not allowed is an error at once."""

    properties: Mapping[str, Any]
    values: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        for key in self.properties:
            if key not in DEFAULTS:
                hint = f": is {_MISSPELT[key]} meant?" if key in _MISSPELT else ": the new consumer has no such setting"
                raise InvalidConfigException(f"{key}{hint}")
        values = {**DEFAULTS, **self.properties}
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
