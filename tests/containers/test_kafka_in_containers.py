"""ZooKeeperServer and KafkaCluster do with containers what they do with processes."""

from __future__ import annotations

from collections.abc import Iterator

import docker
import pytest

from tests.containers.clients import fetch, kazoo_at
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.transactions import Operation
from zkconsumer.testing.zookeeper import ZooKeeperServer


@pytest.fixture(scope="module")
def zookeeper(images: docker.DockerClient) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(backend="container") as server:
        yield server


@pytest.fixture(scope="module", params=["0.8.2.2", "1.1.1"])
def kafka(request: pytest.FixtureRequest, zookeeper: ZooKeeperServer) -> Iterator[KafkaCluster]:
    """A broker in a container that finds a ZooKeeper in another."""
    with KafkaCluster(version=request.param, zookeeper=zookeeper, backend="container") as cluster:
        yield cluster


def test_records_are_stored_and_fetched(kafka: KafkaCluster) -> None:
    kafka.create_topic("pages", partitions=2)

    stored = kafka.produce("pages", [b"first", b"second"], partition=0)

    assert stored == [(0, 0), (0, 1)]
    assert fetch(kafka.bootstrap_servers, kafka.version, "pages", 2) == [b"first", b"second"]


def test_records_survive_the_broker_being_killed(kafka: KafkaCluster) -> None:
    kafka.create_topic("kept")
    kafka.produce("kept", [b"value"])
    address = kafka.brokers[0].address

    kafka.brokers[0].kill()
    assert not kafka.brokers[0].running
    kafka.brokers[0].start()

    assert kafka.brokers[0].address == address
    kafka.await_leader("kept", 0)
    assert fetch(address, kafka.version, "kept", 1) == [b"value"]


def test_segments_are_read_from_a_copy(kafka: KafkaCluster) -> None:
    kafka.create_topic("copied")
    kafka.produce("copied", [b"a value to be found"])

    with kafka.brokers[0].log_segments("copied", 0) as segments:
        assert b"a value to be found" in b"".join(segments)


def test_the_broker_registers_for_clients_of_this_machine(kafka: KafkaCluster) -> None:
    with kazoo_at(kafka.zookeeper_connect) as client:
        registered = client.get("/brokers/ids/0")[0]

    host, _, port = kafka.bootstrap_servers.partition(":")
    assert f'"host":"{host}"'.encode() in registered
    assert f'"port":{port}'.encode() in registered


def test_zookeeper_tells_its_transactions(zookeeper: ZooKeeperServer) -> None:
    with zookeeper.client() as client:
        client.create("/told", b"value")

    created = {one.path: one.data for one in zookeeper.transactions() if one.operation is Operation.CREATE}

    assert created["/told"] == b"value"
