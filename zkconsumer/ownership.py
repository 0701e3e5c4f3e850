"""Which partitions are ours: an ephemeral node each, with a thread id in it (0.8: reflectPartitionOwnershipDecision).

The node keeps two consumers from reading one partition: who cannot create it has to wait until its owner lets go. All
partitions of a rebalance are claimed, or none.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from fetcher.events import EventPublisher
from fetcher.structs import TopicAndPartition
from zkconsumer.events import ClaimsRolledBack, OwnershipConflict, PartitionClaimed, PartitionsReleased
from zkconsumer.paths import GroupTopicPaths
from zkconsumer.topic_count import ConsumerThreadId
from zkconsumer.zookeeper import CreateOutcome, ZooKeeper

log = logging.getLogger(__name__)


class PartitionOwnership:
    """Claims and releases for one consumer. Called by: whoever rebalances, under rebalance_lock."""

    def __init__(self, zookeeper: ZooKeeper, group: str, consumer_id: str, *, events: EventPublisher) -> None:
        self._zookeeper = zookeeper
        self._group = group
        self._consumer_id = consumer_id
        self._events = events

    def claim_all(self, assignment: Mapping[TopicAndPartition, ConsumerThreadId]) -> bool:
        """Own all of these. False: some are still another's; all are tried, then the others are given back.

        (0.8: reflectPartitionOwnershipDecision.) Any other error is raised; what was claimed before it stays, and is
        found to be ours by the next claim in the same session.
        """
        with self._zookeeper.in_one_session():
            return self._claim_all(assignment)

    def release_all(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Let go of these (0.8: releasePartitionOwnership)."""
        released = tuple(partitions)
        if not self._zookeeper.one_by_one:
            self._tell_of_strangers(released)
        # As in 0.8.2.2: whatever stands there is deleted, another's node included.
        self._zookeeper.delete_many(map(self._path, released))
        if self._events.active:
            self._events.publish(PartitionsReleased(consumer_id=self._consumer_id, partitions=released))

    def holds_all(self, assignment: Mapping[TopicAndPartition, ConsumerThreadId]) -> bool:
        """Whether all of these are claimed as they are to be, in the session we have."""
        wanted = {self._path(where): str(thread).encode() for where, thread in assignment.items()}
        nodes = self._zookeeper.read_many_with_stat(wanted)
        return all(
            node is not None and node.data == wanted[path] and node.ephemeral_owner == self._zookeeper.session_id
            for path, node in nodes.items()
        )

    def without_owner(self, partitions: Iterable[TopicAndPartition]) -> set[TopicAndPartition]:
        """Those of these that nobody owns now."""
        path_of = {where: self._path(where) for where in partitions}
        nodes = self._zookeeper.read_many_with_stat(path_of.values())
        return {where for where, path in path_of.items() if nodes[path] is None}

    def _claim_all(self, assignment: Mapping[TopicAndPartition, ConsumerThreadId]) -> bool:
        wanted = {self._path(where): str(thread).encode() for where, thread in assignment.items()}
        outcomes = self._zookeeper.create_ephemerals(wanted, protected=True)
        claimed = []
        for where, thread in assignment.items():
            outcome = outcomes[self._path(where)]
            if outcome.ours:
                claimed.append(where)
            self._report(where, thread, outcome)
        if len(claimed) == len(assignment):
            return True
        self._roll_back(claimed)
        return False

    def _path(self, where: TopicAndPartition) -> str:
        return GroupTopicPaths(self._group, where.topic).owner(where.partition)

    def _report(self, where: TopicAndPartition, thread: ConsumerThreadId, outcome: CreateOutcome) -> None:
        if outcome.ours:
            log.info(
                "[%s], %s successfully owned partition %d for topic %s",
                self._consumer_id,
                thread,
                where.partition,
                where.topic,
            )
        else:
            # zookeeper.py has logged the path and both values.
            log.info("[%s], waiting for the partition ownership to be deleted: %d", self._consumer_id, where.partition)
        if self._events.active:
            self._events.publish(self._event(where, thread, outcome))

    def _event(
        self, where: TopicAndPartition, thread: ConsumerThreadId, outcome: CreateOutcome
    ) -> PartitionClaimed | OwnershipConflict:
        if outcome.ours:
            return PartitionClaimed(consumer_id=self._consumer_id, partition=where, thread_id=thread)
        stored = None if outcome.stored is None else outcome.stored.decode(errors="replace")
        return OwnershipConflict(consumer_id=self._consumer_id, partition=where, thread_id=thread, stored=stored)

    def _roll_back(self, claimed: list[TopicAndPartition]) -> None:
        self._zookeeper.delete_many(map(self._path, claimed))
        if self._events.active:
            self._events.publish(ClaimsRolledBack(consumer_id=self._consumer_id, partitions=tuple(claimed)))

    def _tell_of_strangers(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Somebody took, or was given by hand, what we believed to be ours: both consumed it."""
        nodes = self._zookeeper.read_many_with_stat(map(self._path, partitions))
        for path, node in nodes.items():
            if node is not None and node.ephemeral_owner != self._zookeeper.session_id:
                owner = node.data.decode(errors="replace")
                log.warning("[%s], releasing %s, which is not ours but of %s", self._consumer_id, path, owner)
