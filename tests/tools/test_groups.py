"""Groups of both worlds, next to kafka-consumer-groups of 1.1.1 on the same broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kazoo.client import KazooClient

from tests.broker.command_process import ROOT, command
from tests.conformance.group import Group, fresh
from tests.tools.conftest import Consumed, Run
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.tools import consumer_group_command, run_tool
from zkconsumer.testing.waiting import eventually


class Both(NamedTuple):
    """A name that is a group in ZooKeeper, without members, and one in Kafka, with one."""

    group: Group
    topic: str
    kafka: KafkaCluster
    consumer: Any


@pytest.fixture
def both(kafka_new: KafkaCluster, client_new: KazooClient) -> Iterator[Both]:
    from kafka import KafkaConsumer

    group, topic = Group(client_new, fresh("both")), fresh("t")
    kafka_new.create_topic(topic, partitions=2)
    kafka_new.produce(topic, [b"a", b"b", b"c"], partition=0)
    group.put("ids", "")
    group.put(f"owners/{topic}", "")
    group.put(f"offsets/{topic}/0", "2")
    consumer = KafkaConsumer(
        topic, group_id=group.name, bootstrap_servers=kafka_new.bootstrap_servers, auto_offset_reset="earliest",
        client_id="someone",
    )  # fmt: skip
    try:
        # Not in small slices: with those kafka-python may never get through with joining on a busy machine.
        eventually(lambda: bool(consumer.poll(timeout_ms=5000)), "the new consumer reads", timeout_s=120)
        consumer.commit()
        yield Both(group, topic, kafka_new, consumer)
    finally:
        consumer.close()


def test_a_group_is_described_as_the_original_does_in_each_world(run: Run, both: Both) -> None:
    """O7: the columns of 1.1, to the last blank: offsets, members, members with partitions, state."""
    kafka = ["--bootstrap-server", both.kafka.bootstrap_servers]
    for options in ([], ["--members"], ["--members", "--verbose"], ["--state"]):
        theirs = consumer_group_command(*kafka, "--describe", "--group", both.group.name, *options)
        ours = run("groups", "describe", *kafka, "--group", both.group.name, *options)

        assert sorted(ours.stdout.splitlines()) == sorted(theirs.stdout.splitlines()), options
        assert ours.code == 0


def test_a_group_of_zookeeper_is_described_as_the_original_does(run: Run, both: Both) -> None:
    """O7: Kafka's offsets come first, as there."""
    old = ["--zookeeper", both.kafka.zookeeper_connect]

    theirs = consumer_group_command(*old, "--describe", "--group", both.group.name)
    ours = run("groups", "describe", *old, "--group", both.group.name)

    assert ours.stdout == theirs.stdout
    assert ours.stderr == f"Group '{both.group.name}' in ZooKeeper has no active members.\n"


def test_a_group_of_real_members_is_described_as_the_original_does(
    run: Run, kafka_1_1: KafkaCluster, client_1_1: KazooClient
) -> None:
    """One that owns all there is, one that owns nothing; and a group that is not there."""
    group, topic, where = Group(client_1_1, fresh("crowd")), fresh("t"), kafka_1_1.zookeeper_connect
    kafka_1_1.create_topic(topic, partitions=1)
    with (
        ScalaConsumer(where, group.name, {topic: 1}, version="1.1.1", consumer_id="a1") as first,
        ScalaConsumer(where, group.name, {topic: 1}, version="1.1.1", consumer_id="a2"),
    ):
        eventually(lambda: group.owners(topic) == {0: f"{group.name}_a1-0"} and len(group.members()) == 2, timeout_s=60)
        first.commit_offsets()
        for name in (group.name, "nope"):
            theirs = consumer_group_command("--zookeeper", where, "--describe", "--group", name)
            ours = run("groups", "describe", "--zookeeper", where, "--group", name)

            assert ours.stdout == theirs.stdout, name
    assert ours.code == 1


def test_a_group_in_kafka_without_members_is_described_as_the_original_does(run: Run, both: Both) -> None:
    """Whatever is asked for: no table of members where there are none."""
    both.consumer.close()
    kafka = ["--bootstrap-server", both.kafka.bootstrap_servers]
    for options in ([], ["--members"], ["--members", "--verbose"], ["--state"]):
        for name in (both.group.name, "nope"):
            theirs = consumer_group_command(*kafka, "--describe", "--group", name, *options)
            ours = run("groups", "describe", *kafka, "--group", name, *options)

            assert sorted(ours.stdout.splitlines()) == sorted(theirs.stdout.splitlines()), (name, options)


def test_groups_are_listed_as_the_original_does_in_each_world(run: Run, both: Both) -> None:
    for servers in (
        ["--zookeeper", both.kafka.zookeeper_connect],
        ["--bootstrap-server", both.kafka.bootstrap_servers],
    ):
        theirs = consumer_group_command(*servers, "--list")
        ours = run("groups", "list", *servers)

        assert sorted(ours.stdout.split()) == sorted(theirs.stdout.split())
        assert both.group.name in ours.stdout.split()


