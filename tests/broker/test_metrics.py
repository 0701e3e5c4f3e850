"""What a consumer counts and logs, against the same numbers and lines of the real one."""

from __future__ import annotations

import logging
import re
import threading

import pytest

from fetcher.events import Event, Fetched
from tests.broker.members import Member, NewMember, announce
from tests.broker.scripted_cluster import ScriptedCluster
from tests.conformance.group import Group, fresh
from tests.scripted_broker import FETCH, Silence
from zkconsumer.events import RebalanceFinished, RebalanceStep
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.plugin import ZooKeeperForOneTest
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.waiting import eventually

pytestmark = pytest.mark.kafka("0.8.2.2")

RECORD_BYTES = 27  # of format 0: offset 8, size 4, crc 4, magic, attributes, key size 4, value size 4, a value of 1
CONNECTOR = "kafka.consumer:type=ZookeeperConsumerConnector"


@pytest.fixture
def topic(kafka: KafkaCluster, topic: str) -> str:
    """With two partitions, ten records of one byte in each."""
    kafka.create_topic(topic, partitions=2)
    for partition in (0, 1):
        kafka.produce(topic, [b"%d" % number for number in range(10)], partition=partition)
    return topic


def metric(member: Member, name: str, attribute: str = "Value") -> float | str | None:
    return member.connector.metrics.as_dict().get(name, {}).get(attribute)


# --- the real consumer, once for all comparisons ---


class Life:
    """What was to be seen of a consumer that joined, read twenty records, rebalanced once and left."""

    def __init__(self, name: str, broker: str) -> None:
        self._name = name
        self._port = broker.rpartition(":")[2]
        self.metrics: set[str] = set()
        self.threads: set[str] = set()
        self.lines: list[str] = []
        self.metrics_after: set[str] = set()

    def plain(self, text: str) -> str:
        """Without what differs from run to run."""
        text = text.replace(self._name, "GROUP").replace(self._port, "PORT")
        text = re.sub(r"\[ConsumerFetcherManager-\d+\]", "[ConsumerFetcherManager]", text)
        # Both are in the order of a hash table there.
        text = re.sub(r"owned partition \d+ ", "owned partition N ", text)
        text = re.sub(r",\d+\], initOffset", ",N], initOffset", text)
        return re.sub(r"completed in \d+ ms", "completed in N ms", text)


@pytest.fixture
def real(kafka: KafkaCluster, topic: str, group: Group) -> Life:
    life = Life(f"{group.name}-real", kafka.brokers[0].address)
    properties = {"auto.offset.reset": "smallest"}
    where = kafka.zookeeper_connect
    with ScalaConsumer(where, life._name, {topic: 1}, consumer_id="c1", properties=properties) as consumer:
        consumer.wait_until_delivered(20)
        announce(Group(group.client, life._name), "nobody")
        eventually(lambda: _settled(consumer.log()), "another rebalance")
        life.metrics = {life.plain(name) for name in consumer.metric_names()}
        life.threads = {life.plain(name) for name in consumer.thread_names()}
        consumer.shutdown()
        life.lines = [
            life.plain(entry.message)
            for entry in consumer.log_entries()
            if entry.logger.startswith("kafka.consumer") and not entry.logger.endswith(("Thread", "SimpleConsumer"))
        ]
    return life


def _settled(log: str) -> bool:
    return log.count("end rebalancing") == 2 and log.count("Added fetcher for partitions ArrayBuffer([[") == 2


@pytest.fixture
def ours(
    kafka: KafkaCluster, topic: str, group: Group, new_member: NewMember, caplog: pytest.LogCaptureFixture
) -> Life:
    life = Life(group.name, kafka.brokers[0].address)
    with caplog.at_level(logging.INFO):
        member = new_member("c1", {topic: 1}).join()
        eventually(lambda: len(member.records) == 20, "all records")
        announce(group, "nobody")
        eventually(lambda: _settled(caplog.text), "another rebalance")
        life.metrics = {life.plain(name) for name in member.connector.metrics.as_dict()}
        life.threads = {life.plain(thread.name) for thread in threading.enumerate()}
        member.shutdown()
        life.metrics_after = set(member.connector.metrics.as_dict())
        life.lines = [
            life.plain(record.getMessage())
            for record in caplog.records
            if record.getMessage().startswith((f"[{member.id}], ", "[ConsumerFetcherManager"))
            or record.name == "zkconsumer.assignment"
        ]
    return life


