"""Offsets changed from outside: shown first, refused where it would do harm, journalled, verified, resumed."""

from __future__ import annotations

import json
import resource
import signal
import time
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kazoo.client import KazooClient

from tests.conformance.group import Group, fresh
from tests.tools.conftest import Consumed, Ran, Run
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.tools import consumer_offset_checker
from zkconsumer.testing.waiting import eventually


class Offsets:
    """`offsets("get")`: the command, for one group on one cluster, its journal in a directory of the test."""

    def __init__(self, run: Run, kafka: KafkaCluster, group: str, journal: Path) -> None:
        self._run, self._kafka, self._group, self._journal = run, kafka, group, journal

    def __call__(self, action: str, *arguments: str) -> Ran:
        where = (
            "--zookeeper",
            self._kafka.zookeeper_connect,
            "--group",
            self._group,
            "--journal-dir",
            str(self._journal),
        )
        return self._run("offsets", action, *where, *arguments)

    def stored(self, store: str) -> dict[int, int]:
        found = json.loads(self("get", "--store", store, "--json").stdout)
        return {row["partition"]: row["offset"] for row in found}


@pytest.fixture
def topic(kafka_new: KafkaCluster) -> str:
    topic = fresh("t")
    kafka_new.create_topic(topic, partitions=3)
    for partition in range(3):
        kafka_new.produce(topic, [b"m"] * 5, partition=partition)
    return topic


@pytest.fixture
def stopped(client_new: KazooClient, topic: str) -> Group:
    """A group without members that stands at 3, 4 and 5 of five messages each."""
    group = Group(client_new, fresh("group"))
    for partition in range(3):
        group.put(f"offsets/{topic}/{partition}", str(3 + partition))
    return group


@pytest.fixture
def offsets(run: Run, kafka_new: KafkaCluster, stopped: Group, tmp_path: Path) -> Offsets:
    return Offsets(run, kafka_new, stopped.name, tmp_path / "journal")


def test_nothing_is_changed_without_being_told(offsets: Offsets, stopped: Group, topic: str, tmp_path: Path) -> None:
    shown = offsets("set", f"{topic}:0=4")
    done = offsets("set", f"{topic}:0=4", "--execute")

    assert shown.stderr == "nothing was changed: --execute does it\n"
    assert [line.split() for line in shown.stdout.splitlines()][1] == [topic, "0", "3", "4", "1"]
    assert done.stdout.endswith(f"1 offsets of {stopped.name} in zookeeper written and read back\n")
    assert stopped.offsets(topic) == {0: "4", 1: "4", 2: "5"}
    assert list((tmp_path / "journal").iterdir()) == []


@pytest.mark.parametrize(
    ("position", "reason"),
    [
        ("0=6", "6 is off by one: the log ends at 5, which is the next offset to consume"),
        ("0=9", "9 is beyond the log, which ends at 5"),
        ("0=2", "from 3 back to 2; --allow-backwards if that is meant"),
        ("7=0", "its log cannot be asked: [{topic},7] has no leader"),
    ],
)
def test_what_would_do_harm_is_refused(
    offsets: Offsets, stopped: Group, topic: str, position: str, reason: str
) -> None:
    """Also with --execute, with exit code 1, and nothing is written."""
    ours = offsets("set", f"{topic}:{position}", "--execute")

    assert (ours.code, ours.stderr) == (
        1, f"refused: [{topic},{position.partition('=')[0]}]: {reason.format(topic=topic)}\n"
    )  # fmt: skip
    assert stopped.offsets(topic) == {0: "3", 1: "4", 2: "5"}


def test_offsets_of_a_live_group_stay(run: Run, consumed: Consumed, tmp_path: Path) -> None:
    """A real member on 0.8.2.2; unless told."""
    ours = Offsets(run, consumed.kafka, consumed.group.name, tmp_path)("set", f"{consumed.topic}:1=1", "--execute")

    assert (ours.code, consumed.group.offsets(consumed.topic)[1]) == (1, "2")
    assert f"group {consumed.group.name} has members (zookeeper)" in ours.stderr


