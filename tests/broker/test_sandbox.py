"""`zkconsumer sandbox` and the commands on what it starts, as README and docs show them; each a child process."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.broker.command_process import CommandProcess, command, run_command
from zkconsumer.snapshots.files import Node, Snapshot, write_snapshot
from zkconsumer.testing.ports import ReservedPort
from zkconsumer.testing.programs import KAFKA_VERSIONS
from zkconsumer.testing.waiting import eventually

STARTS_WITHIN_S = 120.0
RECORDS = 500


class Sandbox:
    """One that has said that it runs."""

    def __init__(self, process: CommandProcess) -> None:
        self.process = process
        self.text = process.stdout().decode()

    def setting(self, key: str) -> str:
        [value] = re.findall(rf"^{re.escape(key)}=(.+)$", self.text, flags=re.MULTILINE)
        return str(value)


@contextmanager
def sandbox(directory: Path, *arguments: str) -> Iterator[Sandbox]:
    with command(directory, "sandbox", *arguments) as process:
        eventually(lambda: b"Ctrl-C stops" in process.stdout(), process.stderr, STARTS_WITHIN_S)
        yield Sandbox(process)


@pytest.mark.parametrize("version", KAFKA_VERSIONS)
def test_commands_read_what_a_sandbox_of_each_release_holds(tmp_path: Path, version: str) -> None:
    options = ("--kafka", version, "--topic", "orders:3", "--records", str(RECORDS))
    with sandbox(tmp_path / "sandbox", *options) as running:
        connect = running.setting("zookeeper.connect")
        source = ("--zookeeper", connect, "--topic", "orders")

        with command(tmp_path / "tree", "tree", "--zookeeper", connect) as shown:
            tree = shown.wait()
        number = str(RECORDS)
        with command(
            tmp_path / "console", "console-consumer", *source, "--from-beginning", "--max-messages", number
        ) as c:
            console = c.wait()
        with command(tmp_path / "perf", "consumer-perf", *source, "--threads", "1", "--messages", number) as p:
            perf = p.wait()
        with command(
            tmp_path / "verifiable", "verifiable-consumer", *source, "--group-id", "v", "--max-messages", number
        ) as v:
            verifiable = v.wait()
        ended = running.process.end(signal.SIGINT)

    assert tree.exit_code == 0 and b"orders" in tree.stdout
    assert console.exit_code == 0 and console.stdout.count(b"\n") == RECORDS, console.stderr
    assert perf.exit_code == 0 and perf.stdout.splitlines()[1].split(b", ")[5] == number.encode(), perf.stderr
    assert verifiable.exit_code == 0 and b'"name":"shutdown_complete"' in verifiable.stdout, verifiable.stderr
    assert ended.exit_code == 0 and "nothing is left behind" in ended.stdout.decode()


def test_three_brokers_are_told_and_gone_after_sigterm(tmp_path: Path) -> None:
    with sandbox(tmp_path, "--kafka", "0.8.2.2", "--brokers", "3") as running:
        client = KazooClient(running.setting("zookeeper.connect"))
        client.start()
        try:
            assert sorted(client.get_children("/brokers/ids")) == ["0", "1", "2"]
        finally:
            client.stop()
            client.close()
        assert running.setting("bootstrap.servers").count(",") == 2

        ended = running.process.end(signal.SIGTERM)

    assert ended.exit_code == 0
    address = running.setting("zookeeper.connect").partition("/")[0]
    ReservedPort(int(address.rpartition(":")[2])).close()  # raises if somebody still listens


def test_ctrl_c_while_it_starts_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = tmp_path / "servers"
    servers.mkdir()
    monkeypatch.setenv("TMPDIR", str(servers))

    with command(tmp_path / "command", "sandbox", "--kafka", "0.8.2.2") as process:
        eventually(lambda: any(one.is_dir() for one in servers.iterdir()), "a server's directory", STARTS_WITHIN_S)
        ended = process.end(signal.SIGINT)

    assert ended.exit_code == 0, ended.stderr
    assert list(servers.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--kafka", "0.8.9"), "kafka '0.8.9' is not a release this package can run: known are 0.8.2.2, 1.1.1, 3.9.1"),
        (("--brokers", "4"), "--brokers takes 0 to 3"),
        (("--topic", "orders:none"), "NAME:PARTITIONS, with a number of at least 1"),
    ],
    ids=["unknown release", "too many brokers", "no number of partitions"],
)
def test_bad_use_is_told_in_one_line(tmp_path: Path, arguments: tuple[str, ...], line: str) -> None:
    with command(tmp_path, "sandbox", *arguments) as process:
        ended = process.wait()

    assert ended.exit_code in (1, 2)
    assert line in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_taken_port_is_told_in_one_line(tmp_path: Path, zookeeper_server: object) -> None:
    from zkconsumer.testing.zookeeper import ZooKeeperServer

    assert isinstance(zookeeper_server, ZooKeeperServer)
    port = zookeeper_server.connect_string.rpartition(":")[2]

    with command(tmp_path, "sandbox", "--brokers", "0", "--zookeeper-port", port) as process:
        ended = process.wait()

    assert ended.exit_code == 1
    assert f"port {port} on 127.0.0.1 is in use" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_sandbox_with_a_snapshot_has_its_topics_groups_and_members(tmp_path: Path) -> None:
    """Kept alive while it runs, a member's nodes by one session. A file that is none ends it before servers start."""
    nodes = {
        "/brokers/topics/orders": b'{"version":1,"partitions":{"0":[11,12],"1":[12,11]}}',
        "/consumers/g/ids/g_c1": b'{"version":1,"subscription":{"orders":1},"pattern":"static","timestamp":"1"}',
        "/consumers/g/owners/orders/0": b"g_c1-0",
        "/consumers/g/owners/orders/1": b"g_c1-0",
        "/consumers/g/offsets/orders/0": b"1234",
    }
    held = {path: Node(path, data, session=7 if "/ids/" in path or "/owners/" in path else 0)
            for path, data in nodes.items()}  # fmt: skip
    file = tmp_path / "production.gz"
    write_snapshot(file, Snapshot("production:2181", "", "", held), compressed=True)

    with sandbox(tmp_path / "sandbox", "--snapshot", str(file)) as running:
        client = KazooClient(running.setting("zookeeper.connect"))
        client.start()
        try:
            data = {path: client.get(path)[0] for path in nodes}
            sessions = {client.exists(path).ephemeralOwner for path in nodes if held[path].session}
            state = json.loads(client.get("/brokers/topics/orders/partitions/1/state")[0])
        finally:
            client.stop()
            client.close()
        ended = running.process.end(signal.SIGINT)
    file.write_text("{}")
    refused = run_command(tmp_path / "refused", "sandbox", "--snapshot", str(file))

    of_group = [path for path in nodes if path.startswith("/consumers")]
    assert {path: data[path] for path in of_group} == {path: nodes[path] for path in of_group}
    assert json.loads(data["/brokers/topics/orders"])["partitions"] == {"0": [0], "1": [0]}
    assert (len(sessions), 0 in sessions, state["leader"]) == (1, False, 0)
    assert "members   1 registrations and 2 owners, kept alive while this runs" in running.text
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert (refused.exit_code, refused.stdout) == (1, b"")
    assert refused.stderr == f"zkconsumer sandbox: {file}, line 1: this is no snapshot of zkconsumer\n"
