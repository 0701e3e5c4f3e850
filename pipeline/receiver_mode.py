"""Receiver mode: KafkaUtils.createStream of Spark 1 and 2, for Spark 4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipeline.errors import UnknownOption
from pipeline.options import OWN_KEYS, SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY_AND_VALUE = "key binary, value binary"
NOT_FOR_RECEIVERS = {key.lower() for key in OWN_KEYS if key != "emulate"}
MOST_WAITING_BYTES = 512 * 1024 * 1024


def create_stream(
    spark: SparkSession,
    zk_quorum: str,
    group_id: str,
    topics: Mapping[str, int],
    kafka_params: Mapping[str, str] | None = None,
    *,
    receivers: int = 1,
    write_ahead: bool = False,
    directory: str | None = None,
    schema: str = KEY_AND_VALUE,
    max_rows_per_batch: int | None = None,
    max_waiting_bytes: int = MOST_WAITING_BYTES,
) -> DataFrame:
    """A streaming DataFrame of what receivers on the executors get (Spark 1 and 2: KafkaUtils.createStream).

    `topics`: topic -> threads in each receiver. `receivers`: how many members of the group, a core each while the query
    runs. Nothing happens before a query is started; when it ends, the members are gone. One query at a time.

    write_ahead=False: segments live in a directory of their own that is removed at the end; what was received and not
    processed when query, driver or machine end is lost. write_ahead=True: a segment is on the disk in `directory`
    before its offsets are committed, and stays until the batch with it is in the sink; nothing is lost.

    `directory`: seen by driver and executors alike; a temporary one will do where all are on one machine, without
    write-ahead. `schema`: any of the columns of format("zkconsumer"). When more than `max_waiting_bytes` wait to be
    processed, receivers stand still.
    """
    import pipeline
    from pipeline.received import NAME, ReceivedDataSource
    from pipeline.receiver import StreamSettings
    from pipeline.tracker import Tracker

    options = SourceOptions.of(_options(zk_quorum, group_id, topics, kafka_params or {}))
    _check(spark, receivers, write_ahead=write_ahead, directory=directory)
    for name, value in (("max_rows_per_batch", max_rows_per_batch), ("max_waiting_bytes", max_waiting_bytes)):
        if value is not None and value < 1:
            raise UnknownOption(f"{name}={value} should be at least 1")
    context = spark.sparkContext
    tracker = Tracker.of_process(context)
    stream = tracker.add(
        context,
        StreamSettings(options.config, dict(options.streams_of), receivers, write_ahead, directory, max_waiting_bytes),
    )
    pipeline.register(spark)
    spark.dataSource.register(ReceivedDataSource)
    host, port = tracker.address
    reader = spark.readStream.format(NAME).schema(schema).option("tracker", f"{host}:{port}").option("stream", stream)
    if max_rows_per_batch is not None:
        reader = reader.option("mostrows", max_rows_per_batch)
    return reader.option("token", tracker.secret.hex()).load()


def _options(
    zk_quorum: str, group_id: str, topics: Mapping[str, int], kafka_params: Mapping[str, str]
) -> dict[str, str]:
    """The same, as options of the source."""
    given = {"zookeeper.connect": zk_quorum, "group.id": group_id}
    for key in kafka_params:
        if key.lower() in NOT_FOR_RECEIVERS:
            raise UnknownOption(f"kafka_params: {key} is an option of group mode, receivers have none such")
        if key in given and kafka_params[key] != given[key]:
            raise UnknownOption(f"kafka_params: {key}={kafka_params[key]}, but the argument says {given[key]}")
    if not topics:
        raise UnknownOption('topics: give at least one, as in {"orders": 2} (topic: threads)')
    for topic, threads in topics.items():
        if not isinstance(threads, int) or threads < 1:
            raise UnknownOption(f"topics: {topic} has {threads!r} threads; give a whole number, at least 1")
    named = ",".join(f"{topic}:{threads}" for topic, threads in topics.items())
    return {**{key: str(value) for key, value in kafka_params.items()}, **given, "topics": named}


def _check(spark: SparkSession, receivers: int, *, write_ahead: bool, directory: str | None) -> None:
    if receivers < 1:
        raise UnknownOption(f"receivers={receivers} should be at least 1")
    if write_ahead and directory is None:
        raise UnknownOption("write_ahead=True needs directory=…: segments in it outlive the query")
    context = spark.sparkContext
    master = context.master or ""
    is_local = master.startswith("local") and not master.startswith("local-cluster")
    if is_local and context.defaultParallelism <= receivers:
        raise UnknownOption(
            f"receivers={receivers}: each takes a core while the query runs, and {master} has"
            f" {context.defaultParallelism}, so none is left for the batches; use local[{receivers + 1}] or more"
        )
    if not master.startswith("local") and directory is None:
        raise UnknownOption(f"with master {master}, directory=… is needed: one that driver and executors share")
