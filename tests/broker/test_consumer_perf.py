"""zkconsumer consumer-perf as a child process on real servers, held against the real one of 0.8.2.2."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.broker.command_process import command, run_command
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.tools import run_tool
from zkconsumer.testing.waiting import eventually

pytestmark = pytest.mark.kafka("0.8.2.2")

REAL = ("0.8.2.2", "kafka.tools.ConsumerPerformance")
MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"
DECIMAL = r"-?\d+\.\d{4}"


@pytest.fixture
def client(kafka: KafkaCluster) -> Iterator[KazooClient]:
    client = KazooClient(kafka.zookeeper_connect)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def reads(kafka: KafkaCluster, topic: str) -> tuple[str, ...]:
    """The arguments that all runs here begin with; a topic of 2 partitions with 150 messages of 1000 bytes each."""
    kafka.create_topic(topic, partitions=2)
    kafka.produce_many(topic, 300, value_size=1000)
    return "consumer-perf", "--zookeeper", kafka.zookeeper_connect, "--topic", topic


def test_header_and_row_are_those_of_the_original(reads: tuple[str, ...], tmp_path: Path) -> None:
    """N12: 300,000 bytes are 0.2861 MB; the times differ."""
    ours = run_command(tmp_path, *reads, "--threads", "2")
    original = run_tool(*REAL, *reads[1:], "--threads", "2")

    row = rf"{MOMENT}, {MOMENT}, 1048576, 0\.2861, {DECIMAL}, 300, {DECIMAL}"
    header, our_row = ours.stdout.decode().splitlines()
    original_header, original_row = original.stdout.splitlines()
    assert header == original_header
    assert re.fullmatch(row, original_row)
    assert re.fullmatch(row, our_row)
    assert (ours.exit_code, ours.stderr) == (0, "")


def test_detailed_rows_are_those_of_the_original(
    kafka: KafkaCluster, topic: str, reads: tuple[str, ...], tmp_path: Path
) -> None:
    """N12: each of two threads has a partition, a row after 8000 messages and one at its end, with totals so far."""
    kafka.produce_many(topic, 19_700, value_size=1000)  # several fetches to a row: the original fails at one of 0 ms
    options = ("--threads", "2", "--show-detailed-stats", "--reporting-interval", "8000", "--fetch-size", "2000000")

    ours = run_command(tmp_path, *reads, *options)
    original = run_tool(*REAL, *reads[1:], *options)

    header, *our_rows = ours.stdout.decode().splitlines()
    original_header, *original_rows = original.stdout.splitlines()
    assert header == original_header
    assert _shapes(our_rows) == _shapes(original_rows)
    assert _shapes(our_rows) == [
        ("0", "2000000", "7.6294", "8000"),
        ("0", "2000000", "9.5367", "10000"),
        ("1", "2000000", "7.6294", "8000"),
        ("1", "2000000", "9.5367", "10000"),
    ]


def _shapes(rows: list[str]) -> list[tuple[str, ...]]:
    """Thread, fetch size, MB and messages of each row, once its form is found right."""
    found = []
    for row in rows:
        match = re.fullmatch(rf"{MOMENT}, (\d+), (\d+), ({DECIMAL}), {DECIMAL}, (\d+), (\d+000|0)\.0000", row)
        assert match, row
        found.append(match.groups()[:4])
    return sorted(found)


def test_the_group_is_forgotten_first_and_nothing_is_committed_at_the_end(
    topic: str, client: KazooClient, reads: tuple[str, ...], tmp_path: Path
) -> None:
    """N12: so all messages are read although an offset was stored; --messages is a thread's; own date format."""
    group = f"/consumers/perf-{topic}"
    client.create(f"{group}/offsets/{topic}/0", b"149", makepath=True)
    options = ("--group", f"perf-{topic}", "--threads", "1", "--hide-header", "--date-format", "yyyy/MM/dd 'T'HH")

    result = run_command(tmp_path, *reads, *options)

    moment = r"\d{4}/\d\d/\d\d T\d\d"
    assert re.fullmatch(
        rf"{moment}, {moment}, 1048576, 0\.2861, {DECIMAL}, 300, {DECIMAL}\n", result.stdout.decode()
    ), result
    assert client.get_children(f"{group}/ids") == []
    assert client.get_children(f"{group}/owners/{topic}") == []
    with pytest.raises(NoNodeError):
        client.get_children(f"{group}/offsets")


def test_each_thread_reads_so_many_messages(reads: tuple[str, ...], tmp_path: Path) -> None:
    """N12: as in 0.8.2.2 the 5 seconds are subtracted although nobody waited for them."""
    result = run_command(tmp_path, *reads, "--threads", "2", "--messages", "40", "--hide-header")

    columns = result.stdout.decode().strip().split(", ")
    assert columns[5] == "80"


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"])
def test_a_signal_ends_it_without_a_row(
    topic: str, client: KazooClient, reads: tuple[str, ...], tmp_path: Path, number: signal.Signals, exit_code: int
) -> None:
    group = f"/consumers/perf-{topic}"

    with command(tmp_path, *reads, "--group", f"perf-{topic}", "--threads", "2") as perf:
        eventually(lambda: client.exists(f"{group}/owners/{topic}/1"), "an owner", 60.0)
        result = perf.end(number)

    assert (result.exit_code, result.stderr) == (exit_code, "")
    assert result.stdout.decode().splitlines() == [
        "start.time, end.time, fetch.size, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
    ]
    assert client.get_children(f"{group}/ids") == []
