"""Offsets that Kafka keeps: the bytes of wire/group_offsets on real brokers of all releases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest

from fetcher.channel import BlockingChannel
from fetcher.structs import Broker, OffsetAndMetadata, TopicAndPartition
from fetcher.wire import group_offsets
from fetcher.wire.group_offsets import StoredOffset
from zkconsumer.testing.kafka import KAFKA_VERSIONS, KafkaCluster
from zkconsumer.testing.waiting import eventually, scaled


@contextmanager
def connected(address: str) -> Iterator[BlockingChannel]:
    host, _, port = address.rpartition(":")
    channel = BlockingChannel(
        host, int(port), connect_timeout_s=scaled(10), read_timeout_s=scaled(30), receive_buffer_bytes=65536
    )
    try:
        channel.connect()
        yield channel
    finally:
        channel.disconnect()


def asked(channel: BlockingChannel, request: bytes) -> memoryview:
    channel.send(request)
    return channel.receive()


@pytest.mark.parametrize(
    ("release", "versions"),
    [
        pytest.param(release, versions, marks=pytest.mark.kafka(release))
        for release in KAFKA_VERSIONS
        for versions in ((1, 1), (2, 1), (2, 2))
        if release != "0.8.2.2" or versions == (1, 1)
    ],
)
def test_what_is_committed_is_found_again(kafka: KafkaCluster, release: str, versions: tuple[int, int]) -> None:
    """Commit and fetch in the versions of 0.8.2, 0.9 and 1.1."""
    commit_version, fetch_version = versions
    group, topic = f"group-{uuid4().hex[:8]}", f"topic-{uuid4().hex[:8]}"
    kafka.create_topic(topic, partitions=2)
    written, unwritten = TopicAndPartition(topic, 0), TopicAndPartition(topic, 1)
    with connected(kafka.brokers[0].address) as channel:

        def find() -> Broker | None:
            request = group_offsets.encode_find_coordinator_request(1, "client", group)
            error_code, broker = group_offsets.decode_find_coordinator_response(asked(channel, request))
            return broker if error_code == 0 else None

        def commit() -> bool:
            request = group_offsets.encode_offset_commit_request(
                commit_version, 2, "client", group, {written: OffsetAndMetadata(42, "a note")}
            )
            answer = group_offsets.decode_offset_commit_response(commit_version, asked(channel, request))
            return answer == {written: 0}

        coordinator = eventually(find, timeout_s=60)
        assert coordinator is not None and coordinator.address == kafka.brokers[0].address
        eventually(commit, timeout_s=60)  # it may still be loading its offsets
        request = group_offsets.encode_offset_fetch_request(fetch_version, 3, "client", group, [written, unwritten])
        stored = group_offsets.decode_offset_fetch_response(fetch_version, asked(channel, request))

        assert stored.error_code == 0
        assert stored.partitions[written] == StoredOffset(42, "a note", 0)
        assert stored.partitions[unwritten].offset == -1
