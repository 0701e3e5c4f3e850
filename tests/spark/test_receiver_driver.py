"""The driver of a job with a receiver is killed, and the job is started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.tracker import Tracker
from tests.conformance.group import Group
from tests.spark.receiver_driver import job
from tests.spark.test_crash import continuous_produce
from tests.spark.test_receiver import Sink, each_once
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import eventually


def test_a_killed_driver_leaves_no_receiver_and_its_job_goes_on_without_loss(
    spark: SparkSession, kafka: KafkaCluster, topic: str, group: Group, tmp_path: Path
) -> None:
    arguments = (kafka.zookeeper_connect, group.name, topic, str(tmp_path))
    command = [sys.executable, "-m", "tests.spark.receiver_driver", *arguments, "local[2]"]
    with continuous_produce(kafka, topic) as produced:
        driver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert driver.stdout is not None
        pids = {}
        for line in driver.stdout:  # the time-out of the test ends a wait for ever
            name, pid = line.split()
            pids[name] = int(pid)
            if name == "receiver":
                break
        os.kill(pids["jvm"], signal.SIGKILL)
        driver.kill()
        driver.communicate()

        eventually(lambda: group.members() == {}, "the receiver has left, long before its session's end", 10)
        eventually(lambda: not Path(f"/proc/{pids['receiver']}").exists(), "no process is left", 30)

    query = job(spark, *arguments)
    try:
        sink = Sink(spark, tmp_path)
        eventually(lambda: sum(sink.offsets().values()) >= produced.total(), "all is in the sink", 60)
    finally:
        query.stop()
        Tracker.close_if_any()
    assert sink.offsets() == each_once(dict(produced))
