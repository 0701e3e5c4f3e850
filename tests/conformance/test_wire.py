"""What brokers see of a consumer: connections and requests of ours against those of the real one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, Literal

import pytest

from tests.conformance.group import fresh
from tests.conformance.our_member import OurMember
from tests.conformance.wire_tap import APIS, Seen, WireTap
from zkconsumer.emulation import emulation
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.link import Direction
from zkconsumer.testing.scala import ScalaConsumer, ScalaVersion
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer

Who = Literal["real", "ours", "ours with the newest versions"]
Member = ScalaConsumer | OurMember
Connection = list[tuple[Any, ...]]

PROPERTIES = {
    "auto.offset.reset": "smallest",
    "auto.commit.interval.ms": "3600000",
    "client.id": "the-client",
    "fetch.message.max.bytes": "70000",
    "fetch.min.bytes": "3",
    "fetch.wait.max.ms": "321",
    "zookeeper.connection.timeout.ms": "60000",
}
IN_KAFKA = {"offsets.storage": "kafka", "dual.commit.enabled": "false"}
PROFILES: Mapping[ScalaVersion, str] = {"0.8.2.2": "0.8.2", "1.1.1": "1.1"}


class Broker:
    """One broker behind a link, and two topics with six records in three partitions."""

    def __init__(self, kafka: KafkaCluster, version: ScalaVersion) -> None:
        self._kafka = kafka
        self._version = version
        self.first, self.second = fresh("first"), fresh("second")
        self.partitions = [(self.first, 0), (self.first, 1), (self.second, 0)]
        kafka.create_topic(self.first, partitions=2)
        kafka.create_topic(self.second)
        for topic, partition in self.partitions:
            kafka.produce(topic, [b"1", b"2"], partition=partition)
        self._tap = WireTap()
        kafka.links[0].tap(self._pass_on)

    def run(
        self, who: Who, properties: Mapping[str, str], meanwhile: Callable[[Member], None] | None = None
    ) -> list[Seen]:
        """What the broker sees of a consumer that reads all records, does `meanwhile`, and leaves."""
        self._tap = tap = WireTap()
        with self._member(who, {**PROPERTIES, **properties}) as member:
            member.wait_until_delivered(6)
            eventually(lambda: self._each_was_asked_for_twice(tap), "fetches that wait for more")
            if meanwhile is not None:
                meanwhile(member)
        self._tap = WireTap()
        return [one for one in tap.seen if one.api in APIS.values()]  # not what a broker says to its own kind

    def _member(self, who: Who, properties: Mapping[str, str]) -> Member:
        where, group = self._kafka.zookeeper_connect, fresh("group")
        topics = {self.first: 1, self.second: 1}
        if who == "real":
            return ScalaConsumer(where, group, topics, version=self._version, properties=properties)
        profile = PROFILES[self._version]
        switches = emulation(profile).with_switches(request_versions=profile if who == "ours" else "newest")
        return OurMember(where, group, topics, properties=properties, emulate=switches)

    def _each_was_asked_for_twice(self, tap: WireTap) -> bool:
        """At its end."""
        asked = Counter(
            (topic, partition)
            for one in tap.seen
            if one.api == "fetch"
            for topic, partition, offset, _ in one.partitions
            if offset == 2
        )
        return all(asked[where] >= 2 for where in self.partitions)

    def _pass_on(self, connection: int, direction: Direction, data: bytes) -> None:
        self._tap(connection, direction, data)


@pytest.fixture(scope="module")
def broker_0_8(zookeeper_server: ZooKeeperServer) -> Iterator[Broker]:
    with KafkaCluster(version="0.8.2.2", zookeeper=zookeeper_server, linked=True) as kafka:
        yield Broker(kafka, "0.8.2.2")


@pytest.fixture(scope="module")
def broker_1_1(zookeeper_server: ZooKeeperServer) -> Iterator[Broker]:
    with KafkaCluster(version="1.1.1", zookeeper=zookeeper_server, linked=True) as kafka:
        yield Broker(kafka, "1.1.1")


def by_connection(seen: list[Seen]) -> list[Connection]:
    """What was asked over each, in order; the same again and again is told once: how often is a matter of time.

    Partitions are sorted, which the real one names in the order of a hash map; so are resets, which follow that order.
    """
    found = []
    for connection in sorted({one.connection for one in seen}):
        asked = [one for one in seen if one.connection == connection]
        found.append([_plain(key) for key, _ in groupby(_resets_in_order(asked), key=lambda one: one.asked)])
    return sorted(found)


def _resets_in_order(asked: list[Seen]) -> list[Seen]:
    resets = iter(sorted((one for one in asked if one.api == "offsets"), key=lambda one: one.partitions))
    return [next(resets) if one.api == "offsets" else one for one in asked]


def _plain(asked: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without the name of the group, which is each run's own."""
    api, version, client_id, fields, partitions = asked
    return api, version, client_id, tuple((key, "G" if key == "group" else value) for key, value in fields), partitions


