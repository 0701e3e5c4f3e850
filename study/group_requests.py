"""The requests of a group and the coordinator's answers, recorded from the wire as they pass a Link.

    recorder = Recorder()
    cluster.links[0].tap(recorder)                # KafkaCluster(linked=True): clients are told to go through it
    …
    for exchange in recorder.exchanges(): …

Nothing is asked of clients or brokers: any client's requests can be recorded, in whatever version it sends them.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kafka.errors import for_code
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from fetcher.wire.generated import decode, decode_request
from zkconsumer.testing.link import Direction

PHASES: Mapping[str, int] = {"FindCoordinator": 1, "JoinGroup": 2, "SyncGroup": 3, "Heartbeat": 4, "OffsetFetch": 4}
"""The four phases of a rebalance; other requests of a group belong to none."""

_APIS = {8: "OffsetCommit", 9: "OffsetFetch", 10: "FindCoordinator", 11: "JoinGroup", 12: "Heartbeat"}
_APIS |= {13: "LeaveGroup", 14: "SyncGroup"}
_HEAD = struct.Struct(">hhih")  # api key, version, correlation id, length of the client id


class Exchange(NamedTuple):
    """A request and its answer, in words; seconds since the recorder was made. Not answered yet: None."""

    client: str
    api: str
    version: int
    asked_s: float
    asked: str
    answered_s: float | None
    answered: str
    error: bool


class _Request(NamedTuple):
    api: str
    version: int
    client: str
    seconds: float
    data: bytes


class Recorder:
    """A tap for Link.tap(). Called by: the link's thread. exchanges() may be called by any other, at any time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start_s = clock()
        self._partial: dict[tuple[int, Direction], bytearray] = {}
        self._open: dict[tuple[int, int], int] = {}
        self._requests: list[_Request] = []
        self._answers: dict[int, tuple[float, bytes]] = {}

    def __call__(self, connection: int, direction: Direction, data: bytes) -> None:
        waiting = self._partial.setdefault((connection, direction), bytearray())
        waiting += data
        while len(waiting) >= 4 and len(waiting) >= 4 + (size := int.from_bytes(waiting[:4])):
            message = bytes(waiting[4 : 4 + size])
            del waiting[: 4 + size]
            if direction is Direction.UP:
                self._request(connection, message)
            else:
                self._answer(connection, message)

    def exchanges(self) -> list[Exchange]:
        """So far, in the order of the requests."""
        return [self._exchange(number, request) for number, request in enumerate(list(self._requests))]

    def _request(self, connection: int, message: bytes) -> None:
        key, version, correlation, length = _HEAD.unpack_from(message)
        api = _APIS.get(key)
        if api is None:
            return
        client = message[_HEAD.size : _HEAD.size + max(length, 0)].decode(errors="replace")
        self._open[connection, correlation] = len(self._requests)
        self._requests.append(_Request(api, version, client, self._clock() - self._start_s, message))

    def _answer(self, connection: int, message: bytes) -> None:
        number = self._open.pop((connection, int.from_bytes(message[:4])), None)
        if number is not None:
            self._answers[number] = (self._clock() - self._start_s, message)

    def _exchange(self, number: int, request: _Request) -> Exchange:
        question = decode_request(request.api, request.version, request.data)
        asked = _ASKED[request.api](question)
        head = (request.client, request.api, request.version, request.seconds, asked)
        if number not in self._answers:
            return Exchange(*head, None, "", error=False)
        seconds, data = self._answers[number]
        answer = decode(request.api, request.version, data)
        code = _code_of(request.api, answer)
        told = _error_name(code) if code else _ANSWERED[request.api](answer)
        if code == MEMBER_ID_REQUIRED:
            told = f"{told}: {_short_id(answer.member_id)}"
        return Exchange(*head, seconds, told, error=bool(code))


MEMBER_ID_REQUIRED = 79


def _code_of(api: str, answer: Any) -> int:
    if api == "OffsetCommit":
        return max((one.error_code for topic in answer.topics for one in topic.partitions), default=0)
    if api == "FindCoordinator" and answer.coordinators:
        return int(answer.coordinators[0].error_code)
    return int(answer.error_code or 0)


def _error_name(code: int) -> str:
    return f"{for_code(code).__name__.removesuffix('Error')} {code}"


def _short_id(member: str) -> str:
    """`c1-0b5d3c62-…` as `c1-0b5d`: the client id the member gave, and a piece of what the coordinator added."""
    parts = member.rsplit("-", 5)
    return f"{parts[0]}-{parts[1][:4]}" if len(parts) == 6 else member


def _as(member: str) -> str:
    return f"as {_short_id(member)}" if member else "without an id"


def _partitions(assignment: bytes) -> str:
    if not assignment:
        return "nothing"
    by_topic: dict[str, list[int]] = {}
    for topic, number in ConsumerProtocolAssignment.decode(assignment).partitions():
        by_topic.setdefault(topic, []).append(number)
    return (
        ", ".join(f"{topic} {' '.join(map(str, sorted(numbers)))}" for topic, numbers in by_topic.items()) or "nothing"
    )


def _offsets(topics: Any, of: Callable[[Any], int]) -> str:
    found = [f"{topic.name}-{one.partition_index}: {of(one)}" for topic in topics for one in topic.partitions]
    return ", ".join(found) or "nothing"


def _joined(answer: Any) -> str:
    is_leader = answer.leader == answer.member_id
    role = f"leader of {len(answer.members)}" if is_leader else f"leader is {_short_id(answer.leader)}"
    return f"generation {answer.generation_id}, {answer.protocol_name}, {role}"


def _found(answer: Any) -> str:
    return f"broker {answer.coordinators[0].node_id if answer.coordinators else answer.node_id}"


def _stored(answer: Any) -> str:
    groups = answer.groups if answer.groups else [answer]
    return ", ".join(_offsets(group.topics, lambda one: one.committed_offset) for group in groups)


_ASKED: Mapping[str, Callable[[Any], str]] = {
    "FindCoordinator": lambda it: f"group {it.key or (it.coordinator_keys or [''])[0]}",
    "JoinGroup": lambda it: f"{_as(it.member_id)}, {' or '.join(one.name for one in it.protocols)}",
    "SyncGroup": lambda it: (
        f"generation {it.generation_id}, "
        + ("; ".join(f"{_short_id(one.member_id)} {_partitions(one.assignment)}" for one in it.assignments) or "empty")
    ),
    "Heartbeat": lambda it: f"generation {it.generation_id}",
    "LeaveGroup": lambda it: _as(it.member_id or ", ".join(one.member_id for one in it.members or ())),
    "OffsetCommit": lambda it: _offsets(it.topics, lambda one: one.committed_offset),
    "OffsetFetch": lambda _: "committed offsets",
}
_ANSWERED: Mapping[str, Callable[[Any], str]] = {
    "FindCoordinator": _found,
    "JoinGroup": _joined,
    "SyncGroup": lambda it: _partitions(it.assignment),
    "Heartbeat": lambda _: "ok",
    "LeaveGroup": lambda _: "ok",
    "OffsetCommit": lambda _: "ok",
    "OffsetFetch": _stored,
}
