"""format("zkconsumer") on real Spark, ZooKeeper and brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.conformance.group import Group, fresh
from tests.spark.conftest import Source
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.link import Link
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.waiting import eventually


class Sink:
    """Parquet files of one query, and its checkpoint."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._directory = directory

    @contextmanager
    def running(self, rows: DataFrame) -> Iterator[StreamingQuery]:
        query = self._writer(rows).start()
        try:
            yield query
        finally:
            query.stop()

    def write_what_is_there(self, rows: DataFrame) -> StreamingQuery:
        query: StreamingQuery = self._writer(rows).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        return query

    def offsets(self) -> Counter[tuple[int, int]]:
        rows = self._spark.read.parquet(str(self._directory / "rows")).select("partition", "offset").collect()
        return Counter((row.partition, row.offset) for row in rows)

    def _writer(self, rows: DataFrame) -> Any:
        return (
            rows.writeStream.format("parquet")
            .option("path", str(self._directory / "rows"))
            .option("checkpointLocation", str(self._directory / "checkpoint"))
        )


@pytest.fixture
def sink(spark: SparkSession, tmp_path: Path) -> Sink:
    return Sink(spark, tmp_path)


def each_once(topic_ends: dict[int, int]) -> Counter[tuple[int, int]]:
    return Counter((partition, offset) for partition, end in topic_ends.items() for offset in range(end))


def stored(group: Group, topic: str) -> dict[int, int]:
    return {partition: int(offset) for partition, offset in group.offsets(topic).items()}


def metric(query: StreamingQuery, name: str) -> int:
    import json

    progress = query.lastProgress
    return -1 if progress is None else int(json.loads(progress.sources[0].latestOffset or "{}").get(name, -1))


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
    kafka.produce(topic, [b"x"] * 9, partition=1)
    wanted = {"starting_offsets": f'{{"{topic}": {{"1": 2}}}}', "ending_offsets": f'{{"{topic}": {{"1": 5}}}}'}

    rows = batch("offset bigint, partition int", topics=topic, **wanted)

    assert rows.columns == ["offset", "partition"]
    assert [tuple(row) for row in rows.collect()] == [(2, 1), (3, 1), (4, 1)]


def test_mistakes_are_shown_in_one_line(topic: str, batch: Source, stream: Source, sink: Sink) -> None:
    def line(rows: Any) -> str:
        with pytest.raises(PySparkException) as error:
            rows()
        [text, *rest] = str(error.value).strip().splitlines()
        assert rest == [] or all(other.strip().startswith("SQLSTATE") for other in rest)
        return text

    assert "no option memebers; did you mean members?" in line(lambda: batch(topics=topic, memebers=2).count())
    assert "there is no topic nowhere" in line(lambda: batch(topics="nowhere").count())
    assert "the source has no column price" in line(lambda: batch("price int", topics=topic).count())
    unreachable = {"zookeeper_connect": "127.0.0.1:1", "zookeeper_connection_timeout_ms": "500"}
    assert "127.0.0.1:1" in line(lambda: batch(topics=topic, **unreachable).count())

    with pytest.raises(PySparkException) as error, sink.running(stream(topics="nowhere")) as query:
        query.awaitTermination(60)
    assert "there is no topic nowhere" in str(error.value)
    assert 'File "' not in str(error.value)


# --- group mode ---


def test_available_now_writes_all_once_and_commits_the_last_batch(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, sink: Sink
) -> None:
    for partition in range(3):
        kafka.produce(topic, [b"x"] * 100, partition=partition)

    query = sink.write_what_is_there(stream(topics=f"{topic}:2", members=2, maxOffsetsPerTrigger=120))

    assert max(progress.numInputRows for progress in query.recentProgress) == 120
    assert sink.offsets() == each_once({0: 100, 1: 100, 2: 100})
    eventually(lambda: stored(group, topic) == {0: 100, 1: 100, 2: 100}, "the last batch is committed")
    eventually(lambda: group.members() == {}, "ids are gone")

    kafka.produce(topic, [b"x"] * 10, partition=2)
    sink.write_what_is_there(stream(topics=f"{topic}:2"))

    assert sink.offsets() == each_once({0: 100, 1: 100, 2: 110})


