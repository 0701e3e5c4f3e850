"""A walk through the life of a group of real members and ours, with what must hold wherever it stands still.

Commits happen only in rebalances and when asked for, so it is known which records may come twice: those that a member
got and did not commit before it was lost. A lost session is ended at the server, so nobody waits for time-outs, but in
walks whose sessions are short on purpose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from kazoo.client import KazooClient

from tests.conformance.group import Group, fresh
from tests.conformance.our_process import OurProcess
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.scala import ScalaConsumer, ScalaVersion
from zkconsumer.testing.tools import consumer_group_command, consumer_offset_checker, verify_consumer_rebalance
from zkconsumer.testing.waiting import eventually, scaled

Kind = Literal["ours", "0.8.2.2", "1.1.1"]
Owners = dict[tuple[str, int], str]
Walking = Callable[..., "Walk"]

SETTLING_S = 90.0
LONG_SESSION_S = 30.0
RECORDS_A_ROUND = 2
SUCCESSFUL = "Rebalance operation successful !\n"


class Place(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    offset: int


class Subscribed(NamedTuple):
    """What a member wants: topics by their short names, or all of this walk's."""

    topics: Mapping[str, int]
    wildcard_streams: int = 0


def kind_of(member: ScalaConsumer) -> Kind:
    return "ours" if isinstance(member, OurProcess) else member.version