def of_one_thread(lines: list[str], *, manager: bool) -> list[str]:
    """The manager's lines come from several threads, in no fixed order with the connector's."""
    return [line for line in lines if line.startswith("[ConsumerFetcherManager]") == manager]


def test_names_threads_and_lines_are_those_of_the_real_consumer(real: Life, ours: Life) -> None:
    """M1, M2, M3: of a life with two rebalances; the metrics of legacy §17, and none after shutdown."""
    producers = {name for name in real.metrics if name.startswith("kafka.producer")}  # a side effect there
    assert ours.metrics == real.metrics - producers
    assert ours.metrics_after == set()

    assert {name for name in ours.threads if "GROUP" in name} == {name for name in real.threads if "GROUP_" in name}
    assert "kafka-consumer-scheduler-0" in ours.threads & real.threads

    # As in 0.8.2.2's source, but there the thread is never told to stop.
    last = "[GROUP_c1], stopping watcher executor thread for consumer GROUP_c1"
    for manager in (False, True):
        mine = [line for line in of_one_thread(ours.lines, manager=manager) if line != last]
        assert mine == of_one_thread(real.lines, manager=manager)
    assert any("consumed offset = 10,topic-" in line for line in ours.lines)


# --- numbers ---


def test_lag_is_counted_from_what_is_fetched(topic: str, new_member: NewMember, group: Group) -> None:
    """M4: high watermark minus next offset to fetch, whatever the application has consumed."""
    group.put(f"offsets/{topic}/1", "10")
    member = new_member(
        "c1", {topic: 1}, reads=False, queued_max_message_chunks=1, fetch_message_max_bytes=2 * RECORD_BYTES
    ).join()
    lag = f"kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId={group.name},topic={topic},partition="

    # Two records wait in the queue, two more for room in it: the next offset to ask for is 4.
    eventually(lambda: metric(member, f"{lag}0") == 6, lambda: f"lag 6, not {metric(member, f'{lag}0')}")
    assert metric(member, f"kafka.consumer:type=ConsumerFetcherManager,name=MaxLag,clientId={group.name}") == 6
    assert metric(member, f"{CONNECTOR},name=FetchQueueSize,clientId={group.name},topic={topic},threadId=0") == 1
    eventually(lambda: metric(member, f"{lag}1") == 0, "no lag where all is fetched")

    iterator = member.streams[0].iterator()
    for _ in range(4):
        iterator.next()
    eventually(lambda: metric(member, f"{lag}0") == 2, "four records more are fetched")


def test_lag_is_not_known_before_the_first_fetch(zookeeper: ZooKeeperForOneTest) -> None:
    """M4: -1, and the largest one is 0."""
    with ScriptedCluster(zookeeper.connect_string, fresh("topic")) as cluster:
        cluster.scripts[FETCH] = lambda request: Silence
        member = Member(cluster.zookeeper_connect, "group", "c1", {cluster.topic: 1})
        try:
            member.join()
            eventually(lambda: cluster.asked(FETCH), "a fetch that is not answered")
            lag = (
                f"kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=group,topic={cluster.topic},partition=0"
            )

            assert metric(member, lag) == -1
            assert metric(member, "kafka.consumer:type=ConsumerFetcherManager,name=MaxLag,clientId=group") == 0
        finally:
            member.shutdown()


