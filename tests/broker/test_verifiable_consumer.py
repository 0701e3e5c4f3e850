"""zkconsumer verifiable-consumer as a child process on real servers: its events, their order, and what is stored."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.broker.command_process import CommandProcess, command, run_command
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import eventually

pytestmark = pytest.mark.kafka("0.8.2.2")


@pytest.fixture
def client(kafka: KafkaCluster) -> Iterator[KazooClient]:
    client = KazooClient(kafka.zookeeper_connect)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def reads(kafka: KafkaCluster, topic: str) -> tuple[str, ...]:
    """The arguments that all runs here begin with; a topic of 2 partitions."""
    kafka.create_topic(topic, partitions=2)
    where = ("--zookeeper", kafka.zookeeper_connect, "--topic", topic)
    return "verifiable-consumer", *where, "--group-id", f"group-{topic}"


def events_in(lines: bytes) -> list[dict[str, Any]]:
    """Without a last line that is not whole yet."""
    return [json.loads(line) for line in lines.splitlines(keepends=True) if line.endswith(b"\n")]


def names_in(events: list[dict[str, Any]]) -> list[str]:
    return [event["name"] for event in events]


def consumed(events: list[dict[str, Any]]) -> Counter[tuple[int, int]]:
    """How often each offset of each partition was consumed."""
    return Counter(
        (part["partition"], offset)
        for event in events
        if event["name"] == "records_consumed"
        for part in event["partitions"]
        for offset in range(part["minOffset"], part["maxOffset"] + 1)
    )


def await_assignment(member: CommandProcess, partitions: list[int]) -> None:
    def is_assigned() -> bool:
        found = [event for event in events_in(member.stdout()) if event["name"] == "partitions_assigned"]
        return bool(found) and [part["partition"] for part in found[-1]["partitions"]] == partitions

    eventually(is_assigned, lambda: f"partitions {partitions}; {member.stdout()!r} {member.stderr()}", 60.0)


def test_a_run_from_startup_to_shutdown(
    kafka: KafkaCluster, topic: str, client: KazooClient, reads: tuple[str, ...], tmp_path: Path
) -> None:
    kafka.produce(topic, [b"a", b"b", b"c", b"d"], partition=1)

    result = run_command(tmp_path, *reads, "--max-messages", "3")

    events = events_in(result.stdout)
    assert all(list(event)[:2] == ["timestamp", "name"] and event.pop("timestamp") > 1.7e12 for event in events)
    part = {"topic": topic, "partition": 1}
    assert events == [
        {"name": "startup_complete"},
        {"name": "partitions_revoked", "partitions": []},
        {"name": "partitions_assigned", "partitions": [{"topic": topic, "partition": 0}, part]},
        {"name": "records_consumed", "count": 3, "partitions": [{**part, "count": 3, "minOffset": 0, "maxOffset": 2}]},
        {"name": "offsets_committed", "offsets": [{**part, "offset": 3}], "success": True},
        {"name": "shutdown_complete"},
    ]
    assert (result.exit_code, result.stderr) == (0, "")
    assert client.get(f"/consumers/group-{topic}/offsets/{topic}/1")[0] == b"3"
    assert client.get_children(f"/consumers/group-{topic}/ids") == []


def test_verbose_shows_each_record(kafka: KafkaCluster, topic: str, reads: tuple[str, ...], tmp_path: Path) -> None:
    kafka.produce(topic, [("schlüssel".encode(), b"one"), (None, None)], partition=0)

    result = run_command(tmp_path, *reads, "--max-messages", "2", "--verbose")

    lines = result.stdout.decode().splitlines()
    events = events_in(result.stdout)
    names = names_in(events)
    assert names[3:] == ["record_data", "record_data", "records_consumed", "offsets_committed", "shutdown_complete"]
    where = f'"topic":"{topic}","partition":0'
    assert lines[3].endswith(f'"name":"record_data","key":"schlüssel","value":"one",{where},"offset":0}}')
    assert lines[4].endswith(f'"name":"record_data","key":null,"value":null,{where},"offset":1}}')


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_a_signal_ends_it_cleanly(
    kafka: KafkaCluster,
    topic: str,
    client: KazooClient,
    reads: tuple[str, ...],
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    with command(tmp_path, *reads, "--session-timeout", "5000", "--reset-policy", "latest") as member:
        await_assignment(member, [0, 1])
        result = member.end(number)

    assert (result.exit_code, result.stderr) == (0, "")
    assert names_in(events_in(result.stdout))[-1] == "shutdown_complete"
    assert client.get_children(f"/consumers/group-{topic}/ids") == []
    assert client.get_children(f"/consumers/group-{topic}/owners/{topic}") == []


def test_two_members_share_the_partitions_and_no_message_is_consumed_twice(
    kafka: KafkaCluster, topic: str, client: KazooClient, reads: tuple[str, ...], tmp_path: Path
) -> None:
    """What the first has read is reported and committed before it tells that its partitions are revoked."""
    kafka.produce_many(topic, 2000)

    with command(tmp_path / "first", *reads) as first:
        eventually(lambda: consumed(events_in(first.stdout())).total() >= 1, "the first message", 60.0)
        with command(tmp_path / "second", *reads) as second:
            await_assignment(second, [1])
            await_assignment(first, [0])
            kafka.produce_many(topic, 1000)

            def total() -> int:
                return (consumed(events_in(first.stdout())) + consumed(events_in(second.stdout()))).total()

            eventually(lambda: total() >= 3000, lambda: f"{total()} of 3000 messages", 60.0)
            ended_second = second.end(signal.SIGTERM)
        await_assignment(first, [0, 1])
        ended_first = first.end(signal.SIGTERM)

    events_of_first, events_of_second = events_in(ended_first.stdout), events_in(ended_second.stdout)
    everything = consumed(events_of_first) + consumed(events_of_second)
    assert everything == Counter((partition, offset) for partition in (0, 1) for offset in range(1500))
    revoked = [event["partitions"] for event in events_of_first if event["name"] == "partitions_revoked"]
    assert [[part["partition"] for part in parts] for parts in revoked][:2] == [[], [0, 1]]
    assert client.get(f"/consumers/group-{topic}/offsets/{topic}/0")[0] == b"1500"
    assert client.get(f"/consumers/group-{topic}/offsets/{topic}/1")[0] == b"1500"


def test_with_auto_commit_commits_are_not_told(
    kafka: KafkaCluster, topic: str, client: KazooClient, reads: tuple[str, ...], tmp_path: Path
) -> None:
    kafka.produce(topic, [b"a", b"b"], partition=0)

    result = run_command(tmp_path, *reads, "--max-messages", "2", "--enable-autocommit")

    assert "offsets_committed" not in names_in(events_in(result.stdout))
    assert client.get(f"/consumers/group-{topic}/offsets/{topic}/0")[0] == b"2"


def test_it_can_begin_at_the_end(kafka: KafkaCluster, topic: str, reads: tuple[str, ...], tmp_path: Path) -> None:
    kafka.produce(topic, [b"old"], partition=0)
    (tmp_path / "consumer.properties").write_text("auto.offset.reset=smallest\nclient.id=file\n")
    options = ("--reset-policy", "latest", "--max-messages", "1", "--consumer.config", "consumer.properties")

    with command(tmp_path, *reads, *options) as member:
        await_assignment(member, [0, 1])

        def produces_until_it_ends() -> bool:  # where the end is, is asked some time after the assignment
            kafka.produce(topic, [b"new"], partition=0)
            return member.process.poll() is not None

        eventually(produces_until_it_ends, "a message at the end", 60.0)
        result = member.wait()

    [(_, offset)] = consumed(events_in(result.stdout))
    assert offset >= 1
