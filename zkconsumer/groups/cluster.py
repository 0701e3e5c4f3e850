"""The cluster as tools see it: brokers, partitions, leaders and the ends of logs, by ZooKeeper or by the brokers.

0.8's tools find leaders in the partitions' `state` nodes; whoever has only --bootstrap-server asks for metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Protocol, TypeVar

from fetcher.admin import BrokerConnections
from fetcher.errors import KafkaException
from fetcher.structs import Broker, TopicAndPartition
from fetcher.wire.list_offsets import EARLIEST, LATEST
from zkconsumer import paths
from zkconsumer.errors import UnreadableZnode
from zkconsumer.znodes import decode_broker, decode_cluster_id, decode_leader, decode_partitions
from zkconsumer.zookeeper import ZooKeeper

_Value = TypeVar("_Value")
Offsets = dict[TopicAndPartition, "int | KafkaException"]


class NoLeader(KafkaException):
    """Of a partition that nobody leads, or a broker that is away: its log cannot be asked."""


class Cluster(Protocol):
    """Either way of looking."""

    def identity(self) -> str: ...

    def brokers(self) -> list[Broker]: ...

    def topics(self) -> list[str]: ...

    def partitions_of(self, topics: Iterable[str]) -> dict[str, list[int]]: ...

    def leaders_of(self, partitions: Collection[TopicAndPartition]) -> dict[TopicAndPartition, Broker]: ...


class ZooKeeperCluster:
    """By the nodes that brokers and controller write. Any release but those without ZooKeeper."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper

    def identity(self) -> str:
        """The id that brokers of 0.10.1 and later made up (KIP-78), else when the first of them came. "": none has."""
        stored = self._zookeeper.read(paths.CLUSTER_ID)
        if stored is not None:
            return decode_cluster_id(stored)
        node = self._zookeeper.read_with_stat(paths.BROKERS)
        return "" if node is None else f"made {node.created_ms}"

    def brokers(self) -> list[Broker]:
        """Registered now, by id. Those whose node cannot be read raise UnreadableZnode."""
        names = self._zookeeper.children(paths.BROKER_IDS) or []
        nodes = self._zookeeper.read_many(paths.broker(name) for name in names)
        found = []
        for path, data in nodes.items():
            if data is not None:
                found.append(_at(path, partial(decode_broker, int(path.rpartition("/")[2])), data))
        return sorted(found)

    def topics(self) -> list[str]:
        """All there are, sorted."""
        return sorted(self._zookeeper.children(paths.BROKER_TOPICS) or ())

    def partitions_of(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """In order; none for a topic that is not there."""
        path_of = {topic: paths.topic(topic) for topic in topics}
        stored = self._zookeeper.read_many(path_of.values())
        return {topic: _at(path, decode_partitions, stored[path]) for topic, path in path_of.items()}

    def leader_ids(self, partitions: Collection[TopicAndPartition]) -> dict[TopicAndPartition, int | None]:
        """As the `state` nodes name them; None: no leader, or no node."""
        path_of = {where: paths.topic_partition_state(where.topic, where.partition) for where in partitions}
        stored = self._zookeeper.read_many(path_of.values())
        return {
            where: None if stored[path] is None else _at(path, decode_leader, stored[path])
            for where, path in path_of.items()
        }

    def leaders_of(self, partitions: Collection[TopicAndPartition]) -> dict[TopicAndPartition, Broker]:
        """Those that have one that is alive."""
        brokers = {broker.id: broker for broker in self.brokers()}
        ids = self.leader_ids(partitions)
        return {where: brokers[leader] for where, leader in ids.items() if leader is not None and leader in brokers}


class BrokerCluster:
    """By metadata requests. Asked for all topics at once, so that no topic is created by the question."""

    def __init__(self, connections: BrokerConnections, bootstrap: Collection[Broker]) -> None:
        self._connections = connections
        self._bootstrap = list(bootstrap)

    def identity(self) -> str:
        """Their id, the same as in ZooKeeper; "" if they are too old to tell, or do not answer."""
        for broker in self._bootstrap:
            try:
                return self._connections.ask(broker, "Metadata", 2, topics=[]).cluster_id or ""
            except KafkaException:
                continue
        return ""

    def brokers(self) -> list[Broker]:
        """All that are alive, by id."""
        return sorted(self._connections.metadata(self._bootstrap).brokers.values())

    def topics(self) -> list[str]:
        """All there are, sorted."""
        return sorted({where.topic for where in self._connections.metadata(self._bootstrap).partition_errors})

    def partitions_of(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """In order; none for a topic that is not there."""
        known = self._connections.metadata(self._bootstrap).partition_errors
        found: dict[str, list[int]] = {topic: [] for topic in topics}
        for where in sorted(known):
            if where.topic in found:
                found[where.topic].append(where.partition)
        return found

    def leaders_of(self, partitions: Collection[TopicAndPartition]) -> dict[TopicAndPartition, Broker]:
        """Those that have one."""
        leaders = self._connections.metadata(self._bootstrap).leaders
        return {where: leaders[where] for where in partitions if where in leaders}


def all_partitions(of: Mapping[str, Iterable[int]]) -> list[TopicAndPartition]:
    """By topic, then by number."""
    return [TopicAndPartition(topic, partition) for topic in sorted(of) for partition in sorted(of[topic])]


def log_ends(
    connections: BrokerConnections, cluster: Cluster, partitions: Collection[TopicAndPartition], when: int = LATEST
) -> Offsets:
    """Of every partition; one without leader has an exception that says so."""
    leaders = cluster.leaders_of(partitions)
    found = connections.log_offsets(leaders, when)
    return {where: _told(found, where) for where in partitions}


def log_ranges(
    connections: BrokerConnections, cluster: Cluster, partitions: Collection[TopicAndPartition]
) -> tuple[Offsets, Offsets]:
    """Where logs begin and where they end, leaders looked up once."""
    leaders = cluster.leaders_of(partitions)
    found = [connections.log_offsets(leaders, when) for when in (EARLIEST, LATEST)]
    begins, ends = ({where: _told(one, where) for where in partitions} for one in found)
    return begins, ends


def _told(found: Offsets, where: TopicAndPartition) -> int | KafkaException:
    return found[where] if where in found else NoLeader(f"{where} has no leader")


def _at(path: str, decode: Callable[[bytes | None], _Value], data: bytes | None) -> _Value:
    try:
        return decode(data)
    except UnreadableZnode as error:
        raise error.at(path) from None


__all__ = [
    "EARLIEST",
    "LATEST",
    "BrokerCluster",
    "Cluster",
    "NoLeader",
    "ZooKeeperCluster",
    "all_partitions",
    "log_ends",
    "log_ranges",
]
