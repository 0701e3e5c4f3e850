"""Commands that are told to stop while ZooKeeper does not answer. It has servers of its own, to do harm to."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient

from tests.broker.command_process import command
from zkconsumer.testing.errors import JarError, JavaNotFound
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer


@pytest.fixture
def servers(request: pytest.FixtureRequest) -> Iterator[tuple[ZooKeeperServer, KafkaCluster]]:
    try:
        with ZooKeeperServer() as zookeeper, KafkaCluster(version="0.8.2.2", zookeeper=zookeeper) as kafka:
            yield zookeeper, kafka
            zookeeper.resume()
    except (JavaNotFound, JarError) as error:
        if request.config.getoption("--strict-servers"):
            raise
        pytest.skip(str(error))


def test_a_signal_ends_all_of_them_although_zookeeper_does_not_answer(
    servers: tuple[ZooKeeperServer, KafkaCluster],
    topic: str,
    tmp_path: Path,
    librdkafka_settings: Callable[[KafkaCluster], dict[str, Any]],
) -> None:
    zookeeper, kafka = servers
    kafka.create_topic(topic)
    producer = Producer(librdkafka_settings(kafka))  # unlike kafka.produce() it does without ZooKeeper
    producer.produce(topic, b"one")
    producer.flush()
    where = ("--zookeeper", kafka.zookeeper_connect, "--topic", topic)

    with (
        command(tmp_path / "1", "console-consumer", *where, "--from-beginning") as console,
        command(tmp_path / "2", "consumer-perf", *where, "--threads", "1") as perf,
        command(tmp_path / "3", "verifiable-consumer", *where, "--group-id", "verifiable") as verifiable,
    ):
        _await_owners(kafka, topic, 3)
        console.await_stdout(b"one\n")
        eventually(lambda: b"offsets_committed" in verifiable.stdout(), "a commit", 60.0)
        zookeeper.pause()
        producer.produce(topic, b"two")
        producer.flush()
        console.await_stdout(b"one\ntwo\n")
        eventually(lambda: verifiable.stdout().count(b"records_consumed") == 2, "a commit that waits", 60.0)
        for running in (console, perf, verifiable):
            running.process.send_signal(signal.SIGTERM)
        codes = [running.wait().exit_code for running in (console, perf, verifiable)]

    assert codes[0] == 143
    assert codes[1] in (143, 0)  # 0: it was through before the signal came
    assert codes[2] == 0
    assert b"shutdown_complete" in verifiable.stdout().splitlines()[-1]
    assert "could not be removed" in console.stderr()


def _await_owners(kafka: KafkaCluster, topic: str, count: int) -> None:
    client = KazooClient(kafka.zookeeper_connect)
    client.start()
    try:
        client.ensure_path("/consumers")

        def owned() -> int:
            groups = client.get_children("/consumers")
            return sum(client.exists(f"/consumers/{group}/owners/{topic}/0") is not None for group in groups)

        eventually(lambda: owned() == count, lambda: f"{owned()} of {count} owners", 60.0)
    finally:
        client.stop()
        client.close()
