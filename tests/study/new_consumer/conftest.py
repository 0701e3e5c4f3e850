"""A broker of 1.1.1 and one of 3.9.1, a topic for each test, and new consumers that are closed at its end."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from study.new_consumer import NewConsumer
from zkconsumer.testing.errors import JarError, JavaNotFound
from zkconsumer.testing.kafka import KafkaCluster

NewConsumers = Callable[..., NewConsumer]
"""`new_consumer(group_id=…, **settings)`: settings with underscores instead of dots."""


@pytest.fixture(params=["1.1.1", "3.9.1"])
def cluster(request: pytest.FixtureRequest, _kafka_clusters: Callable[[str, int], KafkaCluster]) -> KafkaCluster:
    try:
        return _kafka_clusters(request.param, 1)
    except (JarError, JavaNotFound) as error:
        if request.config.getoption("--strict-servers"):
            raise
        pytest.skip(str(error))


@pytest.fixture
def topic() -> str:
    return f"topic-{secrets.token_hex(4)}"


@pytest.fixture
def group() -> str:
    return f"group-{secrets.token_hex(4)}"


@pytest.fixture
def new_consumer(cluster: KafkaCluster) -> Iterator[NewConsumers]:
    with ExitStack() as closing:

        def make(**settings: Any) -> NewConsumer:
            return closing.enter_context(NewConsumer(properties(cluster, **settings)))

        yield make


def properties(cluster: KafkaCluster, **settings: Any) -> Mapping[str, Any]:
    """Text in, text out, from the beginning, nothing committed by itself; what a test says counts."""
    defaults = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "key.deserializer": bytes.decode,
        "value.deserializer": bytes.decode,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    return {**defaults, **{name.replace("_", "."): value for name, value in settings.items()}}