def test_both_worlds_are_listed_and_named(run: Run, both: Both) -> None:
    servers = ["--zookeeper", both.kafka.zookeeper_connect, "--bootstrap-server", both.kafka.bootstrap_servers]

    listed = run("groups", "list", *servers, "--json")
    shown = run("groups", "list", *servers)
    described = run("groups", "describe", *servers, "--group", both.group.name, "--json")

    assert {"group": both.group.name, "in": ["zookeeper", "kafka"]} in json.loads(listed.stdout)
    assert both.group.name in shown.stderr.partition("in both worlds: ")[2]
    old, new = json.loads(described.stdout)
    assert (old["in"], old["members"], new["in"], new["members"], new["state"]) == (
        "zookeeper", 0, "kafka", 1, "Stable",
    )  # fmt: skip
    assert [(row["partition"], row["current_offset"], row["lag"]) for row in new["partitions"]] == [
        (0, 3, 0),
        (1, 0, 0),
    ]
    assert f"Group '{both.group.name}' is in both worlds." in described.stderr


def test_a_live_group_is_not_deleted_and_a_dead_one_is(run: Run, both: Both) -> None:
    """In neither world while one of them has members; then in both."""
    servers = ["--zookeeper", both.kafka.zookeeper_connect, "--bootstrap-server", both.kafka.bootstrap_servers]
    name = both.group.name

    live = run("groups", "delete", *servers, "--group", name)
    live_as_json = run("groups", "delete", *servers, "--group", name, "--json")
    assert json.loads(live_as_json.stdout) == [
        {"group": name, "deleted_from": None, "refused": "its consumers are still active"}
    ]
    assert live == (1, f"Error: Delete for group '{name}' failed because its consumers are still active.\n", "")
    assert both.group.offsets(both.topic) == {0: "2"}

    both.consumer.close()
    deleted = run("groups", "delete", *servers, "--group", name)
    again = run("groups", "delete", *servers, "--group", name)
    assert deleted == (
        0,
        f"Deleted all consumer group information for group '{name}' in zookeeper.\n"
        f"Deletion of requested consumer groups ('{name}') was successful.\n",
        "",
    )
    assert again == (1, f"Error: Delete for group '{name}' failed because group does not exist.\n", "")
    assert both.group.client.exists(both.group.path) is None


def test_a_live_group_of_zookeeper_is_not_deleted_either(run: Run, consumed: Consumed) -> None:
    """Of a real member, in the words of the real tool."""
    where = ["--zookeeper", consumed.kafka.zookeeper_connect]

    theirs = consumer_group_command(*where, "--delete", "--group", consumed.group.name)
    ours = run("groups", "delete", *where, "--group", consumed.group.name)

    assert (
        theirs.stdout
        == f"Error: Delete for group '{consumed.group.name}' failed because its consumers are still active.\n"
    )
    assert ours == (1, theirs.stdout, "")
    assert len(consumed.group.members()) == 1


DELETED = {
    "one of two topics": ["--group", "idle", "--topic", "t1"],
    "the last topic": ["--group", "single", "--topic", "t1"],
    "of a live group": ["--group", "live", "--topic", "t1"],
    "of no group": ["--group", "nobody", "--topic", "t1"],
    "of all groups": ["--topic", "t1"],
    "two groups": ["--group", "idle", "--group", "live"],
}


@pytest.mark.parametrize("case", DELETED)
def test_a_topic_is_deleted_from_groups_as_the_original_does(
    run: Run, empty: KazooClient, connect: str, case: str
) -> None:
    """The words, and what is left in ZooKeeper, of two trees that were the same."""
    left, printed = [], []
    for who in ("theirs", "ours"):
        for group, topics in {"idle": ["t1", "t2"], "single": ["t1"], "live": ["t1", "t2"]}.items():
            for path in [f"{part}/{topic}/0" for part in ("owners", "offsets") for topic in topics] + ["ids"]:
                empty.ensure_path(f"/consumers/{group}/{path}")
        empty.create("/consumers/live/ids/live_c1", b"{}", ephemeral=True)
        where = ["--zookeeper", connect, *DELETED[case]]
        if who == "theirs":
            printed.append(consumer_group_command("--delete", *where).stdout)
        else:
            printed.append(run("groups", "delete", *where).stdout)
        left.append(sorted(_below(empty, "/consumers")))
        empty.delete("/consumers", recursive=True)

    assert printed[1] == printed[0]
    assert left[1] == left[0]


def _below(client: KazooClient, path: str) -> Iterator[str]:
    for name in client.get_children(path):
        yield f"{path}/{name}"
        yield from _below(client, f"{path}/{name}")


