"""The 0.8 tools next to their originals: the same servers, the same arguments, the same bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.broker.command_process import run_command
from tests.broker.members import Member
from tests.conformance.group import Group, fresh
from tests.tools.conftest import Consumed, Run
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.tools import (
    consumer_offset_checker,
    export_zk_offsets,
    import_zk_offsets,
    run_tool,
    verify_consumer_rebalance,
)
from zkconsumer.testing.waiting import eventually

SUCCESSFUL, FAILED = "Rebalance operation successful !\n", "Rebalance operation failed !\n"


def nothing_stored(consumed: Consumed) -> list[str]:
    """Arguments for a group with an offset directory but one offset missing."""
    group = Group(consumed.group.client, fresh("holes"))
    group.put(f"offsets/{consumed.topic}/0", "2")
    group.put(f"offsets/{consumed.topic}/1", "-1")
    return ["--group", group.name, "--topic", consumed.topic]


def no_directory(consumed: Consumed) -> list[str]:
    topic = fresh("single")
    consumed.kafka.create_topic(topic, partitions=1)
    return ["--group", fresh("nobody"), "--topic", topic]


CHECKED: dict[str, Callable[[Consumed], list[str]]] = {
    "a live group": lambda consumed: ["--group", consumed.group.name, "--broker-info"],
    "offsets missing": nothing_stored,
    "no offset directory": no_directory,
    "unknown group": lambda consumed: ["--group", "nogroup"],
    "unknown topic": lambda consumed: ["--group", consumed.group.name, "--topic", "no-such-topic"],
}


@pytest.mark.parametrize("case", CHECKED)
def test_the_offset_checker_prints_what_the_original_prints(run: Run, consumed: Consumed, case: str) -> None:
    """N1, N2: header, rows, brokers and the line it ends with, byte for byte; exit code 0 in all cases."""
    arguments = ["--zookeeper", consumed.kafka.zookeeper_connect, *CHECKED[case](consumed)]

    original = run_tool("0.8.2.2", "kafka.tools.ConsumerOffsetChecker", *arguments)
    ours = run("offset-checker", *arguments)

    assert (ours.stdout, ours.code) == (original.stdout, original.exit_code)
    assert ours.stderr == ""


def test_the_offset_checker_wants_its_group_named(run: Run) -> None:
    """As the original has it: the first line of standard error, and exit code 1."""
    ours = run("offset-checker", "--zookeeper", "127.0.0.1:1")

    assert (ours.code, ours.stderr.splitlines()[0]) == (1, 'Missing required argument "[group]"')


@pytest.mark.parametrize(
    ("command", "original"),
    [
        ("offset-checker", "ConsumerOffsetChecker"), ("verify-rebalance", "VerifyConsumerRebalance"),
        ("export-zk-offsets", "ExportZkOffsets"), ("import-zk-offsets", "ImportZkOffsets"),
        ("update-offsets-in-zk", "UpdateOffsetsInZK"), ("get-offset-shell", "GetOffsetShell"),
    ],
)  # fmt: skip
def test_a_tool_asked_for_nothing_says_what_it_is(run: Run, command: str, original: str) -> None:
    """In the original's words, where it has them, and with its exit code; then comes the usage."""
    theirs = run_tool("0.8.2.2", f"kafka.tools.{original}")
    ours = run(command)

    assert (ours.code, theirs.exit_code) == (1, 1)
    assert ours.stdout == theirs.stdout
    assert ours.stderr.splitlines()[:1] == theirs.stderr.splitlines()[:1]


