"""A standalone Spark cluster on loopback: a master and workers, each a process of its own, from the pip package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from zkconsumer.testing.java import find_java
from zkconsumer.testing.ports import HOST
from zkconsumer.testing.process import GuardedProcess
from zkconsumer.testing.waiting import eventually

SPARK_HOME = Path(pyspark.__file__).parent
START_S = 60.0
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


class StandaloneCluster:
    """Workers have a core each, and `memory` for executors.

    `environment` is what the processes of the cluster see beside our own.
    """

    def __init__(self, *, workers: int = 2, memory: str = "700m", environment: Mapping[str, str]) -> None:
        self._number = workers
        self._memory = memory
        self._environment = {
            **environment,
            "SPARK_HOME": str(SPARK_HOME),
            "JAVA_HOME": str(find_java().resolve().parent.parent),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            # Its port is fixed, so two clusters on a machine would meet; nobody here submits over REST.
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        }
        self._stack = ExitStack()
        self.url = ""
        self.workers: list[GuardedProcess] = []

    def __enter__(self) -> Self:
        try:
            master = self._start("spark-master", MASTER, "--port", "0")
            self.url = self._said(master, r"Starting Spark master at (spark://\S+)")
            for _ in range(self._number):
                options = ("--port", "0", "--cores", "1", "--memory", self._memory)
                self.workers.append(self._start("spark-worker", WORKER, *options, self.url))
            for worker in self.workers:
                self._said(worker, r"Successfully registered with master (\S+)")
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def _start(self, name: str, *command: str) -> GuardedProcess:
        process = GuardedProcess(name)
        process.open()
        self._stack.callback(process.close)
        self._stack.callback(process.end)  # first: a worker that is asked to end, ends its executors
        directory = str(process.directory)
        spark_class, main, *options = str(SPARK_HOME / "bin" / "spark-class"), *command
        where = ["--work-dir", directory] if main == WORKER else []
        process.spawn(
            [spark_class, main, "--host", HOST, "--webui-port", "0", *where, *options],
            environment={**self._environment, "SPARK_LOCAL_DIRS": directory},
        )
        return process

    def _said(self, process: GuardedProcess, pattern: str) -> str:
        def search() -> re.Match[str] | None:
            assert process.poll(), f"{process.name} has ended:\n{process.log_tail()}"
            return re.search(pattern, process.output.read_text())

        found = eventually(search, lambda: f"{pattern!r} from {process.name}:\n{process.log_tail()}", START_S)
        assert found is not None
        return found.group(1)
