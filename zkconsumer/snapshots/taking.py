"""Read the trees that consumers read and write, level by level, each level in one go.

It is no picture of one moment: a group that rebalances meanwhile may look as it never was. What goes away between two
levels is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from fetcher.admin import HungUp
from fetcher.structs import OffsetAndMetadata
from zkconsumer import paths
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.groups.cluster import Cluster
from zkconsumer.groups.kafka_group import KafkaGroups
from zkconsumer.groups.stores import KafkaStore
from zkconsumer.paths import GroupPaths
from zkconsumer.snapshots.files import KafkaOffsets, Node, Snapshot
from zkconsumer.zookeeper import ZooKeeper

# Not all of /config: that of users and brokers holds passwords.
ROOTS = (
    paths.CONSUMERS, paths.BROKER_IDS, paths.BROKER_TOPICS, paths.TOPIC_CONFIGS, paths.TOPIC_DELETIONS, "/controller",
    "/controller_epoch",
)  # fmt: skip
_PARTITION = re.compile(r"/brokers/topics/[^/]+/partitions/[^/]+")
AT_ONCE = 5_000  # paths between two calls of on_progress


def take_snapshot(
    zookeeper: ZooKeeper,
    source: str,
    groups: Collection[str] = (),
    on_progress: Callable[[int], None] = lambda nodes: None,
    in_kafka: Mapping[str, KafkaOffsets] = MappingProxyType({}),
) -> Snapshot:
    """All groups, or those named, with all topics. on_progress: nodes so far. in_kafka: what was read there before."""
    began = _now()
    roots = list(ROOTS)
    if groups:
        roots[:1] = [GroupPaths(group).directory for group in groups]
        found = zookeeper.read_many_with_stat(roots)
        missing = [group for group in groups if found[GroupPaths(group).directory] is None and not in_kafka.get(group)]
        if missing:
            where = "in ZooKeeper or Kafka" if in_kafka else "in ZooKeeper"
            raise IllegalArgumentException(f"there is no group {missing[0]} {where}; `zkconsumer groups list` tells")
    nodes: dict[str, Node] = {}
    level = roots
    while level:
        parents = []
        for start in range(0, len(level), AT_ONCE):
            for path, node in zookeeper.read_many_with_stat(level[start : start + AT_ONCE]).items():
                if node is not None:
                    nodes[path] = Node(path, node.data, node.version, node.ephemeral_owner)
                    if node.children:
                        parents.append(path)
            on_progress(len(nodes))
        # Of a partition's one child everybody knows the name: that saves a third of all requests.
        level = [f"{path}/state" for path in parents if _PARTITION.fullmatch(path)]
        children = zookeeper.children_many(path for path in parents if not _PARTITION.fullmatch(path))
        level += [f"{parent}/{name}" for parent, names in children.items() for name in names or ()]
    in_order = dict(sorted(nodes.items(), key=lambda item: item[0].split("/")))
    return Snapshot(
        source, began, _now(), in_order, tuple(groups), {name: offsets for name, offsets in in_kafka.items() if offsets}
    )


def take_from_kafka(
    groups: KafkaGroups, cluster: Cluster, names: Collection[str], on_progress: Callable[[int], None]
) -> dict[str, KafkaOffsets]:
    """What each of these groups has, if it has anything. on_progress: groups so far."""
    store = KafkaStore(groups, cluster)
    found: dict[str, KafkaOffsets] = {}
    for number, name in enumerate(names):
        on_progress(number)
        found[name] = {
            where: OffsetAndMetadata(one.offset, one.metadata) for where, one in store.read_whole(name).items()
        }
    return found


def groups_in_kafka(groups: KafkaGroups, old: Collection[str]) -> list[str]:
    """All there are. 0.8's brokers cannot list them: those that ZooKeeper knows, `old`, may have offsets there."""
    try:
        return sorted({*groups.names(), *old})
    except HungUp:
        return sorted(old)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
