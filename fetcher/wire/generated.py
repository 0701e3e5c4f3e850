"""Requests and answers by the classes that kafka-python generates from Kafka's own schemas.

All that is odd about that package stays here: importing it costs a tenth of a second of CPU time and 200 modules, so it
waits for the first such request, and what every consumer asks (metadata, versions, first and last offsets, fetches) is
written out in files of its own; it also encodes the versions 0 that later releases dropped; its nested values may be
given as tuples, in the order of the schema; and bytes that make no sense raise whatever struct and slices raise, which
becomes one MalformedResponseException.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from fetcher.errors import MalformedResponseException

_MODULES = {
    "ApiVersions": "kafka.protocol.metadata",
    "DeleteGroups": "kafka.protocol.admin",
    "DeleteRecords": "kafka.protocol.admin",
    "DescribeGroups": "kafka.protocol.admin",
    "FindCoordinator": "kafka.protocol.metadata",
    "Heartbeat": "kafka.protocol.consumer",
    "JoinGroup": "kafka.protocol.consumer",
    "LeaveGroup": "kafka.protocol.consumer",
    "ListGroups": "kafka.protocol.admin",
    "ListOffsets": "kafka.protocol.consumer",
    "Metadata": "kafka.protocol.metadata",
    "OffsetCommit": "kafka.protocol.consumer",
    "OffsetDelete": "kafka.protocol.consumer",
    "OffsetFetch": "kafka.protocol.consumer",
    "SyncGroup": "kafka.protocol.consumer",
}


def encode(api: str, version: int, correlation_id: int, client_id: str, **fields: Any) -> bytes:
    """A whole request with its length. Fields that a version does not have are left out of it."""
    request = _class(api, "Request")(version=version, **fields)
    request.with_header(correlation_id=correlation_id, client_id=client_id)
    return bytes(request.encode(header=True, framed=True))


def decode(api: str, version: int, data: memoryview | bytes) -> Any:
    """An answer, correlation id included, as the generated class; lists in it may be empty, never missing."""
    try:
        return _class(api, "Response").decode(bytes(data), version=version, header=True)
    except Exception as error:  # struct.error, IndexError, UnicodeDecodeError, … : the package promises nothing
        raise MalformedResponseException(
            f"{api} response, version {version}, {len(data)} bytes: cannot be read: {error!r}"
        ) from error


def decode_request(api: str, version: int, data: memoryview | bytes) -> Any:
    """A request with its header but without its length, as somebody else has sent it."""
    return _class(api, "Request").decode(bytes(data), version=version, header=True)


@cache
def _class(api: str, kind: str) -> Any:
    return getattr(importlib.import_module(_MODULES[api]), api + kind)
