"""Leader finder and fetchers on real brokers of all releases: everything arrives once, whatever happens to them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from fetcher.chunk_queue import SHUTDOWN, ChunkQueue, FetchedDataChunk
from fetcher.events import Enqueued, Event, EventPublisher, Fetched, FetcherDied, LeadersNotFound, OffsetReset
from fetcher.manager import ConsumerFetcherManager, fetcher_id
from fetcher.partition import PartitionTopicInfo
from fetcher.settings import FetcherSettings
from fetcher.structs import Broker, TopicAndPartition
from zkconsumer.testing.kafka import KAFKA_VERSIONS, KafkaCluster
from zkconsumer.testing.link import Direction
from zkconsumer.testing.producing import numbered_value
from zkconsumer.testing.waiting import eventually, scaled

CONSUMER = "group_host-1"
SETTINGS = FetcherSettings(client_id="group", auto_offset_reset="smallest", socket_timeout_ms=int(scaled(30) * 1000))

every_release = pytest.mark.parametrize(
    "release", [pytest.param(version, marks=pytest.mark.kafka(version)) for version in KAFKA_VERSIONS]
)


class Fetching:
    """A manager, and for each partition a queue that this thread takes from."""

    def __init__(self, kafka: KafkaCluster, settings: FetcherSettings, infos: Sequence[PartitionTopicInfo]) -> None:
        publisher = EventPublisher(CONSUMER)
        self.events: list[Event] = []
        publisher.subscribe(self.events.append)
        self.infos = infos
        self.manager = ConsumerFetcherManager(
            consumer_id=CONSUMER, settings=settings, list_brokers=lambda: brokers_of(kafka), events=publisher
        )
        self.values: dict[int, list[bytes]] = {info.partition: [] for info in infos}

    def take_one(self, partition: int = 0) -> FetchedDataChunk:
        (queue,) = [info.queue for info in self.infos if info.partition == partition]
        chunk = queue.take(scaled(30))
        assert chunk is not None and chunk is not SHUTDOWN, f"nothing of partition {partition} came"
        return chunk

    def take_until(self, count: int) -> dict[int, list[bytes]]:
        """Take from all queues until so many messages are here; their values by partition."""

        def enough() -> bool:
            for info in self.infos:
                while (chunk := info.queue.take(0)) is not None:
                    assert chunk is not SHUTDOWN
                    # A batch comes whole, also to those who ask for its middle; streams skip what is before that.
                    wanted = [message for message in chunk.messages if message.offset >= chunk.fetch_offset]
                    self.values[info.partition] += [message.value or b"" for message in wanted]
            return sum(map(len, self.values.values())) >= count

        eventually(enough, lambda: f"{count} messages of {[(n, len(v)) for n, v in self.values.items()]}", 60)
        return self.values

    def of_kind(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def brokers_of(kafka: KafkaCluster) -> list[Broker]:
    brokers = []
    for broker in kafka.brokers:
        host, _, port = broker.advertised_address.rpartition(":")
        brokers.append(Broker(broker.id, host, int(port)))
    return brokers


@contextmanager
def fetching(
    kafka: KafkaCluster,
    topic: str,
    offsets: Mapping[int, int],
    *,
    settings: FetcherSettings = SETTINGS,
    capacity: int = 1000,
) -> Iterator[Fetching]:
    infos = [
        PartitionTopicInfo(topic, partition, ChunkQueue(capacity), settings.fetch_message_max_bytes, offset, offset)
        for partition, offset in offsets.items()
    ]
    running = Fetching(kafka, settings, infos)
    running.manager.start_connections(infos)
    try:
        yield running
    finally:
        running.manager.stop_connections()


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def linked() -> Iterator[KafkaCluster]:
    """One broker that is reached through a link."""
    with KafkaCluster(version="1.1.1", linked=True) as kafka:
        yield kafka


@every_release
@pytest.mark.parametrize("fetchers", [1, 3])
def test_everything_arrives_once_and_in_order(kafka: KafkaCluster, release: str, topic: str, fetchers: int) -> None:
    """M3, M4: thread names; lag 0 at the end."""
    kafka.create_topic(topic, partitions=5)
    for _ in range(4):
        kafka.produce_many(topic, 5000)
    settings = replace(SETTINGS, num_consumer_fetchers=fetchers, fetch_message_max_bytes=200_000)

    with fetching(kafka, topic, dict.fromkeys(range(5), 0), settings=settings) as running:
        values = running.take_until(20_000)

        expected = [numbered_value(number, 100) for number in range(5000)]
        assert values == {n: 4 * expected[n::5] for n in range(5)}
        used = {fetcher_id(topic, partition, fetchers) for partition in range(5)}
        names = {thread.name for thread in threading.enumerate() if thread.name.startswith("ConsumerFetcherThread")}
        assert names == {f"ConsumerFetcherThread-group_host-1-{number}-0" for number in used}
        assert any(thread.name == "group_host-1-leader-finder-thread" for thread in threading.enumerate())
        assert eventually(lambda: running.manager.max_lag() == 0)
        assert running.manager.lag_of() == {TopicAndPartition(topic, n): 0 for n in range(5)}
        (statistics,) = running.manager.statistics().values()
        assert statistics.bytes > 20_000 * 100
        assert statistics.requests >= statistics.responses > 0


@pytest.mark.parametrize(
    ("release", "magic", "version"),
    [
        pytest.param("0.8.2.2", 0, 0, marks=pytest.mark.kafka("0.8.2.2")),
        pytest.param("1.1.1", 2, 7, marks=pytest.mark.kafka("1.1.1")),
        pytest.param("3.9.1", 2, 10, marks=pytest.mark.kafka("3.9.1")),
    ],
)
def test_a_broker_is_asked_for_what_it_stores(
    kafka: KafkaCluster, release: str, topic: str, magic: int, version: int
) -> None:
    """The newest version both sides know: from 4 on nothing is converted, so format 2 arrives as format 2."""
    kafka.create_topic(topic)
    kafka.produce(topic, [b"value"])

    with fetching(kafka, topic, {0: 0}) as running:
        (message,) = running.take_one().messages

        assert message.magic == magic
        assert [thread.fetch_version for thread in running.manager.fetcher_threads] == [version]


@pytest.mark.parametrize(("versions", "magic"), [("0.8.2", 0), ("0.9", 0), ("1.1", 1)], ids=["0.8.2", "0.9", "1.1"])
@pytest.mark.kafka("3.9.1")
def test_a_broker_converts_for_the_request_versions_of_an_old_release(
    kafka: KafkaCluster, topic: str, versions: Any, magic: int
) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, [b"value"])

    with fetching(kafka, topic, {0: -1}, settings=replace(SETTINGS, request_versions=versions)) as running:
        (message,) = running.take_one().messages

        assert (message.magic, message.value) == (magic, b"value")


@every_release
@pytest.mark.parametrize("stored", [-1, 99999], ids=["none", "too large"])
@pytest.mark.parametrize(("setting", "start"), [("smallest", 0), ("largest", 10)])
def test_a_start_that_is_missing_or_out_of_range_is_reset(
    kafka: KafkaCluster,
    release: str,
    topic: str,
    caplog: pytest.LogCaptureFixture,
    setting: str,
    start: int,
    stored: int,
) -> None:
    """H6, H7, H8: smallest → first message, largest → only later ones; only the latter is `out of range` in the log."""
    kafka.create_topic(topic)
    kafka.produce(topic, [b"%d" % number for number in range(10)])
    out_of_range = f"Current offset 99999 for partition [{topic},0] out of range; reset offset to {start}"

    with fetching(kafka, topic, {0: stored}, settings=replace(SETTINGS, auto_offset_reset=setting)) as running:
        (reset,) = eventually(lambda: running.of_kind(OffsetReset))
        kafka.produce(topic, [b"10"])
        values = running.take_until(11 - start)

        assert values == {0: [b"%d" % number for number in range(start, 11)]}
        assert (reset.old_offset, reset.new_offset) == (stored, start)
        assert running.infos[0].consumed_offset == start
    assert any(out_of_range in line for line in caplog.messages) == (stored == 99999)


@pytest.mark.kafka("1.1.1")
def test_a_start_before_the_first_offset_kept_is_reset(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, [b"%d" % number for number in range(10)])
    kafka.delete_records(topic, before={0: 6})

    with fetching(kafka, topic, {0: 2}) as running:
        assert running.take_until(4) == {0: [b"6", b"7", b"8", b"9"]}


@every_release
def test_a_broker_that_dies_and_returns_costs_nothing(
    kafka: KafkaCluster, release: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """H4: WARN `Error in fetch …`, `Failed to find leader …` again and again; then on, without loss or duplicate."""
    kafka.create_topic(topic, partitions=3)
    kafka.produce_many(topic, 3000)

    with fetching(kafka, topic, dict.fromkeys(range(3), 0)) as running:
        running.take_until(3000)
        kafka.brokers[0].kill()
        eventually(lambda: len(running.of_kind(LeadersNotFound)) >= 3)
        assert len(running.manager.partitions_without_leader) == 3
        assert running.manager.fetcher_threads == ()
        kafka.brokers[0].start()
        kafka.produce_many(topic, 3000)
        values = running.take_until(6000)

        expected = [numbered_value(number, 100) for number in range(3000)]
        assert values == {n: 2 * expected[n::3] for n in range(3)}
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any("], Error in fetch Name: FetchRequest; Version: " in line for line in warnings)
    assert any("-leader-finder-thread], Failed to find leader for Set([" in line for line in warnings)


@pytest.mark.parametrize(
    "release", [pytest.param(version, marks=pytest.mark.kafka(version, brokers=2)) for version in KAFKA_VERSIONS]
)
def test_a_partition_is_followed_to_its_new_leader(
    kafka: KafkaCluster, release: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """H5: ERROR `Error for partition [t,p] to broker b:class …NotLeaderForPartitionException`, then the new leader."""
    kafka.create_topic(topic, assignment={0: [0, 1], 1: [0, 1]})
    kafka.produce_many(topic, 2000)

    with fetching(kafka, topic, {0: 0, 1: 0}) as running:
        running.take_until(2000)
        kafka.move_leader(topic, 0, to=1)
        kafka.produce_many(topic, 2000)
        values = running.take_until(4000)

        expected = [numbered_value(number, 100) for number in range(2000)]
        assert values == {n: 2 * expected[n::2] for n in range(2)}
        where = {fetcher.broker.id: fetcher.partitions for fetcher in running.manager.fetcher_threads}
        assert where == {0: (TopicAndPartition(topic, 1),), 1: (TopicAndPartition(topic, 0),)}
    line = f"Error for partition [{topic},0] to broker 0:class kafka.common.NotLeaderForPartitionException"
    assert any(line in message for message in caplog.messages)


@every_release
def test_a_message_that_is_too_large_arrives_as_no_whole_entry(kafka: KafkaCluster, release: str, topic: str) -> None:
    """H10: whatever the release, the chunk has no whole message: the stream will say that it is too large."""
    kafka.create_topic(topic)
    kafka.produce(topic, [b"small"])
    kafka.produce(topic, [bytes(5000)])
    settings = replace(SETTINGS, fetch_message_max_bytes=1000)

    with fetching(kafka, topic, {0: 0}, settings=settings, capacity=3) as running:
        small, too_large, again = (running.take_one() for _ in range(3))

        assert [message.value for message in small.messages] == [b"small"]
        for chunk in (too_large, again):
            assert 0 < chunk.messages.size_in_bytes <= 1000
            assert not chunk.messages.has_whole_entry
            assert chunk.fetch_offset == 1
        assert running.infos[0].fetched_offset == 1


@pytest.mark.kafka("1.1.1")
def test_a_message_that_is_too_large_can_be_asked_for_all_the_same(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, [bytes(5000), b"small"])
    settings = replace(SETTINGS, fetch_message_max_bytes=1000, deliver_oversized_messages=True)

    with fetching(kafka, topic, {0: 0}, settings=settings) as running:
        assert running.take_until(2) == {0: [bytes(5000), b"small"]}


@pytest.mark.kafka("1.1.1")
def test_no_partition_starves_when_answers_are_full(kafka: KafkaCluster, topic: str) -> None:
    """Answers have room for one partition only, and the first one always has something."""
    kafka.create_topic(topic, partitions=4)
    for _ in range(5):
        kafka.produce_many(topic, 400, value_size=500)  # a batch of 50 kB for each partition
    settings = replace(SETTINGS, fetch_message_max_bytes=60_000, fetch_max_bytes=60_000)

    with fetching(kafka, topic, dict.fromkeys(range(4), 0), settings=settings) as running:
        running.take_until(2000)

        in_turn = [event.partition.partition for event in running.of_kind(Enqueued)]
        assert in_turn == 5 * [0, 1, 2, 3]


@every_release
def test_stopping_does_not_wait_for_readers_and_nothing_is_lost(kafka: KafkaCluster, release: str, topic: str) -> None:
    """H9: a full queue holds the fetcher back; a stop ends that wait, and the next start goes on where it was."""
    kafka.create_topic(topic)
    for _ in range(5):
        kafka.produce_many(topic, 500)
    settings = replace(SETTINGS, fetch_message_max_bytes=60_000)

    with fetching(kafka, topic, {0: 0}, settings=settings, capacity=1) as running:
        eventually(lambda: len(running.infos[0].queue) == 1 and running.manager.max_lag() < 2000)  # two were fetched
        running.manager.stop_connections()
        assert running.manager.fetcher_threads == ()
        running.manager.start_connections(running.infos)

        assert running.take_until(2500) == {0: 5 * [numbered_value(number, 100) for number in range(500)]}


@pytest.mark.kafka("0.8.2.2")
def test_a_fetcher_that_dies_is_replaced(kafka: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    """H16: a dying fetcher's partitions are fetched again."""
    kafka.create_topic(topic, partitions=2)
    kafka.produce(topic, [b"0", b"1", b"2"], partition=0)

    with fetching(kafka, topic, {0: 0, 1: 0}) as running:
        running.take_until(3)
        running.infos[0].reset(1)  # behind the fetcher's back: it finds that its offset is not the partition's
        kafka.produce(topic, [b"3"], partition=0)
        eventually(lambda: running.of_kind(FetcherDied))
        kafka.produce(topic, [b"other"], partition=1)

        assert running.take_until(7) == {0: [b"0", b"1", b"2", b"1", b"2", b"3"], 1: [b"other"]}
        assert len(running.of_kind(FetcherDied)) == 1
    assert any(line.endswith("Error due to ") for line in caplog.messages)


