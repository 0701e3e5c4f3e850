"""The real consumer as a child process: it does what the specification says, and tells all of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.conformance.group import Group, fresh
from zkconsumer.testing.errors import NotSupported, ServerStartError, UnknownVersion
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.plugin import ZooKeeperForOneTest
from zkconsumer.testing.ports import ReservedPort
from zkconsumer.testing.scala import ScalaConsumer, ScalaVersion
from zkconsumer.testing.scala_protocol import BeforeReleasingPartitions, BeforeStartingFetchers, JavaError
from zkconsumer.testing.waiting import eventually

Groups = Callable[[str], Group]

FROM_THE_START = {"auto.offset.reset": "smallest", "rebalance.backoff.ms": "500"}


class Pair:
    """Two members with two streams each of a topic with five partitions; the second one's streams time out."""

    def __init__(self, group: Group, topic: str, first: ScalaConsumer, second: ScalaConsumer) -> None:
        self.group = group
        self.topic = topic
        self.first = first
        self.second = second


@pytest.fixture(scope="module")
def pair(kafka_0_8: KafkaCluster, group_0_8: Groups) -> Iterator[Pair]:
    topic, group = fresh("topic"), group_0_8(fresh("group"))
    kafka_0_8.create_topic(topic, partitions=5)
    where = kafka_0_8.zookeeper_connect
    with (
        ScalaConsumer(where, group.name, {topic: 2}, consumer_id="C1", properties=FROM_THE_START) as first,
        ScalaConsumer(
            where,
            group.name,
            {topic: 2},
            consumer_id="C2",
            properties={**FROM_THE_START, "consumer.timeout.ms": "100"},
        ) as second,
    ):
        eventually(lambda: len(set(group.owners(topic).values())) == 4, f"four owners of {topic}")
        yield Pair(group, topic, first, second)


@pytest.mark.parametrize("version", ["0.8.2.2", "1.1.1"])
def test_every_message_is_told_exactly_once_with_all_it_has(
    version: ScalaVersion, kafka_0_8: KafkaCluster, kafka_1_1: KafkaCluster
) -> None:
    kafka = kafka_0_8 if version == "0.8.2.2" else kafka_1_1
    topic = fresh("topic")
    kafka.create_topic(topic, partitions=3)
    records = [
        (None, b"no key"),
        (b"no value", None),
        (b"", b""),
        (bytes(range(256)), b"\r\n \x00\xff%+"),
        (b"large", bytes(range(256)) * 2000),
        *[(b"key %d" % number, b"value %d" % number) for number in range(500)],
    ]
    before_ms = int(time.time() * 1000)
    stored = kafka.produce(topic, records)

    with ScalaConsumer(
        kafka.zookeeper_connect, fresh("group"), {topic: 2}, version=version, properties=FROM_THE_START
    ) as real:
        delivered = real.wait_until_delivered(len(records))

    expected = {(topic, *where, key, value) for where, (key, value) in zip(stored, records, strict=True)}
    assert {(one.topic, one.partition, one.offset, one.key, one.value) for one in delivered} == expected
    assert real.number_delivered == len(records)
    assert {one.stream for one in delivered} == {0, 1}
    assert all(one.time_ms >= before_ms for one in delivered)


def test_values_are_left_out_on_request(kafka_0_8: KafkaCluster) -> None:
    topic = fresh("topic")
    kafka_0_8.create_topic(topic)
    kafka_0_8.produce(topic, [(b"key", b"value")])
    where, group = kafka_0_8.zookeeper_connect, fresh("group")

    with ScalaConsumer(where, group, {topic: 1}, properties=FROM_THE_START, report_values=False) as real:
        (delivered,) = real.wait_until_delivered(1)

    assert (delivered.key, delivered.value) == (b"key", None)


def test_two_members_share_the_partitions_by_range(pair: Pair) -> None:
    """G1, A1, A8: the owner nodes are those of legacy-consumer.md §10.2, first row."""
    name = pair.group.name

    assert pair.group.owners(pair.topic) == {
        0: f"{name}_C1-0",
        1: f"{name}_C1-0",
        2: f"{name}_C1-1",
        3: f"{name}_C2-0",
        4: f"{name}_C2-1",
    }


def test_the_id_is_the_registered_one(pair: Pair) -> None:
    """A3, A7: the real one registers under its group's name and its consumer.id."""
    members = pair.group.members()

    assert (
        set(members)
        == {pair.first.consumer_id, pair.second.consumer_id}
        == {f"{pair.group.name}_{c}" for c in ("C1", "C2")}
    )
    assert members[pair.first.consumer_id]["subscription"] == {pair.topic: 2}


