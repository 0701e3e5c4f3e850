"""`zkconsumer plan` of living groups: of real old members in ZooKeeper, of new ones at a real coordinator."""

from __future__ import annotations

import json

from kafka import KafkaConsumer

from tests.conformance.group import fresh
from tests.tools.conftest import Consumed, Run
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import eventually


def test_of_a_real_member_of_0_8_2_2(run: Run, consumed: Consumed) -> None:
    """It has all three partitions; by hand, of a second one like it the first would keep two."""
    ran = run("plan", "--zookeeper", consumed.kafka.zookeeper_connect, "--group", consumed.group.name, "--json")

    assert ran.code == 0, ran.stderr
    told = json.loads(ran.stdout)
    [member] = told["members"]
    assert told["topics"] == {consumed.topic: 3}
    assert told["strategies"]["old range"]["assignment"] == {member: {consumed.topic: [0, 1, 2]}}
    assert told["strategies"]["sticky 3.9"]["join"]["moved"] == 1


def test_of_new_consumers(run: Run, kafka_new: KafkaCluster) -> None:
    """Subscriptions and partitions are the brokers'; the topic that is not there is not created by the question."""
    group, topic = fresh("planned"), fresh("t")
    kafka_new.create_topic(topic, partitions=5)
    kafka_new.produce(topic, [b"a"], partition=0)
    consumer = KafkaConsumer(
        topic, group_id=group, bootstrap_servers=kafka_new.bootstrap_servers, auto_offset_reset="earliest"
    )
    where = ["--bootstrap-server", kafka_new.bootstrap_servers, "--group"]
    try:
        eventually(lambda: bool(consumer.poll(timeout_ms=5000)), "the new consumer reads", timeout_s=120)

        ran = run("plan", *where, group, "--json")
    finally:
        consumer.close()

    assert ran.code == 0, ran.stderr
    told = json.loads(ran.stdout)
    [member] = told["members"]
    assert told["topics"] == {topic: 5} and told["members"][member] == {topic: 1}
    assert told["strategies"]["range"]["assignment"] == {member: {topic: [0, 1, 2, 3, 4]}}
    nobody = run("plan", *where, fresh("nobody"))
    assert nobody.code == 1 and nobody.stderr.count("\n") == 1 and "has no members in Kafka at" in nobody.stderr
