"""What real producers store: in which format, with which codec, and where."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import xxhash
from confluent_kafka import Consumer, TopicPartition

from zkconsumer.testing.backends import ProcessBackend
from zkconsumer.testing.errors import NotSupported
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.producing import ProduceError, numbered_value
from zkconsumer.testing.zookeeper import ZooKeeperServer

RECORDS = [b"value", (b"key", b"value"), (b"key", None), None, b""]
AS_PAIRS = [(None, b"value"), (b"key", b"value"), (b"key", None), (None, None), (None, b"")]

# The codec's number in the attributes of a message or batch, from Kafka's protocol guide.
NUMBER_OF = {None: 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LZ4_MAGIC = bytes.fromhex("04224d18")

STORABLE = [
    *(("0.8.2.2", 0, codec) for codec in (None, "gzip", "snappy", "lz4")),
    *(("1.1.1", kept, codec) for kept in (0, 1, 2) for codec in (None, "gzip", "snappy", "lz4")),
    *(("3.9.1", 2, codec) for codec in (None, "gzip", "snappy", "lz4", "zstd")),
]


class Entry(NamedTuple):
    """A message (formats 0 and 1) or a batch (format 2) in a segment file."""

    magic: int
    codec: int
    data: bytes


def entries(cluster: KafkaCluster, topic: str, partition: int = 0) -> list[Entry]:
    """What broker 0 has on its disk, from the file's own headers."""
    with cluster.brokers[0].log_segments(topic, partition) as segments:
        return [entry for segment in segments for entry in _entries(segment)]


def _entries(segment: bytes) -> Iterator[Entry]:
    position = 0
    while position < len(segment):
        _, size, _, magic = struct.unpack_from(">qiib", segment, position)
        (attributes,) = struct.unpack_from(">h" if magic == 2 else ">b", segment, position + (21 if magic == 2 else 17))
        yield Entry(magic, attributes & 0x07, segment[position : position + 12 + size])
        position += 12 + size


