"""Spark sessions for tests: small, on loopback, and gone at the end, their JVM too."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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

QUICK = {  # for frames of a few rows: compiling a query takes longer than running it
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
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


@contextmanager
def quickly(spark: SparkSession) -> Iterator[None]:
    """QUICK for a while: the session is others' too."""
    before = {key: spark.conf.get(key, None) for key in QUICK}
    for key, value in QUICK.items():
        spark.conf.set(key, value)
    yield
    for key, earlier in before.items():
        if earlier is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, earlier)


def end(spark: SparkSession) -> None:
    """Stop the session and wait for its JVM to end, which pyspark leaves to the end of the interpreter."""
    gateway, warehouse = SparkContext._gateway, spark.conf.get("spark.sql.warehouse.dir")
    spark.stop()
    shutil.rmtree(str(warehouse).removeprefix("file:"))
    if gateway is not None:
        gateway.shutdown()
        process = gateway.proc
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()  # or it outlives the run
            process.wait()
            raise
        SparkContext._gateway = None
        SparkContext._jvm = None


def planners(jvm: int | None = None) -> list[int]:
    """Process ids of those that hold the members of running queries: children of Spark's JVM, ours if none is named."""
    parent = jvm if jvm is not None else SparkContext._gateway.proc.pid  # type: ignore[union-attr]
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            command = (directory / "cmdline").read_bytes()
            parent_of_it = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue  # ended since
        if b"python_streaming_source_runner" in command and parent_of_it == parent:
            found.append(int(directory.name))
    return found