def test_no_more_connections_than_fetchers(linked: KafkaCluster, topic: str) -> None:
    """H2: at most `num.consumer.fetchers` connections per broker for fetching."""
    linked.create_topic(topic, partitions=8)
    linked.produce_many(topic, 800)
    connections: set[int] = set()

    def look(connection: int, direction: Direction, data: bytes) -> None:
        if direction is Direction.UP and data[4:6] == b"\0\1" and topic.encode() in data:  # a fetch
            connections.add(connection)

    linked.links[0].tap(look)
    settings = replace(SETTINGS, num_consumer_fetchers=3)
    with fetching(linked, topic, dict.fromkeys(range(8), 0), settings=settings) as running:
        running.take_until(800)
        linked.produce_many(topic, 800)
        running.take_until(1600)

        assert len(running.manager.fetcher_threads) == 3
    assert len(connections) == 3


@pytest.mark.parametrize("when", ["fetching", "asking for metadata"])
def test_stopping_does_not_wait_for_a_broker_that_nobody_hears(
    linked: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture, when: str
) -> None:
    """The socket's time-out is longer than this test's patience: the stop ends the wait."""
    caplog.set_level(logging.INFO)
    linked.create_topic(topic)
    linked.produce(topic, [b"value"])
    link = linked.links[0]
    try:
        if when == "asking for metadata":
            link.black_hole()
        with fetching(linked, topic, {0: 0}, settings=replace(SETTINGS, socket_timeout_ms=10_000_000)) as running:
            if when == "fetching":
                running.take_one()
                link.black_hole(Direction.DOWN)  # the answer to the request under way will not come
            eventually(lambda: any("Fetching metadata from broker" in line for line in caplog.messages))
            stopping = threading.Thread(target=running.manager.stop_connections, name="stopping", daemon=True)
            stopping.start()
            stopping.join(scaled(20))
            assert not stopping.is_alive()
    finally:
        link.heal()


