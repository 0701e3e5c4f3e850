"""Being a member of a group: joining, and what is done about each thing a member watches.

0.8: reinitializeConsumer, ZKSessionExpireListener and WildcardStreamsHandler of ZookeeperConsumerConnector.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from fetcher.events import EventPublisher
from zkconsumer import paths
from zkconsumer.cluster_view import ClusterView
from zkconsumer.config import ConsumerConfig
from zkconsumer.errors import ConsumerRebalanceFailedException
from zkconsumer.events import SessionRenewed
from zkconsumer.rebalancer import Rebalancer
from zkconsumer.registration import ConsumerRegistration
from zkconsumer.topic_count import TopicCount, WildcardTopicCount
from zkconsumer.watcher_executor import WatcherExecutor
from zkconsumer.watches import Watches
from zkconsumer.zookeeper import ZooKeeper

log = logging.getLogger(__name__)


class GroupMembership:
    """One member's part in its group.

    not a member -> (join) -> a member -> (the session expires, handle_new_session) -> a member again, of the same id.
    join() runs in the user's thread; the others are the watcher executor's work.
    """

    def __init__(
        self,
        consumer_id: str,
        config: ConsumerConfig,
        *,
        zookeeper: ZooKeeper,
        cluster: ClusterView,
        registration: ConsumerRegistration,
        watches: Watches,
        rebalancer: Rebalancer,
        events: EventPublisher,
    ) -> None:
        self._consumer_id = consumer_id
        self._config = config
        self._zookeeper = zookeeper
        self._cluster = cluster
        self._registration = registration
        self._watches = watches
        self._rebalancer = rebalancer
        self._events = events
        self._topic_count: TopicCount | None = None
        self._wildcard_topics: Sequence[str] = ()
        self._watched: dict[str, None] = {}  # topics, in order; what was deleted stays
        self._sessions_lost_before = 0  # our registration
        keep_trying = config.emulation.keep_trying_to_rebalance
        self._executor = WatcherExecutor(consumer_id, self, events, keep_trying=keep_trying)
        rebalancer.ensure_member = self.ensure_member

    def join(self, topic_count: TopicCount) -> None:
        """Register, watch, rebalance: in this order, so that our own registration triggers nothing."""
        self._topic_count = topic_count
        if isinstance(topic_count, WildcardTopicCount):
            self._wildcard_topics = self._allowed_topics(topic_count)
            topics: Sequence[str] = self._wildcard_topics
        else:
            topics = list(topic_count.streams_of)
        self._watches.watch_session(self._executor)
        self._register(topic_count)
        if self._zookeeper.one_by_one and isinstance(topic_count, WildcardTopicCount):
            self._cluster.topics()  # As in 0.8.2.2: once more, for the streams.
        log.info("[%s], starting watcher executor thread for consumer %s", self._consumer_id, self._consumer_id)
        self._executor.start()
        self._watches.watch_members(paths.GroupPaths(self._config.group_id).ids)
        self._watch(topics)
        try:
            self._rebalancer.synced_rebalance("streams created")
        except ConsumerRebalanceFailedException:
            # As in 0.8.2.2: a wildcard whose first rebalance failed is not told of new topics.
            if self._config.emulation.keep_trying_to_rebalance:
                self._executor.request("the first rebalance failed")
                self._watch_topic_list(topic_count)
            raise
        self._watch_topic_list(topic_count)

    def stop(self) -> None:
        """No more reactions. Does not wait for one that is under way."""
        if isinstance(self._topic_count, WildcardTopicCount):
            log.info("[%s], Shutting down topic event watcher.", self._consumer_id)
        self._watches.close()
        self._executor.initiate_shutdown()

    def await_stop(self) -> None:
        """Wait for the last reaction to end. Called by: shutdown, not under the rebalance lock."""
        if self._topic_count is not None:
            log.info("[%s], stopping watcher executor thread for consumer %s", self._consumer_id, self._consumer_id)
            if not self._executor.is_current:  # else a listener called shutdown, in the middle of a rebalance
                self._executor.await_shutdown()

    # --- the watcher executor's work ---

    def is_member(self) -> bool:
        """Whether we are registered in the session we have."""
        return self._sessions_lost_before == self._zookeeper.sessions_lost

    def rebalance(self, reason: str) -> None:
        self._rebalancer.synced_rebalance(reason)

    def handle_topic_changes(self) -> bool:
        """A wildcard's topics may have come or gone (0.8: handleTopicEvent)."""
        topic_count = self._topic_count
        assert isinstance(topic_count, WildcardTopicCount)
        topics = self._allowed_topics(topic_count)
        added = [topic for topic in topics if topic not in self._wildcard_topics]
        deleted = [topic for topic in self._wildcard_topics if topic not in topics]
        self._wildcard_topics = topics
        if added:
            log.info("[%s], Topic event: added topics = %s", self._consumer_id, _list(added))
        if deleted:
            log.info("[%s], Topic event: deleted topics = %s", self._consumer_id, _list(deleted))
        log.info("[%s], Topics to consume = %s", self._consumer_id, _list(topics))
        if not added and not deleted:
            return False
        if self._zookeeper.one_by_one:
            self._look_again_at_all()
        self._watch(topics)
        self._rebalancer.synced_rebalance("topics changed")
        return True

    def handle_new_session(self) -> None:
        self._rebalancer.synced_rebalance("session expired")  # whose first step is ensure_member()

    # --- the first step of every attempt to rebalance ---

    def ensure_member(self) -> None:
        """If the session was lost, and our nodes with it: register again under the same id, and own nothing.

        Unlike 0.8.2.2: not on ZooKeeper's event thread beside a rebalance, but before each attempt. So an attempt that
        a lost session has failed is followed by one that can succeed.
        """
        topic_count = self._topic_count
        assert topic_count is not None
        if self.is_member():
            return
        log.info(
            "[%s], ZK expired; release old broker parition ownership; re-register consumer %s",
            self._consumer_id,
            self._consumer_id,
        )
        # As in 0.8.2.2: what was consumed since the last commit is forgotten, and comes again.
        self._rebalancer.forget_ownership(commit_first=self._config.emulation.commit_when_session_is_lost)
        self._register(topic_count)
        if self._events.active:
            self._events.publish(SessionRenewed(consumer_id=self._consumer_id))
        if isinstance(topic_count, WildcardTopicCount):
            log.info("[%s], ZK expired: resubscribing topic event listener to topic registry", self._consumer_id)
            self._wildcard_topics = self._allowed_topics(topic_count)
        # Unlike 0.8.2.2: all watches are set before the one rebalance, so that two more need not follow.
        self._watches.renew()
        self._watch(self._wildcard_topics)

    def _register(self, topic_count: TopicCount) -> None:
        sessions_lost = self._zookeeper.sessions_lost  # before: if another is lost meanwhile, we register once more
        self._registration.register(topic_count)
        self._sessions_lost_before = sessions_lost

    def _watch(self, topics: Sequence[str]) -> None:
        for topic in topics:
            self._watches.watch_topic(topic)
        self._watched |= dict.fromkeys(topics)
        self._watches.wait_until_set()

    def _look_again_at_all(self) -> None:
        """As in 0.8.2.2: for one new topic the list is read once more, and all that is watched is watched again."""
        self._cluster.topics()
        ids = paths.GroupPaths(self._config.group_id).ids
        self._zookeeper.exists(ids)
        self._zookeeper.children(ids)
        for topic in self._watched:
            self._zookeeper.exists(paths.topic(topic))

    def _watch_topic_list(self, topic_count: TopicCount) -> None:
        """For wildcards: be told of topics that come and go."""
        if isinstance(topic_count, WildcardTopicCount):
            log.info("[%s], Creating topic event watcher for topics %s", self._consumer_id, topic_count.topic_filter)
            self._cluster.ensure_topics_path()
            self._watches.watch_topics()
            self._watches.wait_until_set()
            self._executor.topics_changed()  # what came while nobody watched

    def _allowed_topics(self, topic_count: WildcardTopicCount) -> list[str]:
        return list(
            topic_count.threads_by_topic(
                self._cluster.topics(),
                exclude_internal_topics=self._config.exclude_internal_topics,
                internal_topics=self._config.emulation.internal_topics,
            )
        )


def _list(topics: Sequence[str]) -> str:
    """As Scala prints a list."""
    return f"List({', '.join(topics)})"
