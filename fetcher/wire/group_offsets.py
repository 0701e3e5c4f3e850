"""Offsets that Kafka keeps for a group: who keeps them, write them, read them (api keys 10, 8 and 9).

Pure: bytes in, values out. Versions as the old consumer sends them: find 0; commit 1 (0.8.2) or 2 (0.9 and later);
fetch 1, or 2 (0.10.2 and later). Version 0 of commit and fetch means "in ZooKeeper" to a broker and is refused here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from fetcher.structs import Broker, OffsetAndMetadata, TopicAndPartition
from fetcher.wire.generated import decode, encode

FIND_COORDINATOR_VERSION = 0
COMMIT_VERSIONS = (1, 2)
FETCH_VERSIONS = (1, 2)
NO_GENERATION = -1
NO_TIME = -1  # the broker's clock, and its own time to keep offsets


class GroupCoordinator(NamedTuple):
    """The broker that keeps the group's offsets, if the error code is 0."""

    error_code: int
    broker: Broker


class StoredOffset(NamedTuple):
    """What is stored for a partition: offset -1 and no error if nothing is."""

    offset: int
    metadata: str
    error_code: int


class StoredOffsets(NamedTuple):
    """`error_code` is about the whole answer (version 2 only)."""

    error_code: int
    partitions: Mapping[TopicAndPartition, StoredOffset]


def encode_find_coordinator_request(correlation_id: int, client_id: str, group: str) -> bytes:
    """Who keeps the offsets of this group (0.8: ConsumerMetadataRequest)."""
    return encode("FindCoordinator", FIND_COORDINATOR_VERSION, correlation_id, client_id, key=group)


def decode_find_coordinator_response(data: memoryview | bytes) -> GroupCoordinator:
    """With an error the broker is -1 at no address."""
    response = decode("FindCoordinator", FIND_COORDINATOR_VERSION, data)
    return GroupCoordinator(response.error_code, Broker(response.node_id, response.host, response.port))


def encode_offset_commit_request(
    version: int,
    correlation_id: int,
    client_id: str,
    group: str,
    offsets: Mapping[TopicAndPartition, OffsetAndMetadata],
) -> bytes:
    """All of these offsets, of no generation and no member."""
    _check(version, COMMIT_VERSIONS, "commit")
    by_topic: dict[str, list[tuple[int | str, ...]]] = {}
    for (topic, partition), (offset, metadata) in offsets.items():
        written = (partition, offset, NO_TIME, metadata) if version == 1 else (partition, offset, metadata)
        by_topic.setdefault(topic, []).append(written)
    return encode(
        "OffsetCommit",
        version,
        correlation_id,
        client_id,
        group_id=group,
        generation_id_or_member_epoch=NO_GENERATION,
        member_id="",
        retention_time_ms=NO_TIME,
        topics=list(by_topic.items()),
    )


def decode_offset_commit_response(version: int, data: memoryview | bytes) -> dict[TopicAndPartition, int]:
    """The error code of each partition; 0: written."""
    response = decode("OffsetCommit", version, data)
    return {
        TopicAndPartition(topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }


def encode_offset_fetch_request(
    version: int, correlation_id: int, client_id: str, group: str, partitions: Collection[TopicAndPartition]
) -> bytes:
    """What is stored for these partitions."""
    _check(version, FETCH_VERSIONS, "fetch")
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return encode("OffsetFetch", version, correlation_id, client_id, group_id=group, topics=list(by_topic.items()))


def decode_offset_fetch_response(version: int, data: memoryview | bytes) -> StoredOffsets:
    """What is stored, and what went wrong, partition by partition."""
    response = decode("OffsetFetch", version, data)
    stored = {
        TopicAndPartition(topic.name, partition.partition_index): StoredOffset(
            partition.committed_offset, partition.metadata or "", partition.error_code
        )
        for topic in response.topics
        for partition in topic.partitions
    }
    return StoredOffsets(response.error_code if version >= 2 else 0, stored)


def _check(version: int, known: tuple[int, ...], what: str) -> None:
    if version not in known:
        raise ValueError(f"offset {what} request, version {version}: one of {known} is spoken here")
