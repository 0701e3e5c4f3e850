"""A cluster of one scripted broker: registered in a real ZooKeeper, with a topic, answering what a test tells it to.

For what no real broker can be brought to do: send corrupt messages, or refuse offsets at a chosen moment. It speaks the
versions of 0.8.2. By default it is a broker on which everything works.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import NamedTuple, Self

from tests.scripted_broker import (
    API_VERSIONS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    Answer,
    HangUp,
    Part,
    Request,
    ScriptedBroker,
    array,
    asked_offsets,
    fetch_answer,
    text,
)
from tests.zookeeper.sessions import observer

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
WAIT_S = 0.02  # of a fetch that finds nothing new

Script = Callable[[Request], Answer]


class ScriptedCluster:
    """`messages` is what its topic's partitions hold: {partition: {offset: bytes of a fetch from there}}.

    `scripts`, by api key, answer instead of the broker's own habits. `committed` has every commit that came, `stored`
    what the offset manager holds.
    """

    def __init__(self, zookeeper_connect: str, topic: str, partitions: int = 1) -> None:
        self.zookeeper_connect = zookeeper_connect
        self.topic = topic
        self.partitions = partitions
        self.messages: dict[int, Mapping[int, bytes]] = {}
        self.scripts: dict[int, Script] = {}
        self.stored: dict[int, int] = {}
        self.committed: list[dict[int, int]] = []
        self._closed = threading.Event()
        self._server = ScriptedBroker(self._answer)

    def __enter__(self) -> Self:
        self._server.__enter__()
        with observer(self.zookeeper_connect) as client:
            broker = b'{"jmx_port":-1,"timestamp":"1","host":"127.0.0.1","version":1,"port":%d}' % self._server.port
            client.create("/brokers/ids/0", broker, makepath=True)
            assignment = ",".join(f'"{number}":[0]' for number in range(self.partitions))
            data = f'{{"version":1,"partitions":{{{assignment}}}}}'
            client.create(f"/brokers/topics/{self.topic}", data.encode(), makepath=True)
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed.set()
        self._server.__exit__(error_type, error, traceback)

    @property
    def port(self) -> int:
        return self._server.port

    def asked(self, api_key: int) -> list[Request]:
        """The requests of one kind so far."""
        return [request for request in list(self._server.requests) if request.api_key == api_key]

    def default(self, request: Request) -> Answer:
        """What a broker on which everything works answers."""
        if request.api_key == METADATA:
            return self._metadata()
        if request.api_key == FETCH:
            return self._fetched(request)
        if request.api_key == LIST_OFFSETS:
            first = [struct.pack(">ihiq", number, 0, 1, 0) for number in range(self.partitions)]
            return array([text(self.topic) + array(first)])
        if request.api_key == FIND_COORDINATOR:
            return coordinator_answer(0, self.port)
        if request.api_key == OFFSET_COMMIT:
            self.stored |= (offsets := offsets_in(request))
            return commit_answer(self.topic, dict.fromkeys(offsets, 0))
        if request.api_key == OFFSET_FETCH:
            stored = {number: Stored(self.stored.get(number, -1)) for number in range(self.partitions)}
            return stored_answer(self.topic, stored)
        return HangUp

    def _answer(self, request: Request) -> Answer:
        if request.api_key == API_VERSIONS:
            return HangUp  # as 0.8.2.2 does
        if request.api_key == OFFSET_COMMIT:
            self.committed.append(offsets_in(request))
        return self.scripts.get(request.api_key, self.default)(request)

    def _metadata(self) -> bytes:
        brokers = array([struct.pack(">i", 0) + text("127.0.0.1") + struct.pack(">i", self.port)])
        one = array([struct.pack(">i", 0)])
        partitions = [struct.pack(">hii", 0, number, 0) + one + one for number in range(self.partitions)]
        return brokers + array([struct.pack(">h", 0) + text(self.topic) + array(partitions)])

    def _fetched(self, request: Request) -> bytes:
        parts = {
            partition: Part(self.messages.get(partition, {}).get(offset, b""))
            for (_, partition), (offset, _) in asked_offsets(request).items()
        }
        if not any(part.messages for part in parts.values()):
            self._closed.wait(WAIT_S)
        return fetch_answer({self.topic: parts})


class Stored(NamedTuple):
    """What an offset manager answers for one partition."""

    offset: int
    error_code: int = 0


def coordinator_answer(error_code: int, port: int) -> bytes:
    """Of version 0."""
    return struct.pack(">hi", error_code, 0) + text("127.0.0.1") + struct.pack(">i", port)


def commit_answer(topic: str, codes: Mapping[int, int]) -> bytes:
    """Of versions 1 and 2: an error code a partition."""
    return array([text(topic) + array([struct.pack(">ih", number, code) for number, code in codes.items()])])


def stored_answer(topic: str, offsets: Mapping[int, Stored]) -> bytes:
    """Of version 1."""
    parts = [
        struct.pack(">iq", number, offset) + text("") + struct.pack(">h", code)
        for number, (offset, code) in offsets.items()
    ]
    return array([text(topic) + array(parts)])


def offsets_in(request: Request) -> dict[int, int]:
    """{partition: offset} of a commit request of version 1, of one topic."""
    body, position = request.body, 0

    def skip_text() -> None:
        nonlocal position
        (length,) = struct.unpack_from(">h", body, position)
        position += 2 + max(length, 0)

    skip_text()  # group
    position += 4  # generation
    skip_text()  # member
    (topics,) = struct.unpack_from(">i", body, position)
    assert topics == 1
    position += 4
    skip_text()
    (count,) = struct.unpack_from(">i", body, position)
    position += 4
    offsets = {}
    for _ in range(count):
        partition, offset, time = struct.unpack_from(">iqq", body, position)
        assert time == -1  # the broker's own
        offsets[partition] = offset
        position += 20
        skip_text()  # metadata
    return offsets
