"""List, describe and delete groups, in ZooKeeper and in Kafka alike (0.9 and later: kafka-consumer-groups.sh).

--zookeeper shows groups of the old consumer, --bootstrap-server those of the new one; both together show both, and say
which group is where. Exit codes: 0 done, 1 failed, no such group, or a live group that was not deleted.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from fetcher.admin import BrokerConnections
from fetcher.errors import KafkaException
from fetcher.structs import TopicAndPartition
from zkconsumer import paths
from zkconsumer.commands.common import FAILED, delete_subtree, terminal_width
from zkconsumer.commands.options import add_server_options, bootstrap_servers, open_zookeeper, zookeeper_connect
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.groups.cluster import BrokerCluster, ZooKeeperCluster, all_partitions, log_ends
from zkconsumer.groups.description import (
    OffsetRow,
    format_members,
    format_offsets,
    format_state,
    kafka_rows,
    zookeeper_rows,
)
from zkconsumer.groups.kafka_group import DEAD, EMPTY, KafkaGroup, KafkaGroups, KafkaMember
from zkconsumer.groups.subscriptions import subscription_of
from zkconsumer.groups.zookeeper_group import ZooKeeperGroup, list_groups, read_group, read_groups
from zkconsumer.paths import GroupPaths
from zkconsumer.zookeeper import ZooKeeper

EXAMPLES = """\
  zkconsumer groups list --zookeeper 127.0.0.1:2181 --bootstrap-server 127.0.0.1:9092
  zkconsumer groups describe --zookeeper 127.0.0.1:2181 --group group1 --watch 2
  zkconsumer groups describe --bootstrap-server 127.0.0.1:9092 --group group2 --members --verbose
  zkconsumer groups delete --zookeeper 127.0.0.1:2181 --group group1
  zkconsumer groups delete --zookeeper 127.0.0.1:2181 --group group1 --topic orders"""

ZOOKEEPER, KAFKA = "zookeeper", "kafka"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="list|describe|delete", required=True)
    for name, summary in (
        ("list", "names, and where each group is"),
        ("describe", "offsets, members or state of a group"),
        ("delete", "all a group has; refused while it has members"),
    ):
        action = actions.add_parser(name, help=summary, description=f"{name}: {summary}.")
        add_server_options(action)
        action.add_argument("--json", action="store_true")
        if name != "list":
            if name == "delete":
                action.add_argument("--group", action="append", help="repeatable; needed unless there is a --topic")
                action.add_argument("--topic", help="only what concerns this topic; without --group: of all groups in"
                                    " ZooKeeper that have no members")  # fmt: skip
            else:
                action.add_argument("--group", required=True)
        if name == "describe":
            views = action.add_mutually_exclusive_group()
            views.add_argument("--offsets", action="store_const", const="offsets", dest="view", default="offsets")
            views.add_argument("--members", action="store_const", const="members", dest="view")
            views.add_argument("--state", action="store_const", const="state", dest="view")
            action.add_argument("--verbose", action="store_true", help="with --members: their partitions")
            action.add_argument("--watch", metavar="SECONDS", type=_seconds, help="again and again, until Ctrl-C")


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text}: seconds, from 0.1 to a day")
    return seconds


@dataclass(frozen=True)
class Worlds:
    """What was named on the command line; at least one is there."""

    connections: BrokerConnections
    zookeeper: ZooKeeper | None
    kafka: KafkaGroups | None
    brokers: BrokerCluster | None


def run(arguments: argparse.Namespace) -> int:
    with ExitStack() as stack:
        worlds = _open(arguments, stack)
        if arguments.action == "list":
            return _list(worlds, arguments)
        if arguments.action == "delete":
            return _delete_all(worlds, arguments)
        if not arguments.watch:
            return _describe(worlds, arguments)
        return _watch(worlds, arguments)


def _open(arguments: argparse.Namespace, stack: ExitStack) -> Worlds:
    bootstrap = bootstrap_servers(arguments)
    if bootstrap is None and zookeeper_connect(arguments) is None:
        raise IllegalArgumentException("where are the groups? Give --zookeeper, --bootstrap-server, or both")
    connections = stack.enter_context(BrokerConnections())
    zookeeper = stack.enter_context(open_zookeeper(arguments)) if zookeeper_connect(arguments) else None
    if bootstrap is None:
        return Worlds(connections, zookeeper, None, None)
    cluster = BrokerCluster(connections, bootstrap)
    return Worlds(connections, zookeeper, KafkaGroups(connections, cluster.brokers()), cluster)


# --- list ---


def _list(worlds: Worlds, arguments: argparse.Namespace) -> int:
    where: dict[str, list[str]] = {}
    for name in list_groups(worlds.zookeeper) if worlds.zookeeper else ():
        where.setdefault(name, []).append(ZOOKEEPER)
    for name in worlds.kafka.names() if worlds.kafka else ():
        where.setdefault(name, []).append(KAFKA)
    if arguments.json:
        print(json.dumps([{"group": name, "in": places} for name, places in sorted(where.items())], indent=2))
        return 0
    both = worlds.zookeeper is not None and worlds.kafka is not None
    width = max(map(len, where), default=0)
    for name, places in where.items():
        print(f"{name:<{width}}  {' and '.join(places)}" if both else name)  # of one world, as the original
    twice = sorted(name for name, places in where.items() if len(places) > 1)
    if twice:
        print(f"in both worlds: {', '.join(twice)}", file=sys.stderr)
    return 0


# --- describe ---


def _watch(worlds: Worlds, arguments: argparse.Namespace) -> int:
    console, never = Console(), threading.Event()
    while True:
        code = _describe(worlds, arguments, before=console.clear if console.is_terminal else lambda: None)
        sys.stdout.flush()
        if code:
            return code
        never.wait(arguments.watch)


def _describe(worlds: Worlds, arguments: argparse.Namespace, before: Callable[[], None] = lambda: None) -> int:
    """before: called when all is known and nothing is printed."""
    name: str = arguments.group
    found: list[dict[str, Any]] = []
    lines: list[str] = []
    notes: list[str] = []
    if worlds.zookeeper is not None and (old := read_group(worlds.zookeeper, name)).exists:
        notes.append(f"Group '{name}' in ZooKeeper{'' if old.is_live else ' has no active members'}.")
        found.append(_old_as_json(worlds, old, arguments))
        lines += _old_lines(worlds, old, arguments)
    if worlds.kafka is not None:
        new = worlds.kafka.describe(name)
        offsets = _kafka_offsets(worlds.kafka, name)
        if new.state != DEAD or offsets:
            notes += _told_state(new)
            found.append(_new_as_json(worlds, new, offsets, arguments))
            lines += _new_lines(worlds, new, offsets, arguments)
    before()
    if not found:
        # Each in the words of the original.
        print(f"Error: {'The c' if worlds.kafka is None else 'C'}onsumer group '{name}' does not exist.")
        return FAILED
    if len(found) > 1:
        notes.append(f"Group '{name}' is in both worlds.")
    for note in notes:
        print(note, file=sys.stderr)
    if arguments.json:
        print(json.dumps(found, indent=2))
    for line in () if arguments.json else lines:
        print(line)
    return 0


def _told_state(group: KafkaGroup) -> Iterator[str]:
    if group.state == EMPTY:
        yield f"Consumer group '{group.name}' has no active members."
    elif group.state in ("PreparingRebalance", "CompletingRebalance", "AwaitingSync"):
        yield f"Warning: Consumer group '{group.name}' is rebalancing."


def _old_rows(worlds: Worlds, group: ZooKeeperGroup) -> list[OffsetRow]:
    """Topics that have owners, as the original, and those that have offsets only, which it does not show."""
    assert worlds.zookeeper is not None
    cluster = ZooKeeperCluster(worlds.zookeeper)
    topics = list(dict.fromkeys([*group.owner_topics, *group.offset_topics]))
    partitions = all_partitions(cluster.partitions_of(topics))
    offsets = group.stored_offsets()
    try:
        kafka = KafkaGroups(worlds.connections, cluster.brokers()).stored(group.name, partitions)
        offsets |= {where: one.offset for where, one in kafka.items() if one.offset >= 0 and not one.error_code}
    except KafkaException as error:
        print(f"offsets in Kafka are not known: {error}", file=sys.stderr)
    names = worlds.zookeeper.children(paths.BROKER_TOPICS) or []
    topics_of = {one: sorted(subscription_of(group, one).threads_by_topic(names)) for one in group.members}
    return list(
        zookeeper_rows(group, partitions, offsets, log_ends(worlds.connections, cluster, partitions), topics_of)
    )


def _old_members(group: ZooKeeperGroup) -> list[KafkaMember]:
    owned: dict[str, list[TopicAndPartition]] = {consumer_id: [] for consumer_id in group.members}
    for where, text in group.owner_texts().items():
        consumer_id = text.rpartition("-")[0] or text
        owned.setdefault(consumer_id, []).append(where)
    return [
        KafkaMember(consumer_id, "-", _host_of(group.name, consumer_id), tuple(sorted(partitions)))
        for consumer_id, partitions in sorted(owned.items())
        if consumer_id in group.members
    ]


def _host_of(group: str, consumer_id: str) -> str:
    """From an id made up by the consumer: GROUP_HOST-MS-HEX."""
    parts = consumer_id.removeprefix(f"{group}_").rsplit("-", 2)
    return parts[0] if len(parts) == 3 and parts[1].isdigit() else "-"


def _old_state(group: ZooKeeperGroup) -> str:
    return "Active" if group.is_live else EMPTY


def _old_lines(worlds: Worlds, group: ZooKeeperGroup, arguments: argparse.Namespace) -> list[str]:
    if arguments.view == "members":
        return _member_lines(_old_members(group), arguments)
    if arguments.view == "state":
        return ["", *format_state("ZooKeeper", "-", _old_state(group), len(group.members), width=terminal_width())]
    return ["", *format_offsets(_old_rows(worlds, group), with_hosts=False, width=terminal_width())]


def _member_lines(members: Sequence[KafkaMember], arguments: argparse.Namespace) -> list[str]:
    """No table of nobody, as the original."""
    return ["", *format_members(members, verbose=arguments.verbose, width=terminal_width())] if members else []


def _old_as_json(worlds: Worlds, group: ZooKeeperGroup, arguments: argparse.Namespace) -> dict[str, Any]:
    head = {"group": group.name, "in": ZOOKEEPER, "state": _old_state(group), "members": len(group.members)}
    return head | _details(arguments, lambda: _old_rows(worlds, group), _old_members(group))


def _kafka_offsets(groups: KafkaGroups, name: str) -> dict[TopicAndPartition, int]:
    return {where: stored.offset for where, stored in groups.all_stored(name).items() if not stored.error_code}


def _new_rows(worlds: Worlds, group: KafkaGroup, offsets: dict[TopicAndPartition, int]) -> list[OffsetRow]:
    assert worlds.brokers is not None
    partitions = sorted({*offsets, *(where for member in group.members for where in member.partitions)})
    return list(kafka_rows(group, offsets, log_ends(worlds.connections, worlds.brokers, partitions)))


def _new_lines(
    worlds: Worlds, group: KafkaGroup, offsets: dict[TopicAndPartition, int], arguments: argparse.Namespace
) -> list[str]:
    if arguments.view == "members":
        return _member_lines(group.members, arguments)
    if arguments.view == "state":
        where = f"{group.coordinator.address} ({group.coordinator.id})"
        return ["", *format_state(where, group.strategy, group.state, len(group.members), width=terminal_width())]
    return ["", *format_offsets(_new_rows(worlds, group, offsets), with_hosts=True, width=terminal_width())]


def _new_as_json(
    worlds: Worlds, group: KafkaGroup, offsets: dict[TopicAndPartition, int], arguments: argparse.Namespace
) -> dict[str, Any]:
    head = {
        "group": group.name,
        "in": KAFKA,
        "state": group.state,
        "members": len(group.members),
        "coordinator": group.coordinator.address,
        "strategy": group.strategy,
    }
    return head | _details(arguments, lambda: _new_rows(worlds, group, offsets), group.members)


def _details(arguments: argparse.Namespace, rows: Any, members: Any) -> dict[str, Any]:
    if arguments.view == "offsets":
        return {"partitions": [{**asdict(row), "lag": row.lag} for row in rows()]}
    if arguments.view == "members":
        return {
            "consumers": [{**asdict(one), "partitions": [list(where) for where in one.partitions]} for one in members]
        }
    return {}


# --- delete ---


@dataclass(frozen=True)
class Deletion:
    """Of one group, or of one topic in it, where it was; or why it was not. `line`: the original's words."""

    group: str
    where: str | None
    refused: str | None
    line: str
    topic: str | None = None


