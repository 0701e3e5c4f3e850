"""Who gets which partition (0.8: PartitionAssignor, RangeAssignor, RoundRobinAssignor, AssignmentContext).

Pure but for its log lines: everything read from ZooKeeper arrives in an AssignmentContext. Each member computes alone
what all get; they agree because they read the same and sort as Java does. As in 0.8.2.2: log lines without a prefix.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import cycle

from fetcher.java import java_hash
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
        run_of = dict(zip(threads, runs_of(partitions, len(threads)), strict=False))
        for thread, run in run_of.items():
            owner_of.update((TopicAndPartition(topic, partition), thread) for partition in run)
        for thread in context.my_threads[topic]:
            _log_claims(thread, topic, run_of.get(thread, ()))
    return owner_of


def assign_round_robin_0_8_2(context: AssignmentContext) -> Assignment:
    """Deal my topics' partitions in the order of their hash, if all threads subscribe to the same (to 0.10.1)."""
    threads = common_threads(context.consumers_for_topic)
    # Unlike 0.8.2.2: a group without any topic gets nothing, instead of failing every attempt (KAFKA-1648).
    if not threads:
        return {}
    _log_round_robin(context)
    partitions = _in_hash_order(context, "0.8.2")
    return {partition: threads[position % len(threads)] for position, partition in enumerate(partitions)}


def assign_round_robin_0_10_2(context: AssignmentContext) -> Assignment:
    """Deal the group's partitions, passing over threads that do not subscribe to the topic (0.10.2 to 0.11)."""
    _log_round_robin(context)
    return _deal(context, _in_hash_order(context, "0.10.2"))


def assign_round_robin_1_0(context: AssignmentContext) -> Assignment:
    """The same in another order: the hash is that of `topic-partition` (1.0 and 1.1)."""
    _log_round_robin(context, partitions_as="Vector")
    return _deal(context, _in_hash_order(context, "1.0"))


_ROUND_ROBIN: dict[str, Assignor] = {
    "0.8.2": assign_round_robin_0_8_2,
    "0.10.2": assign_round_robin_0_10_2,
    "1.0": assign_round_robin_1_0,
}


def runs_of(partitions: Sequence[int], threads: int) -> Iterable[Sequence[int]]:
    """One run a thread, the first ones longer by one if it does not come out even; empty ones at the end left out."""
    if not threads:
        return
    each, rest = divmod(len(partitions), threads)
    start = 0
    for position in range(min(threads, len(partitions))):
        end = start + each + (position < rest)
        yield partitions[start:end]
        start = end


def common_threads(consumers_for_topic: Mapping[str, Sequence[ConsumerThreadId]]) -> Sequence[ConsumerThreadId]:
    """The threads of every topic of the group, in order. Raises IllegalArgumentException if they differ."""
    topics = iter(consumers_for_topic.items())
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


class Circle:
    """All threads of a group in order, as 0.10.2 to 1.1 deal, and which of them may have a topic's partitions."""

    def __init__(self, consumers_for_topic: Mapping[str, Sequence[ConsumerThreadId]]) -> None:
        lists = {id(threads): threads for threads in consumers_for_topic.values()}  # many topics have the same one
        self.threads = sorted(set().union(*lists.values()), key=thread_order_key)
        place_of = {thread: place for place, thread in enumerate(self.threads)}
        places = {key: sorted({place_of[thread] for thread in threads}) for key, threads in lists.items()}
        self._places_for = {topic: places[id(threads)] for topic, threads in consumers_for_topic.items()}
        self._alike = len(places) == 1

    def places(self, topics: Sequence[str]) -> Iterator[int | None]:
        """For partitions of these topics, dealt in this order, the next place of one that may have it, or None."""
        if self._alike and self.threads and self._places_for.keys() >= set(topics):
            return cycle(range(len(self.threads)))
        return self._passing_over(topics)

    def _passing_over(self, topics: Sequence[str]) -> Iterator[int | None]:
        pointer = 0
        for topic in topics:
            places = self._places_for.get(topic)
            if not places:
                yield None
                continue
            place = places[bisect_left(places, pointer) % len(places)]
            yield place
            pointer = (place + 1) % len(self.threads)


def hash_order(partitions_for_topic: Mapping[str, Sequence[int]], round_robin: str) -> list[int]:
    """Places of the topics' partitions, listed topic by topic, in the order of the signed Java hash of their text.

    Of equal hashes those of the topic that comes first. `round_robin`: whose, as in Emulation.
    """
    before, behind = ("{}-", "") if round_robin == "1.0" else ("[{},", "]")
    hash_of_number = _hashes_of({number for numbers in partitions_for_topic.values() for number in numbers})
    end_hash = java_hash(behind) + _SIGN
    hashes: list[int] = []
    for topic, partitions in partitions_for_topic.items():
        begin_hash = java_hash(before.format(topic))
        for digits, numbers in _by_digits(partitions):
            # Of a row of texts the Java hash is the sum of theirs, each times 31 for each unit behind it.
            fixed = begin_hash * 31 ** (digits + len(behind)) + end_hash & _UNSIGNED
            hashes += [fixed + 31 ** len(behind) * hash_of_number[number] & _UNSIGNED for number in numbers]
    return sorted(range(len(hashes)), key=hashes.__getitem__)


_UNSIGNED = 0xFFFFFFFF
_SIGN = 1 << 31  # added to signed 32-bit numbers it gives unsigned ones of the same order


def _by_digits(numbers: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    """Sorted numbers, cut where they get another digit."""
    start, digits = 0, 1
    while start < len(numbers):
        end = bisect_left(numbers, 10**digits)
        yield digits, numbers[start:end]
        start, digits = end, digits + 1


def _hashes_of(numbers: Set[int]) -> Sequence[int] | Mapping[int, int]:
    """Java hashes of numbers' texts, or what overflows to them; by number."""
    count = max(numbers, default=-1) + 1
    if count > 10 * (len(numbers) + 1):  # an odd number somewhere
        return {number: java_hash(str(number)) for number in numbers}
    units = range(ord("0"), ord("9") + 1)
    hashes = list(units)
    while len(hashes) < count:  # with one more digit behind each of those that were the longest
        longest = hashes[len(hashes) // 10 : -(-count // 10)]
        hashes += [31 * value + unit for value in longest for unit in units]
    return hashes


def _in_hash_order(context: AssignmentContext, round_robin: str) -> list[TopicAndPartition]:
    in_order = {topic: sorted(partitions) for topic, partitions in context.partitions_for_topic.items()}
    listed = [TopicAndPartition(topic, partition) for topic, numbers in in_order.items() for partition in numbers]
    return [listed[place] for place in hash_order(in_order, round_robin)]


def _deal(context: AssignmentContext, partitions: Sequence[TopicAndPartition]) -> Assignment:
    """Round and round over all threads of the group; each partition takes the next that subscribes to its topic."""
    circle = Circle(context.consumers_for_topic)
    places = circle.places([topic for topic, _ in partitions])
    return {
        partition: circle.threads[place]
        for partition, place in zip(partitions, places, strict=False)
        if place is not None
    }


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
