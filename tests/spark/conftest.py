"""One Spark session for the run; servers come from zkconsumer.testing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from pyspark.sql import DataFrame, SparkSession

import pipeline
from pipeline.tracker import Tracker
from tests.conformance.group import Group, fresh
from tests.spark.sessions import end, local_session
from tests.spark.sinks import HeldCores, Sink
from zkconsumer.testing.kafka import KafkaCluster

OPTIONS = {"auto.offset.reset": "smallest", "rebalance.max.retries": "50", "rebalance.backoff.ms": "300"}

RECEIVED = "value binary, partition int, offset bigint, consumer_thread string"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session()
    pipeline.register(session)
    yield session
    end(session)


@pytest.fixture
def topic(kafka: KafkaCluster) -> str:
    """Of three partitions."""
    name = fresh("topic")
    kafka.create_topic(name, partitions=3)
    return name


@pytest.fixture
def group(kafka: KafkaCluster) -> Iterator[Group]:
    client = KazooClient(kafka.zookeeper_connect)
    client.start()
    try:
        yield Group(client, fresh("group"))
    finally:
        client.stop()
        client.close()


@pytest.fixture
def sink(spark: SparkSession, tmp_path: Path) -> Sink:
    return Sink(spark, tmp_path)


@pytest.fixture
def held_cores(spark: SparkSession, tmp_path: Path) -> Iterator[HeldCores]:
    with HeldCores(spark, tmp_path) as held_cores:
        yield held_cores


Source = Callable[..., DataFrame]


@pytest.fixture
def batch(spark: SparkSession, kafka: KafkaCluster, group: Group) -> Source:
    """`batch(topics="…")`: the rows of a bounded read; options with underscores for dots."""

    def load(schema: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("zkconsumer").options(**_options(kafka, group, options))
        return (reader.schema(schema) if schema else reader).load()

    return load


@pytest.fixture
def stream(spark: SparkSession, kafka: KafkaCluster, group: Group) -> Source:
    def load(schema: str | None = None, **options: Any) -> DataFrame:
        reader = spark.readStream.format("zkconsumer").options(**_options(kafka, group, options))
        return (reader.schema(schema) if schema else reader).load()

    return load


@pytest.fixture
def received(spark: SparkSession, kafka: KafkaCluster, group: Group) -> Iterator[Source]:
    """`received(topic, …)`: what create_stream() gives, with two threads in the receiver."""

    def create(topic: str, **given: Any) -> DataFrame:
        arguments: dict[str, Any] = {"zk_quorum": kafka.zookeeper_connect, "schema": RECEIVED, **given}
        arguments["kafka_params"] = {**OPTIONS, **given.get("kafka_params", {})}
        return pipeline.create_stream(spark, group_id=group.name, topics={topic: 2}, **arguments)

    yield create
    Tracker.close_if_any()


def _options(kafka: KafkaCluster, group: Group, given: dict[str, Any]) -> dict[str, str]:
    named = {name.replace("_", "."): str(value) for name, value in given.items()}
    return {"zookeeper.connect": kafka.zookeeper_connect, "group.id": group.name, **OPTIONS, **named}
