"""What ZooKeeper says about the cluster and the group, read into values (0.8: ZkUtils' readers, AssignmentContext).

Every member reads the same nodes and then decides alone, so what is read here, and in which order it is sorted, has to
be what all members read. What cannot be read fails the attempt: a guess would give a partition to two owners.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from fetcher.java import text_order_key
from fetcher.scala_order import immutable_map_order, mutable_map_order
from fetcher.structs import Broker
from zkconsumer import paths
from zkconsumer.assignment import AssignmentContext
from zkconsumer.emulation import Emulation
from zkconsumer.errors import IllegalArgumentException, UnreadableZnode, ZooKeeperError
from zkconsumer.topic_count import (
    ConsumerThreadId,
    TopicCount,
    WildcardTopicCount,
    from_registration,
    threads_in_order,
)
from zkconsumer.znodes import decode_broker, decode_partitions, decode_registration
from zkconsumer.zookeeper import ZooKeeper

log = logging.getLogger(__name__)

T = TypeVar("T")
Threads = Mapping[str, list[ConsumerThreadId]]  # by topic


class ClusterView:
    """Reads, and writes nothing but the one path a wildcard consumer watches. Any thread may call any method."""

    def __init__(
        self, zookeeper: ZooKeeper, group: str, *, exclude_internal_topics: bool = True, emulation: Emulation
    ) -> None:
        self._zookeeper = zookeeper
        self._group = group
        self._exclude_internal_topics = exclude_internal_topics
        self._emulation = emulation

    def brokers(self) -> list[Broker]:
        """Those registered now, by id. One that vanishes while we read is left out."""
        registered = self._zookeeper.read_many(map(paths.broker, self._zookeeper.children(paths.BROKER_IDS) or ()))
        found = [_decode(path, data, self._broker_at(path)) for path, data in registered.items() if data is not None]
        return sorted(found)

    def topics(self) -> list[str]:
        """All there are, sorted."""
        return sorted(self._zookeeper.children(paths.BROKER_TOPICS) or ())

    def ensure_topics_path(self) -> None:
        """Before its children are watched: on a cluster that never had a broker it does not exist."""
        self._zookeeper.ensure_path(paths.BROKER_TOPICS)

    def topic_exists(self, topic: str) -> bool:
        """Also false while it is being deleted: whoever asks a broker for it then may bring it back.

        The order counts: a controller removes the topic first and its mark last.
        """
        is_being_deleted = self._zookeeper.exists(paths.topic_deletion(topic))
        return not is_being_deleted and self._zookeeper.exists(paths.topic(topic))

    def partitions_for(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """Each topic's partitions as sorted numbers; none for a topic that does not exist."""
        path_of = {topic: paths.topic(topic) for topic in topics}
        stored = self._zookeeper.read_many(path_of.values())
        return {topic: _decode(path, stored[path], decode_partitions) for topic, path in path_of.items()}

    def my_topic_count(self, consumer_id: str) -> TopicCount:
        """The subscription as it stands in ZooKeeper; ZooKeeperError if it does not, as after a lost session."""
        return self._subscriptions([consumer_id], consumer_id)[consumer_id]

    def my_threads(self, consumer_id: str) -> Threads:
        """This member's thread ids by topic, wildcards expanded to the topics there are now. Begins an attempt."""
        if self._zookeeper.one_by_one:
            self.brokers()  # As in 0.8.2.2: which are not looked at, and asked for again.
        return self._threads({consumer_id: self.my_topic_count(consumer_id)})[consumer_id]

    def read_group(self, consumer_id: str) -> AssignmentContext:
        """Everything an assignment depends on."""
        if self._zookeeper.one_by_one:  # As in 0.8.2.2: itself first, and at the end once more who is there.
            self._threads({consumer_id: self.my_topic_count(consumer_id)})
        members = self._members()
        subscriptions = self._subscriptions([*members, consumer_id], consumer_id)
        context = assignment_context(
            self._group,
            consumer_id,
            self._threads(subscriptions),
            self.partitions_for,
            whole_group=self._emulation.reads_partitions_of_the_whole_group,
        )
        if self._zookeeper.one_by_one:
            self._members()
        return context

    def _members(self) -> list[str]:
        return self._zookeeper.children(paths.GroupPaths(self._group).ids) or []

    def _broker_at(self, path: str) -> Callable[[bytes | None], Broker]:
        def decode(data: bytes | None) -> Broker:
            name = path.rpartition("/")[2]
            if not name.isascii() or not name.isdigit():
                raise UnreadableZnode("", data, f'For input string: "{name}" (a broker id is a number)')
            return decode_broker(int(name), data, read_endpoints=self._emulation.read_endpoints)

        return decode

    def _subscriptions(self, members: Iterable[str], consumer_id: str) -> dict[str, TopicCount]:
        """Of each member. One that left while we read is left out, as if we had looked a moment later."""
        path_of = {member: paths.GroupPaths(self._group).id(member) for member in members}
        stored = self._zookeeper.read_many(path_of.values())
        if stored[path_of[consumer_id]] is None:
            raise ZooKeeperError(f"{path_of[consumer_id]} does not exist: {consumer_id} is not registered")
        return {
            member: _decode_member(member, path, data)
            for member, path in path_of.items()
            if (data := stored[path]) is not None
        }

    def _threads(self, subscriptions: Mapping[str, TopicCount]) -> dict[str, Threads]:
        """Thread ids by member and topic. One list of topics serves all wildcards, unless it is read for each."""
        wildcards = sum(isinstance(subscription, WildcardTopicCount) for subscription in subscriptions.values())
        topics: Sequence[str] = ()
        for _ in range(wildcards if self._zookeeper.one_by_one else min(1, wildcards)):
            topics = self._zookeeper.children(paths.BROKER_TOPICS) or ()
        return {
            member: subscription.threads_by_topic(
                topics,
                exclude_internal_topics=self._exclude_internal_topics,
                internal_topics=self._emulation.internal_topics,
            )
            for member, subscription in subscriptions.items()
        }