def test_the_log_has_the_lines_operators_know(pair: Pair) -> None:
    """M1: log4j at INFO, word for word as in legacy-consumer.md §18."""
    name, topic, consumer = pair.group.name, pair.topic, pair.second.consumer_id
    eventually(lambda: "Added fetcher for partitions" in pair.second.log())

    threads = ", ".join(f"{name}_{thread}" for thread in ("C1-0", "C1-1", "C2-0", "C2-1"))
    logged = {(entry.level, entry.message) for entry in pair.second.log_entries()}

    assert {
        ("INFO", f"[{consumer}], begin registering consumer {consumer} in ZK"),
        ("INFO", f"[{consumer}], end registering consumer {consumer} in ZK"),
        ("INFO", f"[{consumer}], starting auto committer every 60000 ms"),
        ("INFO", f"[{consumer}], starting watcher executor thread for consumer {consumer}"),
        ("INFO", f"[{consumer}], begin rebalancing consumer {consumer} try #0"),
        ("INFO", f"[{consumer}], Cleared all relevant queues for this fetcher"),
        ("INFO", f"[{consumer}], Cleared the data chunks in all the consumer message iterators"),
        ("INFO", f"[{consumer}], Committing all offsets after clearing the fetcher queues"),
        ("INFO", f"[{consumer}], Releasing partition ownership"),
        ("INFO", f"Consumer {consumer} rebalancing the following partitions: ArrayBuffer(0, 1, 2, 3, 4)"
                 f" for topic {topic} with consumers: List({threads})"),
        ("INFO", f"{consumer}-0 attempting to claim partition 3"),
        ("INFO", f"[{consumer}], {consumer}-0 successfully owned partition 3 for topic {topic}"),
        ("INFO", f"[{consumer}], end rebalancing consumer {consumer} try #0"),
    } <= logged  # fmt: skip


def test_a_second_creation_of_streams_is_refused_and_told(pair: Pair) -> None:
    """C4: the exception of the real one reaches the test as it is."""
    with pytest.raises(JavaError) as caught:
        pair.first.create_streams({pair.topic: 1})

    assert caught.value.class_name == "kafka.common.MessageStreamsExistException"
    assert caught.value.message == "ZookeeperConsumerConnector can create message streams at most once"
    assert "kafka.javaapi.consumer.ZookeeperConsumerConnector.createMessageStreams" in caught.value.trace
    assert str(pair.first.error()) == str(caught.value)
    assert pair.first.streams == [pair.topic, pair.topic]


def test_time_outs_are_told_and_reading_goes_on(pair: Pair, kafka_0_8: KafkaCluster) -> None:
    """I5: a stream that timed out, more than once, still delivers."""
    eventually(lambda: [event.name for event in pair.second.events].count("timeout") > 4)

    kafka_0_8.produce(pair.topic, [b"after the time-outs"], partition=3)

    assert [one.value for one in pair.second.wait_until_delivered(1)] == [b"after the time-outs"]
    assert pair.second.error() is None


def test_threads_and_metrics_can_be_looked_at(pair: Pair) -> None:
    """M3, M5: names of threads and MBeans as in legacy-consumer.md §1 and §17."""
    consumer, group = pair.first.consumer_id, pair.group.name

    assert f"{consumer}_watcher_executor" in pair.first.thread_names()
    eventually(lambda: f"ConsumerFetcherThread-{consumer}-0-0" in pair.first.thread_names())
    owned = f"kafka.consumer:type=ZookeeperConsumerConnector,name=OwnedPartitionsCount,clientId={group},groupId={group}"
    assert owned in pair.first.metric_names("kafka.consumer:*")
    assert pair.first.metric(owned) == "3"


def test_a_paused_process_stands_still_until_it_is_resumed(pair: Pair) -> None:
    status = Path(f"/proc/{pair.first.pid}/stat")

    pair.first.pause()
    eventually(lambda: status.read_text().rpartition(")")[2].split()[0] == "T", "a stopped process")
    pending = pair.first.begin("threads")
    done_while_paused, running_while_paused = pending.done, pair.first.running
    pair.first.resume()

    assert pending.wait()
    assert (done_while_paused, running_while_paused) == (False, True)


def test_what_came_with_0_9_is_refused_before(pair: Pair) -> None:
    with pytest.raises(JavaError, match="this release's consumer cannot listener"):
        pair.first.set_rebalance_listener()