def test_a_connection_cut_within_an_answer_costs_nothing(linked: KafkaCluster, topic: str) -> None:
    """H4, H13: what did not arrive whole is fetched again over a new connection, without loss or duplicate."""
    linked.create_topic(topic)
    linked.produce_many(topic, 20_000)
    link = linked.links[0]
    link.cut_after(300_000, Direction.DOWN)  # the first answer has about a million bytes

    with fetching(linked, topic, {0: 0}) as running:
        eventually(lambda: link.is_cut)
        assert running.infos[0].fetched_offset == 0
        link.heal()

        assert running.take_until(20_000) == {0: [numbered_value(number, 100) for number in range(20_000)]}


def test_a_connection_cut_with_a_fetch_asked_for_ahead_costs_nothing(linked: KafkaCluster, topic: str) -> None:
    """H4, H9: while a full queue holds the fetcher back, its next answer is on its way."""
    linked.create_topic(topic)
    linked.produce_many(topic, 40_000)
    link = linked.links[0]

    with fetching(linked, topic, {0: 0}, capacity=1) as running:
        eventually(lambda: len(running.of_kind(Fetched)) == 2)
        (info,) = running.infos
        fetched = info.fetched_offset
        link.drop_connections()
        assert info.fetched_offset == fetched

        assert running.take_until(40_000) == {0: [numbered_value(number, 100) for number in range(40_000)]}
        assert info.fetched_offset == 40_000


def test_a_deleted_topic_comes_back_unless_only_known_topics_are_asked_for() -> None:
    """H14, H15: asking for metadata creates a topic on an auto-creating broker; without partitions nobody asks."""
    with KafkaCluster(version="0.8.2.2", settings={"auto.create.topics.enable": "true"}) as kafka:
        with fetching(kafka, "nobody-asks", {}) as running:
            assert running.manager.partitions_without_leader == ()
        careful = replace(SETTINGS, only_topics_in_zookeeper=True)
        infos = [PartitionTopicInfo("deleted", 0, ChunkQueue(2), 1000, 0, 0)]
        asked: list[str] = []

        def topic_exists(topic: str) -> bool:
            asked.append(topic)
            return False

        manager = ConsumerFetcherManager(
            consumer_id=CONSUMER,
            settings=careful,
            list_brokers=lambda: brokers_of(kafka),
            events=EventPublisher(CONSUMER),
            topic_exists=topic_exists,
        )
        manager.start_connections(infos)
        eventually(lambda: asked.count("deleted") >= 3)
        manager.stop_connections()
        assert kafka.topics() == []

        with fetching(kafka, "deleted", {0: 0}):
            eventually(lambda: kafka.topics() == ["deleted"])
