"""Members of a group that say whatever a test wants, request by request: any generation, any member id, or nothing.

Request versions that 1.1.1 and 3.9.1 both know: join 2 (a member comes without an id and is not sent away for one).
"""

from __future__ import annotations

import logging
import threading
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from fetcher.channel import BlockingChannel
from fetcher.errors import ClosedChannelException
from fetcher.wire.generated import decode, encode
from zkconsumer.testing.waiting import scaled

log = logging.getLogger(__name__)

VERSIONS = {
    "DeleteGroups": 0,
    "DescribeGroups": 0,
    "FindCoordinator": 0,
    "Heartbeat": 1,
    "JoinGroup": 2,
    "LeaveGroup": 1,
    "OffsetCommit": 2,
    "SyncGroup": 1,
}
STRANGER = "stranger-00000000-0000-0000-0000-000000000000"
SESSION_MS, REBALANCE_MS = 60_000, 120_000


class RawMember(AbstractContextManager["RawMember"]):
    """One connection, one client id. After join() it knows its id and generation; every request may say other ones."""

    def __init__(self, address: str, group: str, client_id: str = "raw") -> None:
        self.group = group
        self.client_id = client_id
        self.id = ""
        self.generation = -1
        self.leader = ""
        self.strategy = ""
        host, _, port = address.rpartition(":")
        self._channel = BlockingChannel(
            host, int(port), connect_timeout_s=scaled(10), read_timeout_s=scaled(90), receive_buffer_bytes=65536
        )
        self._waiting: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._channel.connect()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._waiting is not None:
            self._channel.abort()
            self._waiting.join()
        self._channel.disconnect()

    def ask(self, api: str, **fields: Any) -> Any:
        version = VERSIONS[api]
        self._channel.send(encode(api, version, 1, self.client_id, **fields))
        return decode(api, version, self._channel.receive())

    def join(
        self,
        *,
        member_id: str | None = None,
        session_ms: int = SESSION_MS,
        protocols: tuple[str, ...] = ("range",),
        protocol_type: str = "consumer",
        metadata: bytes = b"\0\0\0\0\0\0\0\0\0\0",
    ) -> int:
        """Waits until the coordinator answers, which may want others to join too; the error code."""
        answer = self.ask(
            "JoinGroup",
            group_id=self.group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.id if member_id is None else member_id,
            protocol_type=protocol_type,
            protocols=[(name, metadata) for name in protocols],
        )
        if answer.error_code == 0:
            self.id, self.generation, self.leader = answer.member_id, answer.generation_id, answer.leader
            self.strategy = answer.protocol_name
        return int(answer.error_code)

    def join_in_the_background(self, **how: Any) -> None:
        """For a join that is not answered before others have joined; settled() waits for the answer."""

        def wait() -> None:
            try:
                self.join(**how)
            except (OSError, ClosedChannelException):
                log.info("the test has ended before the join was answered")

        self._waiting = threading.Thread(target=wait)
        self._waiting.start()

    def settled(self) -> None:
        assert self._waiting is not None
        self._waiting.join()
        self._waiting = None

    def sync(self, *, generation: int | None = None, member_id: str | None = None) -> int:
        """As the leader with an assignment for itself."""
        member = self.id if member_id is None else member_id
        answer = self.ask(
            "SyncGroup",
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=member,
            assignments=[(self.id, b"mine")] if self.id == self.leader else [],
        )
        return int(answer.error_code)

    def heartbeat(self, *, generation: int | None = None, member_id: str | None = None) -> int:
        answer = self.ask(
            "Heartbeat",
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.id if member_id is None else member_id,
        )
        return int(answer.error_code)

    def leave(self, *, member_id: str | None = None) -> int:
        answer = self.ask("LeaveGroup", group_id=self.group, member_id=self.id if member_id is None else member_id)
        return int(answer.error_code)

    def commit(self, topic: str, *, generation: int, member_id: str, metadata: tuple[str, ...] = ("",)) -> list[int]:
        """Offset 7 for partitions 0, 1, … with these notes; the code of each."""
        answer = self.ask(
            "OffsetCommit",
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            retention_time_ms=-1,
            topics=[(topic, [(number, 7, note) for number, note in enumerate(metadata)])],
        )
        codes = {one.partition_index: one.error_code for one in answer.topics[0].partitions}
        return [codes[number] for number in sorted(codes)]  # the answer has them in any order

    def state(self) -> str:
        """The group's, as the coordinator tells."""
        return str(self._described().group_state)

    def members(self) -> int:
        """How many the group has; those that wait for the answer to their join count."""
        return len(self._described().members)

    def member_ids(self) -> set[str]:
        return {member.member_id for member in self._described().members}

    def _described(self) -> Any:
        [described] = self.ask("DescribeGroups", groups=[self.group]).groups
        return described