def test_streams_go_step_by_step(kafka_0_8: KafkaCluster, group_0_8: Groups) -> None:
    """I5, I7, I9, J6: looking does not consume, taking does; a time-out harms nothing; shutdown ends the stream."""
    topic, group = fresh("topic"), group_0_8(fresh("group"))
    kafka_0_8.create_topic(topic)
    kafka_0_8.produce(topic, [b"0", b"1", b"2"])
    properties = {**FROM_THE_START, "auto.commit.enable": "false", "consumer.timeout.ms": "3000"}

    with ScalaConsumer(
        kafka_0_8.zookeeper_connect, group.name, {topic: 1}, properties=properties, start_reading=False
    ) as real:
        assert real.has_next()
        assert real.peek() == 0
        assert [one.offset for one in real.take(2)] == [0, 1]
        assert real.has_next()
        real.commit_offsets()
        assert group.offsets(topic) == {0: "2"}
        assert [one.value for one in real.take()] == [b"2"]
        with pytest.raises(JavaError, match=r"kafka\.consumer\.ConsumerTimeoutException: null"):
            real.has_next()
        assert real.stream_text() == f"{group.name} kafka stream"
        kafka_0_8.produce(topic, [b"3"])
        real.read()
        assert [one.value for one in real.wait_until_delivered(4)] == [b"0", b"1", b"2", b"3"]
        real.hold()
        real.shutdown()
        assert not real.has_next()
        with pytest.raises(JavaError, match=r"java\.util\.NoSuchElementException"):
            real.take()
        assert group.offsets(topic) == {0: "2"}
        assert group.members() == {}


def test_an_item_seen_before_a_rebalance_comes_twice(kafka_0_8: KafkaCluster) -> None:
    """I13: hasNext before the rebalance, next after it."""
    topic = fresh("topic")
    kafka_0_8.create_topic(topic)
    kafka_0_8.produce(topic, [b"0", b"1", b"2", b"3", b"4", b"5"])

    with ScalaConsumer(
        kafka_0_8.zookeeper_connect, fresh("group"), {topic: 1}, properties=FROM_THE_START, start_reading=False
    ) as real:
        real.take(4)
        assert real.has_next()
        kafka_0_8.add_partitions(topic, 2)
        real.wait_until_logged(f"selected partitions : {topic}:0: fetched offset = 4: consumed offset = 4,{topic}:1:")
        taken = real.take(3)

    assert [one.offset for one in taken] == [4, 4, 5]


def test_a_failed_first_rebalance_is_told_and_the_consumer_stays(kafka_0_8: KafkaCluster, group_0_8: Groups) -> None:
    """C8, C14, F1: exceptions out of creation reach the test, the process goes on."""
    topic, group = fresh("topic"), group_0_8(fresh("group"))
    kafka_0_8.create_topic(topic)
    group.put(f"owners/{topic}/0", "somebody-0")
    properties = {"rebalance.backoff.ms": "100", "rebalance.max.retries": "2"}

    with ScalaConsumer(kafka_0_8.zookeeper_connect, group.name, properties=properties) as real:
        with pytest.raises(JavaError) as bad_regex:
            real.create_streams(whitelist="(")
        pending = real.begin_creating_streams({topic: 1})
        with pytest.raises(JavaError) as no_rebalance:
            pending.wait()

        assert str(bad_regex.value) == "java.lang.RuntimeException: ( is an invalid regex."
        assert no_rebalance.value.class_name == "kafka.common.ConsumerRebalanceFailedException"
        assert no_rebalance.value.message == f"{real.consumer_id} can't rebalance after 2 retries"
        path = f"{group.path}/owners/{topic}/0"
        assert f"conflict in {path} data: {real.consumer_id}-0 stored data: somebody-0" in real.log()
        assert list(group.members()) == [real.consumer_id]


def test_a_filter_gives_streams_that_all_topics_share(kafka_0_8: KafkaCluster, group_0_8: Groups) -> None:
    """A5, C16, D7: by whitelist, with a topic that comes later."""
    name, group = fresh("wild"), group_0_8(fresh("group"))
    kafka_0_8.create_topic(f"{name}-a")
    kafka_0_8.produce(f"{name}-a", [b"a"])

    with ScalaConsumer(
        kafka_0_8.zookeeper_connect, group.name, whitelist=f"{name}-.*", streams=2, properties=FROM_THE_START
    ) as real:
        assert real.streams == [None, None]
        (registration,) = group.members().values()
        assert (registration["pattern"], registration["subscription"]) == ("white_list", {f"{name}-.*": 2})
        kafka_0_8.create_topic(f"{name}-b")
        kafka_0_8.produce(f"{name}-b", [b"b"])
        delivered = real.wait_until_delivered(2)

    assert {(one.topic, one.value) for one in delivered} == {(f"{name}-a", b"a"), (f"{name}-b", b"b")}
    assert f"Topic event: added topics = List({name}-b)" in real.log()


