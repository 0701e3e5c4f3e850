"""A driver is killed in the middle of a batch while a real Scala member shares its group, and records keep coming."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conformance.group import Group, fresh
from tests.spark.applications import Driver, is_running
from tests.spark.sessions import planners
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.waiting import eventually

PARTITIONS = 4
SPARK_STARTS_S = 240.0  # two JVMs and a cold start on a busy machine
PATIENCE_S = 180.0  # of all that happens in a second or two where nobody else works
SCALA = {"auto.offset.reset": "smallest", "rebalance.max.retries": "100", "rebalance.backoff.ms": "500"}


def batches(driver: Driver) -> int:
    return len(driver.said("batch"))


@contextmanager
def continuous_produce(kafka: KafkaCluster, topic: str) -> Iterator[Counter[int]]:
    """Some records every few milliseconds, until the block ends; how many each partition has got."""
    produced: Counter[int] = Counter()
    stopping = threading.Event()

    def produce() -> None:
        while not stopping.wait(0.05):
            for stored in kafka.produce(topic, [b"x" * 100] * 200):
                produced[stored.partition] += 1

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield produced
    finally:
        stopping.set()
        thread.join()


@pytest.mark.kafka("1.1.1")
@pytest.mark.timeout(900)
def test_every_record_comes_once_although_the_driver_is_killed(
    kafka: KafkaCluster, group: Group, tmp_path: Path
) -> None:
    topic = fresh("crash")
    kafka.create_topic(topic, partitions=PARTITIONS)
    arguments = (kafka.zookeeper_connect, group.name, topic, str(tmp_path))
    drivers: list[Driver] = []

    def owned_by_scala(scala: ScalaConsumer) -> int:
        return sum(owner.startswith(scala.consumer_id) for owner in group.owners(topic).values())

    def start_driver() -> Driver:
        drivers.append(Driver("driver", *arguments))
        drivers[-1].wait(lambda: batches(drivers[-1]) >= 1, "a first batch", SPARK_STARTS_S)
        return drivers[-1]

    try:
        with continuous_produce(kafka, topic) as produced:
            driver = start_driver()
            with ScalaConsumer(kafka.zookeeper_connect, group.name, {topic: 2}, properties=SCALA) as scala:
                eventually(lambda: 0 < owned_by_scala(scala) < PARTITIONS, "both own some", PATIENCE_S)
                seen = batches(driver)
                eventually(lambda: batches(driver) > seen + 1, "batches beside the Scala member", PATIENCE_S)
                seen = batches(driver)
                eventually(lambda: batches(driver) > seen, "a batch has begun", PATIENCE_S)
                [holds_members] = planners(driver.number("jvm"))
                driver.kill()
                eventually(lambda: not is_running(holds_members), "no process outlives the driver for long", 30)
                eventually(lambda: owned_by_scala(scala) == PARTITIONS, "the Scala member owns all", PATIENCE_S)
                before = scala.number_delivered
                scala.wait_until_delivered(before + 2000, PATIENCE_S)
                driver = start_driver()
                eventually(lambda: 0 < owned_by_scala(scala) < PARTITIONS, "both own some again", PATIENCE_S)
                seen = batches(driver)
                eventually(lambda: batches(driver) > seen + 2, "batches again", PATIENCE_S)
                delivered = scala.delivered
                scala.stop()
                outside = [(one.partition, one.offset) for one in delivered()]
                eventually(lambda: len(group.members()) == 1, "Spark is alone", PATIENCE_S)
        ends = dict(produced)
        eventually(
            lambda: {p: int(offset) for p, offset in group.offsets(topic).items()} == ends,
            "all is committed",
            PATIENCE_S,
        )
        driver.stop()
    finally:
        for one in drivers:
            one.close()

    rows = [tuple(row) for row in json.loads((tmp_path / "rows.json").read_text())]
    seen_by_all = Counter([*rows, *outside])
    everything = {(partition, offset) for partition, end in produced.items() for offset in range(end)}
    assert rows and outside
    assert everything - seen_by_all.keys() == set()
    assert [(where, times) for where, times in seen_by_all.items() if times > 1] == []
    assert group.members() == {}
