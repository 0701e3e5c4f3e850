"""Our pure assignors as strategies of a live member: names, and what members tell each other about what they had.

The bytes are those of the Java classes, so that a group may hold members of both.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from fetcher.structs import TopicAndPartition
from study.assignors import (
    Assignor,
    Member,
    assign_broadcast,
    assign_cooperative_sticky,
    assign_range,
    assign_round_robin,
    assign_sticky_3_9,
    random_assignor,
)
from zkconsumer.errors import InvalidConfigException


class Strategy(AbstractPartitionAssignor):  # type: ignore[misc]  # the library has no types
    """An assignor under its name in the protocol. One object a consumer: it remembers what this member has."""

    def __init__(self, name: str, assign: Assignor, *, sticky: bool = False, cooperative: bool = False) -> None:
        self._name = name
        self._assign = assign
        self._sticky = sticky
        self._cooperative = cooperative
        self._owned: list[TopicAndPartition] | None = None
        self._generation = -1

    @property
    def name(self) -> str:
        return self._name

    def supported_protocols(self) -> list[RebalanceProtocol]:
        return [RebalanceProtocol.COOPERATIVE if self._cooperative else RebalanceProtocol.EAGER]

    def metadata(self, topics: set[str]) -> Any:
        """What this member tells the leader."""
        listed = sorted(topics)
        if self._cooperative:
            owned = [
                ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=numbers)
                for topic, numbers in _by_topic(self._owned or ())
            ]
            return ConsumerProtocolSubscription(
                version=2, topics=listed, user_data=None, owned_partitions=owned, generation_id=self._generation
            )
        had = self._owned if self._sticky else None
        user_data = b"" if had is None else encode_user_data(had, self._generation)
        return ConsumerProtocolSubscription(version=0, topics=listed, user_data=user_data)

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, Any]:
        """As the leader, for everybody."""
        told = {member.member_id: self._member(member.metadata) for member in members}
        topics = set().union(*(member.topics for member in told.values()))
        partitions = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        return {
            name: ConsumerProtocolAssignment(0, _by_topic(mine), b"")
            for name, mine in self._assign(partitions, told).items()
        }

    def on_assignment(self, assignment: Any, generation: int) -> None:
        self._owned = [TopicAndPartition(topic, number) for topic, number in assignment.partitions()]
        self._generation = generation

    def _member(self, metadata: Any) -> Member:
        topics = frozenset(metadata.topics)
        if self._cooperative:
            owned = [
                TopicAndPartition(each.topic, number)
                for each in metadata.owned_partitions or ()
                for number in each.partitions
            ]
            return Member(topics, owned, metadata.generation_id)
        if not self._sticky or not metadata.user_data:
            return Member(topics)
        return Member(topics, *decode_user_data(metadata.user_data))


def encode_user_data(owned: Sequence[TopicAndPartition], generation: int) -> bytes:
    """As StickyAssignor writes it since 2.4: topics with partitions, then the generation, which older ones ignore."""
    parts = [struct.pack(">i", len(_by_topic(owned)))]
    for topic, numbers in _by_topic(owned):
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers))
    return b"".join([*parts, struct.pack(">i", generation)])


def decode_user_data(data: bytes) -> tuple[list[TopicAndPartition], int]:
    """What a member had, and in which generation; -1 from members before 2.4, who do not tell."""
    owned = []
    (topics,), place = struct.unpack_from(">i", data), 4
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", data, place)
        topic = data[place + 2 : place + 2 + length].decode()
        (count,) = struct.unpack_from(">i", data, place + 2 + length)
        place += 6 + length
        owned += [TopicAndPartition(topic, number) for number in struct.unpack_from(f">{count}i", data, place)]
        place += 4 * count
    generation = struct.unpack_from(">i", data, place)[0] if len(data) >= place + 4 else -1
    return owned, generation


STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "range": lambda: Strategy("range", assign_range),
    "roundrobin": lambda: Strategy("roundrobin", assign_round_robin),
    "sticky": lambda: Strategy("sticky", assign_sticky_3_9, sticky=True),
    "cooperative-sticky": lambda: Strategy("cooperative-sticky", assign_cooperative_sticky, cooperative=True),
    "random": lambda: Strategy("random", random_assignor()),
    "broadcast": lambda: Strategy("broadcast", assign_broadcast),
}


def strategy_objects(wanted: Sequence[str | Strategy]) -> list[Strategy]:
    """By name, or one's own as it is."""
    unknown = [name for name in wanted if isinstance(name, str) and name not in STRATEGIES]
    if unknown:
        raise InvalidConfigException(
            f"partition.assignment.strategy: there is no {unknown[0]!r}, only {', '.join(STRATEGIES)} and your own"
        )
    return [STRATEGIES[each]() if isinstance(each, str) else each for each in wanted]


def _by_topic(partitions: Sequence[TopicAndPartition]) -> list[tuple[str, list[int]]]:
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return list(by_topic.items())
