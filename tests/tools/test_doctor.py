"""Trees made by hand, a fault in each, and a healthy group of real consumers, of which nothing is to be said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from kazoo.client import KazooClient

from fetcher.admin import BrokerConnections, parse_bootstrap
from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from tests.conformance.group import Group, fresh
from tests.tools.conftest import Consumed, Run
from zkconsumer.commands.common import delete_subtree
from zkconsumer.groups.kafka_group import KafkaGroups
from zkconsumer.snapshots.files import read_snapshot
from zkconsumer.snapshots.holding import HeldMembers
from zkconsumer.snapshots.loading import Wishes, by_session, carry_out, plan_load, read_target, without_leader
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.waiting import eventually
from zkconsumer.zookeeper import ZooKeeper

VECTORS = Path(__file__).parents[1] / "vectors" / "foreign-members"


class Tree:
    """A group as a healthy one looks: two members, an ephemeral node each, three partitions, offsets within the log."""

    def __init__(self, group: Group, topic: str) -> None:
        self.group, self.topic = group, topic
        self.members = {name: self.registration({topic: 1}) for name in ("a", "b")}
        self.owners = {0: f"{group.name}_a-0", 1: f"{group.name}_a-0", 2: f"{group.name}_b-0"}
        self.offsets = {0: "3", 1: "0", 2: "0"}
        self.persistent: set[str] = set()

    def registration(self, subscription: dict[str, int], pattern: str = "static", **more: object) -> str:
        content = {"version": 1, "subscription": subscription, "pattern": pattern, "timestamp": "1794980898565", **more}
        return json.dumps(content)

    def write(self) -> None:
        client, path = self.group.client, self.group.path
        for name, text in self.members.items():
            node = f"{path}/ids/{self.group.name}_{name}"
            client.create(node, text.encode(), ephemeral=name not in self.persistent, makepath=True)
        for partition, text in self.owners.items():
            client.create(f"{path}/owners/{self.topic}/{partition}", text.encode(), ephemeral=True, makepath=True)
        for partition, text in self.offsets.items():
            client.create(f"{path}/offsets/{self.topic}/{partition}", text.encode(), makepath=True)

    def remove(self) -> None:
        self.group.client.delete(self.group.path, recursive=True)


def numeric_timestamp(tree: Tree) -> None:
    tree.members["b"] = tree.registration({tree.topic: 1}, timestamp=1794980898565)


def pykafka(tree: Tree) -> None:
    tree.members["b"] = tree.topic


def no_pattern(tree: Tree) -> None:
    tree.members["b"] = json.dumps({"version": 1, "subscription": {tree.topic: 1}})


def kafka_node(tree: Tree) -> None:
    tree.members["b"] = tree.registration({tree.topic: 1, "another": 1}, "white_list")


def no_streams(tree: Tree) -> None:
    tree.members["b"] = tree.registration({tree.topic: 0})


def left_for_ever(tree: Tree) -> None:
    tree.persistent.add("b")


def dead_owner(tree: Tree) -> None:
    tree.owners[2] = f"{tree.group.name}_gone-0"


def foreign_owner(tree: Tree) -> None:
    tree.owners[2] = "host:8d5a"


def owner_without_subscription(tree: Tree) -> None:
    tree.owners[2] = f"{tree.group.name}_b-7"


def no_owner(tree: Tree) -> None:
    del tree.owners[1]


def other_owner(tree: Tree) -> None:
    tree.owners[1] = f"{tree.group.name}_b-0"


def beyond_the_log(tree: Tree) -> None:
    tree.offsets[0] = "4"


def no_number(tree: Tree) -> None:
    tree.offsets[0] = "abc"


def no_partition(tree: Tree) -> None:
    tree.offsets[9] = "0"


def no_fault(tree: Tree) -> None:
    """The tree as it is."""


FAULTS: dict[Callable[[Tree], None], tuple[set[str], str]] = {
    no_fault: (set(), ""),
    numeric_timestamp: ({"registration-number-too-large"}, "ids/{group}_b"),
    pykafka: ({"registration-unreadable"}, "ids/{group}_b"),
    no_pattern: ({"registration-unreadable"}, "ids/{group}_b"),
    kafka_node: ({"registration-many-patterns"}, "ids/{group}_b"),
    no_streams: ({"registration-unreadable"}, "ids/{group}_b"),
    left_for_ever: ({"member-never-leaves", "owner-of-another-session"}, "ids/{group}_b"),
    dead_owner: ({"owner-not-a-member"}, "owners/{topic}/2"),
    foreign_owner: ({"owner-no-thread"}, "owners/{topic}/2"),
    owner_without_subscription: ({"owner-not-subscribed", "owner-differs"}, "owners/{topic}/2"),
    no_owner: ({"partition-without-owner"}, "owners/{topic}/1"),
    other_owner: ({"owner-differs"}, "owners/{topic}/1"),
    beyond_the_log: ({"offset-beyond-log"}, "offsets/{topic}/0"),
    no_number: ({"offset-unreadable"}, "offsets/{topic}/0"),
    no_partition: ({"offset-of-no-partition"}, "offsets/{topic}/9"),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_fault_is_found_and_nothing_else(
    run: Run, consumed: Consumed, group: Group, fault: Callable[[Tree], None]
) -> None:
    """With the node, a reason, what to do, and exit code 3; the tree without a fault gives none, and 0."""
    tree = Tree(group, consumed.topic)
    fault(tree)
    tree.write()
    try:
        ours = run("doctor", "--zookeeper", consumed.kafka.zookeeper_connect, "--group", group.name, "--json")
    finally:
        tree.remove()

    findings = json.loads(ours.stdout)
    expected, where = FAULTS[fault]
    assert {finding["fault"] for finding in findings} == expected
    assert ours.code == (3 if expected else 0)
    if expected:
        assert findings[0]["path"] == f"{group.path}/{where}".format(group=group.name, topic=consumed.topic)
        assert all(finding["reason"] and finding["advice"] and finding["group"] == group.name for finding in findings)


def test_other_numbers_of_streams_under_round_robin(run: Run, consumed: Consumed, group: Group) -> None:
    """Topics with other numbers of streams: a fault under round robin, and none under range."""
    tree = Tree(group, consumed.topic)
    tree.members["a"] = tree.registration({consumed.topic: 1, "another": 2})
    tree.members["b"] = tree.registration({consumed.topic: 1, "another": 2})
    tree.write()
    where = ("doctor", "--zookeeper", consumed.kafka.zookeeper_connect, "--group", group.name, "--json")
    try:
        by_range = run(*where)
        by_round_robin = run(*where, "--partition.assignment.strategy", "roundrobin")
    finally:
        tree.remove()

    assert json.loads(by_range.stdout) == []
    assert [finding["fault"] for finding in json.loads(by_round_robin.stdout)] == ["round-robin-differs"]


def test_retries_that_end_before_a_session_does(run: Run, consumed: Consumed, tmp_path: Path) -> None:
    """From the members' settings: 4 x 2000 ms are enough for a session of 6 s, 2 x 1000 ms are not."""
    file = tmp_path / "consumer.properties"
    where = ("doctor", "--zookeeper", consumed.kafka.zookeeper_connect, "--group", consumed.group.name)

    file.write_text("group.id=g\n")
    enough = run(*where, "--consumer.config", str(file), "--json")
    file.write_text("rebalance.max.retries=2\nrebalance.backoff.ms=1000\n")
    short = run(*where, "--consumer.config", str(file), "--json")

    assert (enough.code, json.loads(enough.stdout)) == (0, [])
    assert [finding["fault"] for finding in json.loads(short.stdout)] == ["session-outlasts-retries"]


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
@pytest.mark.parametrize("release", ["0.8.2.2", "1.1.1"])
def test_a_group_of_real_members_is_healthy(
    run: Run, kafka_of: Callable[[str], KafkaCluster], release: Literal["0.8.2.2", "1.1.1"], storage: str
) -> None:
    """Two real Scala consumers of each release beside its broker, offsets in either store: what the screen says."""
    kafka, topic = kafka_of(release), fresh("t")
    kafka.create_topic(topic, partitions=3)
    kafka.produce(topic, [b"a", b"b"], partition=0)
    where = kafka.zookeeper_connect
    properties = {"offsets.storage": storage, "dual.commit.enabled": "false", "auto.offset.reset": "smallest"}
    client = KazooClient(where, timeout=60)
    client.start()
    group = Group(client, fresh("healthy"))
    try:
        with (
            ScalaConsumer(
                where, group.name, {topic: 2}, version=release, consumer_id="c1", properties=properties
            ) as first,
            ScalaConsumer(where, group.name, {topic: 1}, version=release, consumer_id="c2", properties=properties),
        ):
            owners = {0: f"{group.name}_c1-0", 1: f"{group.name}_c1-1", 2: f"{group.name}_c2-0"}
            eventually(lambda: group.owners(topic) == owners, timeout_s=60)
            first.wait_until_delivered(2)
            first.commit_offsets()
            ours = run("doctor", "--zookeeper", where, "--group", group.name)
            in_zookeeper = group.offsets(topic)
    finally:
        client.stop()
        client.close()

    assert (ours.stdout, ours.code) == (f"{group.name}: nothing is wrong\n", 0)
    assert bool(in_zookeeper) == (storage == "zookeeper")