def test_a_topic_is_deleted_from_groups_of_both_worlds(run: Run, both: Both) -> None:
    """Of one with members in either world: not. Then in both, and other topics stay."""
    name, topic, other = both.group.name, both.topic, fresh("t")
    both.kafka.create_topic(other, partitions=1)
    both.group.put(f"offsets/{other}/0", "0")
    servers = ["--zookeeper", both.kafka.zookeeper_connect, "--bootstrap-server", both.kafka.bootstrap_servers]
    delete = ("groups", "delete", *servers, "--group", name, "--topic")

    live = run(*delete, topic)
    both.consumer.close()
    migrated = run("offsets", "set", *servers, "--store", "kafka", "--group", name, f"{other}:0=0", "--execute")
    deleted = run(*delete, topic, "--json")
    again = run(*delete, topic)
    last = run(*delete, other)

    assert (live.code, "its consumers are still active" in live.stdout, migrated.code) == (1, True, 0)
    assert json.loads(deleted.stdout) == [
        {"group": name, "topic": topic, "deleted_from": place, "refused": None} for place in ("zookeeper", "kafka")
    ]
    assert again == (
        1, f"Error: Delete for group '{name}' topic '{topic}' failed because it has nothing of this topic.\n", ""
    )  # fmt: skip
    assert (last.code, last.stdout.count("\n")) == (0, 2)
    assert run("groups", "describe", *servers, "--group", name).code == 1


def test_a_table_is_as_wide_as_the_terminal_and_whole_in_a_pipe(both: Both) -> None:
    """60 columns: texts are cut, numbers never, and there are no colours in a pipe."""
    describe = [sys.executable, "-m", "zkconsumer", "groups", "describe", "--group", both.group.name]
    describe += ["--bootstrap-server", both.kafka.bootstrap_servers]
    piped = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    ours, terminal = os.openpty()
    termios.tcsetwinsize(terminal, (24, 60))
    with open(ours, "rb", buffering=0) as screen:
        subprocess.run(describe, cwd=ROOT, stdout=terminal, stderr=subprocess.DEVNULL, check=True, env=environment)
        os.close(terminal)
        shown = screen.read(65536).decode().splitlines()

    assert max(map(len, shown)) <= 60 < max(map(len, piped.splitlines()))
    assert [line.split()[1:5] for line in shown[2:]] == [line.split()[1:5] for line in piped.splitlines()[2:]]
    assert both.topic in piped and "\x1b" not in piped and "someone-" in piped


def test_watching_shows_it_again_and_again_until_ctrl_c(both: Both, tmp_path: Path) -> None:
    describe = ("groups", "describe", "--group", both.group.name, "--watch", "0.1", "--json")
    with command(tmp_path, *describe, "--bootstrap-server", both.kafka.bootstrap_servers) as watching:
        eventually(lambda: watching.stdout().count(b'"group"') >= 3, watching.stderr, 60)
        ended = watching.end(signal.SIGINT)

    assert (ended.exit_code, ended.stderr) == (130, "")


def test_records_are_deleted_as_the_original_does(run: Run, kafka_new: KafkaCluster, tmp_path: Path) -> None:
    """Seed 003's file with its missing colon; `versions`, which it has for `version`, means nothing to either side.

    One partition's offset is beyond its log: that is told, and the others are done.
    """
    file, lines = tmp_path / "delete.json", {}
    for who in ("theirs", "ours"):
        topic = fresh("t")
        kafka_new.create_topic(topic, partitions=3)
        kafka_new.produce(topic, [b"a", b"b", b"c"], partition=0)
        kafka_new.produce(topic, [b"d", b"e"], partition=1)
        asked = [{"topic": topic, "partition": number, "offset": offset} for number, offset in enumerate((2, -1, 9))]
        file.write_text(json.dumps({"partitions": asked, "versions": 1}))
        arguments = ["--bootstrap-server", kafka_new.bootstrap_servers, "--offset-json-file", str(file)]
        if who == "theirs":
            printed = run_tool("1.1.1", "kafka.admin.DeleteRecordsCommand", *arguments).stdout
        else:
            printed = run("delete-records", *arguments).stdout
        lines[who] = sorted(printed.replace(topic, "TOPIC").splitlines())

    as_json = json.loads(run("delete-records", *arguments, "--json").stdout)

    assert lines["ours"] == lines["theirs"]
    assert [(row["partition"], row["low_watermark"], row["error"] is None) for row in as_json] == [
        (0, 2, True), (1, 2, True), (2, None, False),
    ]  # fmt: skip
    assert any("OffsetOutOfRangeException" in line for line in lines["ours"])
    assert "partition: TOPIC-0\tlow_watermark: 2" in lines["ours"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        # As seed 003 prints it, a colon missing.
        (
            '{\n  "partitions"[\n    {"topic":"t","partition":0,"offset":10}\n  ],\n  "versions":1\n}',
            "The input string is not a valid JSON (line 2, column 15: Expecting ':' delimiter)",
        ),
        ('{"version":1}', "Missing partitions field"),
        ('{"version":2,"partitions":[]}', "Not supported version field value 2"),
        (
            '{"partitions":[{"topic":"t","partition":0,"offset":1},{"topic":"t","partition":0,"offset":2}]}',
            "Offset json file contains duplicate topic partitions: t-0",
        ),
    ],
)
def test_a_file_that_says_nothing_is_refused_in_one_line(run: Run, tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "delete.json"
    file.write_text(text)

    ours = run("delete-records", "--bootstrap-server", "127.0.0.1:1", "--offset-json-file", str(file))

    assert ours == (1, "", f"zkconsumer delete-records: {reason}\n")
