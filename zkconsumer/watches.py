"""What a consumer watches in ZooKeeper, and the state of its session (0.8: ZkClient's listeners).

A watch fires once, is lost with its connection, and is not set again by kazoo. A _Watch here stays: it asks again after
each event and after each reconnect, and compares the node's last change with the one it knew, so that nothing that
happened in between is missed and nothing that did not happen is reported.

Rule: callbacks run on kazoo's own threads. They ask asynchronously and say what happened; they never block.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from kazoo.client import KazooState
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.protocol.states import EventType, WatchedEvent

from fetcher.events import EventPublisher
from zkconsumer import paths
from zkconsumer.events import SessionLost, SessionReconnected, SessionSuspended, WatchFired
from zkconsumer.zookeeper import ZooKeeper

log = logging.getLogger(__name__)

ASK_AGAIN_S = 1.0

Changed = Callable[[bytes | None], None]
"""Called with the node's data, or None if it is gone; b"" for a watch on children."""


class Reactions(Protocol):
    """What has to be done about it. None of these may block: they note the matter for the rebalancer's thread."""

    def request(self, reason: str) -> None: ...

    def topics_changed(self) -> None: ...

    def session_renewed(self) -> None: ...


class Watches:
    """All watches of one consumer, set as the consumer needs them and kept until close()."""

    def __init__(self, zookeeper: ZooKeeper, *, consumer_id: str, events: EventPublisher) -> None:
        self._zookeeper = zookeeper
        self._consumer_id = consumer_id
        self._events = events
        self._lock = threading.Lock()
        self._watches: dict[str, _Watch] = {}
        self._reactions: Reactions | None = None
        self._session_is_lost = False
        self._closed = False

    def watch_session(self, reactions: Reactions) -> None:
        """From now on tell `reactions`. Comes first: the others report to it."""
        if self._reactions is None:
            self._reactions = reactions
            self._zookeeper.client.add_listener(self._session_changed)

    def watch_members(self, ids_path: str) -> None:
        """Any child of `ids` that comes or goes is a reason to rebalance."""
        self._watch("consumers", ids_path, self._requester("consumers changed"), children=True)

    def watch_topic(self, topic: str) -> None:
        """New partitions, or a topic that did not exist before, are a reason to rebalance."""
        path = paths.topic(topic)
        self._watch("topic", path, partial(self._topic_changed, path), children=False)

    def watch_brokers(self) -> None:
        """Set when a rebalance found no broker, and kept."""
        self._watch("brokers", paths.BROKER_IDS, self._requester("brokers changed"), children=True)

    def watch_topics(self) -> None:
        """For wildcards: a topic came or went."""
        self._watch("topics", paths.BROKER_TOPICS, lambda _data: self._react().topics_changed(), children=True)

    def renew(self) -> None:
        """Set all watches again in a new session. What changed meanwhile is not reported: a rebalance follows."""
        for watch in self._snapshot():
            watch.forget()
            watch.ask()
        self.wait_until_set()

    def wait_until_set(self) -> None:
        """Until every watch is in place, or close() is called: what is read after this cannot change unnoticed."""
        for watch in self._snapshot():
            # An answer may be lost with its session, in which case nobody but us would ask again.
            while not watch.is_set.wait(ASK_AGAIN_S):
                watch.ask()

    def close(self) -> None:
        """No more reports, nobody waits any longer."""
        with self._lock:
            self._closed = True
        self._zookeeper.client.remove_listener(self._session_changed)
        for watch in self._snapshot():
            watch.is_set.set()

    def _watch(self, kind: str, path: str, changed: Changed, *, children: bool) -> None:
        with self._lock:
            if path in self._watches or self._closed:
                return
            fired = partial(self._fired, kind, path, changed)
            watch = self._watches[path] = _Watch(self._zookeeper, path, fired, children=children)
        watch.ask()

    def _snapshot(self) -> list[_Watch]:
        with self._lock:
            return list(self._watches.values())

    def _requester(self, reason: str) -> Changed:
        return lambda _data: self._react().request(reason)

    def _react(self) -> Reactions:
        assert self._reactions is not None, "watch_session() comes first"
        return self._reactions

    def _fired(self, kind: str, path: str, changed: Changed, data: bytes | None) -> None:
        if self._closed:
            return
        if self._events.active:
            self._events.publish(WatchFired(consumer_id=self._consumer_id, kind=kind, path=path))
        changed(data)

    def _topic_changed(self, path: str, data: bytes | None) -> None:
        if data is None:
            log.warning(
                "[%s], Topic for path %s gets deleted, which should not happen at this time", self._consumer_id, path
            )
            return
        text = data.decode(errors="replace")
        log.info("[%s], Topic info for path %s changed to %s, triggering rebalance", self._consumer_id, path, text)
        self._react().request("topic changed")

    def _session_changed(self, state: str) -> None:
        """Called by: kazoo's connection thread."""
        if self._closed:
            return
        if state == KazooState.LOST:
            self._session_is_lost = True
            self._publish(SessionLost)
        elif state == KazooState.SUSPENDED:
            self._publish(SessionSuspended)
        elif self._session_is_lost:
            self._session_is_lost = False
            self._react().session_renewed()  # which ends in renew()
        else:
            self._publish(SessionReconnected)
            for watch in self._snapshot():
                watch.ask()

    def _publish(self, event: type[SessionLost | SessionSuspended | SessionReconnected]) -> None:
        if self._events.active:
            self._events.publish(event(consumer_id=self._consumer_id))