def test_offsets_in_kafka_are_compared_with_the_log_too(
    run: Run, kafka_1_1: KafkaCluster, client_1_1: KazooClient
) -> None:
    """Of a group with offsets.storage=kafka: one beyond the log, one behind retention, one that is the same in both."""
    group, topic = Group(client_1_1, fresh("stored")), fresh("t")
    kafka_1_1.create_topic(topic, partitions=3)
    kafka_1_1.produce(topic, [b"a", b"b", b"c"], partition=0)
    kafka_1_1.produce(topic, [b"a", b"b", b"c"], partition=1)
    kafka_1_1.delete_records(topic, before={1: 2})
    tree = Tree(group, topic)
    tree.offsets = {2: "7"}
    tree.write()
    with BrokerConnections() as connections:
        offsets = {TopicAndPartition(topic, number): OffsetAndMetadata(one) for number, one in enumerate((4, 1, 7))}
        KafkaGroups(connections, parse_bootstrap(kafka_1_1.bootstrap_servers)).commit(group.name, offsets)

    ours = run("doctor", "--zookeeper", kafka_1_1.zookeeper_connect, "--group", group.name, "--json")
    tree.remove()

    assert [(one["fault"], one["path"]) for one in json.loads(ours.stdout)] == [
        ("offset-beyond-log", f"{group.path}/offsets/{topic}/2"),
        ("offset-beyond-log", f"__consumer_offsets [{group.name},{topic},0]"),
        ("offset-behind-retention", f"__consumer_offsets [{group.name},{topic},1]"),
    ]


