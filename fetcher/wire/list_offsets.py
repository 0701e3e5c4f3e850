"""The first and the last offset of partitions (0.8: OffsetRequest; api key 2, versions 0 and 1).

Pure: bytes in, values out.
"""

from __future__ import annotations

from collections.abc import Collection
from struct import Struct
from typing import NamedTuple

from fetcher.structs import TopicAndPartition
from fetcher.wire.api_versions import LIST_OFFSETS, VersionRange
from fetcher.wire.primitives import INT32, Reader, encode_array, encode_request, encode_string

VERSIONS = VersionRange(0, 1)
EARLIEST = -2  # times that are no times
LATEST = -1
CONSUMER = -1  # the replica id of those that are none

_ASKED = (Struct(">iqi"), Struct(">iq"))  # partition and time; version 0: and how many
_ANSWER = (Struct(">ih"), Struct(">ihqq"))  # partition and error; version 1: a message's time and offset
_OFFSET = Struct(">q")
_SMALLEST_TOPIC = 6
_SMALLEST_PARTITION = 10


class PartitionOffset(NamedTuple):
    """`offset` is -1 if the error code is not 0, or the broker knows none."""

    error_code: int
    offset: int


def encode_list_offsets_request(
    version: int, correlation_id: int, client_id: str, partitions: Collection[TopicAndPartition], time: int
) -> bytes:
    """One offset of each partition, at EARLIEST or LATEST or the time in milliseconds."""
    by_topic: dict[str, list[bytes]] = {}
    for topic, partition in partitions:
        asked = (partition, time, 1) if version == 0 else (partition, time)
        by_topic.setdefault(topic, []).append(_ASKED[version].pack(*asked))
    topics = encode_array([encode_string(topic) + encode_array(asked) for topic, asked in by_topic.items()])
    return encode_request(LIST_OFFSETS, version, correlation_id, client_id, INT32.pack(CONSUMER) + topics)


def decode_list_offsets_response(version: int, data: memoryview | bytes) -> dict[TopicAndPartition, PartitionOffset]:
    """What the broker says of each partition; in version 0 a list of offsets, of which we asked for one."""
    reader = Reader(data, f"offsets response, version {version}, {len(data)} bytes")
    reader.number(INT32, "correlation id")
    answers: dict[TopicAndPartition, PartitionOffset] = {}
    for _ in range(reader.count("topics", _SMALLEST_TOPIC)):
        topic = reader.string("topic")
        for _ in range(reader.count(f"partitions of {topic}", _SMALLEST_PARTITION)):
            partition, error_code, *found = reader.numbers(_ANSWER[version], f"a partition of {topic}")
            if version == 0:
                count = reader.count(f"offsets of [{topic},{partition}]", _OFFSET.size)
                offsets = [reader.number(_OFFSET, "an offset") for _ in range(count)]
            else:
                offsets = found[1:]
            offset = offsets[0] if offsets and not error_code else -1
            answers[TopicAndPartition(topic, partition)] = PartitionOffset(error_code, offset)
    return answers
