"""A driver is killed in the middle of a batch while a real Scala member shares its group, and records keep coming."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conformance.group import Group, fresh
from tests.spark.sessions import planners
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.waiting import eventually, scaled

PARTITIONS = 4
SPARK_STARTS_S = 240.0  # two JVMs and a cold start on a busy machine
PATIENCE_S = 180.0  # of all that happens in a second or two where nobody else works
SCALA = {"auto.offset.reset": "smallest", "rebalance.max.retries": "100", "rebalance.backoff.ms": "500"}


class Driver:
    """The application of driver.py, its lines read by a thread."""

    def __init__(self, *arguments: str) -> None:
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.driver", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def batches(self) -> int:
        return sum(line.startswith("batch") for line in list(self.lines))

    def jvm(self) -> int:
        return int(next(line for line in self.lines if line.startswith("jvm")).split()[1])

    def kill(self) -> None:
        """The Python process and Spark's JVM, without warning. What the JVM started is not touched."""
        os.kill(self.jvm(), signal.SIGKILL)
        self._process.kill()
        self._end()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("stop\n")
        self._process.stdin.flush()
        assert self._process.wait(scaled(120)) == 0
        self._end()

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()

    def _end(self) -> None:
        self._process.wait()
        self._reader.join()
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.strip())


def is_running(process: int) -> bool:
    """A zombie runs no more: it waits for whoever inherits it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


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
        drivers.append(Driver(*arguments))
        eventually(lambda: drivers[-1].batches() >= 1, "a first batch", SPARK_STARTS_S)
        return drivers[-1]

    try:
        with continuous_produce(kafka, topic) as produced:
            driver = start_driver()
            with ScalaConsumer(kafka.zookeeper_connect, group.name, {topic: 2}, properties=SCALA) as scala:
                eventually(lambda: 0 < owned_by_scala(scala) < PARTITIONS, "both own some", PATIENCE_S)
                seen = driver.batches()
                eventually(lambda: driver.batches() > seen + 1, "batches beside the Scala member", PATIENCE_S)
                seen = driver.batches()
                eventually(lambda: driver.batches() > seen, "a batch has begun", PATIENCE_S)
                [holds_members] = planners(driver.jvm())
                driver.kill()
                eventually(lambda: not is_running(holds_members), "no process outlives the driver for long", 30)
                eventually(lambda: owned_by_scala(scala) == PARTITIONS, "the Scala member owns all", PATIENCE_S)
                before = scala.number_delivered
                scala.wait_until_delivered(before + 2000, PATIENCE_S)
                driver = start_driver()
                eventually(lambda: 0 < owned_by_scala(scala) < PARTITIONS, "both own some again", PATIENCE_S)
                seen = driver.batches()
                eventually(lambda: driver.batches() > seen + 2, "batches again", PATIENCE_S)
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
