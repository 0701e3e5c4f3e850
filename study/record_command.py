"""Record a real group of new consumers as it rebalances, request by request, and draw what was said.

A broker is started, members join one after the other and the last one leaves; all they say to the coordinator passes a
relay that writes it down.
"""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console

from fetcher.admin import BrokerConnections, parse_bootstrap
from fetcher.structs import Broker
from study.group_requests import Exchange, Recorder
from study.new_consumer import NewConsumer
from study.new_consumer.strategies import STRATEGIES
from study.sequence import as_svg, as_text
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import eventually

EXAMPLES = """\
  zkconsumer record-rebalance
  zkconsumer record-rebalance --strategy cooperative-sticky --members 3 --picture rebalance.svg
  zkconsumer record-rebalance --kafka 1.1.1 --json"""

GROUP, TOPIC = "group-demo", "topic-demo"
HEARTBEAT_MS = 300
TIMEOUT_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kafka", metavar="RELEASE", choices=["1.1.1", "3.9.1"], default="3.9.1", help="of the broker")
    parser.add_argument("--members", metavar="N", type=int, default=2, help="how many join (default: %(default)s)")
    parser.add_argument("--partitions", metavar="N", type=int, default=4, help="of the topic (default: %(default)s)")
    parser.add_argument(
        "--strategy", choices=list(STRATEGIES), default="range", help="of the members (default: %(default)s)"
    )
    parser.add_argument("--picture", metavar="FILE.svg", type=Path, help="write a picture, for a browser")
    parser.add_argument("--json", action="store_true", help="every request and its answer, for programs")


def run(arguments: argparse.Namespace) -> int:
    """0 when the group has done all that was to be recorded."""
    if not 1 <= arguments.members <= 8:
        raise IllegalArgumentException(f"--members {arguments.members}: 1 to 8 can be drawn")
    if arguments.partitions < 1:
        raise IllegalArgumentException(f"--partitions {arguments.partitions}: at least 1 is needed")
    progress = Console(stderr=True, highlight=False)
    with progress.status(f"starting ZooKeeper and Kafka {arguments.kafka}"), ExitStack() as closing:
        cluster = closing.enter_context(KafkaCluster(version=arguments.kafka, linked=True))
        progress.print(f"{arguments.members} members join one after the other, then the last one leaves", style="dim")
        exchanges = recorded(cluster, arguments.members, arguments.partitions, arguments.strategy)
    title = f"A group of {arguments.members} on Kafka {arguments.kafka}, strategy {arguments.strategy}"
    if arguments.picture:
        arguments.picture.write_text(as_svg(exchanges, title), encoding="utf-8")
    if arguments.json:
        print(json.dumps([exchange._asdict() for exchange in exchanges], ensure_ascii=False))
        return 0
    print(as_text(exchanges))
    if arguments.picture:
        print(f"picture: {arguments.picture}")
    return 0


def recorded(cluster: KafkaCluster, members: int, partitions: int, strategy: str) -> list[Exchange]:
    """What the group said while its members joined and the last one left. The cluster has to be a linked one."""
    cluster.create_topic(TOPIC, partitions=partitions)
    _make_offsets_topic(cluster)
    recorder = Recorder()
    for link in cluster.links.values():
        link.tap(recorder)
    with ExitStack() as closing:
        group: list[_Member] = []
        generation = ""
        for number in range(1, members + 1):
            group.append(closing.enter_context(_member(cluster, f"c{number}", strategy)))
            generation = _await_settled(group, recorder, partitions, after=generation)
        if members > 1:
            group.pop().leave()
            _await_settled(group, recorder, partitions, after=generation)
        return recorder.exchanges()


class _Member:
    """A consumer that polls in a thread of its own until leave()."""

    def __init__(self, cluster: KafkaCluster, name: str, strategy: str) -> None:
        self.name = name
        self.error: BaseException | None = None
        self._stopping = threading.Event()
        self._consumer = NewConsumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": GROUP,
                "client.id": name,
                "key.deserializer": bytes,
                "value.deserializer": bytes,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "partition.assignment.strategy": strategy,
            }
        )
        self._consumer.subscribe([TOPIC])
        self._thread = threading.Thread(target=self._poll, name=f"member-{name}")
        self._thread.start()

    def leave(self) -> None:
        """Idempotent."""
        self._stopping.set()
        self._consumer.wakeup()
        self._thread.join()

    def _poll(self) -> None:
        try:
            with self._consumer:
                while not self._stopping.is_set():
                    self._consumer.poll(0.1)
        except BaseException as error:
            if not self._stopping.is_set():
                self.error = error


@contextmanager
def _member(cluster: KafkaCluster, name: str, strategy: str) -> Iterator[_Member]:
    member = _Member(cluster, name, strategy)
    try:
        yield member
    finally:
        member.leave()


def _await_settled(group: Sequence[_Member], recorder: Recorder, partitions: int, *, after: str) -> str:
    """Everything is shared out, and everybody has sent a heartbeat in the same generation since; which one."""

    def settled() -> str | None:
        for member in group:
            if member.error is not None:
                raise member.error
        beats: dict[str, str] = {}
        counts: dict[str, int] = {}
        for exchange in recorder.exchanges():
            if exchange.api == "Heartbeat":
                beats[exchange.client] = exchange.asked if exchange.answered == "ok" else ""
            elif exchange.api in ("JoinGroup", "SyncGroup"):
                beats.pop(exchange.client, None)
                counts[exchange.client] = exchange.answered.count(" ")  # "topic-demo 0 1", or "nothing"
        generations = {beats.get(member.name, "") for member in group}
        shared = sum(counts.get(member.name, 0) for member in group) >= partitions
        return generations.pop() if shared and len(generations) == 1 and not generations & {"", after} else None

    return str(eventually(settled, "the group settles", timeout_s=TIMEOUT_S))


def _make_offsets_topic(cluster: KafkaCluster) -> None:
    """So that the recording does not begin with a coordinator that is not there yet."""
    with BrokerConnections() as connections:
        brokers = parse_bootstrap(cluster.brokers[0].address)
        coordinator = connections.coordinator(brokers, GROUP, wait_s=TIMEOUT_S)
        eventually(lambda: _loaded(connections, coordinator), "the coordinator has loaded", timeout_s=TIMEOUT_S)


def _loaded(connections: BrokerConnections, coordinator: Broker) -> bool:
    answer = connections.ask(coordinator, "OffsetFetch", 2, group_id=GROUP, topics=None)
    return int(answer.error_code) == 0
