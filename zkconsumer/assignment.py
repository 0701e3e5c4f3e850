"""Who gets which partition (0.8: PartitionAssignor, RangeAssignor, RoundRobinAssignor, AssignmentContext).

Pure but for its log lines: everything read from ZooKeeper arrives in an AssignmentContext. Each member computes alone
what all get; they agree because they read the same and sort as Java does. As in 0.8.2.2: log lines without a prefix.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fetcher.java import java_hash, to_int32
from fetcher.scala_order import case_class_hash, immutable_set_order
from fetcher.structs import TopicAndPartition
from zkconsumer.emulation import Emulation
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.topic_count import ConsumerThreadId, thread_order_key

log = logging.getLogger(__name__)

Assignment = dict[TopicAndPartition, ConsumerThreadId]


@dataclass(frozen=True)
class AssignmentContext:
    """What one member read of its group. `consumers_for_topic` is in thread order, see topic_count."""

    group: str
    consumer_id: str
    my_threads: Mapping[str, Sequence[ConsumerThreadId]]
    partitions_for_topic: Mapping[str, Sequence[int]]  # of my topics; from 0.10.2 on of all the group's
    consumers_for_topic: Mapping[str, Sequence[ConsumerThreadId]]
    consumers: Sequence[str]


Assignor = Callable[[AssignmentContext], Assignment]


def assignor_for(strategy: str, emulation: Emulation) -> Assignor:
    """By partition.assignment.strategy and release (0.8: PartitionAssignor.createInstance)."""
    # As in 0.8.2.2: whatever is not roundrobin is range. From 0.9 the configuration refuses it before.
    return _ROUND_ROBIN[emulation.round_robin] if strategy == "roundrobin" else assign_range


def mine(assignment: Mapping[TopicAndPartition, ConsumerThreadId], consumer_id: str) -> Assignment:
    """The part of one member."""
    return {partition: thread for partition, thread in assignment.items() if thread.consumer_id == consumer_id}


def by_topic(assignment: Mapping[TopicAndPartition, ConsumerThreadId]) -> dict[str, dict[int, ConsumerThreadId]]:
    """As a rebalance listener gets it."""
    result: dict[str, dict[int, ConsumerThreadId]] = {}
    for (topic, partition), thread in assignment.items():
        result.setdefault(topic, {})[partition] = thread
    return result


def assign_range(context: AssignmentContext) -> Assignment:
    """Cut each of my topics' sorted partitions into runs, one a thread; the first take the rest."""
    owner_of: Assignment = {}
    for topic in context.my_threads:  # others' topics are theirs to share out
        threads = context.consumers_for_topic.get(topic, ())
        partitions = sorted(context.partitions_for_topic.get(topic, ()))
        log.info(
            "Consumer %s rebalancing the following partitions: %s for topic %s with consumers: %s",
            context.consumer_id,
            _Listed("ArrayBuffer", partitions),
            topic,
            _Listed("List", threads),
        )
        run_of = dict(zip(threads, _runs(partitions, len(threads)), strict=False))
        for thread, run in run_of.items():
            owner_of.update((TopicAndPartition(topic, partition), thread) for partition in run)
        for thread in context.my_threads[topic]:
            _log_claims(thread, topic, run_of.get(thread, ()))
    return owner_of


def assign_round_robin_0_8_2(context: AssignmentContext) -> Assignment:
    """Deal my topics' partitions in the order of their hash, if all threads subscribe to the same (to 0.10.1)."""
    threads = _common_threads(context)
    # Unlike 0.8.2.2: a group without any topic gets nothing, instead of failing every attempt (KAFKA-1648).
    if not threads:
        return {}
    _log_round_robin(context)
    partitions = _in_hash_order(context, "[{topic},", "{partition}]")
    return {partition: threads[position % len(threads)] for position, partition in enumerate(partitions)}


def assign_round_robin_0_10_2(context: AssignmentContext) -> Assignment:
    """Deal the group's partitions, passing over threads that do not subscribe to the topic (0.10.2 to 0.11)."""
    _log_round_robin(context)
    return _deal(context, _in_hash_order(context, "[{topic},", "{partition}]"))


def assign_round_robin_1_0(context: AssignmentContext) -> Assignment:
    """The same in another order: the hash is that of `topic-partition` (1.0 and 1.1)."""
    _log_round_robin(context, partitions_as="Vector")
    return _deal(context, _in_hash_order(context, "{topic}-", "{partition}"))