@pytest.mark.parametrize("storage", ["kafka", "both"])
def test_offsets_are_committed_where_the_options_say(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, batch: Source, sink: Sink, storage: str
) -> None:
    kafka.produce(topic, [b"x"] * 50, partition=0)
    options = {"offsets_storage": "kafka", "dual_commit_enabled": str(storage == "both").lower()}

    sink.write_what_is_there(stream(topics=topic, **options))

    assert batch(topics=topic, **options).count() == 0  # begins where the group stands
    assert stored(group, topic).get(0) == (50 if storage == "both" else None)


def test_partitions_are_shared_with_a_scala_member_and_a_topic_may_grow(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, sink: Sink
) -> None:
    kafka.produce(topic, [b"x"] * 500, partition=0)
    settings = {"auto.offset.reset": "smallest", "rebalance.max.retries": "100", "rebalance.backoff.ms": "300"}
    with sink.running(stream(topics=f"{topic}:2")) as query:
        eventually(lambda: stored(group, topic) == {0: 500}, "the first batch is committed", 60)
        with ScalaConsumer(kafka.zookeeper_connect, group.name, {topic: 1}, properties=settings) as scala:
            eventually(
                lambda: {owner.rpartition("-")[0] for owner in group.owners(topic).values()} > {scala.consumer_id}
            )
            kafka.add_partitions(topic, 5)
            eventually(lambda: len(group.owners(topic)) == 5, "all five are owned", 60)
            for partition in range(5):
                kafka.produce(topic, [b"x"] * 200, partition=partition)
            ends = {0: 700, 1: 200, 2: 200, 3: 200, 4: 200}
            eventually(lambda: metric(query, "owned_partitions") in range(1, 5), "progress tells what is owned", 60)
            everything = sum(ends.values())
            eventually(lambda: sum(sink.offsets().values()) + scala.number_delivered >= everything, "all came", 120)
            outside = Counter((one.partition, one.offset) for one in scala.delivered())
        assert outside
        assert sink.offsets() + outside == each_once(ends)
        assert metric(query, "doubled_at_most") == 0
    eventually(lambda: group.members() == {}, "ids are gone")


def test_nothing_is_lost_or_doubled_when_zookeeper_is_away_until_the_session_ends(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, sink: Sink, link: Callable[[str], Link]
) -> None:
    address, _, chroot = kafka.zookeeper_connect.partition("/")
    relay = link(address)
    options = {"zookeeper_connect": f"{relay.address}/{chroot}", "zookeeper_session_timeout_ms": 4000}
    with sink.running(stream(topics=topic, **options)) as query:
        kafka.produce(topic, [b"x"] * 100, partition=0)
        eventually(lambda: stored(group, topic) == {0: 100}, "the first batch is committed", 60)

        relay.cut()
        eventually(lambda: group.members() == {}, "the session has ended", 60)
        kafka.produce(topic, [b"x"] * 100, partition=0)
        relay.heal()

        eventually(lambda: stored(group, topic) == {0: 200}, "a member again, which goes on", 60)
        eventually(lambda: metric(query, "sessions_lost") == 1, "progress tells of the lost session", 60)
    assert sink.offsets() == each_once({0: 200})


def test_the_id_is_gone_when_the_query_was_stopped(
    kafka: KafkaCluster, topic: str, group: Group, stream: Source, sink: Sink
) -> None:
    kafka.produce(topic, [b"x"] * 10, partition=0)
    with sink.running(stream(topics=topic, zookeeper_session_timeout_ms=20_000)):
        eventually(lambda: len(group.members()) == 1, "a member", 60)

    eventually(
        lambda: group.members() == {} and group.owners(topic) == {}, "gone long before the session's time-out", 10
    )