def test_a_change_is_told_as_json(offsets: Offsets, stopped: Group, topic: str) -> None:
    """What would be, what was refused, and what was done: nothing else on standard output."""
    row = {"topic": topic, "partition": 0}
    head = {"store": "zookeeper", "group": stopped.name, "changes": [{**row, "before": 3, "after": 4}]}

    dry = json.loads(offsets("set", f"{topic}:0=4", "--json").stdout)
    refused = offsets("set", f"{topic}:0=2", "--json")
    done = json.loads(offsets("set", f"{topic}:0=4", "--json", "--execute").stdout)
    nothing = json.loads(offsets("resume", "--json").stdout)

    assert dry == {**head, "refused": [], "written": []}
    assert done == {**head, "refused": [], "written": [{**row, "offset": 4}]}
    assert nothing == {**head, "changes": [], "refused": [], "written": []}
    [reason] = json.loads(refused.stdout)["refused"]
    assert (refused.code, refused.stderr) == (1, f"refused: {reason}\n")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("get",), "group {group} has no offsets in zookeeper"),
        (("diff",), "group {group} has no offsets, neither in zookeeper nor in kafka"),
        (("rewind", "--by", "1"), "group {group} has no offsets in zookeeper"),
        (("rewind", "--by", "1", "--topic", "t"), "group {group} has no offsets of t in zookeeper"),
        (("rewind", "--to-latest", "--topic", "no-such-topic"), "there is no topic no-such-topic"),
        (("copy", "--to-group", "g"), "group {group} has no offsets in zookeeper"),
        (("migrate", "--from", "kafka", "--to", "zookeeper"), "group {group} has no offsets in kafka"),
        (("migrate", "--from", "kafka"), "from kafka to kafka: that is the same store"),
        (("set", "t:0"), "'t:0' should be TOPIC:PARTITION=OFFSET"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_not_there_is_told_in_one_line(
    run: Run, kafka_new: KafkaCluster, tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    """And is no success, which a name that was mistyped must not look like."""
    group = fresh("nobody")

    ours = Offsets(run, kafka_new, group, tmp_path / "journal")(*words)

    assert ours == (1, "", f"zkconsumer offsets: {reason.format(group=group)}\n")


@pytest.mark.parametrize("action", ["get", "diff"])
def test_nothing_is_an_empty_list_as_json(run: Run, kafka_new: KafkaCluster, tmp_path: Path, action: str) -> None:
    ours = Offsets(run, kafka_new, fresh("nobody"), tmp_path / "journal")(action, "--json")

    assert (ours.code, ours.stdout, ours.stderr.count("\n")) == (1, "[]\n", 1)


def test_a_disk_that_is_full_stops_a_change_before_it_begins(
    offsets: Offsets, stopped: Group, topic: str, tmp_path: Path
) -> None:
    """The journal does not fit: its file is named, nothing is written, nothing is left of it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # as far as a test can fill a disk
    try:
        ours = offsets("set", f"{topic}:0=4", "--execute")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)

    assert (ours.code, ours.stderr.count("\n")) == (1, 1)
    assert f"{tmp_path / 'journal'}/zookeeper-{stopped.name}.json: File too large" in ours.stderr
    assert stopped.offsets(topic) == {0: "3", 1: "4", 2: "5"}
    assert list((tmp_path / "journal").iterdir()) == []


def test_rewinding_to_a_time(offsets: Offsets, kafka_new: KafkaCluster, stopped: Group, topic: str) -> None:
    """To the first message from then on: of those sent a second time, a later timestamp each, the third."""
    producer = KafkaProducer(bootstrap_servers=kafka_new.bootstrap_servers)
    now_ms = int(time.time() * 1000)
    try:
        for number in range(4):
            sent = producer.send(topic, b"m", partition=0, timestamp_ms=now_ms + 60_000 * (number + 1))
            assert sent.get(timeout=60).offset == 5 + number
    finally:
        producer.close()

    ours = offsets("rewind", "--topic", topic, "--to-time", str(now_ms + 60_000 * 3 - 1), "--execute")

    assert ours.code == 0
    assert stopped.offsets(topic) == {0: "7", 1: "5", 2: "5"}


def test_offsets_of_a_live_group_in_kafka_stay(
    run: Run, kafka_new: KafkaCluster, stopped: Group, topic: str, tmp_path: Path
) -> None:
    """A new consumer's; and if told otherwise, its coordinator refuses them, in one line, with the way back."""
    consumer = KafkaConsumer(
        topic, group_id=stopped.name, bootstrap_servers=kafka_new.bootstrap_servers, auto_offset_reset="earliest"
    )
    ours = Offsets(run, kafka_new, stopped.name, tmp_path / "journal")
    change = ("set", f"{topic}:0=1", "--store", "kafka", "--execute", "--allow-backwards")
    try:
        eventually(lambda: bool(consumer.poll(timeout_ms=5000)), "the new consumer reads", timeout_s=120)
        consumer.commit()
        before = ours.stored("kafka")
        refused = ours(*change)
        insisted = ours(*change, "--even-if-live")
        undone = ours("roll-back", "--store", "kafka")
    finally:
        consumer.close()

    assert (refused.code, f"group {stopped.name} has members (kafka)" in refused.stderr) == (1, True)
    assert (insisted.code, "the coordinator refused 1 offsets" in insisted.stderr.splitlines()[0]) == (1, True)
    assert insisted.stderr.splitlines()[1].endswith("finishes it, `roll-back` undoes it")
    assert undone.stdout == f"0 of 1 offsets of {stopped.name} in kafka set back and read back\n"
    assert ours.stored("kafka") == before
    assert list((tmp_path / "journal").iterdir()) == []


def test_rewinding(offsets: Offsets, stopped: Group, topic: str) -> None:
    """By a number, never before the beginning; to a time later than all; to the ends."""
    seen = []
    for how in (["--by", "4"], ["--to-latest"], ["--to-earliest"], ["--to-time", "4102444800000"], ["--to-time", "1"]):
        assert offsets("rewind", *how, "--execute").code == 0
        seen.append(list(stopped.offsets(topic).values()))

    assert [sorted(map(int, row)) for row in seen] == [[0, 0, 1], [5, 5, 5], [0, 0, 0], [5, 5, 5], [0, 0, 0]]


def test_copying_and_renaming(offsets: Offsets, stopped: Group, topic: str) -> None:
    copy, renamed = Group(stopped.client, fresh("copy")), Group(stopped.client, fresh("renamed"))

    assert offsets("copy", "--to-group", copy.name, "--execute").code == 0
    assert offsets("rename", "--to-group", renamed.name, "--execute").code == 0

    assert copy.offsets(topic) == renamed.offsets(topic) == {0: "3", 1: "4", 2: "5"}
    assert stopped.offsets(topic) == {}


def test_migrating_there_and_back(offsets: Offsets, stopped: Group, topic: str) -> None:
    """What differs is told before, nothing after; backwards only if told."""
    before = offsets("diff", "--json")
    migrated = offsets("migrate", "--execute")
    after = offsets("diff")
    stopped.put(f"offsets/{topic}/0", "5")
    back = offsets("migrate", "--from", "kafka", "--to", "zookeeper", "--execute")
    told = offsets("migrate", "--from", "kafka", "--to", "zookeeper", "--execute", "--allow-backwards")

    assert [(row["zookeeper"], row["kafka"]) for row in json.loads(before.stdout)] == [(3, None), (4, None), (5, None)]
    assert (before.code, migrated.code, after) == (3, 0, (0, "", ""))
    assert offsets.stored("kafka") == {0: 3, 1: 4, 2: 5}
    assert (back.code, told.code) == (1, 0)
    assert stopped.offsets(topic) == {0: "3", 1: "4", 2: "5"}


def test_migrated_offsets_are_seen_by_the_real_checker(run: Run, consumed: Consumed, tmp_path: Path) -> None:
    """On 0.8.2.2, which reads Kafka's first: ZooKeeper's are changed afterwards to tell them apart."""
    group = Group(consumed.group.client, fresh("migrated"))
    group.put(f"offsets/{consumed.topic}/0", "2")
    ours = Offsets(run, consumed.kafka, group.name, tmp_path)("migrate", "--execute")
    group.put(f"offsets/{consumed.topic}/0", "1")

    theirs = consumer_offset_checker(consumed.kafka.zookeeper_connect, group.name, [consumed.topic])

    assert ours.code == 0
    assert theirs.stdout.splitlines()[1].split()[3] == "2"
