"""Spark sessions for tests: small, on loopback, and gone at the end, their JVM too."""

from __future__ import annotations

import tempfile

from pyspark import SparkContext
from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "768m",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


def local_session(master: str = "local[2]", **settings: str) -> SparkSession:
    """Started, or the one there is."""
    builder = SparkSession.builder.master(master).appName("zkconsumer tests")
    own = {"spark.sql.warehouse.dir": tempfile.mkdtemp(prefix="warehouse-"), "spark.local.dir": tempfile.gettempdir()}
    for key, value in {**SETTINGS, **own, **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def end(spark: SparkSession) -> None:
    """Stop the session and wait for its JVM to end, which pyspark leaves to the end of the interpreter."""
    gateway = SparkContext._gateway
    spark.stop()
    if gateway is not None:
        gateway.shutdown()
        process = gateway.proc
        process.stdin.close()
        process.wait(60)
        SparkContext._gateway = None
        SparkContext._jvm = None
