"""Servers for comparing ours with the real consumer: a broker of each release that has it, shared by the whole run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient
from rich.console import Console
from rich.table import Table

from tests.conformance.group import Group
from tests.conformance.walk import Walk, Walking
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.scala import ScalaVersion
from zkconsumer.testing.zookeeper import ZooKeeperServer

# Both ask for zookeeper_server first, so that it is there when the brokers go.


@pytest.fixture(scope="session")
def kafka_0_8(zookeeper_server: ZooKeeperServer, _kafka_clusters: Callable[[str, int], KafkaCluster]) -> KafkaCluster:
    """One broker of 0.8.2.2."""
    return _kafka_clusters("0.8.2.2", 1)


@pytest.fixture(scope="session")
def kafka_1_1(zookeeper_server: ZooKeeperServer, _kafka_clusters: Callable[[str, int], KafkaCluster]) -> KafkaCluster:
    """One broker of 1.1.1, the last release line with the Scala consumer."""
    return _kafka_clusters("1.1.1", 1)


@pytest.fixture(scope="session")
def group_0_8(kafka_0_8: KafkaCluster) -> Iterator[Callable[[str], Group]]:
    """`group_0_8(name)`: the znodes of a group beside the 0.8.2.2 broker."""
    with _client(kafka_0_8) as client:
        yield lambda name: Group(client, name)


@pytest.fixture(scope="session")
def group_1_1(kafka_1_1: KafkaCluster) -> Iterator[Callable[[str], Group]]:
    """`group_1_1(name)`: the znodes of a group beside the 1.1.1 broker."""
    with _client(kafka_1_1) as client:
        yield lambda name: Group(client, name)


@pytest.fixture
def walking(
    zookeeper_server: ZooKeeperServer,
    _kafka_clusters: Callable[[str, int], KafkaCluster],
    request: pytest.FixtureRequest,
) -> Walking:
    """`walking(broker, strategy, like, …)`: a walk in a cluster of the run."""

    def start(broker: str, strategy: str, like: ScalaVersion, **more: Any) -> Walk:
        kafka = _kafka_clusters(broker, 1)
        client = KazooClient(kafka.zookeeper_connect)
        request.addfinalizer(client.close)
        request.addfinalizer(client.stop)
        client.start(60)
        return Walk(kafka, client, strategy=strategy, like=like, **more)

    return start


@contextmanager
def _client(kafka: KafkaCluster) -> Iterator[KazooClient]:
    client = KazooClient(kafka.zookeeper_connect)
    try:
        client.start(30)
        yield client
    finally:
        client.stop()
        client.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One table at the end of `make conformance`: what each suite proved, and in which time."""
    if not str(config.option.markexpr).startswith("conformance_full or"):
        return
    outcomes: dict[str, Counter[str]] = {}
    seconds: dict[str, float] = defaultdict(float)
    words = {"passed": "proven", "failed": "failed", "error": "failed", "xfailed": "failed", "skipped": "not run"}
    for outcome, word in words.items():
        for report in terminalreporter.stats.get(outcome, []):
            outcomes.setdefault(report.nodeid.partition("::")[0], Counter())[word] += 1
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.partition("::")[0]] += report.duration
    table = Table(title="conformance")
    for column in ("suite", "proven", "failed", "not run", "seconds"):
        table.add_column(column, justify="left" if column == "suite" else "right")
    for suite, counts in sorted(outcomes.items()):
        name = suite.rpartition("/")[2].removeprefix("test_").removesuffix(".py").replace("_", " ")
        numbers = [str(counts[word]) for word in ("proven", "failed", "not run")]
        table.add_row(name, *numbers, f"{seconds[suite]:.0f}")
    total: Counter[str] = sum(outcomes.values(), Counter())
    numbers = [str(total[word]) for word in ("proven", "failed", "not run")]
    table.add_row("all", *numbers, f"{sum(seconds.values()):.0f}", style="bold")
    terminalreporter.write_line("")
    Console(file=terminalreporter._tw._file, force_terminal=terminalreporter._tw.hasmarkup).print(table)
