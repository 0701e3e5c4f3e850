"""Groups to look at with the tools: a broker of each release, shared by the run, and a real member on 0.8.2.2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient

from tests.conformance.group import Group, fresh
from zkconsumer.__main__ import main
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.waiting import eventually, scaled
from zkconsumer.testing.zookeeper import ZooKeeperServer


class Ran(NamedTuple):
    """What a command of ours left behind."""

    code: int
    stdout: str
    stderr: str


Run = Callable[..., Ran]


class Consumed(NamedTuple):
    """A group of one real member, c1, that has taken and committed all of a topic: 3, 2 and no messages."""

    group: Group
    topic: str
    kafka: KafkaCluster


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("offset-checker", "--group", …)`: our command, in this process."""

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        try:
            code = main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return run


@pytest.fixture(scope="session")
def kafka_0_8(zookeeper_server: ZooKeeperServer, _kafka_clusters: Callable[[str, int], KafkaCluster]) -> KafkaCluster:
    return _kafka_clusters("0.8.2.2", 1)


@pytest.fixture(scope="session")
def kafka_1_1(zookeeper_server: ZooKeeperServer, _kafka_clusters: Callable[[str, int], KafkaCluster]) -> KafkaCluster:
    return _kafka_clusters("1.1.1", 1)


@pytest.fixture(scope="session")
def kafka_of(_kafka_clusters: Callable[[str, int], KafkaCluster]) -> Callable[[str], KafkaCluster]:
    """The run's broker of a release."""
    return lambda version: _kafka_clusters(version, 1)


@pytest.fixture(scope="session", params=["1.1.1", "3.9.1"])
def kafka_new(request: pytest.FixtureRequest, kafka_of: Callable[[str], KafkaCluster]) -> KafkaCluster:
    """Each release that knows both worlds, in turn."""
    return kafka_of(request.param)


@pytest.fixture(scope="session")
def client_new(kafka_new: KafkaCluster) -> Iterator[KazooClient]:
    yield from _client(kafka_new)


@pytest.fixture(scope="session")
def client_0_8(kafka_0_8: KafkaCluster) -> Iterator[KazooClient]:
    yield from _client(kafka_0_8)


@pytest.fixture(scope="session")
def client_1_1(kafka_1_1: KafkaCluster) -> Iterator[KazooClient]:
    yield from _client(kafka_1_1)


@pytest.fixture
def group(client_0_8: KazooClient) -> Group:
    """A name nobody has, beside the 0.8.2.2 broker."""
    return Group(client_0_8, fresh("group"))


@pytest.fixture(scope="session")
def consumed(kafka_0_8: KafkaCluster, client_0_8: KazooClient) -> Iterator[Consumed]:
    group, topic = Group(client_0_8, fresh("g")), fresh("t")
    kafka_0_8.create_topic(topic, partitions=3)
    kafka_0_8.produce(topic, [b"a", b"b", b"c"], partition=0)
    kafka_0_8.produce(topic, [b"d", b"e"], partition=1)
    with ScalaConsumer(
        kafka_0_8.zookeeper_connect,
        group.name,
        {topic: 1},
        version="0.8.2.2",
        consumer_id="c1",
        properties={"auto.offset.reset": "smallest"},
    ) as member:
        member.wait_until_delivered(5)
        member.commit_offsets()
        eventually(lambda: group.offsets(topic) == {0: "3", 1: "2", 2: "0"})
        yield Consumed(group, topic, kafka_0_8)


@pytest.fixture
def empty(zookeeper_server: ZooKeeperServer) -> Iterator[KazooClient]:
    """A chroot with nothing in it, without brokers."""
    chroot = fresh("empty")
    client = KazooClient(f"{zookeeper_server.connect_string}/{chroot}", timeout=60)
    client.start()
    client.ensure_path("/")  # the chroot itself
    try:
        yield client
    finally:
        client.stop()
        client.close()


@pytest.fixture
def connect(zookeeper_server: ZooKeeperServer, empty: KazooClient) -> str:
    return f"{zookeeper_server.connect_string}{empty.chroot}"


def _client(kafka: KafkaCluster) -> Iterator[KazooClient]:
    client = KazooClient(kafka.zookeeper_connect, timeout=60)
    client.start(timeout=scaled(20))
    try:
        yield client
    finally:
        client.stop()
        client.close()
