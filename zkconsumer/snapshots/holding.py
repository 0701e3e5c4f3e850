"""Registrations and owners of a snapshot, kept alive by sessions of ours: nobody consumes behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from zkconsumer.zookeeper import ZooKeeper


class HeldMembers:
    """`with` registers them; its end closes the sessions, and with them goes all they held."""

    def __init__(self, connect: str, held: Sequence[Mapping[str, bytes]], *, timeout_ms: int) -> None:
        self._held = held
        self._sessions = [
            ZooKeeper(connect, session_timeout_ms=timeout_ms, connection_timeout_ms=timeout_ms) for _ in held
        ]
        self.conflicts: list[str] = []  # nodes that somebody else had

    def __enter__(self) -> Self:
        try:
            for session, nodes in zip(self._sessions, self._held, strict=True):
                session.start()
                outcomes = session.create_ephemerals(nodes)
                self.conflicts += [path for path, outcome in outcomes.items() if not outcome.ours]
        except BaseException:
            self.close()
            raise
        return self

    def lost(self) -> int:
        """How many sessions ended without our doing (a laptop that slept): what they held is gone."""
        return sum(session.sessions_lost > 0 for session in self._sessions)

    def close(self) -> None:
        """Idempotent."""
        for session in self._sessions:
            session.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