def test_a_killed_member_owns_until_its_session_ends(kafka_0_8: KafkaCluster, group_0_8: Groups) -> None:
    """D3: its nodes outlive it, and what it delivered is still told."""
    topic, group = fresh("topic"), group_0_8(fresh("group"))
    kafka_0_8.create_topic(topic)
    kafka_0_8.produce(topic, [b"delivered"])

    with ScalaConsumer(
        kafka_0_8.zookeeper_connect, group.name, {topic: 1}, consumer_id="victim", properties=FROM_THE_START
    ) as real:
        real.wait_until_delivered(1)
        real.kill()
        owners_after_death, members_after_death = group.owners(topic), list(group.members())

        assert not real.running
        assert owners_after_death == {0: f"{group.name}_victim-0"}
        assert members_after_death == [f"{group.name}_victim"]
        assert [one.value for one in real.delivered()] == [b"delivered"]
        with pytest.raises(ServerStartError, match="has ended with code -9, so 'commit' cannot be done"):
            real.commit_offsets()
        with pytest.raises(ServerStartError, match="has ended with code -9"):
            real.wait_until_delivered(2)
        eventually(lambda: not group.owners(topic) and not group.members(), "the session's end")


def test_an_expired_session_is_survived(kafka_0_8: KafkaCluster, group_0_8: Groups) -> None:
    """L2, L3: same id, partitions owned again, uncommitted progress delivered again."""
    topic, group = fresh("topic"), group_0_8(fresh("group"))
    kafka_0_8.create_topic(topic)
    kafka_0_8.produce(topic, [b"0", b"1"])

    with ScalaConsumer(kafka_0_8.zookeeper_connect, group.name, {topic: 1}, properties=FROM_THE_START) as real:
        real.wait_until_delivered(2)
        intruder = KazooClient(kafka_0_8.zookeeper_connect, client_id=real.session())
        intruder.start()
        intruder.stop()
        intruder.close()
        delivered = real.wait_until_delivered(4)
        eventually(lambda: group.owners(topic) == {0: f"{real.consumer_id}-0"})

    assert [one.offset for one in delivered][:4] == [0, 1, 0, 1]
    assert f"ZK expired; release old broker parition ownership; re-register consumer {real.consumer_id}" in real.log()


def test_the_listener_and_offsets_by_map_of_0_9(kafka_1_1: KafkaCluster, group_1_1: Groups) -> None:
    """E12, E13: called in every attempt; a failing call fails the attempt."""
    topic, group = fresh("topic"), group_1_1(fresh("group"))
    kafka_1_1.create_topic(topic, partitions=2)
    properties = {**FROM_THE_START, "auto.commit.enable": "false"}

    with ScalaConsumer(kafka_1_1.zookeeper_connect, group.name, version="1.1.1", properties=properties) as real:
        real.set_rebalance_listener(starting_failures=1)
        real.create_streams({topic: 1})
        real.commit_offsets_of({(topic, 1): 7}, retry_on_failure=False)

        threads = {(topic, 0): f"{real.consumer_id}-0", (topic, 1): f"{real.consumer_id}-0"}
        assert real.listener_calls() == [
            BeforeReleasingPartitions({}),
            BeforeStartingFetchers(real.consumer_id, threads),
            BeforeReleasingPartitions({topic: {0, 1}}),
            BeforeStartingFetchers(real.consumer_id, threads),
        ]
        assert group.offsets(topic) == {1: "7"}


def test_decoding_happens_when_a_message_is_looked_at(kafka_1_1: KafkaCluster) -> None:
    """I11: a decoder that fails harms the message, not the iteration."""
    topic = fresh("topic")
    kafka_1_1.create_topic(topic)
    kafka_1_1.produce(topic, [(b"k", b"0"), (b"k", b"1")])

    with ScalaConsumer(
        kafka_1_1.zookeeper_connect, fresh("group"), {topic: 1}, properties=FROM_THE_START, decoder="failing"
    ) as real:
        delivered = real.wait_until_delivered(2)

    assert [(one.offset, one.value) for one in delivered] == [(0, None), (1, None)]
    failures = [event.words for event in real.events if event.name == "decoding_failed"]
    assert failures == [("0", topic, "0", offset, "this decoder always fails") for offset in ("0", "1")]