class _Watch:
    """One path, watched for good: its children, or its data and existence.

    ask() -> answered (is_set) -> an event -> ask() …; without a connection nothing is asked, until Watches asks again.
    """

    def __init__(self, zookeeper: ZooKeeper, path: str, changed: Changed, *, children: bool) -> None:
        self.is_set = threading.Event()
        self._zookeeper = zookeeper
        self._path = path
        self._changed = changed
        self._children = children
        self._is_known = False
        self._last_change: tuple[int, int] | None = None  # None: there is no such node

    def forget(self) -> None:
        """Whatever the next answer says is not news."""
        self.is_set.clear()
        self._is_known = False

    def ask(self) -> None:
        client = self._zookeeper.client
        try:
            if self._children:
                # As in 0.8.2.2: the node's existence as well, which operators see in the server's list of watches.
                client.exists_async(self._path, watch=self._notified)
                answer = client.get_children_async(self._path, watch=self._notified, include_data=True)
            elif self._zookeeper.one_by_one:
                self._ask_as_zk_client()
                return
            else:
                answer = client.get_async(self._path, watch=self._notified)
        except KazooException:
            return  # closed, or not connected: Watches asks again when it is
        answer.rawlink(self._answered)

    def _ask_as_zk_client(self) -> None:
        """Whether it exists, and its data only after an event."""
        client = self._zookeeper.client
        existence = client.exists_async(self._path, watch=self._notified)
        if self._is_known:
            client.get_async(self._path, watch=self._notified).rawlink(self._answered)
        else:
            existence.rawlink(self._answered_existence)

    def _answered(self, answer: Any) -> None:
        """Called by: kazoo's callback thread."""
        try:
            content, stat = answer.get_nowait()
        except NoNodeError:
            self._zookeeper.client.exists_async(self._path, watch=self._notified).rawlink(self._answered_existence)
        except Exception as error:
            log.debug("watch on %s was not set: %r", self._path, error)  # the connection; asked again when it is back
        else:
            last_change = (stat.czxid, stat.pzxid if self._children else stat.mzxid)
            self._compare(last_change, b"" if self._children else content)

    def _answered_existence(self, answer: Any) -> None:
        try:
            stat = answer.get_nowait()
        except Exception as error:
            log.debug("watch on %s was not set: %r", self._path, error)
            return
        if stat is None:
            self._compare(None, None)
        elif self._zookeeper.one_by_one and not self._is_known:
            self._compare((stat.czxid, stat.mzxid), b"")
        else:
            self.ask()  # it came between the two questions

    def _compare(self, last_change: tuple[int, int] | None, data: bytes | None) -> None:
        is_news = self._is_known and last_change != self._last_change
        self._is_known = True
        self._last_change = last_change
        self.is_set.set()
        if is_news:
            self._changed(data)

    def _notified(self, event: WatchedEvent) -> None:
        """Called by: kazoo's callback thread."""
        if event.type != EventType.NONE:  # NONE: the watch is gone with its connection
            self.ask()
