"""Where the group of `zkconsumer plan` comes from: flags, a TOML file, or a living group in ZooKeeper or Kafka."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fetcher.admin import BrokerConnections
from fetcher.structs import Broker
from study.plan import Group
from zkconsumer.cluster_view import ClusterView
from zkconsumer.emulation import emulation
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.groups.cluster import BrokerCluster
from zkconsumer.groups.kafka_group import KafkaGroups
from zkconsumer.paths import GroupPaths
from zkconsumer.zookeeper import ZooKeeper

TIMEOUT_MS = 6000
MOST_MEMBERS, MOST_PARTITIONS = 100_000, 10_000_000  # what fits into memory; a hundred times what anybody has


def from_flags(topics: Sequence[str], members: Sequence[str]) -> Group:
    """`orders=12` and `c1`, `c1=orders:2,clicks`; a member without topics has all. `c*20`: c0 to c19."""
    counts: dict[str, int] = {}
    for topic, count in map(_topic, topics):
        if topic in counts:
            raise IllegalArgumentException(f"topic {topic} is given twice: --topic once for each")
        counts[topic] = count
    named: dict[str, Mapping[str, int]] = {}
    for text in members:
        for name, threads in expanded(text, counts):
            if name in named:
                raise IllegalArgumentException(f"member {name} is given twice: each needs its own name")
            named[name] = threads
    return _checked(Group(counts, named))


def from_toml(path: Path) -> Group:
    """`[topics]` with partitions, `[members]` with a list of topics or a table of threads by topic."""
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise IllegalArgumentException(f"{path} is no TOML: {error}") from None
    unknown = sorted(data.keys() - {"topics", "members"})
    if unknown:
        raise IllegalArgumentException(f"{path}: {unknown[0]} is unknown, there are [topics] and [members]")
    topics, members = data.get("topics", {}), data.get("members", {})
    for name, table in (("topics", topics), ("members", members)):
        if not isinstance(table, dict):
            raise IllegalArgumentException(f"{path}: {name} should be a table, begun by a line [{name}]")
    for topic, count in topics.items():
        if not _is_count(count):
            raise IllegalArgumentException(
                f"{path}: topics.{topic} = {count!r} should be a number of partitions, 0 or more"
            )
    named = {}
    for name, wanted in members.items():
        is_list = isinstance(wanted, list) and all(isinstance(topic, str) for topic in wanted)
        threads = dict.fromkeys(wanted, 1) if is_list else wanted
        if not isinstance(threads, dict) or not all(_is_count(n) and n for n in threads.values()):
            raise IllegalArgumentException(
                f"{path}: members.{name} should be a list of topics, or a table of threads such as {{ orders = 2 }}"
            )
        named[name] = threads
    return _checked(Group(topics, named))


def from_zookeeper(connect: str, group: str) -> Group:
    """A living group of old consumers, its wildcards expanded. Nothing is written."""
    with ZooKeeper(connect, session_timeout_ms=TIMEOUT_MS, connection_timeout_ms=TIMEOUT_MS) as zookeeper:
        view = ClusterView(zookeeper, group, emulation=emulation("1.1"))
        members = sorted(zookeeper.children(GroupPaths(group).ids) or ())
        if not members:
            raise IllegalArgumentException(f"group {group} has no members in ZooKeeper at {connect}")
        context = view.read_group(members[0])
    threads: dict[str, dict[str, int]] = {name: {} for name in context.consumers}
    for topic, ids in context.consumers_for_topic.items():
        for thread in ids:
            threads[thread.consumer_id][topic] = threads[thread.consumer_id].get(topic, 0) + 1
    return Group({topic: len(numbers) for topic, numbers in context.partitions_for_topic.items()}, threads)


def from_kafka(bootstrap: Sequence[Broker], group: str) -> Group:
    """A living group of new consumers, by their ids at the coordinator. One thread each."""
    with BrokerConnections() as connections:
        cluster = BrokerCluster(connections, bootstrap)
        living = KafkaGroups(connections, cluster.brokers()).describe(group)
        where = ",".join(broker.address for broker in bootstrap)
        if not living.members:
            raise IllegalArgumentException(f"group {group} has no members in Kafka at {where}")
        members = {member.consumer_id: dict.fromkeys(member.topics, 1) for member in living.members}
        if not any(members.values()):
            raise IllegalArgumentException(
                f"group {group} in Kafka at {where} is {living.state}: what its members subscribe to is not known"
            )
        wanted = sorted({topic for topics in members.values() for topic in topics})
        return Group({topic: len(numbers) for topic, numbers in cluster.partitions_of(wanted).items()}, members)


def expanded(text: str, topics: Iterable[str]) -> list[tuple[str, dict[str, int]]]:
    """A member's flag, or several members' if its name ends in *N."""
    name, _, wanted = text.partition("=")
    threads = _subscription(wanted, text) if wanted else dict.fromkeys(topics, 1)
    stem, star, count = name.partition("*")
    if not star:
        names = [name]
    elif count.isdecimal() and int(count) > MOST_MEMBERS:
        raise IllegalArgumentException(f"--member {text}: a plan has at most {MOST_MEMBERS:,} members")
    elif count.isdecimal():
        names = [f"{stem}{number}" for number in range(int(count))]
    else:
        raise IllegalArgumentException(f"--member {text}: behind the star a number is expected, as in c*20")
    if not name:
        raise IllegalArgumentException(f"--member {text}: a name is missing")
    return [(each, threads) for each in names]


def _topic(text: str) -> tuple[str, int]:
    name, _, count = text.rpartition("=")
    if not name or not count.isdecimal():
        raise IllegalArgumentException(f"--topic {text}: expected NAME=PARTITIONS, as in orders=12")
    return name, int(count)


def _subscription(wanted: str, whole: str) -> dict[str, int]:
    threads: dict[str, int] = {}
    for topic, count in (_threads(each, whole) for each in wanted.split(",")):
        if topic in threads:
            raise IllegalArgumentException(f"--member {whole}: {topic} is given twice")
        threads[topic] = count
    return threads


def _threads(text: str, whole: str) -> tuple[str, int]:
    topic, colon, count = text.rpartition(":")
    if not colon:
        return text, 1
    if not topic or not count.isdecimal() or not int(count):
        raise IllegalArgumentException(f"--member {whole}: expected TOPIC or TOPIC:THREADS, found {text!r}")
    return topic, int(count)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def check_subscription(name: str, threads: Mapping[str, int], topics: Mapping[str, int]) -> None:
    """Raises IllegalArgumentException if a topic is not there."""
    for topic in threads:
        if topic not in topics:
            raise IllegalArgumentException(f"member {name} subscribes to {topic}, which is none of the topics given")


def _checked(group: Group) -> Group:
    if not group.topics:
        raise IllegalArgumentException("there is no topic: give at least one, as in --topic orders=12")
    if not group.members:
        raise IllegalArgumentException("there is no member: give at least one, as in --member c1")
    if sum(group.topics.values()) > MOST_PARTITIONS or len(group.members) > MOST_MEMBERS:
        raise IllegalArgumentException(
            f"a plan has at most {MOST_PARTITIONS:,} partitions and {MOST_MEMBERS:,} members: this is too large"
        )
    for name, threads in group.members.items():
        check_subscription(name, threads, group.topics)
    return group
