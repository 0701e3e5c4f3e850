"""The driver dies between writing a batch into its checkpoint and the next thing it would have said."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import IntegerType, LongType, StructType

from pipeline.checkpoint import Checkpoint
from pipeline.ranges import StreamOffset
from pipeline.source import ZkConsumerDataSource
from tests.conformance.group import Group
from tests.spark.conftest import OPTIONS, Source
from tests.spark.sinks import Sink, each_once, metric, stored
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.waiting import eventually

SCHEMA = StructType().add("partition", IntegerType()).add("offset", LongType())


def plan_a_batch_and_die(options: dict[str, str], checkpoint: Path, *, written: bool) -> StreamOffset:
    """As the process of the members that planned it sees it. Not in the main thread, whose signals are pytest's."""
    before = (checkpoint / "offsets" / "0").read_text().splitlines()
    reader = ZkConsumerDataSource(options).streamReader(SCHEMA)
    with ThreadPoolExecutor(1) as process:
        try:
            answer = process.submit(reader.latestOffset, json.loads(before[-1]), ReadAllAvailable())
            end: dict[str, Any] = answer.result(60)
            if written:
                (checkpoint / "offsets" / "1").write_text("\n".join([*before[:-1], json.dumps(end)]))
        finally:
            process.submit(reader.stop).result(60)
    return StreamOffset.from_json(end)


@pytest.mark.parametrize("written", [True, False], ids=["written down", "not written down"])
def test_a_batch_is_handed_over_if_and_only_if_the_checkpoint_has_it(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, sink: Sink, tmp_path: Path, written: bool
) -> None:
    """Members that outlive their driver look there, if they are told where it is: so nothing comes twice."""
    checkpoint = tmp_path / "checkpoint"
    kafka.produce(topic, [b"x"] * 100, partition=0)
    rows = stream(topics=topic, checkpointLocation=f"file:{checkpoint}")
    sink.write_what_is_there(rows)
    eventually(lambda: stored(group, topic).get(0) == 100, "the first batch is committed")
    kafka.produce(topic, [b"x"] * 50, partition=0)
    options = {"zookeeper.connect": kafka.zookeeper_connect, "group.id": group.name, "topics": topic, **OPTIONS}

    end = plan_a_batch_and_die({**options, "checkpointLocation": str(checkpoint)}, checkpoint, written=written)

    assert [(found.start, found.until) for found in end.ranges] == [(100, 150)]
    assert Checkpoint(str(checkpoint)).holds(end) == written
    assert group.members() == {}
    assert stored(group, topic)[0] == (150 if written else 100)
    kafka.produce(topic, [b"x"] * 10, partition=0)
    with ScalaConsumer(kafka.zookeeper_connect, group.name, {topic: 1}, properties=OPTIONS) as scala:
        scala.wait_until_delivered(10 if written else 60, 60)
        delivered = scala.delivered
        scala.stop()
        outside = Counter((one.partition, one.offset) for one in delivered())

    query = sink.write_what_is_there(rows)

    assert sink.offsets() + outside == each_once({0: 160})
    assert metric(query, "doubled_at_most") <= 0, "-1 if there was no batch"
