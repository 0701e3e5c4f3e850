"""Which versions of its requests a broker takes (api key 18, from 0.10 on).

Older brokers close the connection on it, as on any request they do not know. Pure: bytes in, values out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fetcher.errors import exception_for
from fetcher.wire.generated import decode, encode

FETCH = 1
LIST_OFFSETS = 2
METADATA = 3


class VersionRange(NamedTuple):
    """From first to last, both included."""

    first: int
    last: int


Versions = Mapping[int, VersionRange]

# Before 0.10 nobody could be asked. All of these know version 0, and 0.8.2 knows nothing else that we use to fetch.
ANCIENT: Versions = {key: VersionRange(0, 0) for key in (FETCH, LIST_OFFSETS, METADATA)}


def encode_api_versions_request(correlation_id: int, client_id: str) -> bytes:
    """Version 0, which every broker that knows the request answers."""
    return encode("ApiVersions", 0, correlation_id, client_id)


def decode_api_versions_response(data: memoryview | bytes) -> Versions:
    """The broker's range for each api key. Raises what its error code stands for."""
    response = decode("ApiVersions", 0, data)
    if response.error_code:
        raise exception_for(response.error_code)
    return {one.api_key: VersionRange(one.min_version, one.max_version) for one in response.api_keys}


def newest_of(versions: Versions, api_key: int, ours: VersionRange) -> int | None:
    """The highest version that both sides know; None if there is none."""
    theirs = versions.get(api_key)
    if theirs is None:
        return None
    newest = min(theirs.last, ours.last)
    return newest if newest >= max(theirs.first, ours.first) else None
