"""create_stream() on real Spark, ZooKeeper and brokers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import pipeline
from pipeline.errors import UnknownOption
from tests.conformance.group import Group
from tests.spark.conftest import OPTIONS, Source
from tests.spark.sinks import Sink, each_once, metrics, stored
from tests.spark.test_crash import continuous_produce
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.waiting import eventually, scaled


def temporary_directories() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("zkconsumer-received-*"))


def test_all_records_come_and_a_stop_leaves_nothing(
    spark: SparkSession, kafka: KafkaCluster, topic: str, group: Group, received: Source, sink: Sink
) -> None:
    for partition in range(3):
        kafka.produce(topic, [b"x"] * 100, partition=partition)
    rows = received(topic, kafka_params={**OPTIONS, "zookeeper.session.timeout.ms": "20000"})

    with sink.running(rows) as query:
        eventually(lambda: sink.offsets() == each_once({0: 100, 1: 100, 2: 100}), "all came", 60)
        kafka.produce(topic, [b"y"] * 50, partition=1)
        eventually(lambda: sink.offsets() == each_once({0: 100, 1: 150, 2: 100}), "what came later too", 60)
        eventually(lambda: [one["owned_partitions"] for one in metrics(query)["receivers"]] == [3], "told", 60)
        assert temporary_directories()
        with pytest.raises(PySparkException, match="feeds a query already"):
            rows.writeStream.format("noop").start().awaitTermination(60)

    eventually(lambda: group.members() == {} and group.owners(topic) == {}, "gone long before the time-out", 10)
    eventually(lambda: temporary_directories() == [], "segments are removed", 10)
    eventually(lambda: not spark.sparkContext.statusTracker().getActiveJobsIds(), "no task is left", 10)
    assert stored(group, topic) == {0: 100, 1: 150, 2: 100}


def test_partitions_are_shared_with_a_scala_member(
    kafka: KafkaCluster, topic: str, group: Group, received: Source, sink: Sink
) -> None:
    kafka.produce(topic, [b"x"] * 300, partition=0)
    with sink.running(received(topic)):
        eventually(lambda: sink.offsets() == each_once({0: 300}), "alone at first", 60)
        with ScalaConsumer(kafka.zookeeper_connect, group.name, {topic: 1}, properties=OPTIONS) as scala:
            eventually(lambda: len({owner.rpartition("-")[0] for owner in group.owners(topic).values()}) == 2)
            for partition in range(3):
                kafka.produce(topic, [b"y"] * 200, partition=partition)
            ends = {0: 500, 1: 200, 2: 200}
            everything = sum(ends.values())
            eventually(lambda: sum(sink.offsets().values()) + scala.number_delivered >= everything, "all came", 60)
            outside = Counter((one.partition, one.offset) for one in scala.delivered())
        assert outside
        assert sink.offsets() + outside == each_once(ends)


def test_with_write_ahead_nothing_is_lost_or_doubled_when_a_receiver_is_killed(
    kafka: KafkaCluster, topic: str, group: Group, received: Source, sink: Sink
) -> None:
    rows = received(topic, write_ahead=True, directory=str(sink.segments))
    with sink.running(rows) as query, continuous_produce(kafka, topic) as produced:
        eventually(lambda: sum(stored(group, topic).values()) > 2000, "offsets are committed", 60)
        eventually(lambda: len(metrics(query)["receivers"]) == 1, "progress tells of the receiver", 60)
        [receiver] = metrics(query)["receivers"]

        os.kill(receiver["pid"], signal.SIGKILL)

        eventually(lambda: metrics(query)["restarts"] >= 1, "it is noticed", 60)
        before = sum(stored(group, topic).values())
        eventually(lambda: sum(stored(group, topic).values()) > before + 2000, "another one goes on", 60)
    with sink.running(rows):  # stopped in the midst of it all: the rest is in segments, or still on the broker
        eventually(lambda: stored(group, topic) == dict(produced), "all is received", 60)
        eventually(lambda: sum(sink.offsets().values()) >= produced.total(), "all is in the sink", 60)
        eventually(lambda: list(sink.segments.glob("*.arrow")) == [], "what is done is removed", 60)

    assert sink.offsets() == each_once(dict(produced))


def test_the_job_of_the_page_counts_words(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    kafka.produce(topic, [b"an order", b"another order"] * 50)

    def counted() -> Counter[str]:
        lines = [line for file in tmp_path.glob("words/*/part-*.json") for line in file.read_text().splitlines()]
        return sum((Counter({row["word"]: row["count"]}) for row in map(json.loads, lines)), Counter())

    command = [sys.executable, "-m", "tests.spark.page_job", kafka.zookeeper_connect, topic, str(tmp_path)]
    job = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        eventually(lambda: counted() == {"an": 50, "another": 50, "order": 100}, "all words are counted", 90)
        job.communicate(timeout=scaled(60))
        assert job.returncode == 0
    finally:
        job.kill()
        job.communicate()


def test_mistakes_are_told_in_one_line(
    spark: SparkSession, kafka: KafkaCluster, topic: str, received: Source, sink: Sink
) -> None:
    def refused(**given: Any) -> str:
        with pytest.raises(UnknownOption) as error:
            received(topic, **given)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "receivers=2: each takes a core" in refused(receivers=2)
    assert "write_ahead=True needs directory" in refused(write_ahead=True)
    assert "no option auto.ofset.reset; did you mean auto.offset.reset" in refused(kafka_params={"auto.ofset.reset": 1})
    assert "maxOffsetsPerTrigger is an option of group mode" in refused(kafka_params={"maxOffsetsPerTrigger": "5"})
    with pytest.raises(UnknownOption, match="topic has 0 threads"):
        pipeline.create_stream(spark, kafka.zookeeper_connect, "g", {"topic": 0})

    def fails(rows: DataFrame) -> str:
        with pytest.raises(PySparkException) as error, sink.running(rows) as query:
            query.awaitTermination(60)
        assert 'File "' not in str(error.value)
        return str(error.value)

    assert "there is no topic nowhere" in fails(received("nowhere"))
    unreachable = received(topic, zk_quorum="127.0.0.1:1", kafka_params={"zookeeper.connection.timeout.ms": "500"})
    assert "zookeeper.connect=127.0.0.1:1: " in fails(unreachable)
    file = sink.segments.with_name("file")
    file.write_text("")
    assert f"directory {file} cannot be used" in fails(received(topic, directory=str(file)))
