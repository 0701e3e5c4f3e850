"""How long a group takes to settle when all its members come at once: ours, and the real Scala consumer.

    python -m tests.bench settle [--quick]

Each member is a process of its own, as in groups that are at work, connected to ZooKeeper before the clock begins. The
processes play all groups, so that JVMs get warm; the first group does not count. The clock begins when they are told to
create their streams. The group has settled when every partition has the owner that the range assignment gives it, and
no owner node changes for a while; it ends with the creation of the last owner node, by ZooKeeper's own time.

A collision costs rebalance.backoff.ms, 2 s by default, which is no work. In most cases it is 100 ms on both sides, and
so hardly counts; "default back-off" shows what a group with default settings sees.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kazoo.client import KazooClient

from tests.bench.promises import AtLeast, Promise
from tests.bench.report import Report
from zkconsumer.testing.java import class_path_of, find_java, unpack_into
from zkconsumer.testing.java_compiler import compile_java
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.programs import FULL_SPEED, program
from zkconsumer.testing.scala import log4j_properties

BENCH = "settle"
OURS, SCALA = "ours", "Scala 0.8.2.2"
JAVA_SOURCE = Path(__file__).with_name("java") / "BenchSettling.java"
MEMBERS, PARTITIONS = (1, 4, 16), (32, 256, 1024)
ROUNDS = 5
SHORT_BACKOFF = {"rebalance.backoff.ms": "100", "rebalance.max.retries": "200"}
DEFAULT_BACKOFF = {"rebalance.max.retries": "20"}  # 4 by default, too few for either of them to settle surely
STEADY_S, STEADY_WITH_DEFAULT_S = 1.5, 2.5  # that no owner changes; longer than a member waits after a collision
STEADY_QUICK_S = 0.5  # where the figure does not matter
LOOK_EVERY_S = 0.05
TIMEOUT_S = 120.0


class Size(NamedTuple):
    members: int
    partitions: int
    streams: int = 1  # of each member

    @property
    def case(self) -> str:
        return f"{self.members} members × {self.partitions:,} partitions"


LARGEST_PROMISED = Size(8, 1024)
SIZES = (LARGEST_PROMISED, *(Size(members, partitions) for partitions in PARTITIONS for members in MEMBERS))
QUICK_SIZES = (Size(4, 32),)
WITH_DEFAULT = f"{LARGEST_PROMISED.case}, default back-off"


def cases(*, quick: bool) -> Mapping[str, float]:
    if quick:
        return {size.case: 10.0 for size in QUICK_SIZES}
    return {size.case: 25.0 for size in SIZES} | {WITH_DEFAULT: 60.0}


def promises() -> Iterator[Promise]:
    yield AtLeast(BENCH, LARGEST_PROMISED.case, OURS, SCALA, 2.0)


@dataclass(frozen=True)
class Side:
    """Members of one kind, a process each."""

    name: str
    processes: Sequence[subprocess.Popen[str]]

    def connect(self, group: str, members: range) -> None:
        self._tell({number: f"connect {group} {number} {number + 1}" for number in members})

    def join(self, topic: str, streams: int, members: range) -> None:
        """All at once; not waited for."""
        self._tell(dict.fromkeys(members, f"join {topic} {streams}"))

    def leave(self) -> None:
        self._tell(dict.fromkeys(range(len(self.processes)), "leave"))

    def _tell(self, commands: Mapping[int, str]) -> None:
        """Each one its own; returns when all are done."""
        for number, command in commands.items():
            print(command, file=self.processes[number].stdin, flush=True)
        for number, command in commands.items():
            answers = self.processes[number].stdout
            assert answers is not None
            if answers.readline().strip() != "done":
                raise RuntimeError(f"{self.name}, member {number} ended at {command!r}")


def run(report: Report) -> None:
    sizes = [size for size in (QUICK_SIZES if report.quick else SIZES) if report.takes(size.case)]
    also = [LARGEST_PROMISED] if not report.quick and report.takes(WITH_DEFAULT) else []
    with KafkaCluster(version="1.1.1", full_speed=True) as kafka:
        for partitions in sorted({size.partitions for size in [*sizes, *also]}):
            report.progress(f"a topic with {partitions:,} partitions")
            kafka.create_topic(topic_of(partitions), partitions=partitions)
        if sizes:
            with sides(kafka.zookeeper_connect, SHORT_BACKOFF, max(size.members for size in sizes)) as both:
                for size in sizes:
                    _measure(report, kafka.zookeeper_connect, both, size, size.case, steady_s(report))
        for size in also:
            with sides(kafka.zookeeper_connect, DEFAULT_BACKOFF, size.members) as both:
                _measure(report, kafka.zookeeper_connect, both, size, WITH_DEFAULT, STEADY_WITH_DEFAULT_S)


def _measure(report: Report, connect: str, both: Sequence[Side], size: Size, case: str, steady_s: float) -> None:
    with report.case(case, rounds=ROUNDS, against=SCALA) as found:
        for _ in found.rounds():
            for side in both:
                found.sample(side.name, "s", seconds_to_settle, connect, side, size, 0, steady_s, more_is_better=False)


def steady_s(report: Report) -> float:
    return STEADY_QUICK_S if report.quick else STEADY_S


def seconds_to_settle(connect: str, side: Side, size: Size, there_before: int, steady_s: float) -> float:
    """Of a group that never was before, or, if some members are there before, of that group when the others come."""
    group, topic = f"settle-{time.monotonic_ns()}", topic_of(size.partitions)
    with _client(connect) as client:
        try:
            if there_before:
                before = size._replace(members=there_before)
                _settle(client, side, group, topic, before, there_before, steady_s)
            return _settle(client, side, group, topic, size, size.members - there_before, steady_s)
        finally:
            side.leave()
            client.delete(f"/consumers/{group}", recursive=True)


def _settle(
    client: KazooClient, side: Side, group: str, topic: str, size: Size, joining: int, steady_s: float
) -> float:
    members = range(size.members - joining, size.members)
    side.connect(group, members)
    began_ms = time.time() * 1000
    side.join(topic, size.streams, members)
    return (_settled_ms(client, group, topic, size, steady_s) - began_ms) / 1000


def _settled_ms(client: KazooClient, group: str, topic: str, size: Size, steady_s: float) -> float:
    """When the last owner node was created. Looks at one node only, so as not to take part in the race."""
    owners = f"/consumers/{group}/owners/{topic}"
    waiting, deadline_s = threading.Event(), time.monotonic() + TIMEOUT_S
    seen, steady_since_s = None, time.monotonic()
    while time.monotonic() < deadline_s:
        stat = client.exists(owners)
        now = None if stat is None else (stat.numChildren, stat.pzxid)
        if now != seen or now is None:
            seen, steady_since_s = now, time.monotonic()
        elif now[0] == size.partitions and time.monotonic() - steady_since_s > steady_s:
            asked = {number: client.get_async(f"{owners}/{number}") for number in range(size.partitions)}
            found = {number: answer.get(timeout=TIMEOUT_S) for number, answer in asked.items()}
            if {number: data.decode() for number, (data, _) in found.items()} == _range(group, size):
                return float(max(stat.ctime for _, stat in found.values()))
            steady_since_s = time.monotonic()
        waiting.wait(LOOK_EVERY_S)
    raise TimeoutError(f"{group}: {size.case} have not settled within {TIMEOUT_S:g} s")


def _range(group: str, size: Size) -> dict[int, str]:
    """Each thread a run of neighbours, the first ones one more if it does not come out even. Threads sort as text."""
    threads = sorted(
        f"{group}_m{member:02}-{stream}" for member in range(size.members) for stream in range(size.streams)
    )
    least, more = divmod(size.partitions, len(threads))
    runs = [[thread] * (least + (number < more)) for number, thread in enumerate(threads)]
    return dict(enumerate(thread for run in runs for thread in run))


def topic_of(partitions: int) -> str:
    return f"settle-{partitions}"


@contextmanager
def sides(connect: str, settings: dict[str, str], members: int) -> Iterator[list[Side]]:
    """Of so many members at most, each of which has been in a group before."""
    given = {"zookeeper.connect": connect, "auto.offset.reset": "smallest"} | settings
    words = [f"{key}={value}" for key, value in given.items()]
    jars = program("kafka", "0.8.2.2").jars()
    with tempfile.TemporaryDirectory(prefix="bench-settling-") as directory, ExitStack() as closing:
        classes = Path(directory) / "classes"
        compile_java(JAVA_SOURCE, jars, classes)
        (classes / "log4j.properties").write_text(log4j_properties(f"{directory}/log", "WARN"))
        java = [str(find_java()), "-Xmx512m", *FULL_SPEED, unpack_into(Path(directory))]
        commands = {
            SCALA: [*java, "-cp", class_path_of([classes, *jars]), "BenchSettling", *words],
            OURS: [sys.executable, "-m", "tests.bench.settling", *words],
        }
        both = [Side(name, [closing.enter_context(_process(command)) for _ in range(members)])
                for name, command in commands.items()]  # fmt: skip
        smallest = Size(members, min(_partitions(connect)))
        for side in both:
            seconds_to_settle(connect, side, smallest, 0, STEADY_QUICK_S)
        yield both


def _partitions(connect: str) -> list[int]:
    """Of the topics there are."""
    with _client(connect) as client:
        names = client.get_children("/brokers/topics")
    return [int(name.removeprefix("settle-")) for name in names if name.startswith("settle-")]


@contextmanager
def _process(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


@contextmanager
def _client(connect: str) -> Iterator[KazooClient]:
    client = KazooClient(connect)
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()
