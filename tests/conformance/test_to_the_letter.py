"""Asked to, ours asks ZooKeeper and brokers for the same as the real consumer: as often, in the same order, one by one.

Order and number come from how the real one is built: of Scala's hash maps, and of what it reads twice. The topics have
fixed names, so the orders found in the real one's run are kept as vectors for unit tests:

    python -m tests.conformance.test_to_the_letter    # tests/vectors/request-order*.json, anew
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from kazoo.client import KazooClient

from tests.conformance.evidence import by_session
from tests.conformance.footprint import plain_data
from tests.conformance.group import Group, fresh
from tests.conformance.our_member import OurMember
from tests.conformance.wire_tap import APIS, Seen, WireTap
from zkconsumer.emulation import emulation
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.link import Direction
from zkconsumer.testing.scala import ScalaConsumer, ScalaVersion
from zkconsumer.testing.transactions import Transaction
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer

Who = Literal["real", "ours"]
Member = ScalaConsumer | OurMember

_VECTORS = Path(__file__).parents[1] / "vectors"
VECTORS: dict[ScalaVersion, Path] = {
    "0.8.2.2": _VECTORS / "request-order.json",
    "1.1.1": _VECTORS / "request-order-1.1.json",
}
TOPICS = {"orders": 20, "Aa": 3, "clicks": 9, "a.b": 1, "T_1": 2, "zeta": 5}
PROPERTIES = {
    "auto.offset.reset": "smallest",
    "auto.commit.interval.ms": "3600000",
    "rebalance.backoff.ms": "300",
    "rebalance.max.retries": "50",
    "zookeeper.session.timeout.ms": "20000",
    "zookeeper.connection.timeout.ms": "60000",
}
IN_KAFKA = {"offsets.storage": "kafka", "dual.commit.enabled": "false"}
TO_OFFSET_MANAGER = {"offset commit", "offset fetch"}
SETTLING_S = 60.0


class Run(NamedTuple):
    """What one member left: in ZooKeeper's log, and what it asked the broker."""

    log: list[tuple[Any, ...]]
    requests: list[Seen]

    def orders(self) -> dict[str, list[list[Any]]]:
        """Each row of changes of one kind and each kind of request: the partitions or topics, in order.

        Of fetches of 1.1 the first of each connection: later ones begin with what got nothing, a matter of time.
        """
        found: dict[str, list[list[Any]]] = {}
        places = [(kind, path.split("/")[-2:]) for kind, _, _, path, _ in self.log if path.rpartition("/")[2].isdigit()]
        steps = {"create": "claim", "delete": "release", "set data": "commit again"}
        for kind, row in groupby(places, key=lambda one: one[0]):
            where = list(dict.fromkeys((topic, int(number)) for _, (topic, number) in row))
            found.setdefault(steps[kind], []).append([list(one) for one in where])
        for api, asked in groupby(self._without_moved(), key=lambda one: one.api):
            if api == "offsets":  # one partition a request
                found.setdefault(api, []).append([list(one.partitions[0][:2]) for one in asked])
            else:
                named = [[list(where[:2]) for where in one.partitions] for one in asked]
                found.setdefault(api, []).extend(one for one, _ in groupby(named))
        return {name: [one for one, _ in groupby(rows)] for name, rows in found.items()}

    def _without_moved(self) -> Iterator[Seen]:
        begun = set[int]()
        for one in self.requests:
            if one.api != "fetch" or one.version == 0 or one.connection not in begun:
                yield one
            if one.api == "fetch":
                begun.add(one.connection)


