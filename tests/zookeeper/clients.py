"""Plain kazoo clients for tests of the server itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeAlias

from kazoo.client import KazooClient

from zkconsumer.testing.waiting import scaled

SESSION_S = 10.0  # longer than any server is down in these tests
QUICK_RETRY = {"max_tries": -1, "delay": 0.05, "max_delay": 0.2}

Connect: TypeAlias = Callable[..., tuple[KazooClient, list[str]]]


def connect_within(stack: ExitStack, address: str, **options: Any) -> tuple[KazooClient, list[str]]:
    """A client, and the list of states it goes through from now on; stopped with the stack."""
    client = KazooClient(address, **{"timeout": SESSION_S, "connection_retry": dict(QUICK_RETRY), **options})
    stack.callback(client.close)
    stack.callback(client.stop)
    client.start(timeout=scaled(20))
    states: list[str] = []
    client.add_listener(states.append)
    return client, states