def test_the_verdict_is_that_of_1_1_1(run: Run, consumed: Consumed) -> None:
    """N3: balanced, one owner missing, a foreign owner, no members; details as error lines."""
    client, topic = consumed.group.client, consumed.topic
    where = ("--zookeeper.connect", consumed.kafka.zookeeper_connect, "--group")
    registration = client.get(f"{consumed.group.path}/ids/{consumed.group.name}_c1")[0].decode()
    verdicts = {}
    for case, owners in {
        "balanced": {0: "{}_c1-0", 1: "{}_c1-0", 2: "{}_c1-0"},
        "one missing": {0: "{}_c1-0", 2: "{}_c1-0"},
        "foreign": {0: "{}_c1-0", 1: "stranger-0", 2: "{}_c1-0"},
        "no members": {},
    }.items():
        group = Group(client, fresh("verified"))
        if owners:
            group.put(f"ids/{group.name}_c1", registration)
        for partition, owner in owners.items():
            group.put(f"owners/{topic}/{partition}", owner.format(group.name))
        ours = run("verify-rebalance", *where, group.name, "--exit-code")
        theirs = verify_consumer_rebalance(consumed.kafka.zookeeper_connect, group.name).stdout
        verdicts[case] = (ours.stdout, ours.code, theirs)
        assert ours.stdout == theirs, case
    live = run("verify-rebalance", *where, consumed.group.name)

    assert {case: code for case, (_, code, _) in verdicts.items()} == {
        "balanced": 0, "one missing": 1, "foreign": 1, "no members": 0,
    }  # fmt: skip
    assert (live.stdout, live.code, live.stderr) == (SUCCESSFUL, 0, "")


def test_a_balanced_group_is_found_balanced_where_0_8_2_2_finds_it_failed(run: Run, consumed: Consumed) -> None:
    """N4: the original's own verdict is no oracle (KAFKA-3952); ours is what was meant."""
    where = consumed.kafka.zookeeper_connect

    original = verify_consumer_rebalance(where, consumed.group.name, version="0.8.2.2")
    ours = run("verify-rebalance", "--zookeeper", where, "--group", consumed.group.name, "--exit-code")

    assert (original.stdout, original.exit_code) == (FAILED, 0)
    assert (ours.stdout, ours.code) == (SUCCESSFUL, 0)


def test_the_reason_of_a_failed_verdict_is_told(run: Run, consumed: Consumed, caplog: pytest.LogCaptureFixture) -> None:
    """In 0.8's words; the exit code stays 0 unless asked for."""
    group = Group(consumed.group.client, fresh("verified"))
    group.put(f"ids/{group.name}_c1", f'{{"version":1,"subscription":{{"{consumed.topic}":1}},"pattern":"static"}}')

    ours = run("verify-rebalance", "--zookeeper", consumed.kafka.zookeeper_connect, "--group", group.name)

    assert (ours.stdout, ours.code) == (FAILED, 0)
    assert f"No owners for any partitions for topic {consumed.topic}" in caplog.messages


def test_a_group_begins_where_the_import_put_it(run: Run, consumed: Consumed, tmp_path: Path) -> None:
    """N7: behind the first two records of partition 0, and at the beginning of the others."""
    where, name, file = consumed.kafka.zookeeper_connect, fresh("imported"), tmp_path / "offsets"
    file.write_text(f"/consumers/{name}/offsets/{consumed.topic}/0:2\n")
    assert run("import-zk-offsets", "--zkconnect", where, "--input-file", str(file)) == (0, "", "")
    member = Member(where, name, "c1", {consumed.topic: 1})
    try:
        member.join()
        eventually(lambda: {record.partition for record in member.records} >= {0, 1}, "records of both")
    finally:
        member.shutdown()

    first = {number: min(r.offset for r in member.records if r.partition == number) for number in (0, 1)}
    assert first == {0: 2, 1: 0}


def test_offsets_go_both_ways_between_ours_and_theirs(run: Run, consumed: Consumed, tmp_path: Path) -> None:
    """N5, N6: our export is theirs, their export is read by our import, ours by theirs; an empty line ends it."""
    where, name = consumed.kafka.zookeeper_connect, consumed.group.name
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"

    export_zk_offsets(where, theirs, [name])
    exported = run("export-zk-offsets", "--zkconnect", where, "--group", name, "--output-file", str(ours))

    assert exported == (0, "", "")
    assert sorted(ours.read_text().splitlines()) == sorted(theirs.read_text().splitlines())
    assert len(ours.read_text().splitlines()) == 3

    by_us, by_them = Group(consumed.group.client, fresh("by-us")), Group(consumed.group.client, fresh("by-them"))
    for file, group in ((theirs, by_us), (ours, by_them)):
        first, second, third = sorted(file.read_text().replace(name, group.name).splitlines())
        file.write_text(f"{first}\n{second}1\n\n{third}\n")
    assert run("import-zk-offsets", "--zkconnect", where, "--input-file", str(theirs)) == (0, "", "")
    import_zk_offsets(where, ours)

    assert by_us.offsets(consumed.topic) == by_them.offsets(consumed.topic) == {0: "3", 1: "21"}


