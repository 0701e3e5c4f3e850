"""Groups that brokers keep: listed, described, deleted, and their offsets read and written (0.9: AdminClient).

Request versions are the lowest that do it, which 0.8.2.2 (offsets only), 1.1.1 and 3.9.1 all take.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fetcher.admin import NOT_YET, BrokerConnections, HungUp
from fetcher.errors import KafkaException, class_name_for, exception_for
from fetcher.structs import Broker, OffsetAndMetadata, TopicAndPartition
from fetcher.wire.group_offsets import StoredOffset

COORDINATOR_WAIT_S = 30.0
BACKOFF_S = 0.1
AT_ONCE = 2_000  # offsets in a commit: brokers write them as one message set
DEAD, EMPTY = "Dead", "Empty"
NONE, UNKNOWN_TOPIC_OR_PARTITION = 0, 3


@dataclass(frozen=True)
class KafkaMember:
    """One member as its coordinator knows it."""

    consumer_id: str
    client_id: str
    host: str
    partitions: tuple[TopicAndPartition, ...]
    topics: tuple[str, ...] = ()  # what it subscribes to


@dataclass(frozen=True)
class KafkaGroup:
    """A group's state, and the broker that keeps it. State Dead: there is no such group."""

    name: str
    coordinator: Broker
    state: str
    strategy: str
    protocol_type: str
    members: tuple[KafkaMember, ...]

    @property
    def is_live(self) -> bool:
        """Whether somebody would notice."""
        return bool(self.members)


