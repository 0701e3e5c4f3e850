"""What these tests ask of a server, through clients that know nothing of containers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from kazoo.client import KazooClient

from zkconsumer.testing.waiting import eventually, scaled


@contextmanager
def kazoo_at(address: str) -> Iterator[KazooClient]:
    """A connected client."""
    client = KazooClient(address, timeout=10.0, connection_retry={"max_tries": -1, "max_delay": 1.0})
    try:
        client.start(timeout=scaled(60.0))
        yield client
    finally:
        client.stop()
        client.close()


def produce(address: str, release: str, topic: str, value: bytes) -> int:
    """Store one value in partition 0, with all acknowledgements; its offset."""
    offsets: list[int] = []
    errors: list[str] = []

    def acknowledged(error: Any, message: Any) -> None:
        if error is None:
            offsets.append(message.offset())
        else:
            errors.append(str(error))

    producer = Producer({**_settings(address, release), "acks": "all"})
    producer.produce(topic, value=value, partition=0, on_delivery=acknowledged)
    producer.flush(scaled(60.0))
    assert not errors
    return offsets[0]


def fetch(address: str, release: str, topic: str, count: int) -> list[bytes]:
    """The first values of partition 0."""
    consumer = Consumer({**_settings(address, release), "group.id": "unused", "enable.auto.commit": False})
    values: list[bytes] = []

    def enough() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
        return len(values) >= count

    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        eventually(enough, f"{count} records of {topic}", timeout_s=60.0)
    finally:
        consumer.close()
    return values


def _settings(address: str, release: str) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap.servers": address, "log_level": 2}
    if release.startswith("0.8"):  # does not say what it can do: the client has to be told
        settings |= {"api.version.request": False, "broker.version.fallback": "0.8.2.2"}
    return settings
