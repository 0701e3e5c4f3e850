"""Where everything stands in ZooKeeper (0.8: ZkUtils' constants, ZKGroupDirs, ZKGroupTopicDirs).

Pure. All paths are below the chroot of zookeeper.connect. The directory is `owners`: Kafka's own documentation says
`owner`, its code never did.
"""

from __future__ import annotations

from dataclasses import dataclass

CONSUMERS = "/consumers"
BROKERS = "/brokers"
BROKER_IDS = "/brokers/ids"
BROKER_TOPICS = "/brokers/topics"
TOPIC_DELETIONS = "/admin/delete_topics"
TOPIC_CONFIGS = "/config/topics"
CLUSTER_ID = "/cluster/id"


def broker(broker_id: int | str) -> str:
    """Where a broker registered itself."""
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    """Whose data lists the topic's partitions."""
    return f"{BROKER_TOPICS}/{name}"


def topic_deletion(name: str) -> str:
    """A mark that somebody wants the topic deleted; its data is empty."""
    return f"{TOPIC_DELETIONS}/{name}"


def topic_partition_state(name: str, partition: int) -> str:
    """Whose data names the partition's leader; only tools read it."""
    return f"{BROKER_TOPICS}/{name}/partitions/{partition}/state"


def topic_config(name: str) -> str:
    """Settings of the topic that differ from the brokers'."""
    return f"{TOPIC_CONFIGS}/{name}"


@dataclass(frozen=True, slots=True)
class GroupPaths:
    """The directories of one group (0.8: ZKGroupDirs)."""

    group: str

    @property
    def directory(self) -> str:
        """Everything of the group is below it."""
        return f"{CONSUMERS}/{self.group}"

    @property
    def ids(self) -> str:
        """Its children are the members (0.8: consumerRegistryDir)."""
        return f"{self.directory}/ids"

    @property
    def owners(self) -> str:
        """Its children are topics."""
        return f"{self.directory}/owners"

    @property
    def offsets(self) -> str:
        """Its children are topics."""
        return f"{self.directory}/offsets"

    def id(self, consumer_id: str) -> str:
        """The member's own node."""
        return f"{self.ids}/{consumer_id}"

    def topic(self, name: str) -> GroupTopicPaths:
        """The group's directories for one topic."""
        return GroupTopicPaths(self.group, name)


@dataclass(frozen=True, slots=True)
class GroupTopicPaths:
    """One topic's directories within a group (0.8: ZKGroupTopicDirs)."""

    group: str
    topic: str

    @property
    def offsets(self) -> str:
        """Its children are partitions (0.8: consumerOffsetDir)."""
        return f"{CONSUMERS}/{self.group}/offsets/{self.topic}"

    @property
    def owners(self) -> str:
        """Its children are partitions (0.8: consumerOwnerDir)."""
        return f"{CONSUMERS}/{self.group}/owners/{self.topic}"

    def offset(self, partition: int) -> str:
        """Holds the next offset to deliver."""
        return f"{self.offsets}/{partition}"

    def owner(self, partition: int) -> str:
        """Holds the thread id of the owner."""
        return f"{self.owners}/{partition}"