class Walk(ExitStack):
    """A group, its topics and members. `like` is the release whose assignor is asked and that ours emulate."""

    def __init__(
        self,
        kafka: KafkaCluster,
        client: KazooClient,
        *,
        strategy: str,
        like: ScalaVersion,
        session_s: float = LONG_SESSION_S,
        profile: str | None = None,
        beside: Walk | None = None,
    ) -> None:
        """`profile` of ours, if not that of the release they are like. `beside` another: a second group that reads the
        topics and records of the first."""
        super().__init__()
        self.kafka = kafka
        self.group = Group(client, fresh("g"))
        self.members: dict[str, ScalaConsumer] = {}
        self.kinds_of_owners: dict[tuple[str, int], list[bool]] = {}
        self._name: str = fresh("walk") if beside is None else beside._name
        self._session_s = session_s
        self._profile = profile
        self._gone: list[ScalaConsumer] = []
        self._idle: dict[tuple[str, Kind], ScalaConsumer] = {}  # processes whose connector is shut down
        self._like: ScalaVersion = like
        self._strategy = strategy
        self._partitions: dict[str, int] = {} if beside is None else beside._partitions
        self._produced: set[Place] = set() if beside is None else beside._produced
        self._may_come_again: set[Place] = set()
        self._oracle = ScalaConsumer(kafka.zookeeper_connect, fresh("bystander"), version=like)

    def __enter__(self) -> Walk:
        super().__enter__()
        self.enter_context(self._oracle)
        return self

    # --- steps ---

    def create_topic(self, name: str, partitions: int) -> None:
        self.kafka.create_topic(self._topic(name), partitions=partitions)
        self._partitions[self._topic(name)] = partitions

    def add_partitions(self, name: str, total: int) -> None:
        self.kafka.add_partitions(self._topic(name), total)
        self._partitions[self._topic(name)] = total

    def join(self, kinds: Mapping[str, Kind], subscribed: Subscribed | Mapping[str, Subscribed]) -> None:
        """All of these at once, some in processes that have idled since they left."""
        begin: list[Callable[[], None]] = []
        for name, kind in kinds.items():
            wanted = subscribed if isinstance(subscribed, Subscribed) else subscribed[name]
            idle = self._idle.pop((name, kind), None)
            self.members[name] = member = self._member(name, kind, wanted) if idle is None else idle
            begin.append(member.start if idle is None else member.start_again)
        with ThreadPoolExecutor(len(kinds)) as pool:
            list(pool.map(lambda one: one(), begin))

    def leave(self, *names: str, idle: bool = False) -> None:
        """In order, each when the others have settled: members of 0.8.2.2 that leave together may wait for each other's
        partitions until all their retries are used up (Q7). With `idle` their processes stay, for a join() of the same
        name and kind; subscriptions are those of before."""
        for number, name in enumerate(names):
            if number:
                self.settle(verified=False, everything=False)
            leaving = self.members.pop(name)
            if idle:
                self._idle[name, kind_of(leaving)] = leaving
                leaving.shutdown()
            else:
                self._gone.append(leaving)
                leaving.stop()

    def kill(self, name: str) -> set[Place]:
        """With records that it has not committed, which must come again; those."""
        again = self._not_committed_by(name)
        victim = self.members.pop(name)
        self._gone.append(victim)
        session = victim.session()
        victim.kill()
        self._end(session)
        return again

    def pause_past_session(self, name: str) -> set[Place]:
        """Stop its process, with uncommitted records; the session ends, the others go on. See resume().

        A short session is left to the server, which ends it when it has not heard of it for so long.
        """
        again = self._not_committed_by(name)
        session = self.members[name].session()
        self.members[name].pause()
        if self._session_s == LONG_SESSION_S:
            self._end(session)
        self.settle(without=[name])
        # A fetch that waits at the broker is answered while the member stands still: it may deliver that, too.
        owned = {(one.topic, one.partition) for one in again}
        before = set(self._produced)
        self.deliver()
        self._may_come_again |= {one for one in self._produced - before if one[:2] in owned}
        self.commit(without=[name])
        return again

    def resume(self, name: str) -> None:
        self.members[name].resume()

    def commit(self, without: Collection[str] = ()) -> None:
        for name, member in self.members.items():
            if name not in without:
                member.commit_offsets()

    # --- what must hold ---

    def settle(self, without: Collection[str] = (), *, verified: bool = True, everything: bool = True) -> Owners:
        """Everybody is there, owners are those that the real assignor names, and 1.1.1 finds the group balanced.

        `everything` is owned, or else what those who are left subscribe to.
        """
        present = {member.consumer_id: name for name, member in self.members.items() if name not in without}
        eventually(lambda: set(self.group.members()) == set(present), f"members {sorted(present)}", SETTLING_S)
        expected = self.wanted(present, everything=everything)
        eventually(lambda: self.owners() == expected, f"owners {expected}", SETTLING_S)

        def balanced() -> bool:
            assert self.owners() == expected
            return verify_consumer_rebalance(self.kafka.zookeeper_connect, self.group.name).stdout == SUCCESSFUL

        if verified:
            eventually(balanced, f"owners {expected}, balanced", SETTLING_S)
        for where, thread in expected.items():
            owner = self.members[present[thread.rpartition("-")[0]]]
            self.kinds_of_owners.setdefault(where, []).append(isinstance(owner, OurProcess))
        return expected

    def wanted(self, consumer_ids: Iterable[str], *, everything: bool = True) -> Owners:
        """What the real assignor gives to these, as things stand."""
        wanted: Owners = {}
        for consumer_id in consumer_ids:
            assigned = self._oracle.assign(self._strategy, self.group.name, consumer_id)
            assert not wanted.keys() & assigned.keys(), "the real assignor gives a partition to two"
            wanted |= assigned
        all_there_are = {(topic, number) for topic, count in self._partitions.items() for number in range(count)}
        assert wanted.keys() == all_there_are or not everything, "the real assignor leaves partitions out"
        return wanted

    def owners(self) -> Owners:
        return {
            (topic, number): thread for topic in self._partitions for number, thread in self.group.owners(topic).items()
        }

    def deliver(self) -> set[Place]:
        """New records in every partition, waited for; what came twice had to."""
        new: set[Place] = set()
        for topic, partitions in self._partitions.items():
            for partition in range(partitions):
                places = self.kafka.produce(topic, [b"record"] * RECORDS_A_ROUND, partition=partition)
                new |= {Place(topic, place.partition, place.offset) for place in places}
        self._produced |= new
        self.await_delivery()
        return new

    def await_delivery(self) -> None:
        def missing() -> list[Place]:
            return sorted(self._produced - self._delivered().keys())

        eventually(lambda: not missing(), lambda: f"delivery of {missing()}", SETTLING_S)
        assert self.unexpected_duplicates() == {}

    def await_again(self, again: Iterable[Place]) -> None:
        """These come once more, as they would in a group of real members."""
        wanted = set(again)
        assert wanted, "the member that was lost had nothing uncommitted: this shows nothing"
        eventually(
            lambda: not {one for one in wanted if self._delivered()[one] < 2}, f"{len(wanted)} again", SETTLING_S
        )
        assert self.unexpected_duplicates() == {}

    def unexpected_duplicates(self) -> dict[Place, int]:
        return {
            place: times
            for place, times in self._delivered().items()
            if times > 1 and place not in self._may_come_again
        }

    def tools_agree(self, expected: Owners) -> None:
        """The tools that operators have show every partition, its owner and that all is committed."""
        self.commit()
        where, name = self.kafka.zookeeper_connect, self.group.name
        checked = consumer_offset_checker(where, name)
        rows = [line.split() for line in checked.stdout.splitlines()[1:]]
        ends = Counter((place.topic, place.partition) for place in self._produced)
        assert {(row[1], int(row[2])): row[3:] for row in rows} == {
            place: [str(ends[place]), str(ends[place]), "0", thread] for place, thread in expected.items()
        }, checked
        if self.kafka.version == "0.8.2.2":  # whose brokers ConsumerGroupCommand of 1.1.1 cannot ask
            return
        described = consumer_group_command("--zookeeper", where, "--describe", "--group", name)
        lines = [line.split() for line in described.stdout.splitlines() if line.startswith(self._name)]
        assert {(row[0], int(row[1])): row[2:] for row in lines} == {
            place: [str(ends[place]), str(ends[place]), "0", thread.rpartition("-")[0]]
            for place, thread in expected.items()
        }, described

    def changed_sides(self) -> set[tuple[bool, bool]]:
        """(from ours, to ours) of all partitions that went on, with their offsets, from one member to another kind."""
        pairs = (pair for kinds in self.kinds_of_owners.values() for pair in pairwise(kinds))
        return {(before, after) for before, after in pairs if before != after}

    # --- private ---

    def _topic(self, name: str) -> str:
        return f"{self._name}-{name}"

    def _member(self, name: str, kind: Kind, wanted: Subscribed) -> ScalaConsumer:
        properties = {
            "auto.offset.reset": "smallest",
            "auto.commit.interval.ms": "3600000",
            "partition.assignment.strategy": self._strategy,
            "rebalance.backoff.ms": "300",
            "rebalance.max.retries": "200",
            "zookeeper.session.timeout.ms": str(int(scaled(self._session_s) * 1000)),
            "zookeeper.connection.timeout.ms": "60000",
        }
        make = OurProcess if kind == "ours" else ScalaConsumer
        version = self._like if kind == "ours" else kind
        where, group = self.kafka.zookeeper_connect, self.group.name
        common: dict[str, Any] = {"version": version, "consumer_id": name, "properties": properties}
        common |= {"profile": self._profile} if kind == "ours" else {}
        if wanted.wildcard_streams:
            regex, streams = f"{self._name}-.*", wanted.wildcard_streams
            member = make(where, group, whitelist=regex, streams=streams, **common)
        else:
            topics = {self._topic(topic): count for topic, count in wanted.topics.items()}
            member = make(where, group, topics, **common)
        self.callback(member.close)
        return member

    def _delivered(self) -> Counter[Place]:
        everybody = [*self.members.values(), *self._gone, *self._idle.values()]
        return Counter(Place(*one[1:4]) for member in everybody for one in member.delivered())

    def _not_committed_by(self, name: str) -> set[Place]:
        """Let all have something, and all but this one commit it."""
        self.commit()
        new = self.deliver()
        self.commit(without=[name])
        consumer_id = self.members[name].consumer_id
        owned = {where for where, thread in self.owners().items() if thread.rpartition("-")[0] == consumer_id}
        lost = {one for one in new if (one.topic, one.partition) in owned}
        self._may_come_again |= lost
        return lost

    def _end(self, session: tuple[int, bytes]) -> None:
        twin = KazooClient(self.kafka.zookeeper_connect, client_id=session)
        twin.start(scaled(20))
        twin.stop()
        twin.close()
