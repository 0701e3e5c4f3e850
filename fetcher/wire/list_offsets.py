"""The first and the last offset of partitions (0.8: OffsetRequest; api key 2, versions 0 and 1).

Pure: bytes in, values out.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from fetcher.structs import TopicAndPartition
from fetcher.wire.api_versions import VersionRange
from fetcher.wire.generated import decode, encode

VERSIONS = VersionRange(0, 1)
EARLIEST = -2  # times that are no times
LATEST = -1
CONSUMER = -1  # the replica id of those that are none


class PartitionOffset(NamedTuple):
    """`offset` is -1 if the error code is not 0, or the broker knows none."""

    error_code: int
    offset: int


def encode_list_offsets_request(
    version: int, correlation_id: int, client_id: str, partitions: Collection[TopicAndPartition], time: int
) -> bytes:
    """One offset of each partition, at EARLIEST or LATEST or the time in milliseconds."""
    by_topic: dict[str, list[tuple[int, ...]]] = {}
    for topic, partition in partitions:
        asked = (partition, time, 1) if version == 0 else (partition, time)
        by_topic.setdefault(topic, []).append(asked)
    return encode("ListOffsets", version, correlation_id, client_id, replica_id=CONSUMER, topics=list(by_topic.items()))


def decode_list_offsets_response(version: int, data: memoryview | bytes) -> dict[TopicAndPartition, PartitionOffset]:
    """What the broker says of each partition; in version 0 a list of offsets, of which we asked for one."""
    response = decode("ListOffsets", version, data)
    answers: dict[TopicAndPartition, PartitionOffset] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            offsets = partition.old_style_offsets if version == 0 else [partition.offset]
            offset = offsets[0] if offsets and not partition.error_code else -1
            answers[TopicAndPartition(topic.name, partition.partition_index)] = PartitionOffset(
                partition.error_code, offset
            )
    return answers
