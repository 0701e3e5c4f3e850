"""zkconsumer console-consumer as a child process on real servers, held against the real one of 0.8.2.2."""

from __future__ import annotations

import array
import fcntl
import json
import os
import signal
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.broker.command_process import command, run_command
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.plugin import ZooKeeperForOneTest
from zkconsumer.testing.tools import run_tool
from zkconsumer.testing.waiting import eventually

pytestmark = pytest.mark.kafka("0.8.2.2")

REAL = ("0.8.2.2", "kafka.tools.ConsoleConsumer")
MESSAGES = [(b"k1", b"one"), (None, "zwölf".encode()), (b"k3", None), (b"", b""), (b"k5", b"a\tb")]


@pytest.fixture
def client(kafka: KafkaCluster) -> Iterator[KazooClient]:
    client = KazooClient(kafka.zookeeper_connect)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def reads(kafka: KafkaCluster, topic: str) -> tuple[str, ...]:
    """The arguments that all runs here begin with."""
    kafka.create_topic(topic)
    return "console-consumer", "--zookeeper", kafka.zookeeper_connect, "--topic", topic


def console_groups(client: KazooClient) -> list[str]:
    try:
        names: list[str] = client.get_children("/consumers")
    except NoNodeError:
        return []
    return [name for name in names if name.startswith("console-consumer-")]


def in_group(directory: Path, group: str) -> tuple[str, str]:
    file = directory / f"{group}.properties"
    file.write_text(f"group.id={group}\nauto.offset.reset=smallest\nzookeeper.connect=overridden:1\n")
    return "--consumer.config", str(file)


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"])
def test_a_signal_ends_it_and_its_own_group_is_removed(
    kafka: KafkaCluster,
    topic: str,
    client: KazooClient,
    reads: tuple[str, ...],
    tmp_path: Path,
    number: signal.Signals,
    exit_code: int,
) -> None:
    """N9: --topic registers a whitelist with one stream; generated group removed on exit."""
    kafka.produce(topic, [b"one", b"two"])

    with command(tmp_path, *reads, "--from-beginning") as console:
        console.await_stdout(b"one\ntwo\n")
        [group] = console_groups(client)
        [consumer] = client.get_children(f"/consumers/{group}/ids")
        registration = json.loads(client.get(f"/consumers/{group}/ids/{consumer}")[0])
        kafka.produce(topic, [b"three"])
        console.await_stdout(b"one\ntwo\nthree\n")
        result = console.end(number)

    assert registration["pattern"] == "white_list"
    assert registration["subscription"] == {topic: 1}
    assert 0 <= int(group.removeprefix("console-consumer-")) <= 99_999
    assert (result.exit_code, result.stderr) == (exit_code, "Consumed 3 messages\n")
    assert not console_groups(client)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--property", "print.key=TRUE "),
        ("--property", "print.key=true", "--property", "key.separator=: ", "--property", "line.separator=;"),
        ("--formatter", "kafka.tools.ChecksumMessageFormatter", "--property", "topic=orders"),
        ("--formatter", "kafka.tools.NoOpMessageFormatter"),
    ],
    ids=["values", "keys", "separators", "checksums", "nothing"],
)
def test_it_prints_what_the_original_prints(
    kafka: KafkaCluster, topic: str, reads: tuple[str, ...], tmp_path: Path, options: tuple[str, ...]
) -> None:
    """N9: the same bytes on both outputs, and the same exit code."""
    kafka.produce(topic, MESSAGES)
    options = (*options, "--from-beginning", "--max-messages", str(len(MESSAGES)))

    ours = run_command(tmp_path, *reads, *options)
    original = run_tool(*REAL, *reads[1:], *options)

    assert ours.stdout.decode() == original.stdout
    assert (ours.exit_code, ours.stderr) == (original.exit_code, original.stderr)
    assert ours.stderr == "Consumed 5 messages\n"


def test_bytes_go_out_unchanged(kafka: KafkaCluster, topic: str, reads: tuple[str, ...], tmp_path: Path) -> None:
    values = [bytes(range(256)), b"\xff\xfe\r\n", b"x" * 300_000]
    kafka.produce(topic, values)

    result = run_command(tmp_path, *reads, "--from-beginning", "--max-messages", "3")

    assert result.stdout == b"".join(value + b"\n" for value in values)


