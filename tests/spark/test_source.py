"""format("zkconsumer") on real Spark, ZooKeeper and brokers: bounded reads, and mistakes."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.conformance.group import Group, fresh
from tests.spark.conftest import Source
from tests.spark.sinks import Sink
from zkconsumer.testing.kafka import KafkaCluster

# --- batch mode ---


@pytest.mark.parametrize("version", ["0.8.2.2", "1.1.1", "3.9.1"])
def test_rows_hold_what_was_produced(request: pytest.FixtureRequest, spark: SparkSession, version: str) -> None:
    kafka: KafkaCluster = request.getfixturevalue("_kafka_clusters")(version, 1)
    topic = fresh("rows")
    kafka.create_topic(topic, partitions=1)
    kafka.produce(topic, [b"plain", (b"key", b"value"), (b"key", None)])

    options = {"zookeeper.connect": kafka.zookeeper_connect, "group.id": "nobody", "topics": topic}
    rows = spark.read.format("zkconsumer").options(**options, **{"starting.offsets": "earliest"}).load().collect()

    assert [(row.key, row.value, row.topic, row.partition, row.offset, row.consumer_thread) for row in rows] == [
        (None, b"plain", topic, 0, 0, None),
        (b"key", b"value", topic, 0, 1, None),
        (b"key", None, topic, 0, 2, None),
    ]
    assert all((row.timestamp is None) == (version == "0.8.2.2") for row in rows)


def test_a_bounded_read_begins_where_the_group_stands(
    kafka: KafkaCluster, topic: str, group: Group, batch: Source
) -> None:
    kafka.produce(topic, [b"x"] * 9, partition=0)
    group.put(f"offsets/{topic}/0", "4")

    assert [row.offset for row in batch(topics=topic).collect()] == [4, 5, 6, 7, 8]
    assert group.members() == {}


def test_given_offsets_and_a_schema_of_some_columns(kafka: KafkaCluster, topic: str, batch: Source) -> None:
    kafka.produce(topic, [b"the value of record %d" % offset for offset in range(9)], partition=1)
    wanted = {"starting_offsets": f'{{"{topic}": {{"1": 2}}}}', "ending_offsets": f'{{"{topic}": {{"1": 5}}}}'}

    rows = batch("offset bigint, value binary, partition int", topics=topic, **wanted)

    assert rows.columns == ["offset", "value", "partition"]
    assert [tuple(row) for row in rows.collect()] == [
        (2, b"the value of record 2", 1), (3, b"the value of record 3", 1), (4, b"the value of record 4", 1),
    ]  # fmt: skip


def test_a_range_may_take_many_fetches(kafka: KafkaCluster, topic: str, batch: Source) -> None:
    """Each is asked for while Spark takes what came before; a record larger than one of them comes too."""
    values = [b"%d" % offset * (offset % 50) for offset in range(400)]
    values[200] = b"large" * 2000
    for start in range(0, 400, 20):
        kafka.produce(topic, values[start : start + 20], partition=2)
    ending = {"ending_offsets": f'{{"{topic}": {{"2": 390}}}}'}

    for size in (2000, 1_000_000):
        rows = batch("offset bigint, value binary", topics=topic, fetch_message_max_bytes=size, **ending).collect()
        assert [tuple(row) for row in rows] == list(enumerate(values))[:390]


def test_mistakes_are_shown_in_one_line(topic: str, batch: Source) -> None:
    def line(rows: Any) -> str:
        with pytest.raises(PySparkException) as error:
            rows()
        [text, *rest] = str(error.value).strip().splitlines()
        assert rest == [] or all(other.strip().startswith("SQLSTATE") for other in rest)
        return text

    assert "no option memebers; did you mean members?" in line(lambda: batch(topics=topic, memebers=2).count())
    assert "there is no topic nowhere" in line(lambda: batch(topics="nowhere").count())
    assert f"did you mean {topic}" in line(lambda: batch(topics=f"{topic}s").count())
    assert "the source has no column price" in line(lambda: batch("price int", topics=topic).count())
    unreachable = {"zookeeper_connect": "127.0.0.1:1", "zookeeper_connection_timeout_ms": "500"}
    assert "127.0.0.1:1" in line(lambda: batch(topics=topic, **unreachable).count())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"memebers": 2}, "no option memebers; did you mean members?"),
        ({"members": 0}, "option members=0 should be a whole number, at least 1"),
        ({"topics": "nowhere"}, "there is no topic nowhere"),
        (
            {"zookeeper_connect": "127.0.0.1:1", "zookeeper_connection_timeout_ms": 500},
            "zookeeper.connect=127.0.0.1:1: ",
        ),
    ],
    ids=["unknown option", "bad value", "unknown topic", "ZooKeeper unreachable"],
)
def test_a_stream_shows_a_mistake_in_one_line(
    topic: str, stream: Source, sink: Sink, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(PySparkException) as error, sink.running(stream(**{"topics": topic, **options})) as query:
        query.awaitTermination(60)

    [line] = [line for line in str(error.value).splitlines() if said in line]
    assert 'File "' not in str(error.value), "no stack of ours"
    assert len(line) < 600
