"""The driver of a job with a receiver is killed, and the job is started again."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.tracker import Tracker
from tests.conformance.group import Group
from tests.spark.applications import Driver, is_running, receivers
from tests.spark.receiver_driver import job
from tests.spark.sinks import Sink, each_once
from tests.spark.test_crash import PATIENCE_S, SPARK_STARTS_S, continuous_produce
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import eventually


def test_a_killed_driver_leaves_no_receiver_and_its_job_goes_on_without_loss(
    spark: SparkSession, kafka: KafkaCluster, topic: str, group: Group, tmp_path: Path
) -> None:
    arguments = (kafka.zookeeper_connect, group.name, topic, str(tmp_path))
    with continuous_produce(kafka, topic) as produced:
        driver = Driver("receiver_driver", *arguments, "local[2]")
        try:
            driver.wait(lambda: driver.said("told"), "rows have come", SPARK_STARTS_S)
            driver.wait(lambda: receivers(driver), "progress tells of the receiver", PATIENCE_S)
            [receiver] = receivers(driver)
            driver.kill()
        finally:
            driver.close()

        eventually(lambda: group.members() == {}, "the receiver has left, long before its session's end", 10)
        eventually(lambda: not is_running(receiver["pid"]), "no process is left", 30)

    query = job(spark, *arguments)
    try:
        sink = Sink(spark, tmp_path)
        eventually(lambda: sum(sink.offsets().values()) >= produced.total(), "all is in the sink", 60)
    finally:
        query.stop()
        Tracker.close_if_any()
    assert sink.offsets() == each_once(dict(produced))
