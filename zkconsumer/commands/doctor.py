"""Say what is wrong with groups in ZooKeeper, and what will break: each with the node, the reason and what to do.

Reads only. Exit codes: 0 nothing is wrong, 3 something is, 1 it could not be looked at.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from functools import partial
from typing import TypeVar

from rich.console import Console
from rich.text import Text

from fetcher.admin import BrokerConnections
from fetcher.errors import KafkaException, class_name_for
from fetcher.structs import TopicAndPartition
from zkconsumer import paths
from zkconsumer.commands.common import read_properties
from zkconsumer.commands.options import add_server_options, open_zookeeper
from zkconsumer.config import ConsumerConfig
from zkconsumer.emulation import OFFSETS_TOPIC
from zkconsumer.errors import IllegalArgumentException, UnreadableZnode
from zkconsumer.groups.cluster import ZooKeeperCluster, all_partitions, log_ranges
from zkconsumer.groups.diagnosis import ERROR, Facts, Finding, RebalanceSettings, diagnose, subscribed_topics
from zkconsumer.groups.kafka_group import UNKNOWN_TOPIC_OR_PARTITION, KafkaGroups
from zkconsumer.groups.zookeeper_group import ZooKeeperGroup, list_groups, read_groups
from zkconsumer.zookeeper import ZooKeeper

EXAMPLES = """\
  zkconsumer doctor --zookeeper 127.0.0.1:2181                     all groups
  zkconsumer doctor --zookeeper 127.0.0.1:2181 --group group1 --consumer.config consumer.properties
  zkconsumer doctor --zookeeper 127.0.0.1:2181 --json | jq -r '.[].path'"""

_Value = TypeVar("_Value")
SICK = 3
_TOLD = (0, UNKNOWN_TOPIC_OR_PARTITION)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_options(parser, bootstrap=False)
    parser.add_argument("--group", action="append", help="repeatable (default: all groups)")
    parser.add_argument("--consumer.config", metavar="FILE", dest="consumer_config",
                        help="the members' settings: session, retries, assignment strategy")  # fmt: skip
    parser.add_argument("--partition.assignment.strategy", choices=("range", "roundrobin"), dest="strategy",
                        help="how members share partitions (default: as in FILE, else range)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="findings as a JSON array")


def run(arguments: argparse.Namespace) -> int:
    settings, strategy = _settings(arguments)
    findings: dict[str, list[Finding]] = {}
    with open_zookeeper(arguments) as zookeeper, BrokerConnections() as connections:
        names = arguments.group or sorted(list_groups(zookeeper))
        groups = read_groups(zookeeper, names)
        missing = [name for name, group in groups.items() if not group.exists]
        if missing:
            raise IllegalArgumentException(
                f"there is no group {missing[0]} in ZooKeeper; `zkconsumer groups list` tells"
            )
        for name, group in groups.items():
            findings[name] = diagnose(_facts(zookeeper, connections, group, settings, strategy))
    if arguments.json:
        print(
            json.dumps([{"group": name, **asdict(one)} for name, found in findings.items() for one in found], indent=2)
        )
    else:
        _print(findings)
    return SICK if any(findings.values()) else 0


def _settings(arguments: argparse.Namespace) -> tuple[RebalanceSettings | None, str]:
    if arguments.consumer_config is None:
        return None, arguments.strategy or "range"
    properties = read_properties(arguments.consumer_config)
    config = ConsumerConfig.from_properties({"zookeeper.connect": "unused", "group.id": "unused", **properties})
    found = RebalanceSettings(
        config.rebalance_max_retries, config.rebalance_backoff_ms, config.zookeeper_session_timeout_ms
    )
    return found, arguments.strategy or config.partition_assignment_strategy


def _facts(
    zookeeper: ZooKeeper,
    connections: BrokerConnections,
    group: ZooKeeperGroup,
    settings: RebalanceSettings | None,
    strategy: str,
) -> Facts:
    cluster = ZooKeeperCluster(zookeeper)
    topics = zookeeper.children(paths.BROKER_TOPICS) or []
    concerned = subscribed_topics(group, topics) | {*group.owner_topics, *group.offset_topics}
    unreadable: list[UnreadableZnode] = []
    partitions_of = _partitions_of(cluster, concerned, unreadable)
    partitions = all_partitions(partitions_of)
    brokers = _or_none(cluster.brokers, unreadable) or []
    members, offsets, unknown = _in_kafka(KafkaGroups(connections, brokers), group.name, partitions, topics)
    stored = [where for where in partitions if where in group.offsets or where in offsets]
    ranges = _or_none(lambda: log_ranges(connections, cluster, stored), unreadable) if brokers else None
    begins, ends = ranges or ({}, {})
    return Facts(
        group=group,
        topics=topics,
        partitions_of=partitions_of,
        begins=begins,
        ends=ends,
        strategy=strategy,
        settings=settings,
        kafka_members=members,
        kafka_offsets=offsets,
        brokers=len(brokers),
        kafka_unknown=unknown,
        unreadable=unreadable,
    )


def _partitions_of(
    cluster: ZooKeeperCluster, topics: Collection[str], unreadable: list[UnreadableZnode]
) -> dict[str, list[int]]:
    """One that cannot be read must not hide the others."""
    try:
        return cluster.partitions_of(topics)
    except UnreadableZnode:
        single = {topic: _or_none(partial(cluster.partitions_of, [topic]), unreadable) for topic in topics}
        return {topic: found[topic] if found else [] for topic, found in single.items()}


def _or_none(read: Callable[[], _Value], unreadable: list[UnreadableZnode]) -> _Value | None:
    try:
        return read()
    except UnreadableZnode as error:
        unreadable.append(error)
        return None


def _in_kafka(
    groups: KafkaGroups, name: str, partitions: Sequence[TopicAndPartition], topics: Collection[str]
) -> tuple[list[str], dict[TopicAndPartition, int], str]:
    """Members, offsets, and why they are not known, if they are not."""
    if OFFSETS_TOPIC not in topics:
        return [], {}, ""  # and asking would make it
    try:
        members = [member.consumer_id for member in groups.describe(name).members] if groups.has_members(name) else []
        stored = groups.stored(name, partitions)
    except KafkaException as error:
        return [], {}, str(error)
    refused = next((one.error_code for one in stored.values() if one.error_code not in _TOLD), 0)
    found = {where: one.offset for where, one in stored.items() if one.offset >= 0 and not one.error_code}
    return members, found, class_name_for(refused) if refused else ""


def _print(findings: dict[str, list[Finding]]) -> None:
    console = Console(highlight=False)
    for name, found in findings.items():
        console.print(Text(f"{name}: ", "bold") + Text(f"{len(found)} findings" if found else "nothing is wrong"))
        for one in found:
            colour = "red" if one.severity == ERROR else "yellow"
            console.print(Text(f"  {one.severity} ", colour) + Text(one.fault, "bold"))
            console.print(Text(f"    {one.path}"), soft_wrap=True)
            console.print(Text(f"    {one.reason}"), soft_wrap=True)
            console.print(Text(f"    -> {one.advice}"), soft_wrap=True)