def _delete_all(worlds: Worlds, arguments: argparse.Namespace) -> int:
    if not arguments.group and arguments.topic is None:
        raise IllegalArgumentException("what is to be deleted? Give --group, --topic, or both")
    done: list[Deletion] = []
    for one in _deletions(worlds, arguments.group, arguments.topic):
        done.append(one)
        if not arguments.json and one.line:
            print(one.line)
    if arguments.json:
        rows = [
            {"group": one.group, "deleted_from": one.where, "refused": one.refused}
            | ({"topic": one.topic} if one.topic is not None else {})
            for one in done
        ]
        print(json.dumps(rows, indent=2))
    elif not arguments.group:
        print(f"Deleted consumer group information for all inactive consumer groups for topic '{arguments.topic}' in"
              " zookeeper.")  # fmt: skip
    return FAILED if any(one.refused for one in done) else 0


def _deletions(worlds: Worlds, groups: list[str] | None, topic: str | None) -> Iterator[Deletion]:
    for name in groups or ():
        yield from _delete(worlds, name) if topic is None else _delete_topic(worlds, name, topic)
    if groups or topic is None:
        return
    if worlds.zookeeper is None:
        raise IllegalArgumentException("--topic without --group is for groups in ZooKeeper: give --zookeeper")
    for old in read_groups(worlds.zookeeper, list_groups(worlds.zookeeper)).values():
        if not old.is_live and topic in old.offset_topics:
            _delete_topic_nodes(worlds.zookeeper, old, topic)
            yield Deletion(old.name, ZOOKEEPER, None, "", topic)


