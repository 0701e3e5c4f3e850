"""The few questions that test servers are asked over the wire, with request versions that all three releases know."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from zkconsumer.testing.errors import ServerError
from zkconsumer.testing.waiting import scaled

TIMEOUT_S = 5.0
EARLIEST, END = -2, -1  # as times in a list-offsets request


class BrokerError(ServerError):
    """A broker answered with an error code, or did not answer. `code` is None if it did not."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class Metadata(NamedTuple):
    """What one broker believes: living brokers, and the leader of each partition (-1: none)."""

    brokers: Mapping[int, str]
    leaders: Mapping[str, Mapping[int, int]]


def metadata(address: str) -> Metadata:
    """About all topics: naming one would create it where auto.create.topics.enable is true."""
    from kafka.protocol.metadata import MetadataRequest, MetadataResponse

    answer = _ask(address, MetadataRequest(topics=[]), MetadataResponse, version=0)
    leaders = {
        topic.name: {
            # 9 (ReplicaNotAvailable) only says that a follower is down.
            partition.partition_index: partition.leader_id if partition.error_code in (0, 9) else -1
            for partition in topic.partitions
        }
        for topic in answer.topics
        if topic.error_code == 0
    }
    return Metadata({broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}, leaders)


def offset_at(address: str, topic: str, partition: int, time: int) -> int:
    """EARLIEST or END of a partition, from the broker that leads it."""
    from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

    asked = ListOffsetsRequest.ListOffsetsTopic
    one = asked.ListOffsetsPartition(partition_index=partition, timestamp=time, max_num_offsets=1)
    request = ListOffsetsRequest(replica_id=-1, topics=[asked(name=topic, partitions=[one])])
    found = _ask(address, request, ListOffsetsResponse, version=0).topics[0].partitions[0]
    _check(found.error_code, address, f"offsets of {topic}-{partition}")
    return int(found.old_style_offsets[0])


def delete_records(address: str, topic: str, before: Mapping[int, int]) -> None:
    """Let partitions begin at these offsets; the broker has to lead them all (0.11 and later)."""
    from kafka.protocol.admin import DeleteRecordsRequest, DeleteRecordsResponse

    asked = DeleteRecordsRequest.DeleteRecordsTopic
    parts = [asked.DeleteRecordsPartition(partition_index=number, offset=offset) for number, offset in before.items()]
    timeout_ms = int(scaled(TIMEOUT_S) * 1000)
    request = DeleteRecordsRequest(topics=[asked(name=topic, partitions=parts)], timeout_ms=timeout_ms)
    for found in _ask(address, request, DeleteRecordsResponse, version=0).topics[0].partitions:
        _check(found.error_code, address, f"deleting records of {topic}-{found.partition_index}")


def _check(code: int, address: str, what: str) -> None:
    if code:
        from kafka.errors import for_code

        raise BrokerError(f"broker {address}, {what}: {for_code(code).__name__} (error {code})", code)


def _ask(address: str, request: Any, response: Any, *, version: int) -> Any:
    """One connection a question: brokers come and go under these."""
    host, _, port = address.rpartition(":")
    request.with_header(correlation_id=1, client_id="zkconsumer-testing")
    try:
        with socket.create_connection((host, int(port)), timeout=scaled(TIMEOUT_S)) as connection:
            connection.sendall(request.encode(version=version, header=True, framed=True))
            with connection.makefile("rb") as stream:
                (size,) = struct.unpack(">i", _read(stream, 4))
                body = _read(stream, size)
    except OSError as error:
        raise BrokerError(f"broker {address}: does not answer ({error})") from error
    return response.decode(body, version=version, header=True)


def _read(stream: Any, size: int) -> bytes:
    data: bytes = stream.read(size)
    if len(data) < size:
        raise ConnectionResetError("it closed the connection")
    return data
