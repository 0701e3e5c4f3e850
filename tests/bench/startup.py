"""How long servers take from start() to their first answered request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

from tests.bench.promises import AtMost, Promise
from tests.bench.report import Report
from zkconsumer.testing.kafka import KafkaBroker
from zkconsumer.testing.programs import KAFKA_VERSIONS, program
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

BENCH, CASE = "startup", "one at a time"
ROUNDS = 5
TARGET_S = {"ZooKeeper 3.9": 1.0, "Kafka 0.8.2.2": 3.0, "Kafka 1.1.1": 5.0}


def cases(*, quick: bool) -> Mapping[str, float]:
    return {CASE: 8.0 if quick else 50.0}


def promises() -> Iterator[Promise]:
    for name, target_s in TARGET_S.items():
        yield AtMost(BENCH, CASE, name, target_s, "s")


def run(report: Report) -> None:
    for version in KAFKA_VERSIONS:
        program("kafka", version).jars()
    with (
        report.case(CASE, rounds=ROUNDS) as found,
        ZooKeeperServer() as zookeeper,
        KafkaBroker(zookeeper.chroot("scala"), version="0.8.2.2"),
    ):
        subjects: dict[str, Callable[[], AbstractContextManager[object]]] = {
            "ZooKeeper 3.9": ZooKeeperServer,
            "ZooKeeper ensemble of 3": lambda: ZooKeeperEnsemble(3),
            **{f"Kafka {version}": _broker(zookeeper, version) for version in KAFKA_VERSIONS},
            "Scala consumer 0.8.2.2": lambda: ScalaConsumer(
                f"{zookeeper.connect_string}/scala", "bench", {"nothing": 1}
            ),
        }
        for _ in found.rounds():
            for name, subject in subjects.items():
                found.sample(name, "s", _seconds_to_start, subject, more_is_better=False)


def _broker(zookeeper: ZooKeeperServer, version: str) -> Callable[[], AbstractContextManager[object]]:
    return lambda: KafkaBroker(zookeeper.chroot(), version=version)


def _seconds_to_start(subject: Callable[[], AbstractContextManager[object]]) -> float:
    began_s = time.monotonic()
    with subject():
        return time.monotonic() - began_s
