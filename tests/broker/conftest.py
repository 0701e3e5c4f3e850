"""Brokers for the tests here: one of each release, on the ZooKeeper of the run, and a topic for each test."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.broker.members import Member, NewMember
from tests.conformance.group import Group, fresh
from zkconsumer.testing.errors import JarError, JavaNotFound
from zkconsumer.testing.kafka import KAFKA_VERSIONS, KafkaCluster
from zkconsumer.testing.waiting import scaled
from zkconsumer.testing.zookeeper import ZooKeeperServer
from zkconsumer.topic_filter import TopicFilter


@pytest.fixture(params=KAFKA_VERSIONS)
def cluster(request: pytest.FixtureRequest, _kafka_clusters: Callable[[str, int], KafkaCluster]) -> KafkaCluster:
    """One broker of each release in turn; `parametrize("cluster", [version], indirect=True)` takes a single one."""
    with _servers_wanted(request):
        return _kafka_clusters(request.param, 1)


@pytest.fixture(scope="module", params=KAFKA_VERSIONS)
def two_brokers_of_the_module(
    request: pytest.FixtureRequest, zookeeper_server: ZooKeeperServer
) -> Iterator[KafkaCluster]:
    two = KafkaCluster(version=request.param, brokers=2, zookeeper=zookeeper_server)
    with _servers_wanted(request):
        two.start()
    yield two
    two.close()


@pytest.fixture
def two_brokers(two_brokers_of_the_module: KafkaCluster) -> Iterator[KafkaCluster]:
    """Two brokers to do harm to: both run again for the next test."""
    yield two_brokers_of_the_module
    for broker in two_brokers_of_the_module.brokers:
        if broker.running:
            broker.resume()
    for broker in two_brokers_of_the_module.brokers:
        broker.start()


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"topic-{secrets.token_hex(4)}"


@contextmanager
def _servers_wanted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Without Java or jars a test is skipped, or fails under --strict-servers."""
    try:
        yield
    except (JavaNotFound, JarError) as error:
        if request.config.getoption("--strict-servers"):
            raise
        pytest.skip(str(error))


@pytest.fixture
def librdkafka_settings() -> Any:
    """What another client needs to know to talk to a cluster: 0.8 brokers do not tell what they can do."""

    def settings(of: KafkaCluster) -> dict[str, Any]:
        found: dict[str, Any] = {"bootstrap.servers": of.bootstrap_servers, "log_level": 2}
        if of.version == "0.8.2.2":
            found |= {"api.version.request": False, "broker.version.fallback": "0.8.2"}
        return found

    return settings


@pytest.fixture
def group(kafka: KafkaCluster) -> Iterator[Group]:
    """A group that no other test has, beside the brokers of `kafka`, seen through a client that is not ours."""
    client = KazooClient(kafka.zookeeper_connect, timeout=60)
    client.start(timeout=scaled(20))
    try:
        yield Group(client, fresh("group"))
    finally:
        client.stop()
        client.close()


@pytest.fixture
def new_member(kafka: KafkaCluster, group: Group) -> Iterator[NewMember]:
    """`new_member("c1", {topic: 1}, **settings)`: a consumer of `group`, yet to join(); shut down after the test."""
    with ExitStack() as stack:

        def new_member(
            consumer_id: str | None, subscription: Mapping[str, int] | TopicFilter, **settings: Any
        ) -> Member:
            settings = {"zookeeper_connect": kafka.zookeeper_connect, **settings}
            member = Member(group=group.name, consumer_id=consumer_id, subscription=subscription, **settings)
            stack.callback(member.shutdown)
            return member

        yield new_member
