"""Records a second from a broker to the loop that reads them: ours in its ways, and the real Scala consumer.

    python -m tests.bench.throughput [--records 2000000] [--rounds 5] [--receive-buffer 65536] [--kafka-version 0.8.2.2]

One broker, partition, stream and fetcher, records of 100 bytes. Each round runs each subject once, in a process
of its own, in turn: whatever else the machine does then hits all of them alike. The clock runs as in the real tool
kafka.tools.ConsumerPerformance: from a second after the streams were made to the last record. CPU is that of the whole
process with its start.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from fetcher.implementation import PURE_PYTHON_VARIABLE
from zkconsumer.config import ConsumerConfig
from zkconsumer.connector import ZookeeperConsumerConnector
from zkconsumer.streams import KafkaStream
from zkconsumer.testing.java import class_path_of, find_java
from zkconsumer.testing.kafka import KAFKA_VERSIONS, KafkaCluster
from zkconsumer.testing.programs import FULL_SPEED, program
from zkconsumer.testing.scala import log4j_properties

TOPIC = "throughput"
SCALA = "Scala consumer 0.8.2.2"
HEAP_MB = 512
SETTLE_S = 1.0
IMPLEMENTATIONS = ("compiled", "pure")


class Result(NamedTuple):
    million_a_second: float
    cpu_s: float


class Task(NamedTuple):
    connect: str
    records: int
    receive_buffer_bytes: int


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.throughput", description=(__doc__ or "").split(":")[0])
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--receive-buffer", type=int, default=65536, help="socket.receive.buffer.bytes of all")
    parser.add_argument("--kafka-version", choices=KAFKA_VERSIONS, default="0.8.2.2")
    parser.add_argument("--implementations", nargs="+", choices=IMPLEMENTATIONS, default=IMPLEMENTATIONS)
    parser.add_argument("--child", nargs=2, metavar=("WAY", "CONNECT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        way, connect = arguments.child
        print(json.dumps(read(way, Task(connect, arguments.records, arguments.receive_buffer))))
        return
    console = Console(highlight=False)
    with KafkaCluster(version=arguments.kafka_version, full_speed=True) as kafka:
        kafka.create_topic(TOPIC, partitions=1)
        kafka.produce_many(TOPIC, arguments.records, value_size=100)
        task = Task(kafka.zookeeper_connect, arguments.records, arguments.receive_buffer)
        console.print(_table(_results(task, arguments.rounds, arguments.implementations, console), arguments.rounds))


def _results(task: Task, rounds: int, implementations: Sequence[str], console: Console) -> dict[str, list[Result]]:
    subjects: dict[str, Callable[[], Result]] = {SCALA: lambda: _run_scala(task)}
    for implementation in implementations:
        for way in WAYS:
            subjects[f"{way}, {implementation}"] = lambda way=way, implementation=implementation: _run_ours(  # type: ignore[misc]
                way, implementation, task
            )
    results: dict[str, list[Result]] = {name: [] for name in subjects}
    for number in range(rounds):
        load = os.getloadavg()[0]
        for name, subject in subjects.items():
            results[name].append(subject())
            console.print(f"{name}: {results[name][-1].million_a_second:.2f} M/s", style="dim")
        console.print(f"round {number + 1} of {rounds}, load {load:.1f} at its start", style="dim")
    return results


def _run_ours(way: str, implementation: str, task: Task) -> Result:
    command = [sys.executable, "-m", "tests.bench.throughput", "--child", way, task.connect]
    command += ["--records", str(task.records), "--receive-buffer", str(task.receive_buffer_bytes)]
    environment = os.environ | {PURE_PYTHON_VARIABLE: "1" if implementation == "pure" else "0"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    return Result(float(json.loads(output)), _cpu_since(before))


def _run_scala(task: Task) -> Result:
    """With log4j at WARN: without a configuration it builds debug texts and is half as fast."""
    with tempfile.TemporaryDirectory(prefix="scala-throughput-") as directory:
        Path(directory, "log4j.properties").write_text(log4j_properties(f"{directory}/log", "WARN"))
        command = [str(find_java()), f"-Xmx{HEAP_MB}m", *FULL_SPEED, "-cp"]
        command += [class_path_of([Path(directory), *program("kafka", "0.8.2.2").jars()])]
        command += ["kafka.tools.ConsumerPerformance", "--zookeeper", task.connect, "--topic", TOPIC]
        command += ["--messages", str(task.records), "--threads", "1", "--group", f"scala-{time.monotonic_ns()}"]
        command += ["--socket-buffer-size", str(task.receive_buffer_bytes), "--hide-header"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    *_, consumed, a_second = output.strip().splitlines()[-1].split(",")
    if int(consumed) < task.records:
        raise SystemExit(f"{SCALA} read {consumed} of {task.records} records: {output}")
    return Result(float(a_second) / 1e6, _cpu_since(before))


def _cpu_since(before: resource.struct_rusage) -> float:
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime


def _table(results: dict[str, list[Result]], rounds: int) -> Table:
    table = Table(title=f"records of 100 bytes, {rounds} rounds, load {os.getloadavg()[0]:.1f}", title_justify="left")
    table.add_column("subject")
    for column in ("M/s median", "least", "most", "× Scala median", "least", "most", "CPU s"):
        table.add_column(column, justify="right")
    for name, found in results.items():
        speeds = [one.million_a_second for one in found]
        ratios = [
            one.million_a_second / scala.million_a_second for one, scala in zip(found, results[SCALA], strict=True)
        ]
        figures = [f(of) for of in (speeds, ratios) for f in (statistics.median, min, max)]
        table.add_row(name, *(f"{x:.2f}" for x in figures), f"{statistics.median(one.cpu_s for one in found):.1f}")
    return table


# --- in the child ---


def read(way: str, task: Task) -> float:
    """Million records a second."""
    config = ConsumerConfig(
        zookeeper_connect=task.connect,
        group_id=f"ours-{time.monotonic_ns()}",
        auto_offset_reset="smallest",
        socket_receive_buffer_bytes=task.receive_buffer_bytes,
        consumer_timeout_ms=60_000,
    )
    with ZookeeperConsumerConnector(config) as connector:
        (stream,) = connector.create_message_streams({TOPIC: 1})[TOPIC]
        threading.Event().wait(SETTLE_S)
        began_s = time.perf_counter()
        WAYS[way](stream, task.records)
        return task.records / (time.perf_counter() - began_s) / 1e6


def _iterate(stream: KafkaStream[bytes, bytes], records: int) -> None:
    last = records - 1
    for record in stream:
        if record.offset == last:
            return


def _read_values(stream: KafkaStream[bytes, bytes], records: int) -> None:
    last = records - 1
    for record in stream:
        value = record.message
        if record.offset == last:
            assert value is not None
            return


def _take_lists(stream: KafkaStream[bytes, bytes], records: int) -> None:
    left = records
    for batch in stream.batches():
        left -= len(batch)
        if left <= 0:
            return


def _take_arrow(stream: KafkaStream[bytes, bytes], records: int) -> None:
    left = records
    for batch in stream.arrow_batches():
        left -= batch.num_rows
        if left <= 0:
            return


WAYS: dict[str, Callable[[KafkaStream[bytes, bytes], int], None]] = {
    "iterate": _iterate,
    "value read": _read_values,
    "batches": _take_lists,
    "Arrow": _take_arrow,
}


if __name__ == "__main__":
    main()