def test_stored_offsets_and_from_beginning_do_not_go_together(
    kafka: KafkaCluster, topic: str, client: KazooClient, reads: tuple[str, ...], tmp_path: Path
) -> None:
    """N10: refused in the original's words, exit 1, nothing touched; with --delete-consumer-offsets it reads all."""
    kafka.produce(topic, [b"one", b"two"])
    client.ensure_path(f"/consumers/stored-{topic}/offsets/{topic}")
    client.create(f"/consumers/stored-{topic}/offsets/{topic}/0", b"1")
    options = ("--from-beginning", "--max-messages", "2", *in_group(tmp_path, f"stored-{topic}"))

    refused = run_command(tmp_path, *reads, *options)
    refused_by_original = run_tool(*REAL, *reads[1:], *options)
    offset = client.get(f"/consumers/stored-{topic}/offsets/{topic}/0")[0]
    allowed = run_command(tmp_path, *reads, *options, "--delete-consumer-offsets")

    assert refused == (
        1,
        b"",
        f"Found previous offset information for this group stored-{topic}. "
        "Please use --delete-consumer-offsets to delete previous offsets metadata\n",
    )
    assert (refused_by_original.exit_code, refused_by_original.stderr) == (1, refused.stderr)
    assert offset == b"1"
    assert (allowed.exit_code, allowed.stdout) == (0, b"one\ntwo\n")


def test_messages_are_printed_as_they_come_although_more_are_wanted(
    kafka: KafkaCluster, topic: str, reads: tuple[str, ...], tmp_path: Path
) -> None:
    """N11: unlike 0.8.2.2, which collects all N before it prints the first."""
    kafka.produce(topic, [b"one", b"two"])

    with command(tmp_path, *reads, "--from-beginning", "--max-messages", "3") as console:
        console.await_stdout(b"one\ntwo\n")
        kafka.produce(topic, [b"three", b"four"])
        result = console.wait()

    assert result == (0, b"one\ntwo\nthree\n", "Consumed 3 messages\n")


def test_exactly_the_messages_printed_are_committed(
    kafka: KafkaCluster, topic: str, client: KazooClient, reads: tuple[str, ...], tmp_path: Path
) -> None:
    """N11: the last one of N is the last one committed; a group of the user's stays, and goes on from there."""
    kafka.produce(topic, [b"%d" % number for number in range(20)])
    group = in_group(tmp_path, f"exact-{topic}")
    offset = f"/consumers/exact-{topic}/offsets/{topic}/0"

    first = run_command(tmp_path, *reads, *group, "--from-beginning", "--max-messages", "7")
    committed_first = client.get(offset)[0]
    second = run_command(tmp_path, *reads, *group, "--max-messages", "2")

    assert first.stdout.split() == [b"0", b"1", b"2", b"3", b"4", b"5", b"6"]
    assert committed_first == b"7"
    assert second.stdout.split() == [b"7", b"8"]
    assert client.get(offset)[0] == b"9"
    assert client.get_children(f"/consumers/exact-{topic}/ids") == []


def test_it_ends_when_nobody_reads_its_output_any_more(
    kafka: KafkaCluster, topic: str, client: KazooClient, reads: tuple[str, ...], tmp_path: Path
) -> None:
    kafka.produce(topic, [b"one"])
    reader, writer = os.pipe()

    with command(tmp_path, *reads, "--from-beginning", stdout=writer) as console:
        os.close(writer)
        first = os.read(reader, 100)
        os.close(reader)
        kafka.produce(topic, [b"two"])
        result = console.wait()

    assert first == b"one\n"
    assert (result.exit_code, result.stderr) == (1, "Unable to write to standard out, closing consumer.\n")
    assert not console_groups(client)


def test_ctrl_c_works_although_the_reader_of_its_output_sleeps(
    kafka: KafkaCluster, topic: str, client: KazooClient, reads: tuple[str, ...], tmp_path: Path
) -> None:
    """As in `… | less`: a pipe takes 64 KiB, then writing waits."""
    kafka.produce(topic, [b"x" * 1000] * 1000)
    reader, writer = os.pipe()

    with command(tmp_path, *reads, "--from-beginning", stdout=writer) as console:
        os.close(writer)
        eventually(lambda: _unread(reader) >= 60_000, "a full pipe", 60.0)
        result = console.end(signal.SIGINT)
    os.close(reader)

    assert result.exit_code == 130
    assert not console_groups(client)


def _unread(descriptor: int) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]


FORMATTER = """
class Picky:
    def init(self, properties):
        self.start = properties["start"].encode()

    def write_to(self, record, output):
        if record.message == b"bad":
            raise ValueError("a bad message")
        output.write(self.start + b"%d:%s\\n" % (record.offset, record.message))

    def close(self):
        pass
"""


