"""What production has, as a file, and in a sandbox again: real groups, strange nodes, all that can go wrong."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from fetcher.admin import BrokerConnections, parse_bootstrap
from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from tests.broker.command_process import ROOT, command
from tests.conformance.group import Group, fresh
from tests.tools.conftest import Consumed, Run
from zkconsumer.groups.kafka_group import KafkaGroups
from zkconsumer.snapshots.files import Node, Snapshot, read_snapshot, write_snapshot
from zkconsumer.snapshots.loading import Target, Wishes, plan_load
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.tools import verify_consumer_rebalance
from zkconsumer.testing.waiting import eventually
from zkconsumer.zookeeper import ZooKeeper


@pytest.fixture
def saved(run: Run, consumed: Consumed, tmp_path: Path) -> Path:
    """A snapshot of the real member's group."""
    file = tmp_path / "saved.gz"
    where = ("--zookeeper", consumed.kafka.zookeeper_connect, "--group", consumed.group.name)
    ours = run("snapshot", "save", str(file), *where)
    assert (ours.code, ours.stderr) == (0, "")
    return file


def made(file: Path, nodes: dict[str, bytes], sessions: dict[str, int] | None = None) -> Path:
    """A snapshot by hand."""
    found = {path: Node(path, data, session=(sessions or {}).get(path, 0)) for path, data in nodes.items()}
    write_snapshot(file, Snapshot("elsewhere:2181", "2026-11-18T00:00:00Z", "", found), compressed=False)
    return file


def tree_of(client: KazooClient, path: str) -> dict[str, tuple[bytes, bool]]:
    """Data by path, and whether the node is ephemeral."""
    data, stat = client.get(path)
    found = {path: (data or b"", bool(stat.ephemeralOwner))}
    for name in client.get_children(path):
        found |= tree_of(client, f"{path}/{name}")
    return found


@pytest.mark.parametrize("release", ["1.1.1", "3.9.1"])
def test_a_group_of_real_members_comes_back_whole(
    run: Run, consumed: Consumed, saved: Path, tmp_path: Path, release: str, kafka_of: Callable[[str], KafkaCluster]
) -> None:
    """Topic, offsets, registration and owners, byte for byte, beside another release's broker; the real tool and our
    doctor find it healthy. Ctrl-C ends the members and leaves the rest."""
    kafka, group = kafka_of(release), consumed.group
    original = tree_of(group.client, group.path)
    client = KazooClient(kafka.zookeeper_connect, timeout=60)
    client.start()
    options = ("--zookeeper", kafka.zookeeper_connect, "--offsets", "restart", "--members")
    try:
        with command(tmp_path / "load", "snapshot", "load", str(saved), *options, "--group", group.name) as loading:
            eventually(lambda: b"Ctrl-C ends the members" in loading.stdout(), loading.stderr, 90)
            loaded = tree_of(client, group.path)
            verdict = verify_consumer_rebalance(kafka.zookeeper_connect, group.name).stdout
            partitions = client.get_children(f"/brokers/topics/{consumed.topic}/partitions")
            doctor = run("doctor", "--zookeeper", kafka.zookeeper_connect, "--group", group.name)
            ended = loading.end(signal.SIGINT)
        after = tree_of(client, group.path)
    finally:
        client.stop()
        client.close()

    at_the_start = {
        path: (b"0", held) if "/offsets/" in path and data else (data, held) for path, (data, held) in original.items()
    }
    assert loaded == at_the_start
    assert sum(held for _, held in loaded.values()) == 4  # a member and three owners
    assert sorted(partitions) == ["0", "1", "2"]
    assert verdict == "Rebalance operation successful !\n"
    assert doctor.stdout == f"{group.name}: nothing is wrong\n"
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert after == {path: node for path, node in at_the_start.items() if not node[1]}