def test_offsets_behind_retention_and_groups_in_both_worlds(
    run: Run, kafka_1_1: KafkaCluster, client_1_1: KazooClient
) -> None:
    """On a broker that can delete records, with a new consumer in a group of the same name."""
    from kafka import KafkaConsumer

    group, topic = Group(client_1_1, fresh("both")), fresh("t")
    kafka_1_1.create_topic(topic, partitions=1)
    kafka_1_1.produce(topic, [b"a", b"b", b"c"], partition=0)
    kafka_1_1.delete_records(topic, before={0: 2})
    tree = Tree(group, topic)
    tree.owners, tree.offsets = {0: f"{group.name}_a-0"}, {0: "1"}
    tree.write()
    consumer = KafkaConsumer(
        topic, group_id=group.name, bootstrap_servers=kafka_1_1.bootstrap_servers, auto_offset_reset="earliest"
    )
    try:
        # Not in small slices: with those kafka-python may never get through with joining on a busy machine.
        eventually(lambda: bool(consumer.poll(timeout_ms=5000)), "the new consumer reads", timeout_s=120)
        consumer.commit()
        ours = run("doctor", "--zookeeper", kafka_1_1.zookeeper_connect, "--group", group.name, "--json")
    finally:
        consumer.close()
        tree.remove()

    assert {finding["fault"] for finding in json.loads(ours.stdout)} == {
        "offset-behind-retention", "members-in-both-worlds", "offsets-in-both-worlds",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("client", "faults"),
    [
        ("pykafka", {"registration-unreadable": "as pykafka writes its topic", "strange-node": "pykafka"}),
        ("kafka-node", {"registration-many-patterns": "kafka-node", "owner-no-thread": "foreign client"}),
    ],
)
def test_what_foreign_clients_really_wrote_is_known(
    run: Run, consumed: Consumed, client: str, faults: dict[str, str]
) -> None:
    """Recorded beside a real broker, put back beside another one."""
    snapshot = read_snapshot(VECTORS / f"{client}.json")
    where = consumed.kafka.zookeeper_connect
    with ZooKeeper(where, session_timeout_ms=30_000, connection_timeout_ms=30_000) as zookeeper:
        wishes = Wishes(overwrite=True, with_members=True, restart_offsets=True)
        plan = plan_load(snapshot, read_target(zookeeper, where), wishes)
        carry_out(plan, zookeeper)
        eventually(lambda: not without_leader(plan, zookeeper), "leaders")
        with HeldMembers(where, by_session(plan.members), timeout_ms=30_000):
            ours = run("doctor", "--zookeeper", where, "--group", client, "--json")
        delete_subtree(zookeeper, f"/consumers/{client}")

    findings = json.loads(ours.stdout)
    assert ours.code == 3
    assert {one["fault"] for one in findings} == set(faults)
    assert all(faults[one["fault"]] in one["reason"] for one in findings)