def commit(member: Member) -> None:
    member.commit_offsets()


def compare(broker: Broker, properties: Mapping[str, str], meanwhile: Callable[[Member], None] | None = None) -> None:
    real = broker.run("real", properties, meanwhile)
    ours = broker.run("ours", properties, meanwhile)

    assert by_connection(ours) == by_connection(real)
    assert correlation_ids(ours) == correlation_ids(real)
    assert {one.api for one in real} >= {"metadata", "offsets", "fetch"}


def correlation_ids(seen: list[Seen]) -> list[tuple[str, list[int]]]:
    """The first two of each kind of request on each connection."""
    found: dict[tuple[str, int], list[int]] = {}
    for one in seen:
        found.setdefault((one.api, one.connection), []).append(one.correlation_id)
    return sorted((api, numbers[:2]) for (api, _), numbers in found.items())


@pytest.mark.parametrize("fetchers", ["1", "3"])
def test_a_broker_cannot_tell_them_apart(broker_0_8: Broker, fetchers: str) -> None:
    """H2, H3: connections, api keys, versions, client ids, sizes and waits, with `request_versions="0.8.2"`."""
    compare(broker_0_8, {"num.consumer.fetchers": fetchers})


def test_nor_can_the_offset_manager(broker_0_8: Broker) -> None:
    """H3, J12: finding it, reading and storing offsets, all over one connection to the end."""
    broker_0_8.run("real", IN_KAFKA)  # the first question makes the broker create the topic of the offsets

    compare(broker_0_8, IN_KAFKA, commit)


def test_the_newest_versions_differ_where_the_page_says_so(broker_0_8: Broker) -> None:
    """H3: a question for versions, which 0.8.2.2 answers by hanging up; all resets in one request."""
    real = by_connection(broker_0_8.run("real", {}))
    newest = by_connection(broker_0_8.run("ours with the newest versions", {}))

    resets = tuple(sorted((*where, -2, 1) for where in broker_0_8.partitions))
    [metadata] = [one for one in real if one[0][0] == "metadata"]
    [fetching] = [one for one in real if one not in (metadata,)]
    assert newest == sorted(
        [
            [("api versions", 0, "the-client", (), ())],
            metadata,
            [("offsets", 0, "the-client", (("replica", -1),), resets)],
            [one for one in fetching if one[0] == "fetch"],
        ]
    )


@pytest.mark.conformance_full
def test_1_1_sends_what_1_1_1_sends(broker_1_1: Broker) -> None:
    """H3: versions 3 of fetch and 0 of offsets."""
    compare(broker_1_1, {})


@pytest.mark.conformance_full
def test_the_offset_manager_of_1_1_1_cannot_tell_them_apart(broker_1_1: Broker) -> None:
    """H3, J12: versions 2 of both."""
    broker_1_1.run("real", IN_KAFKA)

    compare(broker_1_1, IN_KAFKA, commit)


@pytest.mark.conformance_full
def test_the_newest_versions_of_1_1_1_ask_for_what_is_stored(broker_1_1: Broker) -> None:
    """H3: everything but versions is as it was."""
    newest = by_connection(broker_1_1.run("ours with the newest versions", {}))

    versions = {api: version for one in newest for api, version, *_ in one}
    assert versions == {"api versions": 0, "metadata": 0, "offsets": 1, "fetch": 7}
    sizes = {size for one in newest for api, *_, partitions in one if api == "fetch" for *_, size in partitions}
    assert sizes == {70000}
