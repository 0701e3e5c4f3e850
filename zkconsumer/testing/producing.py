"""Records put into topics by real producers.

Which one was found by trying all on the three releases. librdkafka (confluent-kafka) is fast and speaks to all, but
leaves a set uncompressed that would not shrink, whatever codec it was told. The Java producer always compresses; it is
started as a process of its own, which takes most of a second. So: with a codec Java, without one librdkafka.

The Java producer is the broker's own release, or 0.8.2.2's where a topic is kept in message format 0. That one writes
lz4 frames with the wrong header checksum of its time (KAFKA-3160).
"""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from zkconsumer.testing.errors import ServerError
from zkconsumer.testing.java import class_path_of, find_java, unpack_into
from zkconsumer.testing.java_compiler import compiled
from zkconsumer.testing.kafka_releases import Release
from zkconsumer.testing.programs import QUICK_START, program
from zkconsumer.testing.waiting import scaled

Pair = tuple[bytes | None, bytes | None]
Record = bytes | None | Pair
"""A value, or a key and a value; None is Kafka's null."""
Client = Literal["librdkafka", "java"]
CLIENTS: tuple[Client, ...] = ("librdkafka", "java")

SEND_TIMEOUT_S = 60.0
CHUNK = 10_000


class Stored(NamedTuple):
    """Where a record went."""

    partition: int
    offset: int


class ProduceError(ServerError):
    """Records that no broker acknowledged."""


class Order(NamedTuple):
    """What is to be produced, checked against what the release can do."""

    release: Release
    bootstrap_servers: str
    topic: str
    message_format: int
    codec: str | None
    client: Client


def order(
    of: Release, bootstrap_servers: str, topic: str, message_format: int, codec: str | None, client: str | None
) -> Order:
    """ValueError or NotSupported if it cannot be done, before anything is."""
    of.check_format(message_format)
    if codec is not None:
        of.check_codec(codec)
        if codec == "zstd" and message_format < 2:
            raise ValueError(f"codec 'zstd' needs message format 2, and topic {topic!r} is kept in {message_format}")
    chosen = client or ("librdkafka" if codec is None else "java")
    if chosen not in CLIENTS:
        raise ValueError(f"client {client!r}: is not known; there are {', '.join(CLIENTS)}")
    return Order(of, bootstrap_servers, topic, message_format, codec, chosen)


def produce(to: Order, records: Iterable[Record], partition: int | None) -> list[Stored]:
    """Send and wait for all; where each went, in the order given."""
    pairs = [record if isinstance(record, tuple) else (None, record) for record in records]
    send = _send_by_librdkafka if to.client == "librdkafka" else _send_by_java
    return send(to, pairs, partition) if pairs else []


def produce_many(to: Order, count: int, value_size: int, partitions: Sequence[int]) -> None:
    """Send numbered values (b"0xxx…", b"1xxx…", …) to the partitions in turn, by librdkafka, and wait for all."""
    failures: list[str] = []
    producer = _librdkafka(to, {"on_delivery": _Failures(failures), "delivery.report.only.error": True})
    for first in range(0, count, CHUNK):
        batches: dict[int, list[dict[str, bytes]]] = {partition: [] for partition in partitions}
        for number in range(first, min(first + CHUNK, count)):
            batches[partitions[number % len(partitions)]].append({"value": numbered_value(number, value_size)})
        for partition, batch in batches.items():
            _queue(producer, to.topic, batch, partition, failures)
    _flush(producer, to, failures)


def numbered_value(number: int, size: int) -> bytes:
    """The value that produce_many gives record `number`: the number, filled up with x; longer only if it has to be."""
    return (b"%d" % number).ljust(size, b"x")


