"""Who is compared in the throughput bench, and how each is run: a process of its own for every single sample."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from fetcher.implementation import PURE_PYTHON_VARIABLE
from tests.bench.child import ChildFailed, Ended, run_child
from tests.bench.readers import Task
from zkconsumer.testing.java import class_path_of, find_java, unpack_into
from zkconsumer.testing.java_compiler import compile_java
from zkconsumer.testing.programs import FULL_SPEED, program
from zkconsumer.testing.scala import log4j_properties

JAVA_SOURCE = Path(__file__).with_name("java") / "BenchReading.java"
HEAP_MB = 512
LOG4J2 = "status = error\nrootLogger.level = warn\n"


class Result(NamedTuple):
    million_a_second: float
    cpu_s_a_million: float
    peak_mib: float


@dataclass(frozen=True)
class Subject:
    """`share` of the records is what it reads: slow ones, that do not get faster while they run, read fewer."""

    name: str
    run: Callable[[Task], tuple[float, float, Ended]]
    share: float = 1.0

    def measure(self, task: Task) -> Result:
        step = task.partitions
        reads = max(step, int(task.records * self.share) // step * step)
        try:
            records, seconds, ended = self.run(task._replace(records=reads))
        except ChildFailed as error:
            raise ChildFailed(f"{self.name}: {error}") from None
        if records <= 0:
            raise ChildFailed(f"{self.name}: all {reads} records came at once: too few to measure anything")
        return Result(records / seconds / 1e6, ended.cpu_s / reads * 1e6, ended.peak_mib)


class Subjects:
    """All of them, by name. Compiles the Java ones when entered."""

    def __init__(self) -> None:
        self._closing = ExitStack()
        self.by_name: dict[str, Subject] = {}

    def __enter__(self) -> Self:
        folder = tempfile.TemporaryDirectory(prefix="bench-classes-")
        classes = Path(self._closing.enter_context(folder)) / "classes"
        try:
            compile_java(JAVA_SOURCE, program("kafka", "1.1.1").jars(), classes)
            (classes / "log4j.properties").write_text(log4j_properties(f"{folder.name}/log", "WARN"))
            (classes / "log4j2.properties").write_text(LOG4J2)
        except BaseException:
            self._closing.close()
            raise
        everybody = [*_ours(), *_real(classes), *_others()]
        self.by_name = {subject.name: subject for subject in everybody}
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()


def _ours() -> list[Subject]:
    ways = {"iterate": "iterate", "value read": "value-read", "batches": "batches", "Arrow": "arrow"}
    compiled = [Subject(f"ours, {name}", _python(way)) for name, way in ways.items()]
    pure = [Subject(f"ours, {name}, pure", _python(way, pure=True), 0.1) for name, way in ways.items()]
    return [*compiled, *pure]


def _others() -> list[Subject]:
    return [
        Subject("confluent-kafka", _python("confluent-poll"), 0.06),
        Subject("confluent-kafka, tuned", _python("confluent-tuned"), 0.5),
        Subject("aiokafka", _python("aiokafka"), 0.1),
        Subject("kafka-python", _python("kafka-python"), 0.03),
        Subject("raw socket", _python("raw")),
    ]


def _real(classes: Path) -> list[Subject]:
    return [
        Subject("Scala 0.8.2.2", _java("old", "0.8.2.2", classes)),
        Subject("Scala 1.1.1", _java("old", "1.1.1", classes)),
        Subject("Scala 0.8.2.2, its own tool", lambda task: _consumer_performance(task, classes)),
        Subject("Java new 1.1.1", _java("new", "1.1.1", classes)),
        Subject("Java new 3.9.1", _java("new", "3.9.1", classes)),
    ]


def _python(way: str, *, pure: bool = False) -> Callable[[Task], tuple[float, float, Ended]]:
    environment = os.environ | {PURE_PYTHON_VARIABLE: "1" if pure else "0"}

    def run(task: Task) -> tuple[float, float, Ended]:
        command = [sys.executable, "-m", "tests.bench.readers", way, json.dumps(task._asdict())]
        return _printed(run_child(command, environment=environment))

    return run


def _java(protocol: str, version: str, classes: Path) -> Callable[[Task], tuple[float, float, Ended]]:
    def run(task: Task) -> tuple[float, float, Ended]:
        group = f"{protocol}-{time.monotonic_ns()}"
        settings = (
            {"zookeeper.connect": task.zookeeper_connect, "auto.offset.reset": "smallest"}
            if protocol == "old"
            else {"bootstrap.servers": task.bootstrap_servers, "auto.offset.reset": "earliest"}
        )
        command = [*_jvm(version, classes), "BenchReading", protocol, task.topic]
        command += [str(number) for number in (task.streams, task.partitions, task.records)]
        command += [f"{key}={value}" for key, value in (settings | {"group.id": group}).items()]
        return _printed(run_child(command))

    return run


def _consumer_performance(task: Task, classes: Path) -> tuple[float, float, Ended]:
    """kafka.tools.ConsumerPerformance, which has a clock of its own: from a second after the streams were made."""
    command = [*_jvm("0.8.2.2", classes), "kafka.tools.ConsumerPerformance", "--zookeeper", task.zookeeper_connect]
    command += ["--topic", task.topic, "--messages", str(task.records), "--threads", "1", "--hide-header"]
    command += ["--group", f"tool-{time.monotonic_ns()}", "--socket-buffer-size", str(64 * 1024)]
    ended = run_child(command)
    *_, consumed, a_second = ended.output.strip().splitlines()[-1].split(",")
    if int(consumed) < task.records:
        raise ChildFailed(f"it read {consumed} of {task.records} records: {ended.output}")
    return float(consumed), float(consumed) / float(a_second), ended


def _jvm(version: str, classes: Path) -> list[str]:
    """With log4j at WARN: without a configuration the Scala consumer builds debug texts and is half as fast."""
    class_path = class_path_of([classes, *program("kafka", version).jars()])
    return [str(find_java()), f"-Xmx{HEAP_MB}m", *FULL_SPEED, unpack_into(classes.parent), "-cp", class_path]


def _printed(ended: Ended) -> tuple[float, float, Ended]:
    """Records and nanoseconds, in the last line."""
    records, nanoseconds = ended.output.strip().splitlines()[-1].split()
    return float(records), float(nanoseconds) / 1e9, ended
