"""Is the group balanced: has every partition an owner that is a live, subscribed thread (0.8: VerifyConsumerRebalance)?

Pure. The rules 0.8.2.2 meant and 0.10.1 has; not whether the owner is the one the assignment would choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fetcher.structs import TopicAndPartition


def rebalance_errors(
    group: str,
    threads_of: Mapping[str, Sequence[str]],
    partitions_of: Mapping[str, Sequence[int]],
    owners: Mapping[TopicAndPartition, str],
) -> Iterator[str]:
    """0.8's error lines. `threads_of`: ids of live threads by the topics they subscribe to."""
    owned_topics = {where.topic for where in owners}
    for topic in sorted(threads_of):
        partitions = partitions_of.get(topic, ())
        if not threads_of[topic] and partitions:
            yield f"No consumer ids registered for topic {topic}"
        if topic not in owned_topics and partitions:
            yield f"No owners for any partitions for topic {topic}"
        for partition in partitions:
            where = TopicAndPartition(topic, partition)
            owner = owners.get(where)
            if not owner:
                yield f"No owner for partition {where}"
            elif owner not in threads_of[topic]:
                yield f"Owner {owner} for partition {where} is not a valid member of consumer group {group}"
