"""The new consumer's settings."""

from __future__ import annotations

from typing import Any

import pytest

from study.new_consumer.config import NewConsumerConfig
from zkconsumer.errors import InvalidConfigException

REQUIRED = {"bootstrap.servers": "localhost:9092", "key.deserializer": bytes, "value.deserializer": bytes}


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("group.id", None),
        ("client.id", ""),
        ("session.timeout.ms", 10000),
        ("heartbeat.interval.ms", 3000),
        ("max.poll.interval.ms", 300000),
        ("max.poll.records", 500),
        ("auto.offset.reset", "latest"),
        ("enable.auto.commit", True),
        ("auto.commit.interval.ms", 5000),
        ("fetch.min.bytes", 1),
        ("fetch.max.bytes", 52428800),
        ("fetch.max.wait.ms", 500),
        ("max.partition.fetch.bytes", 1048576),
        ("connections.max.idle.ms", 540000),
        ("exclude.internal.topics", True),
        ("receive.buffer.bytes", 65536),
        ("send.buffer.bytes", 131072),
        ("request.timeout.ms", 30000),
        ("default.api.timeout.ms", 60000),
        ("metadata.max.age.ms", 300000),
        ("reconnect.backoff.ms", 50),
        ("reconnect.backoff.max.ms", 1000),
        ("retry.backoff.ms", 100),
        ("isolation.level", "read_uncommitted"),
        ("check.crcs", True),
        ("group.instance.id", None),
        ("client.rack", ""),
        ("allow.auto.create.topics", True),
    ],
)
def test_defaults_are_those_of_2_3(key: str, default: Any) -> None:
    """P9"""
    assert NewConsumerConfig(REQUIRED)[key] == default


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"connection.max.idle.ms": 1}, "connections.max.idle.ms meant"),
        ({"nonsense": 1}, "no such setting"),
        ({"auto.offset.reset": "smallest"}, "Invalid value smallest for configuration auto.offset.reset"),
        ({"session.timeout.ms": 3000}, "must be lower than session.timeout.ms"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidConfigException, match=complaint):
        NewConsumerConfig({**REQUIRED, **changes})


def test_required_settings_are_missed() -> None:
    with pytest.raises(InvalidConfigException, match='Missing required configuration "bootstrap'):
        NewConsumerConfig({})