@pytest.mark.parametrize(
    ("options", "exit_code", "printed", "count"),
    [
        (("--skip-message-on-error",), 0, b"> 0:good\n> 2:fine\n", 2),
        ((), 1, b"> 0:good\n", 1),
    ],
    ids=["skip", "stop"],
)
def test_a_message_that_cannot_be_formatted(
    kafka: KafkaCluster,
    topic: str,
    reads: tuple[str, ...],
    tmp_path: Path,
    options: tuple[str, ...],
    exit_code: int,
    printed: bytes,
    count: int,
) -> None:
    """A formatter in Python, found in the current directory; a skipped message counts for --max-messages."""
    (tmp_path / "my_formatters.py").write_text(FORMATTER)
    kafka.produce(topic, [b"good", b"bad", b"fine", b"too late"])
    formatter = ("--formatter", "my_formatters:Picky", "--property", "start=> ")

    result = run_command(tmp_path, *reads, *formatter, "--from-beginning", "--max-messages", "3", *options)

    assert (result.exit_code, result.stdout) == (exit_code, printed)
    assert "ValueError: a bad message" in result.stderr
    assert f"Consumed {count} messages\n" in result.stderr


def test_it_ends_when_no_message_comes_for_some_time(
    kafka: KafkaCluster, topic: str, client: KazooClient, reads: tuple[str, ...], tmp_path: Path
) -> None:
    """--timeout-ms of 0.9."""
    kafka.produce(topic, [b"one"])

    result = run_command(tmp_path, *reads, "--from-beginning", "--timeout-ms", "3000")

    assert result == (0, b"one\n", "Consumed 1 messages\n")
    assert not console_groups(client)


def test_several_topics_can_be_read_at_once(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        kafka.create_topic(f"{topic}-{name}")
        kafka.produce(f"{topic}-{name}", [name.encode()])
    where = ("--zookeeper", kafka.zookeeper_connect, "--from-beginning", "--max-messages", "2")

    white = run_command(tmp_path, "console-consumer", *where, "--whitelist", f"{topic}-[ac]")

    assert sorted(white.stdout.split()) == [b"a", b"c"]


def test_metrics_are_written_to_files(kafka: KafkaCluster, topic: str, reads: tuple[str, ...], tmp_path: Path) -> None:
    kafka.produce(topic, [b"one", b"two"])
    options = ("--csv-reporter-enabled", "--metrics-dir", "measured/here", *in_group(tmp_path, f"m-{topic}"))

    run_command(tmp_path, *reads, *options, "--from-beginning", "--max-messages", "2")

    name = f"kafka.consumer-type=ConsumerTopicMetrics,name=MessagesPerSec,clientId=m-{topic},topic={topic}.csv"
    header, *rows = (tmp_path / "measured" / "here" / name).read_text().splitlines()
    assert header.split(",")[:2] == ["# time", "Count"]
    assert rows[-1].split(",")[1] == "2"


def test_a_directory_for_metrics_that_cannot_be_made_is_named(
    client: KazooClient, reads: tuple[str, ...], tmp_path: Path
) -> None:
    result = run_command(tmp_path, *reads, "--csv-reporter-enabled", "--metrics-dir", "stdout/below")

    assert result.exit_code == 1
    assert result.stderr == "Consumed 0 messages\nzkconsumer console-consumer: stdout/below: Not a directory\n"
    assert not console_groups(client)


def test_a_cluster_without_brokers_is_not_waited_for(zookeeper: ZooKeeperForOneTest, tmp_path: Path) -> None:
    """As in 0.9; 0.8.2.2 waits in silence."""
    where = ("--zookeeper", zookeeper.connect_string, "--topic", "t")

    result = run_command(tmp_path, "console-consumer", *where)

    assert result == (1, b"", "No brokers found in ZK.\n")


def test_what_is_wrong_is_said_in_one_line(zookeeper: ZooKeeperForOneTest, tmp_path: Path) -> None:
    where = ("--zookeeper", f"{zookeeper.connect_string}/nowhere", "--topic", "t")

    result = run_command(tmp_path, "console-consumer", *where)

    assert result.exit_code == 1
    assert result.stderr == (
        f"zkconsumer console-consumer: the path {zookeeper.chroot}/nowhere at the end of zookeeper.connect does not "
        "exist: create it, or take it out of the setting\n"
    )
