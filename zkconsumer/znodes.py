"""Bytes of znodes to values and back (0.8: TopicCount, ZkUtils, Broker.createBroker, Json).

Pure. What we write is read by members of every release: byte for byte what 0.8.2.2 writes, and no JSON number beyond
32 bits, which makes its parser give up on the whole node. What we read may be anything; bytes that mean nothing raise
UnreadableZnode without a path, which the caller adds (`error.at(path)`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NoReturn

from fetcher.structs import Broker
from zkconsumer.errors import UnreadableZnode

Pattern = Literal["static", "white_list", "black_list"]

NO_TIMESTAMP = -1
PLAINTEXT = "PLAINTEXT"

_INT_32 = range(-(1 << 31), 1 << 31)
_INT_64 = range(-(1 << 63), 1 << 63)
_JAVA_INTEGER = re.compile(r"[+-]?\d{1,40}")  # more digits fit nowhere, and would only take time
_ENDPOINT = re.compile(r"(?P<listener>[^:/]+)://\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>-?[0-9]{1,10})")
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES = str.maketrans({chr(code): f"\\u{code:04x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | _SHORT_ESCAPES)


@dataclass(frozen=True, slots=True)
class Registration:
    """What a member's `ids` node says: topics or one regex, each with a number of streams."""

    subscription: Mapping[str, int]
    pattern: Pattern
    timestamp_ms: int = NO_TIMESTAMP


def encode_registration(registration: Registration) -> bytes:
    """The node's bytes. Raises ValueError for a number no 0.8 member could read."""
    for name, streams in registration.subscription.items():
        if streams not in _INT_32:
            raise ValueError(f"{streams} streams of {name} do not fit into 32 bits")
    entries = ",".join(f'"{escape(name)}":{streams}' for name, streams in registration.subscription.items())
    # The timestamp is text: as a number it would not fit into 32 bits.
    return _to_bytes(
        f'{{"version":1,"subscription":{{{entries}}},"pattern":"{registration.pattern}",'
        f'"timestamp":"{registration.timestamp_ms}"}}'
    )


def decode_registration(data: bytes | None) -> Registration:
    """A member's subscription. Version and timestamp may be missing or strange; an unknown pattern means static."""
    # Unlike 0.8.2.2: numbers beyond 32 bits do not make the node unreadable (a numeric timestamp is common elsewhere).
    content = _json_object(data)
    if content is None or "pattern" not in content or "subscription" not in content:
        raise UnreadableZnode("", data, f"error constructing TopicCount : {_to_text(data)}")
    pattern, subscription = content["pattern"], content["subscription"]
    if not isinstance(subscription, dict) or not all(_is_int_32(streams) for streams in subscription.values()):
        raise UnreadableZnode("", data, f"error constructing TopicCount : {_to_text(data)}")
    return Registration(
        subscription={name: int(streams) for name, streams in subscription.items()},
        pattern=pattern if subscription and pattern in ("white_list", "black_list") else "static",
        timestamp_ms=_timestamp(content.get("timestamp")),
    )


def escape(text: str) -> str:
    """Text as it stands between the quotes of our JSON (0.8: Utils.JSONEscapeString)."""
    return text.translate(_ESCAPES)


def decode_broker(broker_id: int, data: bytes | None, *, read_endpoints: bool = True) -> Broker:
    """Where a broker is reached without encryption. One that cannot be has host `null` and port -1, as in 0.8.

    read_endpoints=False: only the fields that 0.8 knew.
    """
    content = _json_object(data)
    if content is None:
        raise _unreadable_broker(data)
    version = content.get("version")
    if read_endpoints and isinstance(version, int | float) and version >= 2:
        address = _plaintext_endpoint(content)
        if address is not None:
            return Broker(broker_id, *address)
    host, port = content.get("host", ...), content.get("port")
    if not (host is None or isinstance(host, str)) or not _is_int_32(port):
        raise _unreadable_broker(data)
    return Broker(broker_id, "null" if host is None else host, int(str(port)))


def decode_partitions(data: bytes | None) -> list[int]:
    """A topic's partitions in numeric order; none if the node is missing, no JSON, or says nothing of partitions."""
    return list(_partitions(data))


@lru_cache(maxsize=64)  # every rebalance reads what hardly ever changes
def _partitions(data: bytes | None) -> tuple[int, ...]:
    content = _json_object(data)
    partitions = content.get("partitions") if content is not None else None
    if partitions is None:
        return ()
    if not isinstance(partitions, dict):
        raise UnreadableZnode("", data, f"the partitions of the topic are no JSON object: {_to_text(data)}")
    return tuple(sorted(_java_integer(name, _INT_32, data) for name in partitions))


def decode_leader(data: bytes | None) -> int | None:
    """The broker id of a partition's leader, from its `state` node; None: it has none."""
    content = _json_object(data)
    leader = content.get("leader") if content is not None else None
    if not _is_int_32(leader):
        raise UnreadableZnode("", data, f"no leader in the partition's state: {_to_text(data)}")
    number = int(str(leader))
    return None if number == -1 else number


def decode_cluster_id(data: bytes | None) -> str:
    """What brokers of 0.10.1 and later call their cluster; "" if the node says nothing of the kind."""
    content = _json_object(data) or {}
    return str(content.get("id") or "")


def encode_offset(offset: int) -> bytes:
    """The next offset to deliver, as decimal text."""
    return str(offset).encode("ascii")


def decode_offset(data: bytes | None) -> int:
    """A stored offset; negative ones are read as they are and mean "none" (0.8: Long.parseLong, without trimming)."""
    return _java_integer(_to_text(data), _INT_64, data)


def _plaintext_endpoint(content: dict[str, object]) -> tuple[str, int] | None:
    endpoints, protocols = content.get("endpoints"), content.get("listener_security_protocol_map")
    if not isinstance(endpoints, list):
        return None
    protocol_of = protocols if isinstance(protocols, dict) else {}
    for endpoint in endpoints:
        found = _ENDPOINT.fullmatch(endpoint) if isinstance(endpoint, str) else None
        if found is None or not found["host"] or int(found["port"]) not in _INT_32:
            continue
        listener = found["listener"]
        if str(protocol_of.get(listener, listener)).upper() == PLAINTEXT:
            return found["host"], int(found["port"])
    return None


def _unreadable_broker(data: bytes | None) -> UnreadableZnode:
    return UnreadableZnode("", data, f"Failed to parse the broker info from zookeeper: {_to_text(data)}")


def _java_integer(text: str, allowed: range, data: bytes | None) -> int:
    if not _JAVA_INTEGER.fullmatch(text) or int(text) not in allowed:
        raise UnreadableZnode("", data, f'For input string: "{text}" (no whole number, or too large)')
    return int(text)


def _timestamp(value: object) -> int:
    # Nobody acts on it, so it cannot make a member unreadable.
    text = str(value) if isinstance(value, str | int) else ""
    return int(text) if _JAVA_INTEGER.fullmatch(text) else NO_TIMESTAMP


def _is_int_32(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _INT_32


def _json_object(data: bytes | None) -> dict[str, object] | None:
    """None if it is no JSON object. Foreign bytes decide what is in it: nothing they hold may raise anything else."""
    try:
        content = json.loads(_to_text(data), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _to_text(data: bytes | None) -> str:
    """As Java reads it: wrong UTF-8 becomes U+FFFD, no data prints as null."""
    return "null" if data is None else data.decode("utf-8", "replace")


def _to_bytes(text: str) -> bytes:
    """As Java writes it: half a surrogate pair becomes a question mark."""
    return text.encode("utf-8", "replace")