def test_the_range_assignor_can_be_asked_about_any_group(written_group: Group, zookeeper: ZooKeeperForOneTest) -> None:
    """G2: threads sort as text."""
    written_group.put("ids/g_c", _registration({"twelve": 12}))
    _write_topic(written_group, "twelve", partitions=12)

    with ScalaConsumer(zookeeper.connect_string, "bystander") as real:
        assigned = real.assign("range", written_group.name, "g_c")

    threads = {partition: thread for (_, partition), thread in assigned.items()}
    assert [threads[partition] for partition in range(12)] == [
        f"g_c-{thread}" for thread in (0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9)
    ]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.8.2.2", {"g_C1": {"bb-0": 0, "bb-1": 1, "zeta-1": 0, "a-0": 1}, "g_C2": {"zeta-0": 0, "a-1": 0}}),
        ("1.1.1", {"g_C1": {"zeta-0": 0, "zeta-1": 1, "a-1": 0, "bb-0": 1}, "g_C2": {"a-0": 0, "bb-1": 0}}),
    ],
)
def test_each_release_has_its_own_round_robin(
    version: ScalaVersion,
    expected: dict[str, dict[str, int]],
    written_group: Group,
    zookeeper: ZooKeeperForOneTest,
) -> None:
    """G7, G8, G10: by the hash of `[t,p]` in 0.8.2.2, of `t-p` in 1.1.1 (the orders of legacy-consumer.md §10.3)."""
    for topic in ("a", "bb", "zeta"):
        _write_topic(written_group, topic, partitions=2)
    for consumer, streams in {"g_C1": 2, "g_C2": 1}.items():
        written_group.put(f"ids/{consumer}", _registration(dict.fromkeys(("a", "bb", "zeta"), streams)))

    with ScalaConsumer(zookeeper.connect_string, "bystander", version=version) as real:
        assigned = {consumer: real.assign("roundrobin", written_group.name, consumer) for consumer in expected}

    assert assigned == {
        consumer: {
            (partition.split("-")[0], int(partition.split("-")[1])): f"{consumer}-{thread}"
            for partition, thread in partitions.items()
        }
        for consumer, partitions in expected.items()
    }


@pytest.fixture
def written_group(zookeeper: ZooKeeperForOneTest) -> Iterator[Group]:
    """A group that exists in ZooKeeper only, without brokers."""
    with zookeeper.client() as client:
        yield Group(client, "g")


def _registration(subscription: dict[str, int]) -> str:
    return json.dumps({"version": 1, "subscription": subscription, "pattern": "static", "timestamp": "1794980898565"})


def _write_topic(group: Group, topic: str, *, partitions: int) -> None:
    data = json.dumps({"version": 1, "partitions": {str(partition): [0] for partition in range(partitions)}})
    group.client.create(f"/brokers/topics/{topic}", data.encode(), makepath=True)


def test_a_consumer_that_cannot_connect_says_why_and_leaves_nothing() -> None:
    """C2: the exception names the time-out."""
    with ReservedPort() as port:
        real = ScalaConsumer(f"127.0.0.1:{port.number}", "group", properties={"zookeeper.connection.timeout.ms": "300"})
        with pytest.raises(JavaError, match="Unable to connect to zookeeper server within timeout: 300"):
            real.start()

    assert not real.running
    assert "Connecting to zookeeper instance at 127.0.0.1:" in real.log()
    with pytest.raises(ServerStartError, match="has no consumer id before it is connected"):
        _ = real.consumer_id


def test_releases_without_the_scala_consumer_are_refused() -> None:
    with pytest.raises(NotSupported) as removed:
        ScalaConsumer("127.0.0.1:1", "group", version="3.9.1")  # type: ignore[arg-type]
    with pytest.raises(UnknownVersion, match=r"kafka '0\.7\.2' is not a release"):
        ScalaConsumer("127.0.0.1:1", "group", version="0.7.2")  # type: ignore[arg-type]

    assert str(removed.value) == ("Kafka 3.9.1 has no Scala consumer, which was removed in 2.0: use 0.8.2.2 or 1.1.1")


def test_a_connector_subscribes_to_one_thing_only() -> None:
    with pytest.raises(ValueError, match="give topics, a whitelist or a blacklist"):
        ScalaConsumer("127.0.0.1:1", "group", {"topic": 1}, whitelist="topic")