def test_nodes_of_brokers_and_topics_that_nobody_can_read(run: Run, empty: KazooClient, connect: str) -> None:
    """Each is a finding; the offsets of the other topic are looked at all the same."""
    for path, data in {
        "/brokers/ids/1": "nonsense", "/brokers/topics/broken": '{"partitions":{"x":[1]}}',
        "/brokers/topics/orders": '{"version":1,"partitions":{"0":[1]}}', "/consumers/g/offsets/broken/0": "1",
        "/consumers/g/offsets/orders/0": "abc",
    }.items():  # fmt: skip
        empty.create(path, data.encode(), makepath=True)

    ours = run("doctor", "--zookeeper", connect, "--json")

    assert [(one["fault"], one["path"]) for one in json.loads(ours.stdout)] == [
        ("offset-unreadable", "/consumers/g/offsets/orders/0"),
        ("node-unreadable", "/brokers/topics/broken"),
        ("node-unreadable", "/brokers/ids/1"),
        ("no-brokers", "/brokers/ids"),
        ("offset-of-no-partition", "/consumers/g/offsets/broken/0"),
    ]


def test_a_partition_without_leader(run: Run, consumed: Consumed, empty: KazooClient, connect: str) -> None:
    """Beside a broker that lives: the partition's `state` node names none."""
    registration = consumed.group.client.get("/brokers/ids/0")[0]
    for path, data in {
        "/brokers/ids/0": registration, "/brokers/topics/orders": b'{"version":1,"partitions":{"0":[1]}}',
        "/brokers/topics/orders/partitions/0/state": b'{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":1,'
        b'"isr":[1]}', "/consumers/g/offsets/orders/0": b"1",
    }.items():  # fmt: skip
        empty.create(path, data, makepath=True)

    ours = run("doctor", "--zookeeper", connect, "--json")

    [finding] = json.loads(ours.stdout)
    assert (ours.code, finding["fault"]) == (3, "partition-without-leader")
    assert finding["path"] == "/brokers/topics/orders/partitions/0/state"


def test_a_group_that_is_not_there_is_no_healthy_one(run: Run, consumed: Consumed) -> None:
    ours = run("doctor", "--zookeeper", consumed.kafka.zookeeper_connect, "--group", "nogroup")

    assert (ours.code, ours.stdout) == (1, "")
    assert "there is no group nogroup in ZooKeeper" in ours.stderr
