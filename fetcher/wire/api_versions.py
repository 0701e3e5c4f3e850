"""Which versions of its requests a broker takes (api key 18, from 0.10 on).

Older brokers close the connection on it, as on any request they do not know. Pure: bytes in, values out.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import NamedTuple

from fetcher.errors import exception_for
from fetcher.wire.primitives import INT16, INT32, Reader, encode_request

FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
API_VERSIONS = 18

_API = Struct(">hhh")  # key, first and last version


class VersionRange(NamedTuple):
    """From first to last, both included."""

    first: int
    last: int


Versions = Mapping[int, VersionRange]

# Before 0.10 nobody could be asked. All of these know version 0, and 0.8.2 knows nothing else that we use to fetch.
ANCIENT: Versions = {key: VersionRange(0, 0) for key in (FETCH, LIST_OFFSETS, METADATA)}


def encode_api_versions_request(correlation_id: int, client_id: str) -> bytes:
    """Version 0, which every broker that knows the request answers."""
    return encode_request(API_VERSIONS, 0, correlation_id, client_id, b"")


def decode_api_versions_response(data: memoryview | bytes) -> Versions:
    """The broker's range for each api key. Raises what its error code stands for."""
    reader = Reader(data, f"versions response, {len(data)} bytes")
    reader.number(INT32, "correlation id")
    error_code = reader.number(INT16, "error code")
    apis = [reader.numbers(_API, "a request's versions") for _ in range(reader.count("requests", _API.size))]
    if error_code:
        raise exception_for(error_code)
    return {key: VersionRange(first, last) for key, first, last in apis}


def newest_of(versions: Versions, api_key: int, ours: VersionRange) -> int | None:
    """The highest version that both sides know; None if there is none."""
    theirs = versions.get(api_key)
    if theirs is None:
        return None
    newest = min(theirs.last, ours.last)
    return newest if newest >= max(theirs.first, ours.first) else None
