"""The thread in which a consumer reacts to what it watches (0.8: ZKRebalancerListener's watcherExecutorThread).

Any number of triggers while it is busy cause exactly one more rebalance afterwards: they are merged, never lost.

Unlike 0.8.2.2: new sessions and wildcard topics are handled here too, not on ZooKeeper's event thread, where a
rebalance would hold up every other event and could deadlock with a shutdown (KAFKA-4409).
"""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from fetcher.events import EventPublisher
from fetcher.threads import ShutdownableThread
from zkconsumer.errors import ConsumerRebalanceFailedException
from zkconsumer.events import RebalanceRequested

log = logging.getLogger(__name__)


class Work(Protocol):
    """What is done about a trigger; each may take long."""

    def is_member(self) -> bool: ...

    def rebalance(self, reason: str) -> None: ...

    def handle_topic_changes(self) -> bool:
        """True if it rebalanced."""

    def handle_new_session(self) -> None:
        """Rebalances."""


class WatcherExecutor(ShutdownableThread):
    """Waits for triggers. Any thread may call request(), topics_changed() and session_renewed(); none blocks."""

    def __init__(self, consumer_id: str, work: Work, events: EventPublisher, *, keep_trying: bool) -> None:
        super().__init__(f"{consumer_id}_watcher_executor")
        self._consumer_id = consumer_id
        self._work = work
        self._events = events
        self._keep_trying = keep_trying
        self._condition = threading.Condition()
        self._reason: str | None = None
        self._topics_changed = False
        self._session_renewed = False

    def request(self, reason: str) -> None:
        """Rebalance soon."""
        if self._events.active:
            self._events.publish(RebalanceRequested(consumer_id=self._consumer_id, reason=reason))
        with self._condition:
            self._reason = reason
            self._condition.notify()

    def topics_changed(self) -> None:
        """Look at the list of topics soon."""
        with self._condition:
            self._topics_changed = True
            self._condition.notify()

    def session_renewed(self) -> None:
        """Register again and rebalance, soon."""
        with self._condition:
            self._session_renewed = True
            self._condition.notify()

    def wake(self) -> None:
        with self._condition:
            self._condition.notify()

    def do_work(self) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._has_work() or self.stopping.is_set())
            if self.stopping.is_set():
                return
            # Cleared before the work begins: a trigger from now on is about something this rebalance may not see.
            session_renewed, self._session_renewed = self._session_renewed, False
            topics_changed, self._topics_changed = self._topics_changed, False
            reason, self._reason = self._reason, None
        try:
            self._do(session_renewed, topics_changed, reason)
        except ConsumerRebalanceFailedException:
            log.error("[%s], error during syncedRebalance", self._consumer_id, exc_info=True)
            # Unlike 0.8.2.2: a consumer that could not register in its new session would be told of nothing any more.
            if self._keep_trying or not self._work.is_member():
                self.request("the last rebalance failed")
        except Exception:
            if not self.stopping.is_set():
                log.error("[%s], error during syncedRebalance", self._consumer_id, exc_info=True)

    def _has_work(self) -> bool:
        return self._reason is not None or self._topics_changed or self._session_renewed

    def _do(self, session_renewed: bool, topics_changed: bool, reason: str | None) -> None:
        rebalanced = False
        if session_renewed:
            self._work.handle_new_session()
            rebalanced = True
        if topics_changed:
            rebalanced |= self._work.handle_topic_changes()
        if reason is not None and not rebalanced:
            self._work.rebalance(reason)
