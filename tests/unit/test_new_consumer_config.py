"""The new consumer's settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from study.new_consumer.config import DEFAULTS, NewConsumerConfig
from tests.conformance.real_new_settings import WITHOUT_A_DEFAULT, as_java_prints
from zkconsumer.errors import InvalidConfigException

RECORDED = Path(__file__).parents[1] / "vectors" / "new-consumer-settings" / "defaults-2.3.1.json"
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


def test_defaults_are_those_of_the_class_of_2_3() -> None:
    """P9: all of ours, with what kafka-clients 2.3.1 printed."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))

    for key in DEFAULTS.keys() - set(WITHOUT_A_DEFAULT):
        printed = recorded[key].replace("class org.apache.kafka.clients.consumer.", "")
        assert as_java_prints(key, DEFAULTS[key]) == printed, key


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"nonsense": 1}, "no such setting"),
        ({"auto.offset.reset": "first"}, "Invalid value first for configuration auto.offset.reset"),
        ({"zookeeper.connect": "h:2181"}, "does not use ZooKeeper: give the brokers as bootstrap.servers"),
        (
            {"interceptor.class": [], "interceptor.classes": []},
            "interceptor.class is another name of interceptor.classes, which is given too",
        ),
        ({"session.timeout.ms": 3000}, "must be lower than session.timeout.ms"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidConfigException, match=complaint):
        NewConsumerConfig({**REQUIRED, **changes})


def test_required_settings_are_missed() -> None:
    with pytest.raises(InvalidConfigException, match='Missing required configuration "bootstrap'):
        NewConsumerConfig({})


@pytest.mark.parametrize(
    ("key", "name", "value"),
    [
        # seed 003's tables
        ("connection.max.idle.ms", "connections.max.idle.ms", 1),
        ("exclude.interval.topics", "exclude.internal.topics", False),
        ("interceptor.class", "interceptor.classes", ["one"]),
        # the old consumer's names
        ("auto.commit.enable", "enable.auto.commit", False),
        ("fetch.message.max.bytes", "max.partition.fetch.bytes", 1),
        ("fetch.wait.max.ms", "fetch.max.wait.ms", 1),
        ("socket.receive.buffer.bytes", "receive.buffer.bytes", 1),
    ],
)
def test_other_names_are_taken_for_what_is_meant(
    key: str, name: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config = NewConsumerConfig({**REQUIRED, key: value})

    assert config[name] == value
    assert key not in config.values
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [f"{key} is taken as {name}"]


@pytest.mark.parametrize(("old", "new"), [("smallest", "earliest"), ("largest", "latest")])
def test_the_old_words_for_where_to_begin_are_understood(old: str, new: str, caplog: pytest.LogCaptureFixture) -> None:
    assert NewConsumerConfig({**REQUIRED, "auto.offset.reset": old})["auto.offset.reset"] == new
    assert f"auto.offset.reset={old} is taken as {new}" in caplog.text


def test_names_as_they_are_make_no_noise(caplog: pytest.LogCaptureFixture) -> None:
    NewConsumerConfig({**REQUIRED, "auto.offset.reset": "earliest", "interceptor.classes": []})

    assert not caplog.records
