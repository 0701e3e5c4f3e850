"""Kafka's own tests of its consumer, repeated on ours (0.8.2.2: ZookeeperConsumerConnectorTest, AutoOffsetResetTest).

Settings and sequence are those of the originals; names are fresh, because brokers are shared, and the waiting is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from kazoo.client import KazooClient

from fetcher.structs import TopicAndPartition
from tests.conformance.group import Group, fresh
from zkconsumer.config import ConsumerConfig
from zkconsumer.connector import ZookeeperConsumerConnector
from zkconsumer.decoder import StringDecoder
from zkconsumer.errors import ConsumerTimeoutException, MessageStreamsExistException
from zkconsumer.streams import KafkaStream
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import scaled

MESSAGES = 2
REBALANCE_BACKOFF_MS = 5000
PADDING = "." * 200  # so that there is something to compress

Streams = dict[str, list[KafkaStream[str, str]]]
NewConsumer = Callable[..., ZookeeperConsumerConnector]


@pytest.fixture
def group(kafka: KafkaCluster) -> Iterator[Group]:
    client = KazooClient(kafka.zookeeper_connect)
    try:
        client.start(30)
        yield Group(client, fresh("group1"))
    finally:
        client.stop()
        client.close()


@pytest.fixture
def new_consumer(kafka: KafkaCluster, group: Group) -> Iterator[NewConsumer]:
    """(0.8: TestUtils.createConsumerProperties) `new_consumer("consumer1", **settings)`; shut down at the end."""
    with ExitStack() as stack:

        def new(name: str, **settings: Any) -> ZookeeperConsumerConnector:
            properties = {
                "zookeeper_connect": kafka.zookeeper_connect,
                "group_id": group.name,
                "consumer_id": name,
                "zookeeper_session_timeout_ms": int(scaled(6.0) * 1000),
                "zookeeper_sync_time_ms": 200,
                "auto_commit_interval_ms": 1000,
                "rebalance_max_retries": 4,
                "auto_offset_reset": "smallest",
                "num_consumer_fetchers": 2,
            }
            return stack.enter_context(ZookeeperConsumerConnector(ConsumerConfig(**{**properties, **settings})))

        yield new


def send(kafka: KafkaCluster, topic: str, batch: str, count: int = MESSAGES, *, codec: str | None = None) -> list[str]:
    """So many messages to each of two partitions; all of them."""
    sent = []
    for partition in (0, 1):
        texts = [f"{batch}-{partition}-{number}{PADDING}" for number in range(count)]
        # By librdkafka also with a codec: it starts no Java machine, and what is padded does shrink.
        kafka.produce(topic, [text.encode() for text in texts], partition=partition, codec=codec, client="librdkafka")
        sent += texts
    return sent


def get(count: int, streams: Streams) -> list[str | None]:
    """(0.8: getMessages) So many from each stream."""
    iterators = [stream.iterator() for of_topic in streams.values() for stream in of_topic]
    return [next(iterator).message for iterator in iterators for _ in range(count)]


def create_streams(consumer: ZookeeperConsumerConnector, topic: str) -> Streams:
    return consumer.create_message_streams({topic: 1}, StringDecoder(), StringDecoder())


def same(sent: Sequence[str], received: Sequence[str | None]) -> bool:
    return sorted(sent) == sorted(received, key=str)


def basic_scenario(kafka: KafkaCluster, group: Group, new_consumer: NewConsumer, codec: str | None) -> None:
    topic = fresh("topic1")
    kafka.create_topic(topic, partitions=2)

    consumer0 = new_consumer("consumer0", consumer_timeout_ms=200)
    streams0 = create_streams(consumer0, topic)
    for _ in range(2):  # the iterator goes on after a time-out
        with pytest.raises(ConsumerTimeoutException):
            get(MESSAGES * 2, streams0)
    consumer0.shutdown()

    sent1 = send(kafka, topic, "batch1", codec=codec)
    consumer1 = new_consumer("consumer1")
    streams1 = create_streams(consumer1, topic)
    received1 = get(MESSAGES * 2, streams1)
    assert same(sent1, received1)
    assert group.owners(topic) == {0: f"{group.name}_consumer1-0", 1: f"{group.name}_consumer1-0"}
    consumer1.commit_offsets(retry_on_failure=True)

    consumer2 = new_consumer("consumer2", rebalance_backoff_ms=REBALANCE_BACKOFF_MS)
    streams2 = create_streams(consumer2, topic)
    sent2 = send(kafka, topic, "batch2", codec=codec)
    received2 = get(MESSAGES, streams1) + get(MESSAGES, streams2)
    assert same(sent2, received2)
    two_owners = {0: f"{group.name}_consumer1-0", 1: f"{group.name}_consumer2-0"}
    assert group.owners(topic) == two_owners

    consumer3 = new_consumer("consumer3", rebalance_backoff_ms=REBALANCE_BACKOFF_MS)
    assert consumer3.create_message_streams({}) == {}
    sent3 = send(kafka, topic, "batch3", codec=codec)
    received3 = get(MESSAGES, streams1) + get(MESSAGES, streams2)
    assert same(sent3, received3)
    assert group.owners(topic) == two_owners
    with pytest.raises(MessageStreamsExistException):
        consumer3.create_message_streams({})

    for consumer in (consumer1, consumer2, consumer3):
        consumer.shutdown()
    assert (group.members(), group.owners(topic)) == ({}, {})
    segments = [segment for broker in kafka.brokers for segment in stored(kafka, broker.id, topic)]
    assert any(PADDING.encode() in segment for segment in segments) == (codec is None)


def stored(kafka: KafkaCluster, broker_id: int, topic: str) -> list[bytes]:
    found = []
    for partition in (0, 1):
        with kafka.broker(broker_id).log_segments(topic, partition) as segments:
            found += segments
    return found


@pytest.mark.kafka("0.8.2.2", brokers=2)
def test_basic(kafka: KafkaCluster, group: Group, new_consumer: NewConsumer) -> None:
    """C4, C6, D1, I5: testBasic. Time-outs, then one, two and three members, of which the last one asks for nothing."""
    basic_scenario(kafka, group, new_consumer, codec=None)


@pytest.mark.kafka("1.1.1", brokers=2)
def test_basic_on_1_1_1(kafka: KafkaCluster, group: Group, new_consumer: NewConsumer) -> None:
    """C4, C6, D1, I5, O5: the same records from brokers of 1.1.1, in message format 2."""
    basic_scenario(kafka, group, new_consumer, codec=None)


@pytest.mark.kafka("0.8.2.2", brokers=2)
def test_compression(kafka: KafkaCluster, group: Group, new_consumer: NewConsumer) -> None:
    """I1: testCompression. All of the above with gzip."""
    basic_scenario(kafka, group, new_consumer, codec="gzip")


@pytest.mark.kafka("0.8.2.2", brokers=2)
def test_compression_set_consumption(kafka: KafkaCluster, group: Group, new_consumer: NewConsumer) -> None:
    """I1: testCompressionSetConsumption. Two compressed sets of 200, each message once."""
    topic = fresh("topic1")
    kafka.create_topic(topic, partitions=2)
    sent = send(kafka, topic, "batch1", 200, codec="gzip")

    consumer = new_consumer("consumer0", consumer_timeout_ms=int(scaled(1.0) * 1000))
    streams = create_streams(consumer, topic)
    received = get(400, streams)

    assert same(sent, received)
    assert group.owners(topic) == {0: f"{group.name}_consumer0-0", 1: f"{group.name}_consumer0-0"}
    with pytest.raises(ConsumerTimeoutException):
        get(1, streams)


@pytest.mark.kafka("0.8.2.2", brokers=2)
def test_consumer_decoder(kafka: KafkaCluster, group: Group, new_consumer: NewConsumer) -> None:
    """C3: testConsumerDecoder. Text out of bytes, in both partitions."""
    topic = fresh("topic1")
    kafka.create_topic(topic, partitions=2)
    sent = send(kafka, topic, "bätch1")

    consumer = new_consumer("consumer1")
    received = get(MESSAGES * 2, create_streams(consumer, topic))

    assert same(sent, received)
    assert group.owners(topic) == {0: f"{group.name}_consumer1-0", 1: f"{group.name}_consumer1-0"}


@pytest.mark.kafka("0.8.2.2", brokers=2)
def test_leader_selection_for_partition(kafka: KafkaCluster, group: Group, new_consumer: NewConsumer) -> None:
    """F6: testLeaderSelectionForPartition. What is owned is exactly the one partition there is."""
    topic = fresh("topic1")
    kafka.create_topic(topic, partitions=1)
    sent = [b"batch1-0", b"batch1-1"]
    kafka.produce(topic, sent, partition=0)

    consumer = new_consumer("consumer1")
    streams = create_streams(consumer, topic)
    registry = consumer.owned_partitions
    received = get(MESSAGES, streams)

    assert list(registry) == [TopicAndPartition(topic, 0)]
    assert group.owners(topic) == {0: f"{group.name}_consumer1-0"}
    assert received == [text.decode() for text in sent]


@pytest.mark.kafka("0.8.2.2", brokers=2)
@pytest.mark.parametrize("stored_offset", [10_000, -1], ids=["too-large", "too-small"])
@pytest.mark.parametrize(("reset_to", "expected"), [("smallest", 10), ("largest", 0)])
def test_auto_offset_reset(
    kafka: KafkaCluster,
    group: Group,
    new_consumer: NewConsumer,
    reset_to: str,
    expected: int,
    stored_offset: int,
) -> None:
    """H6, H7, H8: AutoOffsetResetTest. A stored offset that does not exist is replaced by the first or the last."""
    topic = fresh("test_topic")
    kafka.create_topic(topic, partitions=1)
    kafka.produce(topic, [b"test"] * 10)
    group.put(f"offsets/{topic}/0", str(stored_offset))

    consumer = new_consumer(
        "consumer1", auto_offset_reset=reset_to, consumer_timeout_ms=int(scaled(2.0) * 1000), fetch_wait_max_ms=0
    )
    received = 0
    with pytest.raises(ConsumerTimeoutException):
        for _ in create_streams(consumer, topic)[topic][0]:
            received += 1

    assert received == expected