def test_strange_nodes_come_back_as_they_were(run: Run, connect: str, empty: KazooClient, tmp_path: Path) -> None:
    """No JSON, no UTF-8, line ends, nothing at all, nearly too large: saved, loaded elsewhere, saved again."""
    strange = {
        "/consumers/g/ids/g_c1": b"orders", "/consumers/g/offsets/orders/0": bytes(range(256)),
        "/consumers/g/offsets/orders/1": "größer\u2028\r\n\x00".encode(), "/consumers/g/offsets/orders/x": b"",
        "/consumers/g/big": b"x" * 1_000_000, "/consumers/\N{SNOWMAN}/ids": b"",
        "/brokers/topics/orders": b"{", "/brokers/topics/orders/partitions/0/state": b'{"leader":7}',
    }  # fmt: skip
    empty.ensure_path("/from")
    empty.ensure_path("/to")
    for path, data in strange.items():
        empty.create(f"/from{path}", data, makepath=True)
    first, second = tmp_path / "first.json", tmp_path / "second.json"

    assert run("snapshot", "save", str(first), "--zookeeper", f"{connect}/from").code == 0
    loaded = run("snapshot", "load", str(first), "--zookeeper", f"{connect}/to")
    assert run("snapshot", "save", str(second), "--zookeeper", f"{connect}/to").code == 0

    assert (loaded.code, loaded.stderr) == (0, "")
    before, after = read_snapshot(first).nodes, read_snapshot(second).nodes
    assert {path: before[path].data for path in strange} == strange
    assert {path: node.data for path, node in after.items()} == {path: node.data for path, node in before.items()}


def test_passwords_and_production_brokers_stay_where_they_are(
    run: Run, connect: str, empty: KazooClient, tmp_path: Path
) -> None:
    """Users' and brokers' settings are not even saved; registrations of brokers are, and never loaded."""
    broker = b'{"version":1,"host":"production","port":9092}'
    for path, data in {
        "/from/config/users/anna": b"secret", "/from/config/brokers/1": b"secret", "/from/brokers/ids/1": broker,
        "/from/config/topics/orders": b'{"version":1,"config":{}}', "/from/consumers/g/ids": b"",
    }.items():  # fmt: skip
        empty.create(path, data, makepath=True)
    empty.ensure_path("/to")
    file = tmp_path / "saved"

    run("snapshot", "save", str(file), "--zookeeper", f"{connect}/from")
    loaded = run("snapshot", "load", str(file), "--zookeeper", f"{connect}/to")

    assert "secret" not in file.read_text()
    assert {"/brokers/ids/1", "/config/topics/orders"} <= read_snapshot(file).nodes.keys()
    assert "left out  1 brokers: consumers of the sandbox would go to them\n" in loaded.stdout
    assert empty.exists("/to/brokers/ids/1") is None


def committed(kafka: KafkaCluster, group: str, offsets: dict[TopicAndPartition, OffsetAndMetadata]) -> None:
    """By brokers of any release."""
    with BrokerConnections() as connections:
        KafkaGroups(connections, parse_bootstrap(kafka.bootstrap_servers)).commit(group, offsets)


def stored_in(kafka: KafkaCluster, group: str, partitions: list[TopicAndPartition]) -> dict[TopicAndPartition, int]:
    with BrokerConnections() as connections:
        stored = KafkaGroups(connections, parse_bootstrap(kafka.bootstrap_servers)).stored(group, partitions)
    return {where: one.offset for where, one in stored.items()}


@pytest.mark.parametrize(("source", "sandbox"), [("0.8.2.2", "1.1.1"), ("1.1.1", "3.9.1"), ("3.9.1", "0.8.2.2")])
def test_offsets_that_groups_keep_in_kafka_come_along(
    run: Run, tmp_path: Path, source: str, sandbox: str, kafka_of: Callable[[str], KafkaCluster]
) -> None:
    """Of a group in both worlds and, where brokers can list them, of one in Kafka alone; other groups stay out."""
    old, new, topic, both, alone = kafka_of(source), kafka_of(sandbox), fresh("t"), fresh("both"), fresh("alone")
    old.create_topic(topic, partitions=2)
    first, second = (TopicAndPartition(topic, number) for number in (0, 1))
    offsets = {first: OffsetAndMetadata(7, "a note"), second: OffsetAndMetadata(0)}
    committed(old, both, offsets)
    committed(old, alone, {first: OffsetAndMetadata(3)})
    with ZooKeeper(old.zookeeper_connect, session_timeout_ms=30_000, connection_timeout_ms=30_000) as zookeeper:
        zookeeper.update_many({f"/consumers/{both}/offsets/{topic}/0": b"5"})
    servers = ("--zookeeper", old.zookeeper_connect, "--bootstrap-server", old.bootstrap_servers)
    file, of_one = tmp_path / "all", tmp_path / "one.gz"

    saved = run("snapshot", "save", str(file), *servers)
    saved_one = run("snapshot", "save", str(of_one), *servers, "--group", both, "--group", alone)
    shown = json.loads(run("snapshot", "show", str(of_one), "--json").stdout)
    load = ("snapshot", "load", str(of_one), "--zookeeper", new.zookeeper_connect, "--group", both, "--group", alone)
    dry = run(*load, "--dry-run")
    loaded = run(*load)
    again = run(*load)
    kept = stored_in(new, both, [first, second])
    restarted = run(*load, "--overwrite", "--offsets", "restart")

    assert (saved.code, saved_one.code, dry.code, loaded.code) == (0, 0, 0, 0)
    in_kafka = {name: found for name, found in read_snapshot(file).in_kafka.items() if name in (both, alone)}
    assert in_kafka == {both: offsets} | ({alone: {first: OffsetAndMetadata(3)}} if source != "0.8.2.2" else {})
    assert shown["kafka_groups"] == {both: 2, alone: 1}
    assert "in Kafka  2 groups with 3 offsets\n" in loaded.stdout == dry.stdout + "loaded\n"
    assert (again.code, f"refused: group {alone} exists in Kafka\n" in again.stderr) == (1, True)
    assert restarted.code == 0
    assert (kept, stored_in(new, both, [first, second])) == ({first: 7, second: 0}, {first: 0, second: 0})
    assert stored_in(new, alone, [first]) == {first: 0}


