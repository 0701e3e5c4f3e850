"""What tools ask brokers: who leads, where logs begin and end, who keeps a group (0.8: ClientUtils, AdminUtils).

One connection a broker, kept while the tool runs, used by one thread. Answers are the generated values of `wire`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from fetcher.channel import BlockingChannel
from fetcher.errors import BrokerException, ClosedChannelException, KafkaException, exception_for
from fetcher.settings import FetcherSettings
from fetcher.simple_consumer import SimpleConsumer
from fetcher.structs import Broker, TopicAndPartition
from fetcher.wire.generated import decode, encode
from fetcher.wire.metadata import TopicMetadata, decode_metadata_response

CLIENT_ID = "zkconsumer-tools"
RECEIVE_BUFFER_BYTES = 1024 * 1024
BACKOFF_S = 0.1
NOT_YET = {5, 14, 15, 16}  # no leader, loading, no coordinator, another one: asked again
PARTITIONS_AT_ONCE = 5_000

Offsets = dict[TopicAndPartition, "int | KafkaException"]


class NoBroker(KafkaException):
    """None of the brokers named answers."""


class HungUp(KafkaException):
    """A broker closed the connection instead of answering: it went away, or does not know the request."""


class BrokerConnections:
    """Opens when first asked; `with` closes them all."""

    def __init__(self, *, timeout_s: float = 10.0) -> None:
        self._timeout_s = timeout_s
        self._channels: dict[tuple[str, int], BlockingChannel] = {}
        self._waiting = threading.Event()  # never set: something to wait on

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """All of them. Idempotent."""
        for channel in self._channels.values():
            channel.disconnect()
        self._channels.clear()

    def ask(self, broker: Broker, api: str, version: int, **fields: Any) -> Any:
        """One request, one answer. Raises KafkaException, also for a broker too old for the request."""
        return decode(api, version, self._exchange(broker, api, version, fields))

    def metadata(self, brokers: Iterable[Broker], topics: Collection[str] = ()) -> TopicMetadata:
        """From the first that answers; of no topic in particular means of all."""
        found: TopicMetadata = self._first(
            brokers,
            lambda broker: decode_metadata_response(
                self._exchange(broker, "Metadata", 0, {"topics": [(topic,) for topic in topics]})
            ),
        )
        return found

    def coordinator(self, brokers: Sequence[Broker], group: str, *, wait_s: float) -> Broker:
        """Who keeps the group's offsets. The first question ever makes brokers create their topic: it is repeated."""
        give_up_s = time.monotonic() + wait_s
        while True:
            answer = self._first(brokers, lambda broker: self.ask(broker, "FindCoordinator", 0, key=group))
            if not answer.error_code:
                return Broker(answer.node_id, answer.host, answer.port)
            if answer.error_code not in NOT_YET or time.monotonic() > give_up_s:
                raise exception_for(answer.error_code, f"no broker keeps the offsets of group {group}")
            self._waiting.wait(BACKOFF_S)

    def log_offsets(self, leaders: Mapping[TopicAndPartition, Broker], when: int) -> Offsets:
        """The offset at EARLIEST, LATEST or a time in ms of each partition, asked of its leader, many at once.

        A partition nobody answers for has the exception. A time after the last message is an exception too.
        """
        found: Offsets = {}
        for broker, partitions in _by_broker(leaders).items():
            consumer = SimpleConsumer(broker, self._settings(), owner=CLIENT_ID)
            try:
                for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
                    found.update(consumer.offsets_of(partitions[start : start + PARTITIONS_AT_ONCE], when))
            except (OSError, KafkaException) as error:
                trouble = KafkaException(
                    f"broker {broker.address} does not tell the offsets of its partitions: {error}"
                )
                found.update({one: trouble for one in partitions if one not in found})
            finally:
                consumer.close()
        return found

    def _settings(self) -> FetcherSettings:
        return FetcherSettings(client_id=CLIENT_ID, socket_timeout_ms=int(self._timeout_s * 1000))

    def _first(self, brokers: Iterable[Broker], ask: Any) -> Any:
        errors = []
        for broker in brokers:
            try:
                return ask(broker)
            except (OSError, KafkaException) as error:
                errors.append(f"{broker.address}: {error or type(error).__name__}")
        raise NoBroker("no broker answers" + (f" ({'; '.join(errors)})" if errors else ": none is known"))

    def _exchange(self, broker: Broker, api: str, version: int, fields: Mapping[str, Any]) -> memoryview:
        key = (broker.host, broker.port)
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = BlockingChannel(
                broker.host,
                broker.port,
                connect_timeout_s=self._timeout_s,
                read_timeout_s=self._timeout_s,
                receive_buffer_bytes=RECEIVE_BUFFER_BYTES,
            )
        try:
            channel.connect()
            channel.send(encode(api, version, 0, CLIENT_ID, **fields))
            return channel.receive()
        except BaseException as error:
            channel.disconnect()
            if isinstance(error, ClosedChannelException | ConnectionResetError):
                raise HungUp(
                    f"broker {broker.address} hung up at a {api} request: it went away, or is too old to know it"
                ) from error
            if isinstance(error, OSError):
                raise KafkaException(f"broker {broker.address} does not answer: {error}") from error
            raise


def parse_bootstrap(text: str) -> list[Broker]:
    """`host:port,host:port` as brokers without a number. Raises ValueError that says what is wrong."""
    found = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{part!r} is no broker: it should be HOST:PORT")
        found.append(Broker(-1, host.strip("[]"), int(port)))
    if not found:
        raise ValueError("no broker given: it should be HOST:PORT, or several with commas between")
    return found


def _by_broker(leaders: Mapping[TopicAndPartition, Broker]) -> dict[Broker, list[TopicAndPartition]]:
    found: dict[Broker, list[TopicAndPartition]] = {}
    for partition, broker in leaders.items():
        found.setdefault(broker, []).append(partition)
    return found


__all__ = ["NOT_YET", "BrokerConnections", "BrokerException", "HungUp", "NoBroker", "parse_bootstrap"]
