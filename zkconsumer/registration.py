"""This consumer's node under `ids`: while it is there, the others count with us (0.8: registerConsumerInZK).

Written before anything is watched, once a session, and never changed. A node of the same name in the way is that of our
own lost session, which goes by itself, or of another consumer with our consumer.id; 0.8.2 waits for either to go.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid

from fetcher.events import EventPublisher
from zkconsumer.emulation import Emulation
from zkconsumer.errors import ZkNodeExistsException, ZooKeeperStopped
from zkconsumer.events import Registered
from zkconsumer.paths import GroupPaths
from zkconsumer.topic_count import TopicCount
from zkconsumer.znodes import encode_registration
from zkconsumer.zookeeper import ZooKeeper

log = logging.getLogger(__name__)


def new_consumer_id(group: str, consumer_id: str | None = None) -> str:
    """`group_<consumer.id>` or, without that setting, `group_host-milliseconds-random`; kept for a connector's life."""
    if consumer_id is not None:
        return f"{group}_{consumer_id}"
    # As in 0.8.2.2: of the upper half of a UUID as a number, so without leading zeros, the first eight digits.
    random = f"{uuid.uuid4().int >> 64:x}"[:8]
    return f"{group}_{os.uname().nodename}-{_now_ms()}-{random}"


class ConsumerRegistration:
    """Puts the node there, again in each new session. Called by one thread at a time."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        group: str,
        consumer_id: str,
        *,
        emulation: Emulation,
        session_timeout_ms: int,
        events: EventPublisher,
        stopping: threading.Event,
    ) -> None:
        self._zookeeper = zookeeper
        self._consumer_id = consumer_id
        self._path = GroupPaths(group).id(consumer_id)
        self._emulation = emulation
        self._session_timeout_s = session_timeout_ms / 1000
        self._events = events
        self._stopping = stopping

    def register(self, topic_count: TopicCount) -> None:
        """Become a member with this subscription. Waits, or raises ZkNodeExistsException, while the id is taken."""
        log.info("[%s], begin registering consumer %s in ZK", self._consumer_id, self._consumer_id)
        data = encode_registration(topic_count.registration(_now_ms()))
        if self._emulation.empty_parent_data:
            self._create_empty_parents()
        if self._emulation.fail_on_duplicate_consumer_id:
            self._register_now(data)
        else:
            self._register_when_free(data)
        log.info("[%s], end registering consumer %s in ZK", self._consumer_id, self._consumer_id)
        if self._events.active:
            self._events.publish(Registered(consumer_id=self._consumer_id, path=self._path))

    def _register_when_free(self, data: bytes) -> None:
        """(0.8: createEphemeralPathExpectConflictHandleZKBug)"""
        while not self._try_to_create(data):
            log.info(
                "[%s], I wrote this conflicted ephemeral node [%s] at %s a while back in a different session, hence I "
                "will backoff for this node to be deleted by Zookeeper and retry",
                self._consumer_id,
                data.decode(),
                self._path,
            )
            if self._stopping.wait(self._session_timeout_s):
                raise ZooKeeperStopped(f"{self._consumer_id} was shut down while {self._path} was still taken")

    def _register_now(self, data: bytes) -> None:
        """(0.9: ZKCheckedEphemeral, KAFKA-1387)"""
        log.info("[%s], Creating %s (is it secure? false)", self._consumer_id, self._path)
        created = self._try_to_create(data)
        result = "OK" if created else "NODEEXISTS"
        log.info("[%s], Result of znode creation is: %s", self._consumer_id, result)
        if not created:
            raise ZkNodeExistsException(self._path)

    def _try_to_create(self, data: bytes) -> bool:
        """Whether the node is there and of our session. One that vanishes while we look is no obstacle."""
        while not self._zookeeper.create_ephemerals({self._path: data})[self._path].ours:
            node = self._zookeeper.read_with_stat(self._path)
            if node is not None:
                # Unlike 0.8.2.2, which looks at the data only: it would wait for itself, for ever, if it tried twice.
                return node.ephemeral_owner == self._zookeeper.session_id
        return True

    def _create_empty_parents(self) -> None:
        """From the top, as from 0.9 on, also where they are known to exist."""
        names = self._path.split("/")
        for depth in range(2, len(names)):
            self._zookeeper.create_persistent("/".join(names[:depth]), b"")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