def _decode(path: str, data: bytes | None, decode: Callable[[bytes | None], T]) -> T:
    try:
        return decode(data)
    except UnreadableZnode as error:
        raise error.at(path) from None


def _decode_member(consumer_id: str, path: str, data: bytes) -> TopicCount:
    """A count below 1 or a bad regex blocks the group like bytes nobody can read, so it is told the same way."""
    try:
        topic_count = from_registration(consumer_id, decode_registration(data))
        topic_count.registration(0)  # raises for a count below 1
    except (UnreadableZnode, IllegalArgumentException) as error:
        text = data.decode(errors="replace")
        log.error("error parsing consumer json string %s", text)
        reason = error.reason if isinstance(error, UnreadableZnode) else str(error)
        raise UnreadableZnode(path, data, reason) from None
    return topic_count


def assignment_context(
    group: str,
    consumer_id: str,
    threads: Mapping[str, Threads],
    partitions_for: Callable[[Iterable[str]], Mapping[str, Sequence[int]]],
    *,
    whole_group: bool,
) -> AssignmentContext:
    """All members' threads, in the order in which ZooKeeper lists the members, as one member sees them."""
    my_threads = _in_map_order(threads[consumer_id])
    consumers_for_topic = _by_topic(threads.values())
    return AssignmentContext(
        group=group,
        consumer_id=consumer_id,
        my_threads=my_threads,
        partitions_for_topic=partitions_in_map_order(
            consumers_for_topic if whole_group else my_threads, partitions_for
        ),
        consumers_for_topic=consumers_for_topic,
        consumers=sorted(threads, key=text_order_key),
    )


def partitions_in_map_order(
    topics: Iterable[str], partitions_for: Callable[[Iterable[str]], Mapping[str, Sequence[int]]]
) -> dict[str, Sequence[int]]:
    """As in 0.8.2.2: topics in the order of its hash maps, by which round robin settles what it leaves open."""
    in_order = mutable_map_order(topics)
    partitions = partitions_for(in_order)
    return {topic: partitions[topic] for topic in mutable_map_order(in_order)}


def _by_topic(members: Iterable[Threads]) -> dict[str, list[ConsumerThreadId]]:
    """All members' threads of each topic, in the order all members agree on."""
    found: dict[str, list[ConsumerThreadId]] = {}
    for threads in members:
        if not threads.keys() <= found.keys():
            found |= {topic: [] for topic in _in_map_order(threads) if topic not in found}
        for topic, ids in threads.items():
            found[topic].extend(ids)
    in_order: dict[str, list[ConsumerThreadId]] = {}
    last: tuple[list[ConsumerThreadId], list[ConsumerThreadId]] = [], []
    for topic in mutable_map_order(found):
        if found[topic] != last[0]:  # mostly all topics have the same threads: sorted once, and kept once
            last = found[topic], list(threads_in_order(found[topic]))
        in_order[topic] = last[1]
    return in_order


def _in_map_order(threads: Threads) -> Threads:
    """Of a member's topics as it registered them, or as ZooKeeper lists those that its filter allows."""
    return {topic: threads[topic] for topic in mutable_map_order(immutable_map_order(threads))}