def test_owned_partitions_follow_the_owner_nodes(topic: str, group: Group, new_member: NewMember) -> None:
    """M5: of the group and of each topic; 0 and no topic while released."""
    owned = f"{CONNECTOR},name=OwnedPartitionsCount,clientId={group.name},groupId={group.name}"
    member = new_member("c1", {topic: 1}, reads=False)
    released: list[tuple[int, object, object]] = []

    def look(event: Event) -> None:
        if isinstance(event, RebalanceStep) and event.name == "assign":
            nodes = [thread for thread in group.owners(topic).values() if thread.startswith(member.id)]
            released.append((len(nodes), metric(member, owned), metric(member, f"{owned},topic={topic}")))

    member.connector.events.subscribe(look)
    member.join()
    alone = (metric(member, owned), metric(member, f"{owned},topic={topic}"))
    other = new_member("c2", {topic: 1}, reads=False).join()
    eventually(lambda: len(set(group.owners(topic).values())) == 2, "an even share")
    eventually(lambda: metric(member, owned) == 1, "one partition each")

    assert alone == (2, 2)
    assert len(released) > 1
    assert released == [(0, 0, None)] * len(released)
    assert metric(other, owned) == 1


def test_messages_count_when_taken_and_bytes_when_handed_over(topic: str, group: Group, new_member: NewMember) -> None:
    """M6: per topic and in all; bytes of whole entries, as they came."""
    member = new_member("c1", {topic: 1}, reads=False).join()
    names = {
        what: f"kafka.consumer:type=ConsumerTopicMetrics,name={what}PerSec,clientId={group.name}"
        for what in ("Messages", "Bytes")
    }

    eventually(lambda: metric(member, names["Bytes"], "Count") == 20 * RECORD_BYTES, "all handed over")
    before = metric(member, names["Messages"], "Count")
    iterator = member.streams[0].iterator()
    for _ in range(3):
        iterator.next()
    assert iterator.has_next()

    assert before == 0
    assert metric(member, names["Messages"], "Count") == 3
    assert metric(member, f"{names['Messages']},topic={topic}", "Count") == 3
    assert metric(member, f"{names['Bytes']},topic={topic}", "Count") == 20 * RECORD_BYTES


@pytest.mark.parametrize(
    ("storage", "in_zookeeper", "in_kafka"), [("zookeeper", 3, 0), ("kafka", 3, 6)], ids=["zookeeper", "both"]
)
def test_commits_are_counted_by_node_written_and_by_partition_sent(
    topic: str, group: Group, new_member: NewMember, storage: str, in_zookeeper: int, in_kafka: int
) -> None:
    """M6: three commits, of which the first writes two nodes, the second one, the third none."""
    member = new_member(
        "c1", {topic: 1}, reads=False, offsets_storage=storage, auto_commit_enable=False, auto_offset_reset="smallest"
    ).join()
    eventually(lambda: min(member.connector.owned_partitions.values()) >= 0, "start offsets")

    member.connector.commit_offsets()
    member.streams[0].iterator().next()
    member.connector.commit_offsets()
    member.connector.commit_offsets()

    count = {
        place: metric(member, f"{CONNECTOR},name={place}CommitsPerSec,clientId={group.name}", "Count")
        for place in ("ZooKeeper", "Kafka")
    }
    assert count == {"ZooKeeper": in_zookeeper, "Kafka": in_kafka}


def test_rebalances_and_fetches_are_timed(topic: str, group: Group, new_member: NewMember) -> None:
    """M6: as many as there were."""
    member = new_member("c1", {topic: 1}).join()
    announce(group, "nobody")
    eventually(lambda: len(member.told(RebalanceFinished)) == 2, "another rebalance")

    timer = f"{CONNECTOR},name=RebalanceRateAndTime,clientId={group.name}"
    fetches = f"kafka.consumer:type=FetchRequestAndResponseMetrics,name=FetchRequestRateAndTimeMs,clientId={group.name}"
    assert metric(member, timer, "Count") == 2
    eventually(lambda: member.told(Fetched), "a fetch")
    before = len(member.told(Fetched))
    counted = metric(member, fetches, "Count")
    assert isinstance(counted, int | float)
    assert before <= counted <= len(member.told(Fetched))
