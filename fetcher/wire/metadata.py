"""Who leads which partition (api key 3, version 0 as every release of the old consumer sends it).

Pure: bytes in, values out. On a broker with auto-creation, asking for a topic that does not exist creates it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from fetcher.structs import Broker, TopicAndPartition
from fetcher.wire.generated import decode, encode

VERSION = 0


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
    return encode("Metadata", VERSION, correlation_id, client_id, topics=[(topic,) for topic in topics])


def decode_metadata_response(data: memoryview | bytes) -> TopicMetadata:
    """A leader that is not among the brokers of the same answer is no leader."""
    response = decode("Metadata", VERSION, data)
    brokers = {one.node_id: Broker(one.node_id, one.host, one.port) for one in response.brokers}
    leaders: dict[TopicAndPartition, Broker] = {}
    errors: dict[TopicAndPartition, int] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            key = TopicAndPartition(topic.name, partition.partition_index)
            errors[key] = partition.error_code
            if partition.leader_id in brokers:
                leaders[key] = brokers[partition.leader_id]
    return TopicMetadata(brokers, leaders, {topic.name: topic.error_code for topic in response.topics}, errors)
