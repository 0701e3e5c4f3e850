"""One connection to one broker, and the requests a consumer sends over it (0.8: kafka.consumer.SimpleConsumer).

Rule: one request at a time, by the thread that owns it. A fetch or offsets request that fails is sent once more over a
new connection; only then is its error raised. abort(), from any thread, ends all that.

A fetch may be asked for ahead, ask_ahead(), while what came before is still being worked on. It is the same request,
sent earlier, and still the only one: its answer is taken by the fetch() that wants just this.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, TypeVar

from fetcher.channel import BlockingChannel, ChannelAborted
from fetcher.errors import (
    ClosedChannelException,
    KafkaException,
    MalformedResponseException,
    UnsupportedVersionException,
    exception_for,
)
from fetcher.fetch_statistics import FetchStatistics
from fetcher.settings import FetcherSettings, RequestVersions
from fetcher.structs import Broker, TopicAndPartition
from fetcher.wire import api_versions, list_offsets, metadata
from fetcher.wire.api_versions import ANCIENT, FETCH, LIST_OFFSETS, VersionRange, Versions
from fetcher.wire.fetch import FetchResponse, decode_fetch_response, encode_fetch_request

log = logging.getLogger(__name__)

T = TypeVar("T")

# From version 11 on followers answer too (KIP-392): one would stay with a broker that no longer leads. 10 has it all.
FETCH_VERSIONS = VersionRange(0, 10)
CONNECTION_ERRORS = (OSError, KafkaException)
FIRST_VERSION_WITH_OVERSIZED_MESSAGES = 3  # KIP-74: at least one message comes, however large
FIRST_VERSION_WITH_FULL_ANSWERS = 3  # and an answer as a whole has a largest size
OFFSETS_CORRELATION_ID = 0  # As in 0.8.2.2: of every offsets request; fetches alone count
LARGEST_INT32 = 2**31 - 1
ENTRY_PREFIX = struct.Struct(">qi")  # offset, and the size of what follows

# What a release of the old consumer sends, whatever the broker could do (fetch, offsets).
FIXED_VERSIONS: Mapping[RequestVersions, Versions] = {
    "0.8.2": {FETCH: VersionRange(0, 0), LIST_OFFSETS: VersionRange(0, 0)},
    "0.9": {FETCH: VersionRange(1, 1), LIST_OFFSETS: VersionRange(0, 0)},
    "1.1": {FETCH: VersionRange(3, 3), LIST_OFFSETS: VersionRange(0, 0)},
}


class AncientBrokers:
    """Those that cannot be asked for their versions (before 0.10), so that not every connection tries again."""

    def __init__(self) -> None:
        self._brokers: set[Broker] = set()  # single additions and removals, which are atomic

    def __contains__(self, broker: Broker) -> bool:
        return broker in self._brokers

    def remember(self, broker: Broker) -> None:
        """It closed the connection when asked, and answered a request of version 0 on the next one."""
        self._brokers.add(broker)

    def forget(self, broker: Broker) -> None:
        """Its connection failed: what comes back may be a newer release."""
        self._brokers.discard(broker)


class _Ahead(NamedTuple):
    """A fetch request that was sent, its answer not yet received."""

    partitions: dict[TopicAndPartition, tuple[int, int]]
    version: int
    correlation_id: int


class SimpleConsumer:
    """Connects when first used, and again after an error; close() and abort() end it."""

    def __init__(
        self,
        broker: Broker,
        settings: FetcherSettings,
        *,
        owner: str,
        ancient_brokers: AncientBrokers | None = None,
        statistics: FetchStatistics | None = None,
    ) -> None:
        """`owner` is the name of the thread that uses it, for log lines."""
        self.broker = broker
        self._settings = settings
        self._owner = owner
        self._ancient_brokers = ancient_brokers if ancient_brokers is not None else AncientBrokers()
        self._statistics = statistics if statistics is not None else FetchStatistics()
        self._channel = BlockingChannel(
            broker.host,
            broker.port,
            connect_timeout_s=settings.socket_timeout_s,
            read_timeout_s=settings.socket_timeout_s,
            receive_buffer_bytes=settings.socket_receive_buffer_bytes,
        )
        self._versions: Versions | None = None  # of the broker, while connected
        self._seems_ancient = False
        self._correlation_id = -1
        self._fetch_version = 0
        self._ahead: _Ahead | None = None

    @property
    def fetch_version(self) -> int:
        """The version of the last fetch request."""
        return self._fetch_version

    def fetch(self, partitions: Mapping[TopicAndPartition, tuple[int, int]]) -> FetchResponse:
        """Ask for {partition: (offset, fetch size)} in one request."""
        started = time.monotonic()
        version, data = self._send_at_most_twice(lambda: self._ask_to_fetch(partitions))
        self._statistics.answered(seconds=time.monotonic() - started, size_bytes=len(data))
        response = self._decoded(lambda: decode_fetch_response(version, data))
        if response.error_code:
            raise exception_for(response.error_code)
        if version < FIRST_VERSION_WITH_OVERSIZED_MESSAGES or self._settings.deliver_oversized_messages:
            return response
        return _without_oversized(response, partitions)

    def ask_ahead(self, partitions: Mapping[TopicAndPartition, tuple[int, int]]) -> bool:
        """Send the request of the next fetch() now. False if it was not sent: then fetch() asks as if nothing had been.

        Unlike 0.8.2.2: brokers see a request before its predecessor's answer is queued. Where requests are to be those
        of a release (request_versions), this does nothing.
        """
        if self._settings.request_versions != "newest" or not self._channel.is_connected or self._ahead is not None:
            return False
        try:
            version, encode = self._fetch_request(partitions)
            self._ahead = _Ahead(dict(partitions), version, self._send(encode))
        except CONNECTION_ERRORS:
            self._disconnect()
            return False
        return True

    def describe_fetch(self, partitions: Mapping[TopicAndPartition, tuple[int, int]]) -> str:
        """The last fetch request as 0.8.2.2 shows it in its log."""
        settings = self._settings
        details = ",".join(
            f"{partition} -> PartitionFetchInfo({offset},{size})" for partition, (offset, size) in partitions.items()
        )
        return (
            f"Name: FetchRequest; Version: {self._fetch_version}; CorrelationId: {self._correlation_id}; "
            f"ClientId: {settings.client_id}; ReplicaId: -1; MaxWait: {settings.fetch_wait_max_ms} ms; "
            f"MinBytes: {settings.fetch_min_bytes} bytes; RequestInfo: {details}"
        )

    def offsets_before(self, partition: TopicAndPartition, time: int) -> int:
        """The first (list_offsets.EARLIEST) or next (LATEST) offset of a partition this broker leads."""
        offset = self.offsets_of([partition], time)[partition]
        if isinstance(offset, KafkaException):
            raise offset
        return offset

    def offsets_of(
        self, partitions: Collection[TopicAndPartition], time: int
    ) -> dict[TopicAndPartition, int | KafkaException]:
        """The same of many in one request; a partition the broker has no answer for has an exception instead."""
        version, data = self._send_at_most_twice(lambda: self._ask_for_offsets(partitions, time))
        answers = self._decoded(lambda: list_offsets.decode_list_offsets_response(version, data))
        return {partition: _offset_or_error(partition, answers, self.broker) for partition in partitions}

    def metadata(self, topics: Collection[str], correlation_id: int) -> metadata.TopicMetadata:
        """Who leads the partitions of these topics, as this broker believes. Sent once (0.8: by a SyncProducer)."""
        self._correlation_id = correlation_id - 1
        try:
            self._forget_ahead()
            self._channel.connect()
            data = self._exchange(
                lambda number: metadata.encode_metadata_request(number, self._settings.client_id, topics)
            )
            return metadata.decode_metadata_response(data)
        except BaseException:
            self._disconnect()
            raise

    def close(self) -> None:
        """Disconnect. Called by: the thread that owns it, or its owner after that thread has ended."""
        self._disconnect()

    def abort(self) -> None:
        """Make the request under way, and every later one, raise at once. Called by: any thread."""
        self._channel.abort()

    def _send_at_most_twice(self, ask: Callable[[], tuple[int, memoryview]]) -> tuple[int, memoryview]:
        try:
            self._channel.connect()
            return ask()
        except ChannelAborted:
            self._disconnect()
            raise
        except CONNECTION_ERRORS as error:
            log.info("[%s], Reconnect due to socket error: %s", self._owner, _as_text(error))
        self._disconnect()
        self._ancient_brokers.forget(self.broker)
        try:
            self._channel.connect()
            return ask()
        except BaseException:
            self._disconnect()
            raise

    def _ask_to_fetch(self, partitions: Mapping[TopicAndPartition, tuple[int, int]]) -> tuple[int, memoryview]:
        ahead = self._ahead
        if ahead is not None and ahead.partitions == partitions:
            self._ahead = None
            return ahead.version, self._answer_to(ahead.correlation_id)
        self._forget_ahead()
        version, encode = self._fetch_request(partitions)
        return version, self._exchange(encode)

    def _fetch_request(
        self, partitions: Mapping[TopicAndPartition, tuple[int, int]]
    ) -> tuple[int, Callable[[int], bytes]]:
        settings = self._settings
        self._fetch_version = version = self._version_for(FETCH, FETCH_VERSIONS)
        # As in 0.10.1 to 1.1, if their requests are asked for: no limit of the whole answer.
        max_bytes = settings.fetch_max_bytes if settings.request_versions == "newest" else LARGEST_INT32
        return version, lambda number: encode_fetch_request(
            version,
            number,
            settings.client_id,
            settings.fetch_wait_max_ms,
            settings.fetch_min_bytes,
            max_bytes,
            partitions,
        )

    def _ask_for_offsets(self, partitions: Collection[TopicAndPartition], time: int) -> tuple[int, memoryview]:
        self._forget_ahead()
        version = self._version_for(LIST_OFFSETS, list_offsets.VERSIONS)
        client_id = self._settings.client_id
        data = self._exchange(
            lambda number: list_offsets.encode_list_offsets_request(version, number, client_id, partitions, time),
            OFFSETS_CORRELATION_ID,
        )
        return version, data

    def _exchange(self, encode: Callable[[int], bytes], correlation_id: int | None = None) -> memoryview:
        """Send one request and wait for its answer; `encode` is given the correlation id, by default the next one."""
        return self._answer_to(self._send(encode, correlation_id))

    def _send(self, encode: Callable[[int], bytes], correlation_id: int | None = None) -> int:
        if correlation_id is None:
            self._correlation_id = correlation_id = (self._correlation_id + 1) % LARGEST_INT32
        self._channel.send(encode(correlation_id))
        return correlation_id

    def _answer_to(self, correlation_id: int) -> memoryview:
        data = self._channel.receive()
        answered = int.from_bytes(data[:4], "big", signed=True)
        if answered != correlation_id:
            raise MalformedResponseException(
                f"{self.broker.address} answered request {answered}, asked was {correlation_id}"
            )
        if self._seems_ancient:
            self._ancient_brokers.remember(self.broker)
        return data

    def _decoded(self, decode: Callable[[], T]) -> T:
        try:
            return decode()
        except MalformedResponseException:
            self._disconnect()  # whoever sends this may send anything next
            raise

    def _version_for(self, api_key: int, ours: VersionRange) -> int:
        if self._versions is None:
            self._versions = self._find_versions()
        version = api_versions.newest_of(self._versions, api_key, ours)
        if version is None:
            raise UnsupportedVersionException(
                f"{self.broker.address} takes versions {self._versions.get(api_key)} of request {api_key}; "
                f"this consumer speaks {ours.first} to {ours.last}"
            )
        return version

    def _find_versions(self) -> Versions:
        fixed = FIXED_VERSIONS.get(self._settings.request_versions)
        if fixed is not None:
            return fixed
        if self.broker in self._ancient_brokers:
            return ANCIENT
        try:
            data = self._exchange(
                lambda number: api_versions.encode_api_versions_request(number, self._settings.client_id)
            )
        except ChannelAborted:
            raise
        except (ClosedChannelException, ConnectionError):
            # Brokers before 0.10 close the connection. So does one that stops just now: believed when it answers.
            self._disconnect()
            self._channel.connect()
            self._seems_ancient = True
            return ANCIENT
        return api_versions.decode_api_versions_response(data)

    def _forget_ahead(self) -> None:
        """Nobody wants that answer, and another request cannot wait behind it."""
        if self._ahead is not None:
            self._disconnect()
            self._channel.connect()

    def _disconnect(self) -> None:
        self._channel.disconnect()
        self._ahead = None
        self._versions = None
        self._seems_ancient = False


def _offset_or_error(
    partition: TopicAndPartition, answers: Mapping[TopicAndPartition, list_offsets.PartitionOffset], broker: Broker
) -> int | KafkaException:
    answer = answers.get(partition)
    if answer is None:
        return MalformedResponseException(f"{broker.address} was asked for the offset of {partition}, and left it out")
    if answer.error_code:
        return exception_for(answer.error_code)
    if answer.offset < 0:
        return KafkaException(f"{broker.address} knows no offset of {partition}")
    return answer.offset


def _without_oversized(response: FetchResponse, asked: Mapping[TopicAndPartition, tuple[int, int]]) -> FetchResponse:
    """Cut what begins with an entry larger than the fetch size, as versions 0 to 2 of the request have it cut."""
    for partition, fetched in response.partitions.items():
        messages = fetched.messages
        if partition not in asked or len(messages) < ENTRY_PREFIX.size:
            continue
        _, fetch_size = asked[partition]
        _, size = ENTRY_PREFIX.unpack_from(messages)
        if ENTRY_PREFIX.size + size > fetch_size:
            response.partitions[partition] = fetched._replace(messages=messages[:fetch_size])
    return response


def _as_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


__all__ = ["CONNECTION_ERRORS", "AncientBrokers", "SimpleConsumer"]