def test_a_line_that_is_no_offset_is_named_before_anything_is_written(
    run: Run, consumed: Consumed, group: Group, tmp_path: Path
) -> None:
    file = tmp_path / "offsets"
    file.write_text(f"{group.path}/offsets/t/0:5\nnonsense\n")

    ours = run("import-zk-offsets", "--zkconnect", consumed.kafka.zookeeper_connect, "--input-file", str(file))

    assert ours.code == 1
    assert ours.stderr == (
        f"zkconsumer import-zk-offsets: {file}, line 2: 'nonsense' is no offset; "
        "it should be /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET\n"
    )
    assert group.offsets("t") == {}


def test_exporting_a_group_without_offsets_fails_in_one_line(run: Run, consumed: Consumed, tmp_path: Path) -> None:
    ours = run("export-zk-offsets", "--zkconnect", consumed.kafka.zookeeper_connect, "--group", "nogroup",
               "--output-file", str(tmp_path / "file"))  # fmt: skip

    assert ours.code == 1
    assert re.search("/consumers/nogroup/offsets does not exist", ours.stderr)


def test_an_export_that_fails_leaves_the_file_of_before(run: Run, consumed: Consumed, tmp_path: Path) -> None:
    """No such server, no such group, and a disk that is full: each is told in a line that names it."""
    file, full = tmp_path / "offsets", tmp_path / "full"
    file.write_text("/consumers/g/offsets/t/0:1\n")
    full.symlink_to("/dev/full")
    where = ("export-zk-offsets", "--zkconnect", consumed.kafka.zookeeper_connect)

    unknown = run(*where, "--group", "nogroup", "--output-file", str(file))
    nowhere = run(*where, "--output-file", str(tmp_path / "none" / "offsets"))
    no_room = run(*where, "--output-file", str(full))
    unreachable = run("export-zk-offsets", "--zkconnect", "127.0.0.1:1/a b", "--output-file", str(file))

    assert [one.code for one in (unknown, nowhere, no_room, unreachable)] == [1, 1, 1, 1]
    assert [one.stderr.count("\n") for one in (unknown, nowhere, no_room, unreachable)] == [1, 1, 1, 1]
    assert no_room.stderr == f"zkconsumer export-zk-offsets: {full}: No space left on device\n"
    assert file.read_text() == "/consumers/g/offsets/t/0:1\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "offsets"]


def test_offsets_are_updated_as_the_original_does(
    run: Run, consumed: Consumed, client_0_8: KazooClient, tmp_path: Path
) -> None:
    """N8: the same lines, the same nodes; an unknown topic counts 0; wrong usage is told on standard output."""
    groups = {"theirs": Group(client_0_8, fresh("theirs")), "ours": Group(client_0_8, fresh("ours"))}
    files = {}
    for who, group in groups.items():
        files[who] = tmp_path / who
        files[who].write_text(f"group.id={group.name}\nzookeeper.connect={consumed.kafka.zookeeper_connect}\n")

    for words, expected in {
        ("latest", consumed.topic): {0: "3", 1: "2", 2: "0"},
        ("earliest", consumed.topic): {0: "0", 1: "0", 2: "0"},
        ("earliest", "no-such-topic"): {},
        ("sideways", consumed.topic): {0: "0", 1: "0", 2: "0"},
        ("latest",): {},
    }.items():
        how, topic = words[0], words[1:]
        theirs = run_tool("0.8.2.2", "kafka.tools.UpdateOffsetsInZK", how, str(files["theirs"]), *topic)
        ours = run("update-offsets-in-zk", how, str(files["ours"]), *topic)

        assert (ours.stdout, ours.code, ours.stderr) == (theirs.stdout, theirs.exit_code, ""), words
        for name in topic:
            assert groups["ours"].offsets(name) == groups["theirs"].offsets(name) == expected, words
    assert theirs.stdout.startswith("USAGE: kafka.tools.UpdateOffsetsInZK$ ")


