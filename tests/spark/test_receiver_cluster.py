"""Receivers on executors that are processes of their own, some of which are killed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.conformance.group import Group
from tests.spark.applications import Driver, is_running, java_above, receivers
from tests.spark.sinks import Sink, each_once, stored
from tests.spark.test_crash import PATIENCE_S, SPARK_STARTS_S, continuous_produce
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import eventually

CLUSTER = "local-cluster[2,2,1024]"  # two executors with two cores each


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("write_ahead", "victims"),
    [("write-ahead", "executor"), ("no-write-ahead", "executor and receiver")],
    ids=["the executor, whose receivers see it", "all at once, without write-ahead"],
)
def test_nothing_is_lost_or_doubled_when_an_executor_is_killed(
    spark: SparkSession, kafka: KafkaCluster, topic: str, group: Group, tmp_path: Path, write_ahead: str, victims: str
) -> None:
    """Receivers whose executor ends leave their group in order, and others begin behind them."""
    arguments = (kafka.zookeeper_connect, group.name, topic, str(tmp_path), CLUSTER, "2", write_ahead)
    sink = Sink(spark, tmp_path)
    driver = Driver("receiver_driver", *arguments)
    try:
        with continuous_produce(kafka, topic) as produced:
            driver.wait(lambda: len(receivers(driver)) == 2, "both receivers are told of", SPARK_STARTS_S)
            driver.wait(lambda: sum(one["rows"] for one in receivers(driver)) > 2000, "rows come", PATIENCE_S)
            before = {one["pid"] for one in receivers(driver)}
            victim = before.pop()
            executor = java_above(victim)
            assert executor != driver.number("jvm")

            if "receiver" in victims:
                os.kill(victim, signal.SIGKILL)
            os.kill(executor, signal.SIGKILL)

            driver.wait(lambda: not is_running(victim), "its receivers end with it", PATIENCE_S)
            driver.wait(lambda: victim not in pids(driver) and len(pids(driver)) == 2, "another one began", PATIENCE_S)
            at = sum(produced.values())
            eventually(lambda: sum(produced.values()) > at + 2000, "more is produced", PATIENCE_S)
        driver.wait(lambda: sink.offsets().total() >= produced.total(), "all is in the sink", PATIENCE_S)
        if "receiver" in victims:  # it could commit nothing any more: its partitions came again
            driver.wait(lambda: last(driver)["duplicates_dropped"] > 0, "what came again is counted", PATIENCE_S)
        driver.stop()
    finally:
        driver.close()

    assert sink.offsets() == each_once(dict(produced))
    assert group.members() == {}
    assert stored(group, topic) == dict(produced)
    assert list((tmp_path / "segments").glob("*/*.arrow")) == []


def pids(driver: Driver) -> set[int]:
    return {one["pid"] for one in receivers(driver)}


def last(driver: Driver) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(driver.said("told")[-1])
    return told