class Stage:
    """A broker behind a link, and the topics; two groups use them, one after the other."""

    def __init__(self, kafka: KafkaCluster, zookeeper: ZooKeeperServer, client: KazooClient) -> None:
        self._kafka = kafka
        self.version: ScalaVersion = "1.1.1" if kafka.version == "1.1.1" else "0.8.2.2"
        self._zookeeper = zookeeper
        self._client = client
        self._rounds = 0  # records in each partition
        self._tap = WireTap()
        kafka.links[0].tap(self._pass_on)
        for topic, partitions in TOPICS.items():
            kafka.create_topic(topic, partitions=partitions)
        self._produce()

    def run(self, who: Who, more: Mapping[str, str] | None = None) -> Run:
        """One joins, reads, commits; another joins, so it has less; reads; the other leaves; it leaves. With `more`
        properties."""
        self._tap = tap = WireTap()
        group = Group(self._client, fresh("g"))
        with ExitStack() as stack:
            first = self._member(stack, who, group, "A", more or {})
            before_us = self._rounds
            first.wait_until_delivered(before_us * sum(TOPICS.values()))
            first.commit_offsets()
            second = self._member(stack, who, group, "B", more or {})
            self._settle(group, 2)
            before = len(first.delivered()) + len(second.delivered())
            new = self._produce()
            eventually(
                lambda: len(first.delivered()) + len(second.delivered()) >= before + new, "the new records", SETTLING_S
            )
            first.commit_offsets()
            so_far = len(tap.seen)
            second.stop()
            self._settle(group, 1)
            eventually(lambda: self._is_everything_fetched(tap.seen[so_far:]), "a fetch of everything", SETTLING_S)
            first.stop()
        chroot = "/" + self._kafka.zookeeper_connect.partition("/")[2]
        log = by_session(self._zookeeper.transactions(), f"{chroot}{group.path}/ids")["A"]
        asked = [one for one in tap.seen if one.client_id == "A" and one.api in APIS.values()]
        return Run([_plain(one, chroot, group.name, before_us) for one in log], asked)

    def _member(self, stack: ExitStack, who: Who, group: Group, name: str, more: Mapping[str, str]) -> Member:
        make: Any = partial(ScalaConsumer, version=self.version)
        if who == "ours":
            profile = self.version.rpartition(".")[0]
            switches = emulation(profile).with_switches(request_versions=profile, zookeeper_requests="one by one")
            make = partial(OurMember, emulate=switches)
        topics = dict.fromkeys(TOPICS, 1)
        properties = {**PROPERTIES, "client.id": name, **more}
        member: Member = stack.enter_context(
            make(self._kafka.zookeeper_connect, group.name, topics, consumer_id=name, properties=properties)
        )
        return member

    def _is_everything_fetched(self, seen: list[Seen]) -> bool:
        return any(one.api == "fetch" and len(one.partitions) == sum(TOPICS.values()) for one in seen)

    def _produce(self) -> int:
        for topic, partitions in TOPICS.items():
            for partition in range(partitions):
                self._kafka.produce(topic, [b"record"], partition=partition)
        self._rounds += 1
        return sum(TOPICS.values())

    def _settle(self, group: Group, members: int) -> None:
        def is_settled() -> bool:
            owners = [owner for topic in TOPICS for owner in group.owners(topic).values()]
            return len(owners) == sum(TOPICS.values()) and len({one.rpartition("-")[0] for one in owners}) == members

        eventually(is_settled, f"{members} who own everything", SETTLING_S)

    def _pass_on(self, connection: int, direction: Direction, data: bytes) -> None:
        self._tap(connection, direction, data)


def _plain(one: Transaction, chroot: str, group: str, before_us: int) -> tuple[Any, ...]:
    """Kind, error, number of the request in its session, path, data; offsets without the records of runs before."""
    path = (one.path or "").removeprefix(chroot).replace(group, "G")
    data = plain_data(one.data).replace(group, "G")
    if data.isdigit():
        data = f"{int(data) - before_us:+}"
    return one.operation.value, one.error_name, one.cxid, path, data


@contextmanager
def staged(zookeeper: ZooKeeperServer, version: ScalaVersion) -> Iterator[Stage]:
    """For the tests and for recording."""
    with KafkaCluster(version=version, zookeeper=zookeeper, linked=True) as kafka:
        client = KazooClient(kafka.zookeeper_connect)
        client.start(60)
        try:
            yield Stage(kafka, zookeeper, client)
        finally:
            client.stop()
            client.close()


@pytest.mark.conformance_full
def test_1_1_1_is_followed_in_everything(zookeeper_server: ZooKeeperServer) -> None:
    """A1, A20, E1, H2, H3, J5: with `emulate="1.1"`."""
    with staged(zookeeper_server, "1.1.1") as stage:
        compare(stage)
        assert compare(stage, IN_KAFKA) >= TO_OFFSET_MANAGER


def test_everything_is_asked_for_as_often_and_in_the_same_order(zookeeper_server: ZooKeeperServer) -> None:
    """A1, A20, E1, H2, H3, J5: the numbers of the requests in the session tell how many reads came between."""
    with staged(zookeeper_server, "0.8.2.2") as stage:
        compare(stage)


@pytest.mark.conformance_full
def test_the_offset_manager_is_asked_in_the_same_order(zookeeper_server: ZooKeeperServer) -> None:
    """A1, J12: and ZooKeeper is asked for no offset."""
    with staged(zookeeper_server, "0.8.2.2") as stage:
        assert compare(stage, IN_KAFKA) >= TO_OFFSET_MANAGER


def compare(stage: Stage, more: Mapping[str, str] | None = None) -> set[str]:
    """What both asked for: ours as the real one, and that as it did when the vectors were recorded."""
    real, ours = stage.run("real", more), stage.run("ours", more)
    orders, recorded = real.orders(), json.loads(VECTORS[stage.version].read_text())
    assert ours.log == real.log
    assert ours.orders() == orders
    assert orders == {name: rows for name, rows in recorded.items() if name in orders}
    return set(orders)


if __name__ == "__main__":
    for release, vectors in VECTORS.items():
        with ZooKeeperServer() as server, staged(server, release) as scene:
            vectors.write_text(json.dumps(scene.run("real").orders() | scene.run("real", IN_KAFKA).orders()) + "\n")
