"""A consumer of ours with the same handles as ScalaConsumer, so that a test can have either."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple, Self

from zkconsumer.config import ConsumerConfig
from zkconsumer.connector import ZookeeperConsumerConnector
from zkconsumer.emulation import Emulation
from zkconsumer.streams import KafkaStream
from zkconsumer.testing.waiting import eventually
from zkconsumer.topic_filter import Whitelist


class Record(NamedTuple):
    """What a stream gave, and which."""

    stream: int
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class OurMember:
    """Connector and one reading thread a stream; in this process."""

    def __init__(
        self,
        zookeeper_connect: str,
        group: str,
        topics: Mapping[str, int] | None = None,
        *,
        whitelist: str | None = None,
        consumer_id: str | None = None,
        properties: Mapping[str, str] | None = None,
        emulate: str | Emulation = "0.8.2",
    ) -> None:
        given = {"zookeeper.connect": zookeeper_connect, "group.id": group}
        given |= {"consumer.id": consumer_id} if consumer_id is not None else {}
        self.connector = ZookeeperConsumerConnector(
            ConsumerConfig.from_properties({**given, **(properties or {})}, emulate=emulate)
        )
        self.consumer_id = self.connector.consumer_id
        self._topics = topics or {}
        self._whitelist = whitelist
        self._delivered: list[Record] = []
        self._readers: list[threading.Thread] = []

    def start(self) -> None:
        self.connector.start()
        for number, stream in enumerate(self._create_streams()):
            self._readers.append(threading.Thread(target=self._read, args=(number, stream), name=f"reader-{number}"))
        for reader in self._readers:
            reader.start()

    def stop(self) -> None:
        """Leave in order. Idempotent."""
        self.connector.shutdown()
        for reader in self._readers:
            reader.join()

    def session(self) -> tuple[int, bytes]:
        """Id and password of its ZooKeeper session, as kazoo's client_id."""
        number, password = self.connector._zookeeper.client.client_id
        return number, password

    def commit_offsets(self) -> None:
        self.connector.commit_offsets()

    def delivered(self) -> list[Record]:
        """Everything so far."""
        return list(self._delivered)

    def wait_until_delivered(self, number: int, timeout_s: float = 30.0) -> list[Record]:
        """Everything, once it is at least so much."""
        eventually(
            lambda: len(self._delivered) >= number,
            lambda: f"{number} messages delivered to {self.consumer_id} (were {len(self._delivered)})",
            timeout_s,
        )
        return self.delivered()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _create_streams(self) -> list[KafkaStream[bytes, bytes]]:
        if self._whitelist is not None:
            return self.connector.create_message_streams_by_filter(Whitelist(self._whitelist))
        created = self.connector.create_message_streams(self._topics)
        return [stream for streams in created.values() for stream in streams]

    def _read(self, number: int, stream: KafkaStream[bytes, bytes]) -> None:
        for record in stream:
            self._delivered.append(
                Record(number, record.topic, record.partition, record.offset, record.key, record.message)
            )