class KafkaGroups:
    """All groups of one cluster."""

    def __init__(self, connections: BrokerConnections, brokers: Sequence[Broker]) -> None:
        self._connections = connections
        self._brokers = brokers
        self._coordinators: dict[str, Broker] = {}

    def names(self) -> dict[str, str]:
        """All groups with their protocol type, which is empty for those that only keep offsets. 0.9 and later."""
        found: dict[str, str] = {}
        for broker in self._brokers:
            answer = self._connections.ask(broker, "ListGroups", 0)
            if answer.error_code:
                raise exception_for(answer.error_code)
            found |= {group.group_id: group.protocol_type for group in answer.groups}
        return found

    def describe(self, name: str) -> KafkaGroup:
        """One group."""
        coordinator = self.coordinator(name)
        [answer] = self._connections.ask(coordinator, "DescribeGroups", 0, groups=[name]).groups
        if answer.error_code:
            raise exception_for(answer.error_code)
        members = tuple(
            KafkaMember(
                one.member_id,
                one.client_id,
                one.client_host,
                _assigned(one.member_assignment),
                _subscribed(one.member_metadata),
            )
            for one in answer.members
        )
        return KafkaGroup(name, coordinator, answer.group_state, answer.protocol_data, answer.protocol_type, members)

    def has_members(self, name: str) -> bool:
        """Raises KafkaException if that cannot be told; no broker before 0.9 knows members, so there it has none."""
        try:
            return self.describe(name).is_live
        except HungUp:
            if self._know_no_members(self.coordinator(name)):
                return False
            raise

    def delete(self, name: str) -> None:
        """All the group has. Raises what the broker says, above all that it is not empty (1.1 and later)."""
        [result] = self._connections.ask(self.coordinator(name), "DeleteGroups", 0, groups_names=[name]).results
        if result.error_code:
            raise exception_for(result.error_code)

    def forget(self, name: str, partitions: Collection[TopicAndPartition]) -> None:
        """Offsets of these alone, of a group without members: deleted (2.4 and later), else -1 is stored instead.

        To whoever asks, -1 is the same as nothing: old and new consumers reset then, and 0.8's look in ZooKeeper.
        """
        by_topic: dict[str, list[tuple[int]]] = {}
        for topic, partition in sorted(partitions):
            by_topic.setdefault(topic, []).append((partition,))
        try:
            answer = self._ask_coordinator(name, "OffsetDelete", 0, group_id=name, topics=list(by_topic.items()))
        except HungUp:
            self.commit(name, {where: OffsetAndMetadata(-1) for where in partitions})
            return
        codes = [answer.error_code, *(one.error_code for one in _partitions(answer).values())]
        refused = next((code for code in codes if code), 0)
        if refused:
            raise exception_for(refused, f"offsets of group {name} are not deleted")

    def stored(self, name: str, partitions: Collection[TopicAndPartition]) -> dict[TopicAndPartition, StoredOffset]:
        """What is stored for each of these; offset -1: nothing."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        if not by_topic:
            return {}
        return self._fetch(name, 1, list(by_topic.items()))

    def all_stored(self, name: str) -> dict[TopicAndPartition, StoredOffset]:
        """Whatever the group has (0.10.2 and later)."""
        found = self._fetch(name, 2, None)
        return {where: stored for where, stored in found.items() if stored.offset >= 0}

    def commit(self, name: str, offsets: Mapping[TopicAndPartition, OffsetAndMetadata], *, version: int = 1) -> None:
        """Store these as nobody in particular, which a coordinator allows only in a group without members."""
        items = sorted(offsets.items())
        for start in range(0, len(items), AT_ONCE):
            by_topic: dict[str, list[tuple[int | str, ...]]] = {}
            for (topic, partition), (offset, metadata) in items[start : start + AT_ONCE]:
                row = (partition, offset, -1, metadata) if version == 1 else (partition, offset, metadata)
                by_topic.setdefault(topic, []).append(row)
            answer = self._ask_coordinator(
                name,
                "OffsetCommit",
                version,
                group_id=name,
                generation_id_or_member_epoch=-1,
                member_id="",
                retention_time_ms=-1,
                topics=list(by_topic.items()),
            )
            refused = {where: one.error_code for where, one in _partitions(answer).items() if one.error_code}
            if refused:
                named = ", ".join(f"{where}: {class_name_for(code)}" for where, code in sorted(refused.items())[:3])
                raise KafkaException(f"group {name}: the coordinator refused {len(refused)} offsets: {named}")

    def coordinator(self, name: str) -> Broker:
        """Who keeps the group; asked once."""
        if name not in self._coordinators:
            self._coordinators[name] = self._connections.coordinator(self._brokers, name, wait_s=COORDINATOR_WAIT_S)
        return self._coordinators[name]

    def _fetch(
        self, name: str, version: int, topics: list[tuple[str, list[int]]] | None
    ) -> dict[TopicAndPartition, StoredOffset]:
        answer = self._ask_coordinator(name, "OffsetFetch", version, group_id=name, topics=topics)
        if version >= 2 and answer.error_code:
            raise exception_for(answer.error_code)
        return {
            where: StoredOffset(one.committed_offset, one.metadata or "", one.error_code)
            for where, one in _partitions(answer).items()
        }

    def _ask_coordinator(self, name: str, api: str, version: int, **fields: Any) -> Any:
        """Asked again while it says that it is loading the group, or is not the one: both pass after a restart."""
        give_up_s, pause = time.monotonic() + COORDINATOR_WAIT_S, threading.Event()
        while True:
            answer = self._connections.ask(self.coordinator(name), api, version, **fields)
            codes = {one.error_code for one in _partitions(answer).values()} | {getattr(answer, "error_code", 0)}
            if not codes & NOT_YET or time.monotonic() > give_up_s:
                return answer
            self._coordinators.pop(name, None)
            pause.wait(BACKOFF_S)

    def _know_no_members(self, broker: Broker) -> bool:
        """As 0.8: it hangs up at a request of 0.9 too, but answers those it knows."""
        try:
            self._connections.ask(broker, "ListGroups", 0)
        except HungUp:
            self._connections.metadata([broker])  # else it is away
            return True
        return False


def _partitions(answer: Any) -> dict[TopicAndPartition, Any]:
    return {
        TopicAndPartition(topic.name, one.partition_index): one for topic in answer.topics for one in topic.partitions
    }


def _subscribed(data: bytes | None) -> tuple[str, ...]:
    """From the bytes a member joined with; none while the group rebalances, or of another kind of group."""
    from kafka.protocol.consumer import ConsumerProtocolSubscription

    if not data:
        return ()
    try:
        version = int.from_bytes(data[:2], "big", signed=True)
        found = ConsumerProtocolSubscription.decode(data, version=min(max(version, 0), 3))
    except Exception:  # as for what it was assigned
        return ()
    return tuple(sorted(found.topics))


def _assigned(data: bytes | None) -> tuple[TopicAndPartition, ...]:
    """From the bytes an assignor wrote; none while the group rebalances, or of another kind of group."""
    from kafka.protocol.consumer import ConsumerProtocolAssignment

    if not data:
        return ()
    try:
        version = int.from_bytes(data[:2], "big", signed=True)
        found = ConsumerProtocolAssignment.decode(data, version=min(max(version, 0), 3))
    except Exception:  # not a consumer's, or none we know: the member is shown without partitions
        return ()
    return tuple(
        sorted(
            TopicAndPartition(one.topic, partition) for one in found.assigned_partitions for partition in one.partitions
        )
    )