@pytest.mark.parametrize(
    "extra", [["--time", "-1"], ["--time", "-2", "--partitions", "1,0"], ["--time", "-1", "--offsets", "2"]]
)
def test_the_offset_shell_prints_what_the_original_prints(
    run: Run, consumed: Consumed, kafka_0_8: KafkaCluster, extra: list[str]
) -> None:
    arguments = ["--broker-list", kafka_0_8.bootstrap_servers, "--topic", consumed.topic, *extra]

    theirs = run_tool("0.8.2.2", "kafka.tools.GetOffsetShell", *arguments)
    ours = run("get-offset-shell", *arguments)

    assert sorted(ours.stdout.splitlines()) == sorted(theirs.stdout.splitlines())
    assert len(ours.stdout.splitlines()) == (2 if "--partitions" in extra else 3)
    assert ours.code == theirs.exit_code == 0


def test_json_says_what_the_tables_say(run: Run, consumed: Consumed, kafka_0_8: KafkaCluster) -> None:
    """Nothing else on standard output, also when there is nothing to say."""
    where, name = consumed.kafka.zookeeper_connect, consumed.group.name

    checked = run("offset-checker", "--zookeeper", where, "--group", name, "--json")
    unknown = run("offset-checker", "--zookeeper", where, "--group", "nogroup", "--json")
    verified = run("verify-rebalance", "--zookeeper", where, "--group", name, "--json")
    ends = run("get-offset-shell", "--broker-list", kafka_0_8.bootstrap_servers, "--topic", consumed.topic,
               "--time", "-1", "--json")  # fmt: skip

    owner = f"{name}_c1-0"
    assert json.loads(checked.stdout) == [
        {"topic": consumed.topic, "partition": number, "offset": end, "log_size": end, "lag": 0, "owner": owner}
        for number, end in enumerate((3, 2, 0))
    ]
    assert (unknown.code, unknown.stdout, "NoNode for /consumers/nogroup/owners" in unknown.stderr) == (1, "", True)
    assert json.loads(verified.stdout) == {"group": name, "balanced": True, "errors": []}
    assert [row["offsets"] for row in json.loads(ends.stdout)] == [[3], [2], [0]]


def test_what_is_written_is_told_as_json(run: Run, consumed: Consumed, tmp_path: Path) -> None:
    """Export, import and update: the file is the same as without, and standard output has nothing but the rows."""
    where, name, topic = consumed.kafka.zookeeper_connect, consumed.group.name, consumed.topic
    file, plain, settings = tmp_path / "offsets", tmp_path / "plain", tmp_path / "consumer.properties"
    copy = Group(consumed.group.client, fresh("copy"))
    settings.write_text(f"group.id={copy.name}\nzookeeper.connect={where}\n")
    export = ("export-zk-offsets", "--zkconnect", where, "--group", name)

    assert run(*export, "--output-file", str(plain)) == (0, "", "")
    exported = run(*export, "--output-file", str(file), "--json")
    without_file = run(*export, "--json")
    file.write_text(plain.read_text().replace(name, copy.name))
    imported = run("import-zk-offsets", "--zkconnect", where, "--input-file", str(file), "--json")
    after_import = copy.offsets(topic)
    updated = run("update-offsets-in-zk", "earliest", str(settings), topic, "--json")
    unknown = run("update-offsets-in-zk", "latest", str(settings), "no-such-topic", "--json")

    rows = [{"topic": topic, "partition": number, "offset": end} for number, end in enumerate((3, 2, 0))]
    assert exported == without_file
    assert json.loads(exported.stdout) == [{"group": name, **row} for row in rows]
    assert {row["path"]: row["value"] for row in json.loads(imported.stdout)} == {
        f"{copy.path}/offsets/{topic}/{number}": str(end) for number, end in enumerate((3, 2, 0))
    }
    assert after_import == {0: "3", 1: "2", 2: "0"}
    assert json.loads(updated.stdout) == [{"group": copy.name, **row, "offset": 0} for row in rows]
    assert copy.offsets(topic) == {0: "0", 1: "0", 2: "0"}
    assert (unknown.code, json.loads(unknown.stdout)) == (0, [])