def test_what_exists_is_not_written_over_unless_told(
    run: Run, kafka_1_1: KafkaCluster, client_1_1: KazooClient, tmp_path: Path
) -> None:
    """A group; with --overwrite never one with members, or a topic with other partitions. A refusal writes nothing."""
    group, topic, new = Group(client_1_1, fresh("there")), fresh("t"), fresh("new")
    kafka_1_1.create_topic(topic, partitions=1)
    group.put(f"offsets/{topic}/0", "5")
    offset = f"{group.path}/offsets/{topic}/0"
    of_topic = {f"/brokers/topics/{topic}": b'{"version":1,"partitions":{"0":[1,2,3]}}'}
    file = made(tmp_path / "one", {group.path: b"", offset: b"7", f"/consumers/{new}": b"", **of_topic})
    load = ("snapshot", "load", str(file), "--zookeeper", kafka_1_1.zookeeper_connect)

    refused = run(*load)
    dry = run(*load, "--overwrite", "--dry-run")
    assert (refused.code, f"refused: group {group.name} exists\n" in refused.stderr) == (1, True)
    assert (dry.code, dry.stderr) == (0, "nothing was written: this was a dry run\n")
    assert (group.offsets(topic), client_1_1.exists(f"/consumers/{new}")) == ({0: "5"}, None)

    client_1_1.create(f"{group.path}/ids/c1", b"{}", ephemeral=True, makepath=True)
    live = run(*load, "--overwrite")
    client_1_1.delete(f"{group.path}/ids/c1")
    assert (live.code, f"refused: group {group.name} exists and has members\n" in live.stderr) == (1, True)

    other = {f"/brokers/topics/{topic}": b'{"version":1,"partitions":{"0":[1],"1":[1]}}'}
    larger = run("snapshot", "load", str(made(tmp_path / "two", other)), *load[3:], "--overwrite")
    assert (larger.code, f"topic {topic} exists with 1 partitions, the snapshot has 2" in larger.stderr) == (1, True)
    assert (group.offsets(topic), client_1_1.exists(f"/consumers/{new}")) == ({0: "5"}, None)

    assert run(*load, "--overwrite").code == 0
    assert group.offsets(topic) == {0: "7"}
    assert client_1_1.exists(f"/consumers/{new}") is not None


def test_the_cluster_it_was_made_of_is_no_sandbox(run: Run, consumed: Consumed, saved: Path) -> None:
    before = tree_of(consumed.group.client, consumed.group.path)

    ours = run("snapshot", "load", str(saved), "--zookeeper", consumed.kafka.zookeeper_connect)

    assert ours.code == 1
    assert ours.stderr.startswith("refused: is this where the snapshot was made? its broker 127.0.0.1:")
    assert tree_of(consumed.group.client, consumed.group.path) == before


def test_a_node_that_no_request_can_carry_is_left_out_and_named(
    run: Run, connect: str, empty: KazooClient, tmp_path: Path
) -> None:
    """A server would hang up on it, again and again."""
    nodes = {"/consumers/g/ids": b"", "/consumers/g/huge": b"x" * 1_100_000, "/consumers/g/offsets/t/0": b"1"}

    ours = run("snapshot", "load", str(made(tmp_path / "file", nodes)), "--zookeeper", connect)

    assert ours.code == 0
    assert "left out  /consumers/g/huge: 1,100,000 bytes do not fit a request (jute.maxbuffer)\n" in ours.stdout
    assert empty.get("/consumers/g/offsets/t/0")[0] == b"1"
    assert empty.exists("/consumers/g/huge") is None


