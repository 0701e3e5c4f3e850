"""How long servers take from start() to their first answered request: `python -m tests.bench.startup`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from rich.progress import track
from rich.table import Table

from tests.bench.report import Measured, Report
from zkconsumer.testing.kafka import KafkaBroker
from zkconsumer.testing.programs import KAFKA_VERSIONS, program
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

ROUNDS = 5
TARGET_S = {"ZooKeeper 3.9": 1.0, "Kafka 0.8.2.2": 3.0, "Kafka 1.1.1": 5.0}


def main() -> None:
    run(Report())


def run(report: Report) -> None:
    rounds = report.rounds(ROUNDS)
    for version in KAFKA_VERSIONS:
        program("kafka", version).jars()
    with ZooKeeperServer() as zookeeper, KafkaBroker(zookeeper.chroot("scala"), version="0.8.2.2"):
        subjects: dict[str, Callable[[], AbstractContextManager[object]]] = {
            "ZooKeeper 3.9": ZooKeeperServer,
            "ZooKeeper ensemble of 3": lambda: ZooKeeperEnsemble(3),
            **{f"Kafka {version}": _broker(zookeeper, version) for version in KAFKA_VERSIONS},
            "Scala consumer 0.8.2.2": lambda: ScalaConsumer(
                f"{zookeeper.connect_string}/scala", "bench", {"nothing": 1}
            ),
        }
        times: dict[str, list[float]] = {name: [] for name in subjects}
        # In turn, not one after the other: whatever else the machine does then hits all of them alike.
        for _ in track(range(rounds), "starting servers", console=report.console, transient=True):
            for name, subject in subjects.items():
                times[name].append(_seconds_to_start(subject))
    report.console.print(_table(times))
    for name, seconds in times.items():
        report.add(Measured("startup", "one at a time", name, "s", seconds, more_is_better=False))


def _broker(zookeeper: ZooKeeperServer, version: str) -> Callable[[], AbstractContextManager[object]]:
    return lambda: KafkaBroker(zookeeper.chroot(), version=version)


def _seconds_to_start(subject: Callable[[], AbstractContextManager[object]]) -> float:
    began_s = time.monotonic()
    with subject():
        return time.monotonic() - began_s


def _table(times: dict[str, list[float]]) -> Table:
    table = Table(
        title=f"seconds from start() to the first answer, {len(next(iter(times.values())))} rounds",
        title_justify="left",
    )
    table.add_column("server")
    for column in ("fastest", "median", "slowest", "wanted"):
        table.add_column(column, justify="right")
    for name, seconds in times.items():
        figures = (min(seconds), statistics.median(seconds), max(seconds))
        wanted = f"{TARGET_S[name]:.0f}" if name in TARGET_S else ""
        table.add_row(name, *(f"{figure:.2f}" for figure in figures), wanted)
    return table


if __name__ == "__main__":
    main()