class _Failures:
    """A delivery callback that keeps what went wrong."""

    def __init__(self, failures: list[str]) -> None:
        self._failures = failures

    def __call__(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failures.append(str(error))


def _queue(producer: Any, topic: str, batch: list[dict[str, bytes]], partition: int, failures: list[str]) -> None:
    """Hand over all. What finds no room is marked by the library, and tried again when there is some."""
    while batch and not failures:
        producer.produce_batch(topic, batch, partition=partition)
        batch = [{"value": message["value"]} for message in batch if "_error" in message]
        producer.poll(0.05 if batch else 0)


def _send_by_librdkafka(to: Order, pairs: Sequence[Pair], partition: int | None) -> list[Stored]:
    failures: list[str] = []
    stored: dict[int, Stored] = {}
    producer = _librdkafka(to, {})
    where = {} if partition is None else {"partition": partition}
    for position, (key, value) in enumerate(pairs):

        def acknowledged(error: Any, message: Any, position: int = position) -> None:
            if error is None:
                stored[position] = Stored(message.partition(), message.offset())
            else:
                failures.append(str(error))

        while True:
            try:
                producer.produce(to.topic, value=value, key=key, on_delivery=acknowledged, **where)
                break
            except BufferError:  # its queue is full
                producer.poll(0.05)
    _flush(producer, to, failures)
    return [stored[position] for position in range(len(pairs))]


def _librdkafka(to: Order, more: Mapping[str, Any]) -> Any:
    from confluent_kafka import Producer

    settings = {
        "bootstrap.servers": to.bootstrap_servers,
        "compression.type": to.codec or "none",
        "acks": "all",
        "message.timeout.ms": int(scaled(SEND_TIMEOUT_S) * 1000),
        "partitioner": "murmur2_random",  # as the Java producer's
        "linger.ms": 20,
        "batch.num.messages": CHUNK,
        "queue.buffering.max.messages": 10 * CHUNK,
        "log_level": 2,  # it warns of each setting that it will lack one day
        **more,
    }
    if to.message_format == 0:
        # It has to be told: 0.8 brokers do not say what they can do, and newer ones would be sent what they convert.
        fallback = "0.8.2" if to.release.is_0_8 else "0.9.0"
        settings |= {"api.version.request": False, "broker.version.fallback": fallback}
    return Producer(settings)


def _flush(producer: Any, to: Order, failures: Sequence[str]) -> None:
    left = producer.flush(scaled(SEND_TIMEOUT_S))
    if left or failures:
        reason = failures[0] if failures else "no answer in time"
        raise ProduceError(f"topic {to.topic!r}: {left + len(failures)} records were not stored: {reason}")


def _send_by_java(to: Order, pairs: Sequence[Pair], partition: int | None) -> list[Stored]:
    with tempfile.TemporaryDirectory(prefix="zkconsumer-producer-") as directory:
        run = subprocess.run(
            _java_command(to, Path(directory)),
            input=b"".join(_encoded(pairs, partition)),
            capture_output=True,
            timeout=scaled(SEND_TIMEOUT_S),
            check=False,
        )
    if run.returncode != 0 or len(run.stdout) != 12 * len(pairs):
        reason = _reason(run.stderr.decode(errors="replace"))
        raise ProduceError(f"topic {to.topic!r}: the Java producer did not store {len(pairs)} records: {reason}")
    return [Stored(*place) for place in struct.iter_unpack(">iq", run.stdout)]


def _java_command(to: Order, directory: Path) -> list[str]:
    version = "0.8.2.2" if to.message_format == 0 else to.release.version
    jars = program("kafka", version).jars()
    settings = {
        "bootstrap.servers": to.bootstrap_servers,
        "compression.type": to.codec or "none",
        "acks": "all",
        "linger.ms": "100",  # so that few records make one set
        "key.serializer": "org.apache.kafka.common.serialization.ByteArraySerializer",
        "value.serializer": "org.apache.kafka.common.serialization.ByteArraySerializer",
    }
    classes = class_path_of([compiled("JavaProducer.java", jars), *jars])
    command = [str(find_java()), *QUICK_START, "-Xmx256m", unpack_into(directory)]
    command += ["-cp", classes, "JavaProducer", to.topic]
    return command + [f"{key}={value}" for key, value in settings.items()]


def _encoded(pairs: Sequence[Pair], partition: int | None) -> Iterator[bytes]:
    """As JavaProducer.java reads them."""
    yield struct.pack(">i", len(pairs))
    for pair in pairs:
        yield struct.pack(">i", -1 if partition is None else partition)
        for data in pair:
            yield struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _reason(errors: str) -> str:
    """The last cause in a stack trace."""
    lines = [line.strip() for line in errors.splitlines() if "Exception" in line or "Error" in line]
    return lines[-1] if lines else errors.strip()[-200:] or "it said nothing"