HEADER = json.dumps({"format": "zkconsumer-snapshot", "version": 1, "from": "x"})
NODE, END = json.dumps({"path": "/consumers"}), json.dumps({"end": True, "nodes": 1})
OFFSET = json.dumps({"kafka_group": "g", "topic": "t", "partition": 0, "offset": 1})
END_OF_OFFSET = json.dumps({"end": True, "nodes": 1, "kafka_offsets": 1})
DAMAGED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", " ends in the middle, after 0 nodes: it was cut short"),
    "binary": (b"\x00\xff\n", ", line 1: no JSON; this is no snapshot of zkconsumer, or it is damaged"),
    "other JSON": (b"{}\n", ", line 1: this is no snapshot of zkconsumer"),
    "a list": (b"[]\n", ", line 1: no JSON object"),
    "of the future": (
        HEADER.replace(": 1", ": 2").encode(), ", line 1: version 2 of the format is not known here, only 1"
    ),
    "cut at a line": (f"{HEADER}\n{NODE}\n".encode(), " ends in the middle, after 1 nodes: it was cut short"),
    "cut in a line": (f"{HEADER}\n{NODE[:9]}".encode(), ", line 2: no JSON; this is no snapshot of zkconsumer, or it"
                      " is damaged"),
    "a node missing": (f"{HEADER}\n{END}\n".encode(), " ends in the middle, after 0 nodes: it was cut short"),
    "a node twice": (f"{HEADER}\n{NODE}\n{NODE}\n".encode(), ", line 3: /consumers is there twice"),
    "no path": (f'{HEADER}\n{{"path":"/a/../b"}}\n'.encode(), ", line 2: '/a/../b' is no path"),
    "bad base64": (f'{HEADER}\n{{"path":"/a","base64":"?"}}\n'.encode(), ", line 2: its base64 cannot be read"),
    "an offset in Kafka missing": (
        f"{HEADER}\n{NODE}\n{END_OF_OFFSET}\n".encode(),
        " ends in the middle, after 1 nodes: it was cut short",
    ),
    "an offset in Kafka twice": (
        f"{HEADER}\n{OFFSET}\n{OFFSET}\n".encode(), ", line 3: the offset of [t,0] of g is there twice"
    ),
    "no offset in Kafka": (
        f"{HEADER}\n{OFFSET.replace('0', '-1')}\n".encode(),
        ", line 2: no offset in Kafka: it needs a group, a topic, a partition and an offset",
    ),
    "packed and cut": (gzip.compress(f"{HEADER}\n{NODE}\n{END}\n".encode())[:-9], ": the packed file is damaged, or"
                       " was cut short"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_file_that_is_no_whole_snapshot_is_refused_in_one_line(run: Run, tmp_path: Path, damage: str) -> None:
    content, reason = DAMAGED[damage]
    file = tmp_path / "file"
    file.write_bytes(content)

    ours = run("snapshot", "load", str(file), "--zookeeper", "127.0.0.1:1")

    assert (ours.code, ours.stdout, ours.stderr.count("\n")) == (1, "", 1)
    assert ours.stderr.startswith(f"zkconsumer snapshot: {file}") and reason in ours.stderr


def test_a_disk_that_is_full_leaves_no_half_file(consumed: Consumed, saved: Path, tmp_path: Path) -> None:
    """Not the new one, and the old one as it was."""
    directory = tmp_path / "full"
    directory.mkdir()
    (directory / "file").write_bytes(b"before")
    save = ["snapshot", "save", str(directory / "file"), "--zookeeper", consumed.kafka.zookeeper_connect]
    limited = ["/bin/sh", "-c", 'ulimit -f 1; exec "$@"', "sh", sys.executable, "-m", "zkconsumer", *save]

    ended = subprocess.run([*limited, "--overwrite"], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"zkconsumer snapshot: {directory / 'file'}: File too large\n"
    assert [(one.name, one.read_bytes()) for one in directory.iterdir()] == [("file", b"before")]


def test_a_file_is_not_written_over_unless_told(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")

    ours = run("snapshot", "save", str(file), "--zookeeper", "127.0.0.1:1")

    assert ours == (1, "", f"zkconsumer snapshot: {file} exists: take another name, or --overwrite\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_load_that_was_interrupted_is_done_again(
    connect: str, empty: KazooClient, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """In the middle of writing: one line that says what to do, and that does it."""
    count = 20_000  # enough for a busy machine to be interrupted in the middle
    nodes = {f"/consumers/g/offsets/t/{partition}": b"1" for partition in range(count)}
    load = ("snapshot", "load", str(made(tmp_path / "file", nodes)), "--zookeeper", connect)

    def written() -> int:
        stat = empty.exists("/consumers/g/offsets/t")
        return int(stat.numChildren) if stat else 0

    with command(tmp_path / "first", *load) as first:
        eventually(lambda: written() > 0, timeout_s=60)
        interrupted = first.end(number)
    half = written()
    with command(tmp_path / "second", *load, "--overwrite") as second:
        done = second.wait()

    assert (interrupted.exit_code, 0 < half < count) == (code, True)
    assert interrupted.stderr == (
        "zkconsumer snapshot: interrupted half-way: the same command with --overwrite does the rest\n"
    )
    assert (done.exit_code, written()) == (0, count)


def test_what_is_saved_and_loaded_is_told_as_json(
    run: Run, consumed: Consumed, connect: str, empty: KazooClient, tmp_path: Path
) -> None:
    """Nothing else on standard output; of a refusal too."""
    file, name = str(tmp_path / "file"), consumed.group.name
    where = ("--zookeeper", consumed.kafka.zookeeper_connect)

    saved = json.loads(run("snapshot", "save", file, *where, "--group", name, "--json").stdout)
    shown = json.loads(run("snapshot", "show", file, "--json").stdout)
    dry = json.loads(run("snapshot", "load", file, "--zookeeper", connect, "--dry-run", "--json").stdout)
    before = empty.get_children("/")
    loaded = json.loads(run("snapshot", "load", file, "--zookeeper", connect, "--json").stdout)
    refused = run("snapshot", "load", file, "--zookeeper", connect, "--json")

    assert {key: saved[key] for key in shown} == shown
    assert (saved["file"], saved["bytes"], saved["groups"][name]["offsets"]) == (file, Path(file).stat().st_size, 3)
    assert (dry["loaded"], before, dry | {"loaded": True}) == (False, [], loaded)
    assert (loaded["groups"], loaded["offsets"], loaded["refused"]) == ([name], 3, [])
    assert (refused.code, json.loads(refused.stdout)["loaded"]) == (1, False)
    assert f"group {name} exists" in json.loads(refused.stdout)["refused"]


def test_a_tree_is_told_as_json(run: Run, empty: KazooClient, connect: str) -> None:
    """Text as it is, other bytes as base64, and whose a node is."""
    empty.create("/a/b", b"text", makepath=True)
    empty.create("/a/c", b"\xff")
    empty.create("/a/d", b"", ephemeral=True)

    ours = run("tree", "/a", "--zookeeper", connect, "--json")

    session, _ = empty.client_id
    assert json.loads(ours.stdout) == [
        {"path": "/a", "version": 0},
        {"path": "/a/b", "data": "text", "version": 0},
        {"path": "/a/c", "base64": "/w==", "version": 0},
        {"path": "/a/d", "version": 0, "session": f"0x{session:x}"},
    ]


def test_show_counts_what_a_file_holds(run: Run, consumed: Consumed, saved: Path) -> None:
    shown = run("snapshot", "show", str(saved))
    facts: dict[str, Any] = json.loads(run("snapshot", "show", str(saved), "--json").stdout)

    assert f"  {consumed.group.name}  1 members, 3 owners, 3 offsets\n" in shown.stdout
    assert facts["groups"] == {consumed.group.name: {"members": 1, "owners": 3, "offsets": 3}}
    assert facts["topics"][consumed.topic] == 3


def test_partitions_are_spread_over_the_brokers_there_are() -> None:
    """As many replicas as before, at most one a broker; settings that every release has."""
    nodes = {
        "/brokers/topics/orders": b'{"version":1,"partitions":{"0":[11,12,13],"1":[12,13,11],"2":[13]}}',
        "/config/topics/orders": b'{"version":1,"config":{"retention.ms":"1000","min.insync.replicas":"2"}}',
        "/brokers/topics/__consumer_offsets": b'{"version":1,"partitions":{"0":[11]}}',
    }
    snapshot = Snapshot("x", "", "", {path: Node(path, data) for path, data in nodes.items()})

    plan = plan_load(snapshot, Target("y", {4: "a:1", 7: "b:1"}, {}, {}), Wishes())

    assert plan.topics == {"orders": {0: [4, 7], 1: [7, 4], 2: [4]}} or plan.topics == {
        "orders": {0: [7, 4], 1: [4, 7], 2: [7]}
    }
    assert plan.settings == {"orders": {"retention.ms": "1000"}}
    assert plan.left_out == [
        "settings of topic orders that not every release has: min.insync.replicas",
        "topic __consumer_offsets: brokers make their own",
    ]