_ROUND_ROBIN: dict[str, Assignor] = {
    "0.8.2": assign_round_robin_0_8_2,
    "0.10.2": assign_round_robin_0_10_2,
    "1.0": assign_round_robin_1_0,
}


def _runs(partitions: Sequence[int], threads: int) -> Iterable[Sequence[int]]:
    """One run a thread, the first ones longer by one if it does not come out even; empty ones at the end left out."""
    start = 0
    for position in range(min(threads, len(partitions))):
        count = len(partitions) // threads + (position < len(partitions) % threads)
        yield partitions[start : start + count]
        start += count


def _common_threads(context: AssignmentContext) -> Sequence[ConsumerThreadId]:
    """The threads of every topic of the group, in order. Raises IllegalArgumentException if they differ."""
    topics = iter(context.consumers_for_topic.items())
    head_topic, head_threads = next(topics, ("", ()))
    head = set(head_threads)
    for topic, threads in topics:
        if threads != head_threads and set(threads) != head:
            raise IllegalArgumentException(
                "requirement failed: Round-robin assignment is allowed only if all consumers in the group subscribe to"
                " the same topics, AND if the stream counts across topics are identical for a given consumer instance."
                f"\nTopic {topic} has the following available consumer streams: {_as_set(threads)}"
                f"\nTopic {head_topic} has the following available consumer streams: {_as_set(head_threads)}\n"
            )
    return sorted(head, key=thread_order_key)


def _deal(context: AssignmentContext, partitions: Iterable[TopicAndPartition]) -> Assignment:
    """Round and round over all threads of the group; each partition takes the next that subscribes to its topic."""
    all_threads = sorted(set().union(*context.consumers_for_topic.values()), key=thread_order_key)
    place_of = {thread: place for place, thread in enumerate(all_threads)}
    places_for = {
        topic: sorted({place_of[thread] for thread in threads})
        for topic, threads in context.consumers_for_topic.items()
    }
    owner_of: Assignment = {}
    pointer = 0
    for partition in partitions:
        places = places_for.get(partition.topic)
        if not places:
            continue
        place = places[bisect_left(places, pointer) % len(places)]
        owner_of[partition] = all_threads[place]
        pointer = (place + 1) % len(all_threads)
    return owner_of


def _in_hash_order(context: AssignmentContext, before: str, behind: str) -> list[TopicAndPartition]:
    """All partitions by the signed Java hash of their text; of equal hashes those of the topic that comes first."""
    keyed = []
    for topic in context.partitions_for_topic:
        prefix_hash = java_hash(before.format(topic=topic))  # once a topic: there may be thousands of partitions
        for partition in sorted(context.partitions_for_topic[topic]):
            keyed.append((_hash_on(prefix_hash, behind.format(partition=partition)), topic, partition))
    keyed.sort(key=lambda entry: entry[0])
    return [TopicAndPartition(topic, partition) for _, topic, partition in keyed]


def _hash_on(value: int, ascii_text: str) -> int:
    """The Java hash of a text whose beginning has the hash `value`."""
    for unit in ascii_text.encode("ascii"):
        value = 31 * value + unit
    return to_int32(value)


def _log_round_robin(context: AssignmentContext, partitions_as: str = "ArrayBuffer") -> None:
    log.info("Starting round-robin assignment with consumers %s", _Listed("ArrayBuffer", context.consumers))
    for topic, partitions in context.partitions_for_topic.items():
        log.info(
            "Consumer %s rebalancing the following partitions for topic %s: %s",
            context.consumer_id,
            topic,
            _Listed(partitions_as, partitions),
        )


def _log_claims(thread: ConsumerThreadId, topic: str, partitions: Sequence[int]) -> None:
    for partition in partitions:
        log.info("%s attempting to claim partition %s", thread, partition)
    if not partitions:
        log.warning("No broker partitions consumed by consumer thread %s for topic %s", thread, topic)


def _as_set(threads: Iterable[ConsumerThreadId]) -> _Listed:
    """In the order of Scala's sets, so that the text is the same to the letter."""
    in_order: list[ConsumerThreadId] = immutable_set_order(threads, _hash_of_thread)
    return _Listed("Set", in_order)


def _hash_of_thread(thread_id: ConsumerThreadId) -> int:
    return case_class_hash([java_hash(thread_id.consumer_id), thread_id.thread])


class _Listed:
    """A row as Scala prints it, made only if the line is really written."""

    def __init__(self, name: str, items: Iterable[object]) -> None:
        self._name = name
        self._items = items

    def __str__(self) -> str:
        return f"{self._name}({', '.join(map(str, self._items))})"
