"""Which live threads subscribe to which topics, by the members' registrations (0.8: getConsumersPerTopic)."""

from __future__ import annotations

from zkconsumer import paths
from zkconsumer.errors import UnreadableZnode
from zkconsumer.groups.zookeeper_group import ZooKeeperGroup
from zkconsumer.topic_count import TopicCount, WildcardTopicCount, from_registration
from zkconsumer.znodes import decode_registration
from zkconsumer.zookeeper import ZooKeeper


def subscription_of(group: ZooKeeperGroup, consumer_id: str) -> TopicCount:
    """A member's. Raises UnreadableZnode with its path, or IllegalArgumentException for a bad regex."""
    try:
        return from_registration(consumer_id, decode_registration(group.members[consumer_id].data))
    except UnreadableZnode as error:
        raise error.at(paths.GroupPaths(group.name).id(consumer_id)) from None


def threads_by_topic(zookeeper: ZooKeeper, group: ZooKeeperGroup) -> dict[str, list[str]]:
    """Thread ids of all members by topic, internal topics included, as the verifying tool has it."""
    counts = [subscription_of(group, consumer_id) for consumer_id in group.members]
    has_wildcard = any(isinstance(count, WildcardTopicCount) for count in counts)
    topics = zookeeper.children(paths.BROKER_TOPICS) or [] if has_wildcard else []
    found: dict[str, list[str]] = {}
    for count in counts:
        for topic, threads in count.threads_by_topic(topics, exclude_internal_topics=False).items():
            found.setdefault(topic, []).extend(map(str, threads))
    return found