def read_back(
    settings: dict[str, Any], topic: str, partition: int, count: int
) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values as another client gets them."""
    consumer = Consumer({**settings, "group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": False})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        messages = consumer.consume(count, timeout=60)
        assert [message.error() for message in messages] == [None] * count
        return [(message.key(), message.value()) for message in messages]
    finally:
        consumer.close()


@pytest.mark.parametrize(("cluster", "message_format", "codec"), STORABLE, indirect=["cluster"])
def test_records_are_stored_in_the_format_and_with_the_codec_asked_for(
    cluster: KafkaCluster,
    topic: str,
    message_format: int,
    codec: str | None,
    librdkafka_settings: Callable[[KafkaCluster], dict[str, Any]],
) -> None:
    cluster.create_topic(topic, message_format=message_format)

    stored = cluster.produce(topic, RECORDS, codec=codec)

    assert stored == [(0, offset) for offset in range(5)]
    found = entries(cluster, topic)
    assert {(entry.magic, entry.codec) for entry in found} == {(message_format, NUMBER_OF[codec])}
    assert read_back(librdkafka_settings(cluster), topic, 0, 5) == AS_PAIRS


@pytest.mark.parametrize("cluster", ["1.1.1"], indirect=True)
def test_a_log_takes_a_new_format_after_an_old_one(cluster: KafkaCluster, topic: str) -> None:
    cluster.create_topic(topic)

    for message_format in (0, 1, 2, 0):
        cluster.produce(topic, [b"value"], message_format=message_format)

    assert [entry.magic for entry in entries(cluster, topic)] == [0, 1, 2, 0]


@pytest.mark.parametrize("cluster", ["0.8.2.2", "1.1.1"], indirect=True)
def test_lz4_in_format_0_carries_the_wrong_header_checksum_of_its_time(cluster: KafkaCluster, topic: str) -> None:
    """KAFKA-3160: the checksum was taken over the magic number, too."""
    cluster.create_topic(topic, message_format=0)

    cluster.produce(topic, [b"value"] * 100, codec="lz4")

    (wrapper,) = entries(cluster, topic)
    frame = wrapper.data[wrapper.data.index(LZ4_MAGIC) :]
    descriptor, checksum = frame[4:6], frame[6]
    assert checksum == xxhash.xxh32_intdigest(LZ4_MAGIC + descriptor) >> 8 & 0xFF
    assert checksum != xxhash.xxh32_intdigest(descriptor) >> 8 & 0xFF


@pytest.mark.parametrize("cluster", ["1.1.1"], indirect=True)
def test_lz4_in_later_formats_carries_the_right_one(cluster: KafkaCluster, topic: str) -> None:
    cluster.create_topic(topic)

    cluster.produce(topic, [b"value"] * 100, codec="lz4")

    (batch,) = entries(cluster, topic)
    frame = batch.data[batch.data.index(LZ4_MAGIC) :]
    assert frame[6] == xxhash.xxh32_intdigest(frame[4:6]) >> 8 & 0xFF


@pytest.mark.parametrize("cluster", ["1.1.1"], indirect=True)
def test_librdkafka_leaves_uncompressed_what_would_not_shrink_and_java_does_not(
    cluster: KafkaCluster, topic: str
) -> None:
    cluster.create_topic(topic, partitions=2)

    cluster.produce(topic, [b"x"], codec="gzip", client="librdkafka", partition=0)
    cluster.produce(topic, [b"x"], codec="gzip", client="java", partition=1)

    assert [entry.codec for entry in entries(cluster, topic, 0)] == [0]
    assert [entry.codec for entry in entries(cluster, topic, 1)] == [1]


def test_records_with_the_same_key_go_to_the_same_partition_whoever_sends_them(
    cluster: KafkaCluster, topic: str
) -> None:
    cluster.create_topic(topic, partitions=5)
    records = [(b"key %d" % number, b"value") for number in range(20)]

    by_librdkafka = [place.partition for place in cluster.produce(topic, records, client="librdkafka")]
    by_java = [place.partition for place in cluster.produce(topic, records, client="java")]

    assert by_librdkafka == by_java
    assert set(by_java) == {0, 1, 2, 3, 4}


def test_many_records_are_numbered_and_spread_in_turn(
    cluster: KafkaCluster, topic: str, librdkafka_settings: Callable[[KafkaCluster], dict[str, Any]]
) -> None:
    cluster.create_topic(topic, partitions=3)

    cluster.produce_many(topic, 250_000, value_size=20)

    assert cluster.end_offsets(topic) == {0: 83_334, 1: 83_333, 2: 83_333}
    values = [value for _, value in read_back(librdkafka_settings(cluster), topic, 1, 100)]
    assert values == [numbered_value(number, 20) for number in range(1, 301, 3)]
    assert values[:2] == [b"1xxxxxxxxxxxxxxxxxxx", b"4xxxxxxxxxxxxxxxxxxx"]


def test_nothing_to_produce_is_nothing_done(cluster: KafkaCluster, topic: str) -> None:
    cluster.create_topic(topic)

    assert cluster.produce(topic, []) == []
    assert cluster.produce(topic, iter([]), codec="gzip") == []


@pytest.mark.parametrize("cluster", ["1.1.1"], indirect=True)
def test_what_a_broker_unpacks_is_removed_with_its_files(cluster: KafkaCluster, topic: str) -> None:
    """It unpacks machine code for snappy, and cannot tidy up when it is killed."""
    cluster.create_topic(topic)
    cluster.produce(topic, [b"value"], codec="snappy")

    backend = cluster.brokers[0]._backend
    assert isinstance(backend, ProcessBackend)
    mapped = Path(f"/proc/{backend.pid}/maps").read_text().splitlines()
    unpacked = {Path(line.split()[-1]).parent for line in mapped if "snappy" in line and ".so" in line}

    assert unpacked == {backend.directory}


@pytest.mark.parametrize(
    ("cluster", "options", "error", "complaint"),
    [
        ("0.8.2.2", {"codec": "zstd"}, NotSupported, r"0\.8\.2\.2 has no zstd: brokers have it since 2\.1"),
        ("0.8.2.2", {"message_format": 1}, NotSupported, r"no message format 1: brokers have it since 0\.10"),
        ("0.8.2.2", {"message_format": 2}, NotSupported, r"no message format 2: brokers have it since 0\.11"),
        ("1.1.1", {"codec": "zstd"}, NotSupported, r"1\.1\.1 has no zstd: brokers have it since 2\.1"),
        ("1.1.1", {"codec": "brotli"}, ValueError, "'brotli': is not known; there are gzip, snappy, lz4, zstd"),
        ("1.1.1", {"client": "kcat"}, ValueError, "'kcat': is not known; there are librdkafka, java"),
        ("1.1.1", {"message_format": 3}, ValueError, "format 3: does not exist; there are 0, 1 and 2"),
        ("1.1.1", {"partition": 7}, ProduceError, "1 records were not stored: .*[Uu]nknown partition"),
        ("3.9.1", {"message_format": 1}, NotSupported, r"keeps message format 2 only, .*2\.8.*1\.1\.1 keeps 1"),
    ],
    indirect=["cluster"],
)
def test_what_a_release_lacks_is_said_in_one_line(
    cluster: KafkaCluster, topic: str, options: dict[str, Any], error: type[Exception], complaint: str
) -> None:
    cluster.create_topic(topic)

    with pytest.raises(error, match=complaint) as caught:
        cluster.produce(topic, [b"value"], **options)

    assert "\n" not in str(caught.value)
    assert cluster.end_offsets(topic) == {0: 0}


@pytest.mark.parametrize("cluster", ["0.8.2.2", "3.9.1"], indirect=True)
def test_what_the_java_producer_was_refused_is_said_in_one_line(cluster: KafkaCluster, topic: str) -> None:
    cluster.create_topic(topic, config={"max.message.bytes": "200"})

    with pytest.raises(ProduceError, match=r"the Java producer did not store 1 records: .*RecordTooLarge") as caught:
        cluster.produce(topic, [b"x" * 1000], client="java")

    assert "\n" not in str(caught.value)


def test_3_9_keeps_old_formats_if_told_to_work_like_2_8(zookeeper_server: ZooKeeperServer, topic: str) -> None:
    settings = {"inter.broker.protocol.version": "2.8"}
    with KafkaCluster(version="3.9.1", zookeeper=zookeeper_server, settings=settings) as cluster:
        cluster.create_topic(topic)

        for message_format in (0, 1, 2):
            cluster.produce(topic, [b"value"], message_format=message_format)

        assert [entry.magic for entry in entries(cluster, topic)] == [0, 1, 2]
