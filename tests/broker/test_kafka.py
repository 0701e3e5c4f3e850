"""Brokers of three releases: started, administered, and harmed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient

from zkconsumer.testing import kafka_requests
from zkconsumer.testing.errors import NotSupported, ServerError, ServerStartError, UnknownVersion
from zkconsumer.testing.kafka import KafkaBroker, KafkaCluster, ProduceError, TopicError
from zkconsumer.testing.kafka_requests import BrokerError
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer

LibrdkafkaSettings = Callable[[KafkaCluster], dict[str, Any]]


@contextmanager
def zookeeper_client(connect_string: str) -> Iterator[KazooClient]:
    client = KazooClient(connect_string)
    try:
        client.start()
        yield client
    finally:
        client.stop()
        client.close()


def registration(cluster: KafkaCluster, broker_id: int) -> str:
    """host:port as the broker has written it into ZooKeeper."""
    with zookeeper_client(cluster.zookeeper_connect) as client:
        found = json.loads(client.get(f"/brokers/ids/{broker_id}")[0])
    return f"{found['host']}:{found['port']}"


def test_a_broker_registers_the_address_it_answers_at(cluster: KafkaCluster) -> None:
    broker = cluster.brokers[0]

    assert broker.running
    assert broker.address.startswith("127.0.0.1:")
    assert registration(cluster, 0) == broker.address == cluster.bootstrap_servers


def test_another_client_finds_all_leaders_of_a_topic_just_created(
    cluster: KafkaCluster, topic: str, librdkafka_settings: LibrdkafkaSettings
) -> None:
    cluster.create_topic(topic, partitions=5)

    found = Producer(librdkafka_settings(cluster)).list_topics(topic, timeout=30).topics[topic]

    assert {number: partition.leader for number, partition in found.partitions.items()} == dict.fromkeys(range(5), 0)
    assert topic in cluster.topics()


def test_partitions_are_added_and_those_there_keep_their_records(cluster: KafkaCluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=2)
    cluster.produce(topic, [b"before"], partition=1)

    cluster.add_partitions(topic, 4)
    cluster.produce(topic, [b"after"], partition=3)

    assert cluster.end_offsets(topic) == {0: 0, 1: 1, 2: 0, 3: 1}


def test_a_deleted_topic_can_be_created_again_and_is_empty(cluster: KafkaCluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=2)
    cluster.produce(topic, [b"gone"] * 3, partition=0)

    cluster.delete_topic(topic)
    gone = topic not in cluster.topics()
    cluster.create_topic(topic)

    assert gone
    assert cluster.end_offsets(topic) == {0: 0}


def test_a_topic_s_configuration_is_in_force_from_its_creation(cluster: KafkaCluster, topic: str) -> None:
    cluster.create_topic(topic, config={"max.message.bytes": "200"})

    with pytest.raises(ProduceError, match=r"1 records were not stored: .*[Mm]essage size too large"):
        cluster.produce(topic, [b"x" * 1000])
    cluster.produce(topic, [b"x"])

    assert cluster.end_offsets(topic) == {0: 1}


def test_a_changed_configuration_is_in_force_when_the_call_returns(cluster: KafkaCluster, topic: str) -> None:
    cluster.create_topic(topic)

    for _ in range(3):
        cluster.alter_topic_config(topic, {"max.message.bytes": "200"})
        with pytest.raises(ProduceError, match=r"[Mm]essage size too large"):
            cluster.produce(topic, [b"x" * 1000])
        cluster.alter_topic_config(topic, {"max.message.bytes": None})
        cluster.produce(topic, [b"x" * 1000])

    assert cluster.end_offsets(topic) == {0: 3}


def test_deleting_all_records_lets_the_topic_begin_at_its_end(cluster: KafkaCluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=2)
    cluster.produce(topic, [b"old"] * 7, partition=0)

    cluster.delete_records(topic)
    cluster.produce(topic, [b"new"] * 2, partition=0)

    assert cluster.earliest_offsets(topic) == {0: 7, 1: 0}
    assert cluster.end_offsets(topic) == {0: 9, 1: 0}


@pytest.mark.parametrize("cluster", ["1.1.1", "3.9.1"], indirect=True)
def test_records_are_deleted_up_to_an_offset(cluster: KafkaCluster, topic: str) -> None:
    cluster.create_topic(topic)
    cluster.produce(topic, [b"old"] * 7)

    cluster.delete_records(topic, before={0: 4})

    assert cluster.earliest_offsets(topic) == {0: 4}


@pytest.mark.parametrize("cluster", ["0.8.2.2"], indirect=True)
def test_0_8_cannot_delete_up_to_an_offset_and_says_which_release_can(cluster: KafkaCluster, topic: str) -> None:
    cluster.create_topic(topic)

    with pytest.raises(NotSupported, match=r"0\.8\.2\.2 cannot delete records up to an offset .*since 0\.11"):
        cluster.delete_records(topic, before={0: 0})


@pytest.mark.parametrize("cluster", ["1.1.1"], indirect=True)
@pytest.mark.parametrize(
    ("use", "complaint"),
    [
        pytest.param(lambda c, t: c.create_topic("there"), "'there' exists already", id="exists"),
        pytest.param(lambda c, t: c.create_topic(t, replication_factor=2), "factor 2, but only 1 brokers", id="factor"),
        pytest.param(lambda c, t: c.create_topic(t, partitions=0), "at least one partition", id="no partition"),
        pytest.param(lambda c, t: c.create_topic(t, assignment={0: [7]}), r"no running broker \[7\]", id="assignment"),
        pytest.param(lambda c, t: c.create_topic("a/b"), "'a/b': a name has", id="name"),
        pytest.param(lambda c, t: c.add_partitions("there", 1), "cannot be given 1, only more", id="fewer"),
        pytest.param(lambda c, t: c.delete_topic(t), "there is no topic", id="delete"),
        pytest.param(lambda c, t: c.produce(t, [b"x"]), "there is no topic", id="produce"),
        pytest.param(lambda c, t: c.leader_of("there", 9), "'there' has no partition 9", id="partition"),
        pytest.param(lambda c, t: c.move_leader("there", 0, to=5), r"no running broker \[5\]", id="leader"),
    ],
)
def test_what_cannot_be_done_to_a_topic_is_said_in_one_line(
    cluster: KafkaCluster, topic: str, use: Callable[[KafkaCluster, str], None], complaint: str
) -> None:
    if "there" not in cluster.topics():
        cluster.create_topic("there")

    with pytest.raises(TopicError, match=complaint) as caught:
        use(cluster, topic)

    assert "\n" not in str(caught.value)
    assert topic not in cluster.topics()


def test_a_release_nobody_can_run_is_refused_with_those_that_can() -> None:
    with pytest.raises(UnknownVersion, match=r"kafka '0\.7\.2' .* known are 0\.8\.2\.2, 1\.1\.1, 3\.9\.1"):
        KafkaCluster(version="0.7.2")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"brokers": 0}, "brokers=0: a test cluster has 1 to 3"),
        ({"brokers": 4}, "brokers=4: a test cluster has 1 to 3"),
    ],
)
def test_a_cluster_of_another_size_is_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        KafkaCluster(**options)


def test_an_external_broker_needs_an_address_and_only_that_one_takes_it() -> None:
    with pytest.raises(ValueError, match="an address is for external brokers, and they need one"):
        KafkaBroker("127.0.0.1:1", backend="external")
    with pytest.raises(ValueError, match="an address is for external brokers, and they need one"):
        KafkaBroker("127.0.0.1:1", address="127.0.0.1:9092")


def test_the_heap_is_what_was_asked_for(zookeeper_server: ZooKeeperServer) -> None:
    with pytest.raises(ServerStartError, match="Too small maximum heap"):
        KafkaCluster(heap_mb=1, zookeeper=zookeeper_server).start()


def test_a_cluster_that_is_not_started_says_so() -> None:
    with pytest.raises(ServerError, match="is not started, or closed already"):
        KafkaCluster().create_topic("topic")


@pytest.mark.parametrize("cluster", ["1.1.1"], indirect=True)
def test_an_external_broker_is_used_and_not_stopped(cluster: KafkaCluster) -> None:
    with KafkaBroker(cluster.zookeeper_connect, backend="external", address=cluster.bootstrap_servers) as broker:
        used = broker.running
        with pytest.raises(NotSupported, match="somebody else runs it"):
            broker.stop()

    assert used
    assert cluster.brokers[0].running


def test_a_broker_that_ends_while_it_starts_shows_its_log(zookeeper_server: ZooKeeperServer) -> None:
    broker = KafkaBroker(zookeeper_server.chroot(), version="0.8.2.2", settings={"num.partitions": "many"})

    with pytest.raises(ServerStartError, match="ended while it started") as caught, broker:
        pass

    assert "NumberFormatException" in caught.value.log
    assert not broker.running


def test_settings_given_override_ours(
    zookeeper_server: ZooKeeperServer, librdkafka_settings: LibrdkafkaSettings
) -> None:
    settings = {"auto.create.topics.enable": "true", "num.partitions": "3"}
    with KafkaCluster(version="0.8.2.2", zookeeper=zookeeper_server, settings=settings) as cluster:
        producer = Producer(librdkafka_settings(cluster))

        eventually(lambda: "asked-for" in producer.list_topics("asked-for", timeout=30).topics)
        eventually(lambda: "asked-for" in cluster.topics())

        assert [cluster.await_leader("asked-for", partition) for partition in range(3)] == [0, 0, 0]
        with pytest.raises(TopicError, match="no partition 3"):
            cluster.leader_of("asked-for", 3)


def test_a_cluster_leaves_nothing_in_a_zookeeper_it_was_given(zookeeper_server: ZooKeeperServer) -> None:
    connect_string = zookeeper_server.chroot()
    with KafkaCluster(version="0.8.2.2", zookeeper=connect_string) as cluster:
        used = cluster.zookeeper_connect

    with zookeeper_client(connect_string) as client:
        left = client.get_children("/")
    assert used.startswith(f"{connect_string}/")
    assert left == []


def test_a_broker_restarted_keeps_address_and_records(cluster: KafkaCluster, topic: str) -> None:
    cluster.create_topic(topic)
    cluster.produce(topic, [b"kept"] * 3)
    address = cluster.bootstrap_servers

    cluster.brokers[0].restart()
    cluster.await_leader(topic, 0)

    assert cluster.bootstrap_servers == address
    assert cluster.end_offsets(topic) == {0: 3}


@pytest.mark.parametrize("cluster", ["1.1.1"], indirect=True)
def test_a_broker_killed_can_be_started_again_at_once(cluster: KafkaCluster, topic: str) -> None:
    """This release refuses to start beside the registration that a killed broker leaves for some seconds."""
    cluster.create_topic(topic)
    cluster.produce(topic, [b"kept"] * 3)

    cluster.brokers[0].kill()
    ended = not cluster.brokers[0].running
    cluster.brokers[0].start()
    cluster.await_leader(topic, 0)

    assert ended
    assert cluster.end_offsets(topic) == {0: 3}


@pytest.mark.parametrize("cluster", ["0.8.2.2"], indirect=True)
def test_a_paused_broker_accepts_and_does_not_answer(cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_requests, "TIMEOUT_S", 0.5)
    broker = cluster.brokers[0]

    broker.pause()
    try:
        with pytest.raises(BrokerError, match=r"does not answer .*timed out"):
            kafka_requests.metadata(broker.address)
        assert broker.running
    finally:
        broker.resume()

    monkeypatch.undo()
    kafka_requests.metadata(broker.address)


def test_a_leader_moves_between_replicas(two_brokers: KafkaCluster, topic: str) -> None:
    two_brokers.create_topic(topic, assignment={0: [0, 1], 1: [1, 0]})
    first = [two_brokers.leader_of(topic, partition) for partition in (0, 1)]

    two_brokers.move_leader(topic, 0, to=1)

    assert first == [0, 1]
    assert [two_brokers.leader_of(topic, partition) for partition in (0, 1)] == [1, 1]
    assert two_brokers.produce(topic, [b"to the new leader"], partition=0) == [(0, 0)]


def test_a_leader_moves_to_a_broker_that_held_nothing_of_it(two_brokers: KafkaCluster, topic: str) -> None:
    two_brokers.create_topic(topic, assignment={0: [0]})
    two_brokers.produce(topic, [b"moved"] * 5)

    two_brokers.move_leader(topic, 0, to=1)

    assert two_brokers.replicas_of(topic, 0) == [1]
    assert two_brokers.leader_of(topic, 0) == 1
    assert two_brokers.end_offsets(topic) == {0: 5}


def test_a_killed_leader_is_followed_by_the_other_and_comes_back_in_sync(two_brokers: KafkaCluster, topic: str) -> None:
    two_brokers.create_topic(topic, assignment={0: [0, 1]})
    two_brokers.produce(topic, [b"on both"] * 3)

    two_brokers.brokers[0].kill()
    leader = two_brokers.await_leader(topic, 0, other_than=0)
    stored = two_brokers.produce(topic, [b"on one"])
    two_brokers.brokers[0].start()

    assert leader == 1
    assert stored == [(0, 3)]
    eventually(lambda: sorted(two_brokers.in_sync_replicas_of(topic, 0)) == [0, 1])
    two_brokers.move_leader(topic, 0, to=0)
    assert two_brokers.end_offsets(topic) == {0: 4}


def test_a_leader_stopped_in_order_hands_over_before_it_ends(two_brokers: KafkaCluster, topic: str) -> None:
    two_brokers.create_topic(topic, assignment={0: [1, 0]})

    two_brokers.brokers[1].stop()

    assert two_brokers.leader_of(topic, 0) == 0


def test_a_paused_leader_is_replaced_when_its_session_ends(two_brokers: KafkaCluster, topic: str) -> None:
    two_brokers.create_topic(topic, assignment={0: [1, 0]})

    two_brokers.brokers[1].pause()
    leader = two_brokers.await_leader(topic, 0, other_than=1)
    two_brokers.brokers[1].resume()

    assert leader == 0
    eventually(lambda: sorted(two_brokers.in_sync_replicas_of(topic, 0)) == [0, 1], timeout_s=40)


@pytest.mark.parametrize("version", ["0.8.2.2", "1.1.1"])
def test_clients_of_a_linked_cluster_come_through_its_links(
    zookeeper_server: ZooKeeperServer, topic: str, version: str, librdkafka_settings: LibrdkafkaSettings
) -> None:
    with KafkaCluster(version=version, zookeeper=zookeeper_server, linked=True) as cluster:
        link = cluster.links[0]
        cluster.create_topic(topic)
        before = link.transferred.up

        cluster.produce(topic, [b"x" * 1000])

        assert cluster.bootstrap_servers == link.address == registration(cluster, 0)
        assert cluster.brokers[0].address != link.address
        assert link.transferred.up > before + 1000
        link.cut()
        with pytest.raises(BrokerError, match="does not answer"):
            kafka_requests.metadata(cluster.bootstrap_servers)
