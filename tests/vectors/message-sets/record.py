"""Records the message sets and fetch responses of this directory from real brokers: see README.md.

What a broker keeps in a segment file is what it sends, so each set is all segments of a topic made for it.
"""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from fetcher.structs import TopicAndPartition
from fetcher.wire.fetch import encode_fetch_request
from zkconsumer.testing.java import class_path_of, find_java
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.programs import program
from zkconsumer.testing.waiting import eventually

HERE = Path(__file__).parent
MESSAGE_FORMAT_VERSIONS = {0: "0.9.0", 1: "0.10.2", 2: "1.1"}
TRANSACTION_MARKERS = 3
FOR_EVER_MS = 2**62


def main() -> None:
    for old in [*HERE.glob("*.bin"), *HERE.glob("*.json"), *HERE.glob("*.response")]:
        old.unlink()
    record_0_8_2_2()
    record_1_1_1()
    record_3_9_1()
    run_java("3.9.1", "Dump.java", *(str(file) for file in sorted(HERE.glob("*.bin"))))


def record_0_8_2_2() -> None:
    with KafkaCluster(version="0.8.2.2") as cluster:
        for codec in ("none", "gzip", "snappy", "lz4"):
            with recorded(cluster, f"format-0-{codec}-broker-0.8.2.2") as topic:
                run_java("0.8.2.2", "ProduceOld.java", cluster.bootstrap_servers, topic, codec)
        record_response(cluster, 0, "format-0-gzip-broker-0.8.2.2")


def record_1_1_1() -> None:
    with KafkaCluster(version="1.1.1") as cluster:
        for message_format, release in MESSAGE_FORMAT_VERSIONS.items():
            kind = "headers" if message_format == 2 else "plain"
            for codec in ("none", "gzip", "snappy", "lz4"):
                name = f"format-{message_format}-{codec}-broker-1.1.1"
                with recorded(cluster, name, {"message.format.version": release}) as topic:
                    run_java("1.1.1", "Produce.java", cluster.bootstrap_servers, topic, codec, kind)
        append_time = {"message.format.version": "0.10.2", "message.timestamp.type": "LogAppendTime"}
        with recorded(cluster, "format-1-gzip-append-time-broker-1.1.1", append_time) as topic:
            run_java("1.1.1", "Produce.java", cluster.bootstrap_servers, topic, "gzip", "plain")
        for codec in ("snappy", "lz4"):
            with recorded(cluster, f"format-2-{codec}-librdkafka-broker-1.1.1") as topic:
                produce_with_librdkafka(cluster.bootstrap_servers, topic, codec)
        with recorded(cluster, "format-2-none-transactions-broker-1.1.1") as topic:
            run_java("1.1.1", "Produce.java", cluster.bootstrap_servers, topic, "none", "transactions")
            messages = 9
            eventually(lambda: cluster.end_offsets(topic)[0] == messages + TRANSACTION_MARKERS)
        for version in range(8):
            record_response(cluster, version, "format-2-none-transactions-broker-1.1.1")


def record_3_9_1() -> None:
    with KafkaCluster(version="3.9.1") as cluster:
        for codec in ("none", "zstd"):
            with recorded(cluster, f"format-2-{codec}-broker-3.9.1") as topic:
                run_java("3.9.1", "Produce.java", cluster.bootstrap_servers, topic, codec, "headers")
        append_time = {"message.timestamp.type": "LogAppendTime"}
        with recorded(cluster, "format-2-zstd-append-time-broker-3.9.1", append_time) as topic:
            run_java("3.9.1", "Produce.java", cluster.bootstrap_servers, topic, "zstd", "plain")
        for version in range(12):
            record_response(cluster, version, "format-2-zstd-broker-3.9.1")


@contextmanager
def recorded(cluster: KafkaCluster, topic: str, config: Mapping[str, str] | None = None) -> Iterator[str]:
    """A topic whose segments are kept under its name: there may be several, since the times in them are far apart."""
    cluster.create_topic(topic, config={"retention.ms": str(FOR_EVER_MS), **(config or {})})
    yield topic
    with cluster.broker(0).log_segments(topic, 0) as segments:
        (HERE / f"{topic}.bin").write_bytes(b"".join(segments))


def record_response(cluster: KafkaCluster, version: int, topic: str) -> None:
    """What the broker answers to a fetch of this topic, and of a partition that it does not have."""
    wanted = {TopicAndPartition(topic, 0): (0, 1048576), TopicAndPartition(topic, 7): (0, 1048576)}
    request = encode_fetch_request(version, 4711, "recorder", 100, 1, 52428800, wanted)
    host, port = cluster.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(request)
        stream = connection.makefile("rb")
        (size,) = struct.unpack(">i", stream.read(4))
        (HERE / f"fetch-{version}-broker-{cluster.version}.response").write_bytes(stream.read(size))


def produce_with_librdkafka(address: str, topic: str, codec: str) -> None:
    """librdkafka writes snappy without the frame that Java's library puts around it."""
    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 300})
    for number in range(20):
        producer.produce(topic, key=f"k{number}", value=f"value {number} " + "again and " * number, partition=0)
    producer.flush()


def run_java(version: str, source: str, *arguments: str) -> None:
    class_path = class_path_of(program("kafka", version).jars())
    subprocess.run([str(find_java()), "-cp", class_path, str(HERE / source), *arguments], check=True)


if __name__ == "__main__":
    main()
