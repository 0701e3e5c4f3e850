"""All that a group has in ZooKeeper, read into one value: members, owners, offsets, as the bytes that stand there.

Nothing is judged here, so that a tree nobody else can read still can be looked at. Reads go out many at a time, a level
of the tree after the other: ten thousand partitions cost a handful of round trips.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from fetcher.structs import TopicAndPartition
from zkconsumer import paths
from zkconsumer.errors import UnreadableZnode
from zkconsumer.paths import GroupPaths
from zkconsumer.znodes import decode_offset
from zkconsumer.zookeeper import Znode, ZooKeeper

EVERYTHING = ("ids", "owners", "offsets")


@dataclass(frozen=True)
class ZooKeeperGroup:
    """A group as it stood when it was read. `has_…`: whether the directory is there, empty or not."""

    name: str
    exists: bool
    has_ids: bool
    has_offsets: bool
    members: Mapping[str, Znode]  # by consumer id
    owners: Mapping[TopicAndPartition, Znode]
    offsets: Mapping[TopicAndPartition, Znode]
    owner_topics: list[str]
    offset_topics: list[str]
    strange: list[str] = field(default_factory=list)  # nodes where a partition's number should stand

    @property
    def is_live(self) -> bool:
        """Whether somebody is registered: as the real tools ask."""
        return bool(self.members)

    def owner_texts(self) -> dict[TopicAndPartition, str]:
        """Thread ids as they stand there."""
        return {where: node.data.decode(errors="replace") for where, node in self.owners.items()}

    def stored_offsets(self) -> dict[TopicAndPartition, int]:
        """As numbers; UnreadableZnode names a node that holds none."""
        found = {}
        for where, node in self.offsets.items():
            try:
                found[where] = decode_offset(node.data)
            except UnreadableZnode as error:
                raise error.at(paths.GroupTopicPaths(self.name, where.topic).offset(where.partition)) from None
        return found


def list_groups(zookeeper: ZooKeeper) -> list[str]:
    """All there are, in ZooKeeper's order."""
    return zookeeper.children(paths.CONSUMERS) or []


def read_group(zookeeper: ZooKeeper, name: str, parts: Collection[str] = EVERYTHING) -> ZooKeeperGroup:
    """The whole group, or only some parts of it."""
    return read_groups(zookeeper, [name], parts)[name]


def read_groups(
    zookeeper: ZooKeeper, names: Iterable[str], parts: Collection[str] = EVERYTHING
) -> dict[str, ZooKeeperGroup]:
    """Several at the cost of one. Parts that are not asked for look empty."""
    groups = {name: GroupPaths(name) for name in names}
    roots = [f"{group.directory}/{part}" for group in groups.values() for part in parts]
    children = zookeeper.children_many([*(group.directory for group in groups.values()), *roots])
    topics = [
        f"{directory}/{topic}"
        for group in groups.values()
        for directory in (group.owners, group.offsets)
        for topic in children.get(directory) or ()
    ]
    partitions = zookeeper.children_many(topics)
    leaves = [f"{group.ids}/{member}" for group in groups.values() for member in children.get(group.ids) or ()]
    leaves += [f"{path}/{name}" for path, names in partitions.items() for name in names or ()]
    nodes = zookeeper.read_many_with_stat(leaves)
    return {name: _group(group, children, partitions, nodes) for name, group in groups.items()}


def _group(
    group: GroupPaths,
    children: Mapping[str, list[str] | None],
    partitions: Mapping[str, list[str] | None],
    nodes: Mapping[str, Znode | None],
) -> ZooKeeperGroup:
    strange: list[str] = []

    def leaves(directory: str) -> dict[TopicAndPartition, Znode]:
        found = {}
        for topic in children.get(directory) or ():
            path = f"{directory}/{topic}"
            for name in partitions[path] or ():
                node = nodes[f"{path}/{name}"]
                if not (name.isascii() and name.isdigit()):
                    strange.append(f"{path}/{name}")
                elif node is not None:
                    found[TopicAndPartition(topic, int(name))] = node
        return found

    members = {name: nodes[group.id(name)] for name in children.get(group.ids) or ()}
    return ZooKeeperGroup(
        name=group.group,
        exists=children[group.directory] is not None,
        has_ids=children.get(group.ids) is not None,
        has_offsets=children.get(group.offsets) is not None,
        members={name: node for name, node in members.items() if node is not None},
        owners=leaves(group.owners),
        offsets=leaves(group.offsets),
        owner_topics=list(children.get(group.owners) or ()),
        offset_topics=list(children.get(group.offsets) or ()),
        strange=strange,
    )