def _delete(worlds: Worlds, name: str) -> Iterator[Deletion]:
    """In each world that has it. Both are looked at before anything is deleted."""
    old = read_group(worlds.zookeeper, name) if worlds.zookeeper else None
    new = worlds.kafka.describe(name) if worlds.kafka else None
    if (old is not None and old.is_live) or (new is not None and new.is_live):
        yield _refused(name, "its consumers are still active")
        return
    found = False
    if worlds.zookeeper is not None and old is not None and old.exists:
        delete_subtree(worlds.zookeeper, GroupPaths(name).directory)
        line = f"Deleted all consumer group information for group '{name}' in zookeeper."
        yield Deletion(name, ZOOKEEPER, None, line)
        found = True
    if worlds.kafka is not None and new is not None and (new.state != DEAD or worlds.kafka.all_stored(name)):
        worlds.kafka.delete(name)
        yield Deletion(name, KAFKA, None, f"Deletion of requested consumer groups ('{name}') was successful.")
        found = True
    if not found:
        yield _refused(name, "group does not exist")


def _delete_topic(worlds: Worlds, name: str, topic: str) -> Iterator[Deletion]:
    """As of a whole group; Kafka forgets the offsets."""
    old = read_group(worlds.zookeeper, name) if worlds.zookeeper else None
    new = worlds.kafka.describe(name) if worlds.kafka else None
    if (old is not None and old.is_live) or (new is not None and new.is_live):
        yield _refused(name, "its consumers are still active", topic)
        return
    everything = worlds.kafka.all_stored(name) if worlds.kafka else {}
    stored = [where for where in everything if where.topic == topic]
    has_nodes = old is not None and topic in (*old.owner_topics, *old.offset_topics)
    if worlds.zookeeper is not None and old is not None and has_nodes:
        _delete_topic_nodes(worlds.zookeeper, old, topic)
        line = f"Deleted consumer group information for group '{name}' topic '{topic}' in zookeeper."
        yield Deletion(name, ZOOKEEPER, None, line, topic)
    if worlds.kafka is not None and stored:
        if len(stored) == len(everything):
            worlds.kafka.delete(name)
        else:
            worlds.kafka.forget(name, stored)
        line = f"Deleted {len(stored)} offsets of group '{name}' topic '{topic}' in Kafka."
        yield Deletion(name, KAFKA, None, line, topic)
    if not has_nodes and not stored:
        exists = (old is not None and old.exists) or (new is not None and new.state != DEAD)
        yield _refused(name, "it has nothing of this topic" if exists else "group does not exist", topic)


def _delete_topic_nodes(zookeeper: ZooKeeper, group: ZooKeeperGroup, topic: str) -> None:
    """The whole group with its last topic. The original looks at owners only, and offsets of others go along."""
    if {*group.owner_topics, *group.offset_topics} == {topic}:
        delete_subtree(zookeeper, GroupPaths(group.name).directory)
        return
    for directory in (GroupPaths(group.name).owners, GroupPaths(group.name).offsets):
        delete_subtree(zookeeper, f"{directory}/{topic}")


def _refused(name: str, reason: str, topic: str | None = None) -> Deletion:
    what = f"group '{name}'" if topic is None else f"group '{name}' topic '{topic}'"
    return Deletion(name, None, reason, f"Error: Delete for {what} failed because {reason}.", topic)
