"""What tests against a real ZooKeeper do again and again: connect, expire a session, see what is stored."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient

from zkconsumer.testing.waiting import eventually, scaled
from zkconsumer.zookeeper import ZooKeeper

SESSION_TIMEOUT_MS = 10_000


@contextmanager
def connected(address: str, **settings: Any) -> Iterator[ZooKeeper]:
    """A session of ours, closed afterwards."""
    defaults = {"session_timeout_ms": SESSION_TIMEOUT_MS, "connection_timeout_ms": int(scaled(20) * 1000)}
    with ZooKeeper(address, **(defaults | settings)) as zookeeper:
        yield zookeeper


@contextmanager
def observer(address: str) -> Iterator[KazooClient]:
    """A client that is not ours, to prepare and to look."""
    client = KazooClient(address, timeout=60)
    client.start(timeout=scaled(20))
    try:
        yield client
    finally:
        client.stop()
        client.close()


def expire(zookeeper: ZooKeeper, address: str) -> None:
    """End the session at the server, as it does when it hears nothing from a client for too long."""
    old = zookeeper.session_id
    twin = KazooClient(address, client_id=zookeeper.client.client_id)
    twin.start(timeout=scaled(20))
    twin.stop()
    twin.close()
    eventually(lambda: zookeeper.session_id not in (None, old), "a new session")


def tree(client: KazooClient, path: str = "/") -> set[str]:
    """All paths below this one."""
    found = set()
    for name in client.get_children(path):
        child = f"{path.rstrip('/')}/{name}"
        found |= {child} | tree(client, child)
    return found


class Background:
    """A call in a thread of its own, and what became of it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._call()
        except BaseException as error:
            self._error = error

    def is_running(self) -> bool:
        return self._thread.is_alive()

    def result(self, timeout_s: float = 20.0) -> Any:
        """What it returned; what it raised is raised here."""
        self._thread.join(scaled(timeout_s))
        assert not self._thread.is_alive(), "the call has not returned"
        if self._error is not None:
            raise self._error
        return self._value