def test_servers_may_stand_in_a_file(
    run: Run, consumed: Consumed, kafka_0_8: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an option, or of the environment; what is given counts more."""
    file, name = tmp_path / "servers.properties", consumed.group.name
    servers = f"zookeeper.connect={consumed.kafka.zookeeper_connect}\nbootstrap.servers={kafka_0_8.bootstrap_servers}\n"
    file.write_text(servers)
    offsets = tmp_path / "offsets"
    commands = [
        ["offset-checker", "--group", name],
        ["verify-rebalance", "--group", name],
        ["export-zk-offsets", "--group", name, "--output-file", str(offsets)],
        ["import-zk-offsets", "--input-file", str(offsets)],
        ["get-offset-shell", "--topic", consumed.topic, "--time", "-1"],
        ["tree", "/consumers"],
        ["groups", "list", "--zookeeper", consumed.kafka.zookeeper_connect, "--json"],
        ["offsets", "get", "--group", name],
        ["doctor", "--group", name],
        ["snapshot", "save", str(tmp_path / "saved"), "--group", name],
    ]

    for command in commands:
        # 0.8.2.2's broker cannot list groups, so `groups` gets its servers from options alone.
        told = run(*command, *([] if command[0] == "groups" else ["--config", str(file)]))
        assert told.code == 0, (command, told)
    consumed_one = run_command(
        tmp_path / "console", "console-consumer", "--topic", consumed.topic, "--from-beginning", "--max-messages", "1",
        "--config", str(file),
    )  # fmt: skip
    assert (consumed_one.exit_code, consumed_one.stdout.count(b"\n")) == (0, 1)
    monkeypatch.setenv("ZKCONSUMER_CONFIG", str(file))
    assert run("offset-checker", "--group", name).stdout.count(name) == 6
    file.write_text("zookeeper.connect=127.0.0.1:1\n")
    given = run("offset-checker", "--group", name, "--zookeeper", consumed.kafka.zookeeper_connect)
    assert given.stdout.count(name) == 6


def test_the_offset_checker_of_a_group_in_kafka(run: Run, consumed: Consumed, kafka_0_8: KafkaCluster) -> None:
    """N1: offsets that Kafka keeps come first, as the original has it."""
    from fetcher.admin import BrokerConnections, parse_bootstrap
    from fetcher.structs import OffsetAndMetadata, TopicAndPartition
    from zkconsumer.groups.kafka_group import KafkaGroups

    group = Group(consumed.group.client, fresh("in-kafka"))
    group.put(f"offsets/{consumed.topic}/0", "1")
    group.put(f"offsets/{consumed.topic}/1", "1")
    with BrokerConnections() as connections:
        groups = KafkaGroups(connections, parse_bootstrap(kafka_0_8.bootstrap_servers))
        groups.commit(group.name, {TopicAndPartition(consumed.topic, 0): OffsetAndMetadata(2)}, version=1)

    theirs = consumer_offset_checker(consumed.kafka.zookeeper_connect, group.name, [consumed.topic])
    ours = run("offset-checker", "--zookeeper", consumed.kafka.zookeeper_connect, "--group", group.name,
               "--topic", consumed.topic)  # fmt: skip

    assert ours.stdout == theirs.stdout
    assert [line.split()[3] for line in ours.stdout.splitlines()[1:]] == ["2", "1", "-1"]
