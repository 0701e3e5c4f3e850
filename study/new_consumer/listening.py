"""A user's rebalance listener, called where it may use the consumer.

kafka-python calls listeners in its own network thread, where a commit would wait for itself; Java calls them in
the thread that polls. Here each call gets a thread of its own while poll waits, and may commit and seek.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

from kafka import AsyncConsumerRebalanceListener
from kafka.future import Future

from fetcher.structs import TopicAndPartition
from study.new_consumer.errors import WakeupException

log = logging.getLogger(__name__)


class ConsumerRebalanceListener(Protocol):
    """What a user writes. As in Java since 2.4 it may also have on_partitions_lost(partitions).

    That is called instead of on_partitions_revoked, or the latter if there is none, when the group has put the member
    out already: others may read the partitions by then, and nothing can be committed for them.
    """

    def on_partitions_revoked(self, partitions: set[TopicAndPartition]) -> None: ...

    def on_partitions_assigned(self, partitions: set[TopicAndPartition]) -> None: ...


class ListenerThreads(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """Between the library and a listener.

    As in 1.1.1: an exception of the listener is logged, and that is all; but a WakeupException reaches poll's caller.
    """

    def __init__(
        self,
        listener: ConsumerRebalanceListener,
        lend: Callable[[int | None], None],
        wake: Callable[[], None],
        network: Any,
    ) -> None:
        """`lend(thread id)` lets that thread use the consumer, `lend(None)` ends it; `wake()` ends poll."""
        self._listener = listener
        self._lend = lend
        self._wake = wake
        self._network = network

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await self._call(self._listener.on_partitions_revoked, revoked)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await self._call(self._listener.on_partitions_assigned, assigned)

    async def on_partitions_lost(self, lost: Any) -> None:
        await self._call(getattr(self._listener, "on_partitions_lost", self._listener.on_partitions_revoked), lost)

    async def _call(self, method: Callable[[set[TopicAndPartition]], None], partitions: Any) -> None:
        done = Future()
        ours = {TopicAndPartition(topic, number) for topic, number in partitions}

        async def finish() -> None:
            done.success(None)

        def run() -> None:
            self._lend(threading.get_ident())
            try:
                method(ours)
            except WakeupException:
                self._wake()
            except Exception:
                log.error("User provided listener %s failed on %s", self._listener, method.__name__, exc_info=True)
            finally:
                self._lend(None)
                self._network.call_soon_threadsafe(finish())

        thread = threading.Thread(target=run, name="rebalance-listener")
        thread.start()
        await done
