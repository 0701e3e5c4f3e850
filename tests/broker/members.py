"""Members of ours for tests: a connector, threads that read its streams, and all that was received and told.

    member = Member(connect, group, "c1", {topic: 2}, rebalance_max_retries=1).join()
    eventually(lambda: len(member.records) == 10)
    member.shutdown()

What happens to a group is best seen from outside: see Group in tests/conformance/group.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self, TypeVar

from fetcher.events import Event
from tests.conformance.group import Group
from zkconsumer.config import ConsumerConfig
from zkconsumer.connector import ZookeeperConsumerConnector
from zkconsumer.events import RebalanceRequested, RebalanceStarted
from zkconsumer.rebalance_listener import ConsumerRebalanceListener
from zkconsumer.streams import KafkaStream
from zkconsumer.testing.waiting import eventually, scaled
from zkconsumer.topic_filter import TopicFilter

SETTINGS: Mapping[str, Any] = {
    "auto_offset_reset": "smallest",
    "rebalance_backoff_ms": 200,
    "rebalance_max_retries": 50,  # members that start at once on a busy machine need some
    "refresh_leader_backoff_ms": 50,
    "zookeeper_session_timeout_ms": 20_000,  # no session ends by itself
}

E = TypeVar("E", bound=Event)


class Received(NamedTuple):
    """A record as a stream delivered it."""

    topic: str
    partition: int
    offset: int
    value: bytes | None


class Member:
    """One consumer of a group.

    States: new -> (join) -> a member -> (shutdown) -> gone. `records` and `events` only grow, in order.
    """

    def __init__(
        self,
        zookeeper_connect: str,
        group: str,
        consumer_id: str | None,
        subscription: Mapping[str, int] | TopicFilter,
        *,
        streams: int = 1,
        reads: bool = True,
        listener: ConsumerRebalanceListener | None = None,
        **settings: Any,
    ) -> None:
        """`streams` is for wildcards. Without `reads` nobody takes from the streams but the test."""
        connecting = {"zookeeper_connect": zookeeper_connect, "zookeeper_connection_timeout_ms": int(scaled(20) * 1000)}
        identity = {"group_id": group, "consumer_id": consumer_id}
        self.connector = ZookeeperConsumerConnector(
            ConsumerConfig(**{**SETTINGS, **connecting, **identity, **settings})
        )
        self.id = self.connector.consumer_id
        self.records: list[Received] = []
        self.events: list[Event] = []
        self.streams: list[KafkaStream[bytes, bytes]] = []
        self._subscription = subscription
        self._stream_count = streams
        self._reads = reads
        self._readers: list[threading.Thread] = []
        self.connector.events.subscribe(self.events.append)
        if listener is not None:
            self.connector.set_consumer_rebalance_listener(listener)

    def join(self) -> Self:
        """Create the streams and begin to read them. What creation raises is raised here."""
        if isinstance(self._subscription, Mapping):
            by_topic = self.connector.create_message_streams(self._subscription)
            self.streams = [stream for streams in by_topic.values() for stream in streams]
        else:
            self.streams = self.connector.create_message_streams_by_filter(self._subscription, self._stream_count)
        if self._reads:
            self._readers = [threading.Thread(target=self._read, args=(stream,)) for stream in self.streams]
        for reader in self._readers:
            reader.start()
        return self

    def shutdown(self) -> None:
        """Leave the group. Idempotent."""
        self.connector.shutdown()
        for reader in self._readers:
            reader.join()

    def told(self, kind: type[E]) -> list[E]:
        """Events of one kind so far."""
        return [event for event in list(self.events) if isinstance(event, kind)]

    def rebalances(self) -> list[str]:
        """Why it rebalanced, each rebalance once however many attempts it took."""
        return [event.reason for event in self.told(RebalanceStarted) if event.attempt == 0]

    def triggers_until_now(self, group: Group, topic: str) -> list[str]:
        """What its watches wanted a rebalance for, up to this call: nothing that happened before is missing.

        `topic`, which it subscribes to, is written to, and the member's reaction waited for: watches fire in order.
        """
        seen = len(self._touches())
        path = f"/brokers/topics/{topic}"
        group.client.set(path, group.client.get(path)[0])
        eventually(lambda: len(self._touches()) > seen, f"{self.id} notices that {path} changed")
        return [event.reason for event in self.told(RebalanceRequested)][: self._touches()[seen]]

    def _touches(self) -> list[int]:
        """Positions of requests because of a topic, among all requests."""
        requests = self.told(RebalanceRequested)
        return [position for position, request in enumerate(requests) if request.reason == "topic changed"]

    def _read(self, stream: KafkaStream[bytes, bytes]) -> None:
        for record in stream:
            self.records.append(Received(record.topic, record.partition, record.offset, record.message))


NewMember = Callable[..., Member]
"""`new_member("c1", {topic: 1}, **settings)`: Member's arguments without where and which group."""


def announce(group: Group, name: str) -> str:
    """Register somebody who subscribes to nothing, so that the others rebalance; the path of the node."""
    path = f"{group.path}/ids/{group.name}_{name}"
    registration = b'{"version":1,"subscription":{},"pattern":"static","timestamp":"1794981559947"}'
    created: str = group.client.create(path, registration, ephemeral=True, makepath=True)
    return created


class Recorder:
    """A rebalance listener that notes its calls. It can hold a rebalance up, and fail the next so many calls."""

    def __init__(self) -> None:
        self.released: list[dict[str, set[int]]] = []
        self.assigned: list[tuple[str, dict[str, dict[int, str]]]] = []
        self.releases_to_fail = 0
        self.starts_to_fail = 0
        self.waiting = threading.Event()
        self._go_on = threading.Event()
        self._go_on.set()

    def hold(self) -> None:
        """From now on a rebalance stops before it releases, until let_go()."""
        self.waiting.clear()
        self._go_on.clear()

    def let_go(self) -> None:
        self._go_on.set()

    def before_releasing_partitions(self, partition_ownership: dict[str, set[int]]) -> None:
        self.released.append(partition_ownership)
        self.waiting.set()
        assert self._go_on.wait(scaled(60)), "nobody called let_go()"
        if self.releases_to_fail:
            self.releases_to_fail -= 1
            raise ValueError("the listener does not like it")

    def before_starting_fetchers(
        self, consumer_id: str, global_partition_assignment: Mapping[str, Mapping[int, object]]
    ) -> None:
        by_topic = {
            topic: {partition: str(thread) for partition, thread in threads.items()}
            for topic, threads in global_partition_assignment.items()
        }
        self.assigned.append((consumer_id, by_topic))
        if self.starts_to_fail:
            self.starts_to_fail -= 1
            raise ValueError("the listener does not like it")
