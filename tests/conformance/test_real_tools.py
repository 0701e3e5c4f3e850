"""The real tools, run on a real group: they print what tools.md says, so that ours can be held against them."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conformance.group import Group, fresh
from zkconsumer.testing.errors import UnknownVersion, WaitTimeout
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.scala import ScalaConsumer, ScalaVersion
from zkconsumer.testing.tools import (
    RealTool,
    consumer_group_command,
    consumer_offset_checker,
    export_zk_offsets,
    import_zk_offsets,
    run_tool,
    update_offsets_in_zk,
    verify_consumer_rebalance,
)
from zkconsumer.testing.waiting import eventually

Groups = Callable[[str], Group]


class Consumed(NamedTuple):
    """A group of one real member, c1, that has taken and committed all of a topic: 3, 2 and no messages."""

    group: Group
    topic: str
    zookeeper_connect: str


@pytest.fixture(scope="module")
def consumed(kafka_0_8: KafkaCluster, group_0_8: Groups) -> Iterator[Consumed]:
    with _consumed(kafka_0_8, group_0_8(fresh("g")), "0.8.2.2") as found:
        yield found


@pytest.fixture(scope="module")
def consumed_1_1(kafka_1_1: KafkaCluster, group_1_1: Groups) -> Iterator[Consumed]:
    with _consumed(kafka_1_1, group_1_1(fresh("g")), "1.1.1") as found:
        yield found


@contextmanager
def _consumed(kafka: KafkaCluster, group: Group, version: ScalaVersion) -> Iterator[Consumed]:
    topic = fresh("t")
    kafka.create_topic(topic, partitions=3)
    kafka.produce(topic, [b"a", b"b", b"c"], partition=0)
    kafka.produce(topic, [b"d", b"e"], partition=1)
    with ScalaConsumer(
        kafka.zookeeper_connect,
        group.name,
        {topic: 1},
        version=version,
        consumer_id="c1",
        properties={"auto.offset.reset": "smallest"},
    ) as member:
        member.wait_until_delivered(5)
        member.commit_offsets()
        assert group.offsets(topic) == {0: "3", 1: "2", 2: "0"}
        yield Consumed(group, topic, kafka.zookeeper_connect)


def test_verify_of_1_1_1_finds_a_balanced_group_balanced(consumed: Consumed) -> None:
    """N3: the one to ask; its reasons are in its log."""
    result = verify_consumer_rebalance(consumed.zookeeper_connect, consumed.group.name)

    assert (result.stdout, result.stderr, result.exit_code) == ("Rebalance operation successful !\n", "", 0)
    assert f"Owner of partition [{consumed.topic},2] is {consumed.group.name}_c1-0" in result.log


def test_verify_of_0_8_2_2_finds_a_balanced_group_unbalanced(consumed: Consumed) -> None:
    """N4: KAFKA-3952, so it is no oracle."""
    result = verify_consumer_rebalance(consumed.zookeeper_connect, consumed.group.name, version="0.8.2.2")

    assert (result.stdout, result.exit_code) == ("Rebalance operation failed !\n", 0)
    assert f"No owner for partition [{consumed.topic},0]" in result.log


def test_the_offset_checker_prints_rows_of_fixed_widths(consumed: Consumed, kafka_0_8: KafkaCluster) -> None:
    """N1: header, rows and brokers of tools.md §1, byte for byte."""
    result = consumer_offset_checker(consumed.zookeeper_connect, consumed.group.name, broker_info=True)

    group, topic = f"{consumed.group.name:15}", f"{consumed.topic:30}"
    owner = f"{consumed.group.name}_c1-0"
    assert result.stdout.splitlines() == [
        "Group           Topic                          Pid Offset          logSize         Lag             Owner",
        f"{group} {topic} 0   3               3               0               {owner}",
        f"{group} {topic} 1   2               2               0               {owner}",
        f"{group} {topic} 2   0               0               0               {owner}",
        "BROKER INFO",
        f"0 -> {kafka_0_8.brokers[0].address}",
    ]
    assert result.exit_code == 0


def test_the_offset_checker_ends_at_an_unknown_group(kafka_0_8: KafkaCluster) -> None:
    """N2: with exit code 0."""
    result = consumer_offset_checker(kafka_0_8.zookeeper_connect, "nogroup")

    assert result.stdout == (
        "Exiting due to: org.apache.zookeeper.KeeperException$NoNodeException: "
        "KeeperErrorCode = NoNode for /consumers/nogroup/owners.\n"
    )
    assert result.exit_code == 0


def test_exported_offsets_can_be_imported_again(consumed: Consumed, group_0_8: Groups, tmp_path: Path) -> None:
    """N5, N6: `path:value` lines; import stops at an empty line. Export ends although its session stays open."""
    file, changed = tmp_path / "offsets", tmp_path / "changed"

    exported = export_zk_offsets(consumed.zookeeper_connect, file, [consumed.group.name])
    lines = sorted(file.read_text().splitlines())
    other = group_0_8(fresh("imported"))
    first, second, third = (line.replace(consumed.group.name, other.name) for line in lines)
    changed.write_text(f"{first}\n{second}1\n\n{third}\n")
    imported = import_zk_offsets(consumed.zookeeper_connect, changed)

    where = f"/consumers/{consumed.group.name}/offsets/{consumed.topic}"
    assert lines == [f"{where}/0:3", f"{where}/1:2", f"{where}/2:0"]
    assert (exported.exit_code, exported.stdout) == (0, "")
    assert (imported.exit_code, imported.stdout) == (0, "")
    assert other.offsets(consumed.topic) == {0: "3", 1: "21"}


def test_the_group_command_describes_a_group_of_zookeeper(consumed_1_1: Consumed) -> None:
    """O7: columns of 1.1 as in tools.md §6, with a blank at each end."""
    where, name = consumed_1_1.zookeeper_connect, consumed_1_1.group.name

    result = consumer_group_command("--zookeeper", where, "--describe", "--group", name)

    topic, consumer = f"{consumed_1_1.topic:15}", f"{name + '_c1':15}"
    assert result.stdout.splitlines() == [
        "",
        "TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     ",
        f"{topic} 0          3               3               0               {consumer} ",
        f"{topic} 1          2               2               0               {consumer} ",
        f"{topic} 2          0               0               0               {consumer} ",
    ]
    assert result.stderr == (
        "Note: This will only show information about consumers that use ZooKeeper "
        "(not those using the Java consumer API).\n"
    )


def test_the_group_command_does_not_know_a_group_that_is_not_there(kafka_1_1: KafkaCluster) -> None:
    result = consumer_group_command("--zookeeper", kafka_1_1.zookeeper_connect, "--describe", "--group", "gnope")

    assert result.stdout == "Error: The consumer group 'gnope' does not exist.\n"


def test_offsets_are_updated_to_the_ends_of_the_log(consumed: Consumed, group_0_8: Groups, tmp_path: Path) -> None:
    """N8: lines and nodes of tools.md §5."""
    group, file = group_0_8(fresh("updated")), tmp_path / "consumer.properties"
    file.write_text(f"group.id={group.name}\nzookeeper.connect={consumed.zookeeper_connect}\n")

    result = update_offsets_in_zk("latest", file, consumed.topic)

    assert result.stdout.splitlines() == [
        "updating partition 0 with new offset: 3",
        "updating partition 1 with new offset: 2",
        "updating partition 2 with new offset: 0",
        "updated the offset for 3 partitions",
    ]
    assert group.offsets(consumed.topic) == {0: "3", 1: "2", 2: "0"}


def test_a_tool_called_wrongly_gives_its_exit_code() -> None:
    result = run_tool("0.8.2.2", "kafka.tools.UpdateOffsetsInZK")

    assert result.stdout == "USAGE: kafka.tools.UpdateOffsetsInZK$ [earliest | latest] consumer.properties topic\n"
    assert result.exit_code == 1


def test_offsets_are_told_by_the_shell_tool(consumed: Consumed, kafka_0_8: KafkaCluster) -> None:
    result = run_tool(
        "0.8.2.2", "kafka.tools.GetOffsetShell",
        "--broker-list", kafka_0_8.bootstrap_servers, "--topic", consumed.topic, "--time", "-1",
    )  # fmt: skip

    assert sorted(result.stdout.splitlines()) == [f"{consumed.topic}:{p}:{end}" for p, end in enumerate((3, 2, 0))]


def test_the_console_consumer_prints_what_the_console_producer_read(kafka_0_8: KafkaCluster, group_0_8: Groups) -> None:
    """N9: a tool's input is given as text and ends, its output is the other's input."""
    topic = fresh("console")
    kafka_0_8.create_topic(topic)
    produced = run_tool(
        "0.8.2.2", "kafka.tools.ConsoleProducer",
        "--broker-list", kafka_0_8.bootstrap_servers, "--topic", topic, "--sync", stdin="one\ntwo\nümlaut\n",
    )  # fmt: skip

    result = run_tool(
        "0.8.2.2", "kafka.tools.ConsoleConsumer",
        "--zookeeper", kafka_0_8.zookeeper_connect, "--topic", topic, "--from-beginning", "--max-messages", "3",
    )  # fmt: skip

    assert produced.exit_code == 0
    assert result.stdout == "one\ntwo\nümlaut\n"
    assert result.stderr == "Consumed 3 messages\n"
    assert not _console_groups(group_0_8)


def test_a_tool_can_be_told_to_stop(kafka_1_1: KafkaCluster, group_1_1: Groups) -> None:
    """N9: the console consumer makes a group of its own. (It does not always manage to remove it after a signal.)"""
    topic = fresh("console")
    kafka_1_1.create_topic(topic)
    kafka_1_1.produce(topic, [b"one"])

    with RealTool(
        "1.1.1", "kafka.tools.ConsoleConsumer",
        "--zookeeper", kafka_1_1.zookeeper_connect, "--topic", topic, "--from-beginning",
    ) as tool:  # fmt: skip
        eventually(lambda: tool.stdout() == "one\n", "the message on the console")
        groups_while_it_ran, ran = _console_groups(group_1_1), tool.running
        tool.signal(signal.SIGTERM)
        result = tool.wait()

    assert len(groups_while_it_ran) == 1
    assert ran
    assert not tool.running
    assert result.stdout == "one\n"
    assert "Processed a total of 1 messages\n" in result.stderr


def test_consumer_performance_has_a_row_of_seven_columns(consumed: Consumed) -> None:
    """N12: header and row of tools.md §8."""
    result = run_tool(
        "0.8.2.2", "kafka.tools.ConsumerPerformance",
        "--zookeeper", consumed.zookeeper_connect, "--topic", consumed.topic, "--messages", "4", "--threads", "1",
    )  # fmt: skip

    header, row = result.stdout.splitlines()
    assert header == ("start.time, end.time, fetch.size, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec")
    moment = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"
    assert re.fullmatch(rf"{moment}, {moment}, 1048576, 0\.0000, -?\d+\.\d{{4}}, \d, -?\d+\.\d{{4}}", row)


def test_a_tool_that_does_not_end_is_given_up(kafka_0_8: KafkaCluster) -> None:
    with pytest.raises(WaitTimeout, match=r"ConsoleConsumer 0\.8\.2\.2: has not ended within"):
        run_tool(
            "0.8.2.2", "kafka.tools.ConsoleConsumer",
            "--zookeeper", kafka_0_8.zookeeper_connect, "--topic", "nothing", timeout_s=0.1,
        )  # fmt: skip


def test_a_tool_of_no_release_is_refused() -> None:
    with pytest.raises(UnknownVersion, match=r"kafka '0\.7\.2' is not a release"):
        run_tool("0.7.2", "kafka.tools.GetOffsetShell")


def _console_groups(groups: Groups) -> list[str]:
    client = groups("any").client
    return [name for name in client.get_children("/consumers") if name.startswith("console-consumer-")]
