"""On a standalone cluster of two workers, whose Python has nothing of ours but what was sent along."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from pipeline.histories import read_parquet
from tests.bench.histories import make_history
from tests.conformance.group import Group, fresh
from tests.spark.cluster_job import faults_in
from tests.spark.sessions import QUICK, quickly
from tests.spark.standalone import SPARK_HOME, StandaloneCluster
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import scaled

JOB = Path(__file__).with_name("cluster_job.py")
LIBRARIES = Path(pyspark.__file__).parents[1]
DRIVER = "127.0.0.2"  # not where a driver would be taken for that of a local session
ROWS = 50_000  # fewer, and records are too far apart to come out of order


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without any package."""
    directory = tmp_path_factory.mktemp("bare")
    venv.create(directory, with_pip=False, symlinks=True)
    return directory / "bin" / "python"


@pytest.fixture(scope="module")
def python_with_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the packages we need, but without us."""
    directory = tmp_path_factory.mktemp("libraries")
    venv.create(directory, with_pip=False, symlinks=True)
    [site] = directory.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(f"{LIBRARIES}\n")  # its own .pth files, which lead to us, are not looked at
    return directory / "bin" / "python"


@pytest.fixture(scope="module")
def cluster() -> Iterator[StandaloneCluster]:
    with StandaloneCluster(environment={"PYTHONPATH": ""}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("history")
    make_history(directory, ROWS)
    return directory


@pytest.fixture
def orders(kafka: KafkaCluster) -> str:
    topic = fresh("cluster")
    kafka.create_topic(topic, partitions=4)
    for partition in range(4):
        kafka.produce(topic, [b"an order"] * 500, partition=partition)
    return topic


def submit(cluster: StandaloneCluster, environment: dict[str, str], *arguments: str) -> None:
    settings = ["spark.executor.memory=512m", "spark.driver.memory=512m"]
    settings += [f"{key}={value}" for key, value in QUICK.items()]
    settings += ["spark.ui.enabled=false", "spark.sql.session.timeZone=UTC"]
    settings += [f"spark.driver.host={DRIVER}", f"spark.driver.bindAddress={DRIVER}"]
    options = [part for setting in settings for part in ("--conf", setting)]
    done = subprocess.run(  # noqa: PLW1510
        [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.url, *options, *arguments],
        env={**os.environ, "SPARK_HOME": str(SPARK_HOME), "PYTHONPATH": "", **environment},
        cwd=cluster.workers[0].directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=scaled(240),
    )
    assert done.returncode == 0, done.stdout[-4000:]


def pack(target: Path) -> Path:
    subprocess.run([sys.executable, "-m", "pipeline.packing", str(target)], check=True, stdout=subprocess.DEVNULL)
    return target


def check(result: dict[str, Any], cluster: StandaloneCluster, *, reader: str) -> None:
    """Of a job that read in all modes."""
    assert result["executors"] == 2
    work = [str(worker.directory) for worker in cluster.workers]
    assert {next(d for d in work if place.startswith(d)) for place, _, _ in result["workers"]} == set(work)
    assert all(any(source.startswith(d) for d in work) for _, source, _ in result["workers"]), "code that was sent"
    assert {how for _, _, how in result["workers"]} == {reader}
    assert result["bounded"] == result["rows"] == result["distinct_rows"] == 2000
    received = result["received"]
    assert received["rows"] == received["distinct_rows"] == 2000
    assert [receiver["owned_partitions"] for receiver in received["receivers"]] == [4]
    assert result["tracker"] == DRIVER


@pytest.mark.timeout(600)
def test_a_job_brings_our_code_by_py_files(
    cluster: StandaloneCluster,
    python_with_libraries: Path,
    kafka: KafkaCluster,
    orders: str,
    group: Group,
    history: Path,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """And what it says of a history is what a session in one process says."""
    code = pack(tmp_path / "zkconsumer.zip")
    arguments = [kafka.zookeeper_connect, orders, group.name, str(tmp_path), str(history)]

    submit(cluster, {"PYSPARK_PYTHON": str(python_with_libraries)}, "--py-files", str(code), str(JOB), *arguments)

    result = json.loads((tmp_path / "result.json").read_text())
    check(result, cluster, reader="pure")
    assert group.members() == Group(group.client, f"{group.name}-received").members() == {}
    with quickly(spark):
        alone = faults_in(read_parquet(spark, history))
    assert all(alone.values())
    assert result["found"] == [alone]


@pytest.mark.timeout(600)
def test_a_job_brings_a_packed_environment(
    cluster: StandaloneCluster,
    bare_python: Path,
    kafka: KafkaCluster,
    orders: str,
    group: Group,
    tmp_path: Path,
) -> None:
    """Unpacked by Spark for the executors, and by hand where the driver runs."""
    archive = pack(tmp_path / "environment.tar.gz")
    unpacked = tmp_path / "unpacked"
    shutil.unpack_archive(archive, unpacked)
    arguments = [kafka.zookeeper_connect, orders, group.name, str(tmp_path)]

    submit(
        cluster,
        {"PYSPARK_PYTHON": str(bare_python), "PYTHONPATH": str(unpacked)},
        "--archives", f"{archive}#environment",
        "--conf", "spark.executorEnv.PYTHONPATH=./environment",
        str(JOB), *arguments,
    )  # fmt: skip

    check(json.loads((tmp_path / "result.json").read_text()), cluster, reader="compiled")
    assert group.members() == Group(group.client, f"{group.name}-received").members() == {}
