"""The tools around a group at 10,000 partitions: seconds from start to exit, next to the real ones on the same servers.

Each is a process of its own, an interpreter or a Java machine with its start. The group is written by hand: ten members
that own all partitions, an offset each. What a tool printed is counted, so that none is fast by leaving things out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fetcher.admin import BrokerConnections, parse_bootstrap
from fetcher.wire.list_offsets import LATEST
from tests.bench.promises import AtLeast, AtMost, Promise
from tests.bench.report import Report
from zkconsumer.commands.common import TOOL_TIMEOUT_MS
from zkconsumer.paths import GroupPaths, GroupTopicPaths
from zkconsumer.snapshots.files import Node, Snapshot
from zkconsumer.snapshots.loading import Target, Wishes, carry_out, plan_load, without_leader
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.tools import run_tool
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer
from zkconsumer.zookeeper import ZooKeeper

BENCH = "tools"
TOPICS, PARTITIONS = 100, 100  # partitions each: 10,000
QUICK_TOPICS, QUICK_PARTITIONS = 4, 50
ROUNDS = 2  # the real ones take a minute each time
A_FEW_SECONDS_S = 5.0
OURS, REAL = "ours", "real"
GROUP, MEMBERS = "group1", 10
VERSION = "1.1.1"
BROKERS, QUICK_BROKERS = 3, 1
HEAP_MB = 1024  # with that of a test broker it collects garbage most of the time
SETTINGS = {
    "zookeeper.session.timeout.ms": "60000",  # one that is lost makes leaders move, for all partitions
    "num.io.threads": "4",
    "log.retention.check.interval.ms": "300000",  # Kafka's own: each look is at all logs
}
REAL_TIMEOUT_S = 600.0
BROKER_TIMEOUT_S = 900.0  # for the broker to make all of them
BETWEEN_LOOKS_S = 2.0
SMALL_INDEX = b'{"version":1,"config":{"segment.index.bytes":"1024"}}'  # else each reserves 20 MB of address space


@dataclass(frozen=True)
class Tool:
    """Ours, the real one if there is one, and how many lines or nodes prove that it has done its work."""

    name: str
    ours: Sequence[str]
    real: Sequence[str] | None  # release, class, arguments
    written: Path | None = None  # where, if not on standard output


EXPECTED_S = {  # the first with the making of all partitions
    "offset-checker": 165.0,
    "verify-rebalance": 15.0,
    "export-zk-offsets": 18.0,
    "groups describe": 100.0,
    "doctor": 10.0,
    "snapshot save": 12.0,
}
WITHOUT_A_REAL_ONE = ("doctor", "snapshot save")


def cases(*, quick: bool) -> Mapping[str, float]:
    return dict.fromkeys(EXPECTED_S, 2.5) if quick else EXPECTED_S


def promises() -> Iterator[Promise]:
    for name in EXPECTED_S:
        if name not in WITHOUT_A_REAL_ONE:
            yield AtLeast(BENCH, name, OURS, REAL, 1.0)
        yield AtMost(BENCH, name, OURS, A_FEW_SECONDS_S, "s")


def run(report: Report) -> None:
    topics, partitions = (QUICK_TOPICS, QUICK_PARTITIONS) if report.quick else (TOPICS, PARTITIONS)
    brokers = QUICK_BROKERS if report.quick else BROKERS
    names = [f"topic-{number}" for number in range(topics)]
    with (
        tempfile.TemporaryDirectory(prefix="zkconsumer-bench-") as directory,
        ZooKeeperServer() as zookeeper,
        KafkaCluster(
            version=VERSION, brokers=brokers, zookeeper=zookeeper, settings=SETTINGS, full_speed=True, heap_mb=HEAP_MB
        ) as kafka,
        ZooKeeper(
            kafka.zookeeper_connect, session_timeout_ms=TOOL_TIMEOUT_MS, connection_timeout_ms=TOOL_TIMEOUT_MS
        ) as client,
    ):
        with BrokerConnections(timeout_s=60.0) as connections:
            # While the brokers have nothing else to do.
            connections.coordinator(parse_bootstrap(kafka.bootstrap_servers), GROUP, wait_s=BROKER_TIMEOUT_S)
            report.progress(f"making {topics} topics with {partitions} partitions each")
            _make_topics(client, names, partitions, brokers, report.progress)
            _await_logs(connections, kafka, set(names), partitions, report.progress)
        report.progress(f"making a group of {MEMBERS} members")
        _make_group(client, names, partitions)
        for tool in _tools(kafka.zookeeper_connect, Path(directory)):
            if report.takes(tool.name):
                _measure(report, tool, topics * partitions)


def _measure(report: Report, tool: Tool, partitions: int) -> None:
    with report.case(tool.name, rounds=ROUNDS, against=OURS if tool.real is None else REAL) as found:
        for _ in found.rounds():
            found.sample(OURS, "s", _ours, tool, partitions, more_is_better=False)
            if tool.real is not None:
                found.sample(REAL, "s", _real, tool, partitions, more_is_better=False)


def _tools(connect: str, directory: Path) -> list[Tool]:
    of_group = ("--group", GROUP)
    ours, theirs, saved = directory / "ours", directory / "theirs", directory / "saved"
    return [
        Tool(
            "offset-checker",
            ("offset-checker", "--zookeeper", connect, *of_group),
            ("0.8.2.2", "kafka.tools.ConsumerOffsetChecker", "--zookeeper", connect, *of_group),
        ),
        Tool(
            "verify-rebalance",
            ("verify-rebalance", "--zookeeper.connect", connect, *of_group),
            ("1.1.1", "kafka.tools.VerifyConsumerRebalance", "--zookeeper.connect", connect, *of_group),
        ),
        Tool(
            "export-zk-offsets",
            ("export-zk-offsets", "--zkconnect", connect, "--output-file", str(ours), *of_group),
            ("0.8.2.2", "kafka.tools.ExportZkOffsets", "--zkconnect", connect, "--output-file", str(theirs), *of_group),
            ours,
        ),
        Tool(
            "groups describe",
            ("groups", "describe", "--zookeeper", connect, *of_group),
            ("1.1.1", "kafka.admin.ConsumerGroupCommand", "--zookeeper", connect, "--describe", *of_group),
        ),
        Tool("doctor", ("doctor", "--zookeeper", connect, *of_group), None),
        Tool(
            "snapshot save", ("snapshot", "save", str(saved), "--overwrite", "--zookeeper", connect), None, saved
        ),
    ]  # fmt: skip


def _ours(tool: Tool, partitions: int) -> float:
    began_s = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "zkconsumer", *tool.ours], capture_output=True, text=True, check=False, env=os.environ
    )
    seconds = time.monotonic() - began_s
    if ended.returncode:
        raise RuntimeError(f"{tool.name}: exit code {ended.returncode}: {ended.stderr or ended.stdout[:300]}")
    _check(tool, tool.written.read_text() if tool.written else ended.stdout, partitions)
    return seconds


def _real(tool: Tool, partitions: int) -> float:
    assert tool.real is not None
    version, class_name, *arguments = tool.real
    began_s = time.monotonic()
    result = run_tool(version, class_name, *arguments, timeout_s=REAL_TIMEOUT_S)
    seconds = time.monotonic() - began_s
    if result.exit_code:
        raise RuntimeError(
            f"the real {tool.name}: exit code {result.exit_code}: {result.stderr or result.stdout[:300]}"
        )
    _check(tool, Path(arguments[3]).read_text() if tool.written else result.stdout, partitions)
    return seconds


def _check(tool: Tool, text: str, partitions: int) -> None:
    expected: dict[str, Callable[[], bool]] = {
        "verify-rebalance": lambda: text == "Rebalance operation successful !\n",
        "doctor": lambda: text == f"{GROUP}: nothing is wrong\n",
        "snapshot save": lambda: text.count(f'"path": "/consumers/{GROUP}/offsets/') > partitions,
    }
    rows = text.count("topic-")
    if not expected.get(tool.name, lambda: rows == partitions)():
        raise RuntimeError(f"{tool.name} has not done its work: {rows} rows of {partitions}: {text[:300]}")


# --- what is looked at ---


def _make_topics(
    client: ZooKeeper, topics: Sequence[str], partitions: int, brokers: int, progress: Callable[[str], None]
) -> None:
    """All at once, as the controller sees it: one after the other, it would tell all brokers of all a hundred times."""
    listed = ",".join(f'"{number}":[0]' for number in range(partitions))
    nodes = {}
    for topic in topics:
        nodes[f"/brokers/topics/{topic}"] = f'{{"version":1,"partitions":{{{listed}}}}}'.encode()
        nodes[f"/config/topics/{topic}"] = SMALL_INDEX
    snapshot = Snapshot("bench", "", "", {path: Node(path, data) for path, data in nodes.items()})
    # Loading spreads them over the brokers.
    plan = plan_load(snapshot, Target("here", dict.fromkeys(range(brokers), ""), {}, {}), Wishes())
    carry_out(plan, client)
    _until_none_is_left("without a leader", lambda: without_leader(plan, client), progress)


def _await_logs(
    connections: BrokerConnections,
    kafka: KafkaCluster,
    topics: set[str],
    partitions: int,
    progress: Callable[[str], None],
) -> None:
    """ZooKeeper has a leader before that broker knows of it, and the broker knows before it has made all logs."""
    bootstrap = parse_bootstrap(kafka.bootstrap_servers)

    def left() -> int:
        leaders = connections.metadata(bootstrap).leaders
        ends = connections.log_offsets({one: at for one, at in leaders.items() if one.topic in topics}, LATEST)
        return partitions * len(topics) - sum(isinstance(end, int) for end in ends.values())

    _until_none_is_left("without a log", left, progress)


def _until_none_is_left(what: str, count: Callable[[], int], progress: Callable[[str], None]) -> None:
    def none_is_left() -> bool:
        left = count()
        if left:
            progress(f"{left:,} partitions are {what}")
            time.sleep(BETWEEN_LOOKS_S)  # each look is a question a partition
        return left == 0

    eventually(none_is_left, f"no partition {what}", BROKER_TIMEOUT_S)


def _make_group(client: ZooKeeper, topics: Sequence[str], partitions: int) -> None:
    """As range assignment has it. The nodes of members live as long as the client does."""
    group = GroupPaths(GROUP)
    subscription = ",".join(f'"{name}":1' for name in topics)
    registration = f'{{"version":1,"subscription":{{{subscription}}},"pattern":"static","timestamp":"1"}}'.encode()
    members = [f"{GROUP}_m{number}" for number in range(MEMBERS)]
    client.create_ephemerals({group.id(member): registration for member in members})
    run_length = -(-partitions // MEMBERS)
    if partitions % MEMBERS:
        raise ValueError("each member should own as many")
    owners = {
        GroupTopicPaths(GROUP, name).owner(number): f"{members[number // run_length]}-0".encode()
        for name in topics
        for number in range(partitions)
    }
    client.create_ephemerals(owners)
    client.update_many(
        {GroupTopicPaths(GROUP, name).offset(number): b"0" for name in topics for number in range(partitions)}
    )
