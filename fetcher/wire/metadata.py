"""Who leads which partition (api key 3, version 0 as every release of the old consumer sends it).

Pure: bytes in, values out. On a broker with auto-creation, asking for a topic that does not exist creates it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from fetcher.structs import Broker, TopicAndPartition
from fetcher.wire.primitives import INT16, INT32, Reader, encode_array, encode_request, encode_string

METADATA_KEY = 3
VERSION = 0

_PARTITION = Struct(">hii")  # error, partition, leader
_SMALLEST_BROKER = 10
_SMALLEST_TOPIC = 8
_SMALLEST_PARTITION = 18
_REPLICA = 4


class TopicMetadata(NamedTuple):
    """What one broker believes."""

    brokers: Mapping[int, Broker]
    leaders: Mapping[TopicAndPartition, Broker]  # partitions without a leader are not in it
    topic_errors: Mapping[str, int]  # of the topics asked for; 0: none
    partition_errors: Mapping[TopicAndPartition, int]


def encode_metadata_request(correlation_id: int, client_id: str, topics: Collection[str]) -> bytes:
    """For these topics. An empty list would mean all of them, so it is refused."""
    if not topics:
        raise ValueError("metadata of no topic: to a broker that means all of them")
    body = encode_array([encode_string(topic) for topic in topics])
    return encode_request(METADATA_KEY, VERSION, correlation_id, client_id, body)


def decode_metadata_response(data: memoryview | bytes) -> TopicMetadata:
    """A leader that is not among the brokers of the same answer is no leader."""
    reader = Reader(data, f"metadata response, version {VERSION}, {len(data)} bytes")
    reader.number(INT32, "correlation id")
    brokers = {
        broker.id: broker for broker in [_broker(reader) for _ in range(reader.count("brokers", _SMALLEST_BROKER))]
    }
    leaders: dict[TopicAndPartition, Broker] = {}
    topic_errors: dict[str, int] = {}
    partition_errors: dict[TopicAndPartition, int] = {}
    for _ in range(reader.count("topics", _SMALLEST_TOPIC)):
        error_code, topic = reader.number(INT16, "error code of a topic"), reader.string("topic")
        topic_errors[topic] = error_code
        form, counts = _partition_form(1, 1), (1, 1)
        for _ in range(reader.count(f"partitions of {topic}", _SMALLEST_PARTITION)):
            # Nearly always there are as many replicas as of the one before.
            plain = reader.if_there(form)
            if plain is not None and plain[3:] == counts:
                error_code, partition, leader, *_ = plain
                reader.skip(form.size)
            else:
                error_code, partition, leader = reader.numbers(_PARTITION, f"a partition of {topic}")
                counts = _skip_numbers(reader, "replicas"), _skip_numbers(reader, "replicas in sync")
                form = _partition_form(*counts)
            key = TopicAndPartition(topic, partition)
            partition_errors[key] = error_code
            if leader in brokers:
                leaders[key] = brokers[leader]
    return TopicMetadata(brokers, leaders, topic_errors, partition_errors)


@lru_cache(maxsize=64)
def _partition_form(replicas: int, in_sync: int) -> Struct:
    """A whole one with so many: its numbers, and the two counts."""
    return Struct(f">hiii{_REPLICA * replicas}xi{_REPLICA * in_sync}x")


def _skip_numbers(reader: Reader, field: str) -> int:
    count = reader.count(field, _REPLICA)
    reader.skip(count * _REPLICA)
    return count


def _broker(reader: Reader) -> Broker:
    return Broker(reader.number(INT32, "broker"), reader.string("host"), reader.number(INT32, "port"))
