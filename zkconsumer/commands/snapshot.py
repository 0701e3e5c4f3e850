"""Save what consumers have in ZooKeeper as a file, and load it into a sandbox: rehearse what production has.

`save` only reads, with --bootstrap-server also the offsets that groups keep in Kafka. `load` makes the topics, with the
same partitions, on the sandbox's own brokers, and writes what groups have; it refuses what exists (--overwrite) and the
cluster the snapshot was made of. Registrations and owners are ephemeral: --members keeps them alive until Ctrl-C.
Exit codes: 0 done, 1 failed or refused.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.status import Status

from fetcher.admin import BrokerConnections
from zkconsumer import paths
from zkconsumer.commands.common import FAILED, TOOL_TIMEOUT_MS, StopSignals
from zkconsumer.commands.options import (
    add_server_options,
    bootstrap_servers,
    needed_zookeeper_connect,
    open_zookeeper,
)
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.groups.cluster import BrokerCluster, ZooKeeperCluster
from zkconsumer.groups.kafka_group import KafkaGroups
from zkconsumer.groups.zookeeper_group import list_groups
from zkconsumer.paths import GroupPaths
from zkconsumer.snapshots.files import KafkaOffsets, Snapshot, read_snapshot, write_snapshot
from zkconsumer.snapshots.holding import HeldMembers
from zkconsumer.snapshots.loading import (
    LoadPlan,
    Wishes,
    by_session,
    carry_out,
    member_counts,
    plan_load,
    read_target,
    unknown_to_brokers,
    without_leader,
    write_to_kafka,
)
from zkconsumer.snapshots.taking import groups_in_kafka, take_from_kafka, take_snapshot
from zkconsumer.zookeeper import ZooKeeper

EXAMPLES = """\
  zkconsumer snapshot save production.gz --zookeeper zk1:2181/kafka
  zkconsumer snapshot save group1.json --zookeeper zk1:2181/kafka --group group1
  zkconsumer snapshot save production.gz --zookeeper zk1:2181/kafka --bootstrap-server kafka1:9092
  zkconsumer snapshot show production.gz
  zkconsumer sandbox --snapshot production.gz                    servers of its own, with all of it
  zkconsumer snapshot load production.gz --zookeeper 127.0.0.1:2181 --dry-run
  zkconsumer snapshot load production.gz --zookeeper 127.0.0.1:2181 --group group1 --members"""

LEADERS_WITHIN_S = 60.0
PARTITIONS_A_SECOND = 50  # that a slow laptop's broker makes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="save|load|show", required=True)
    save = actions.add_parser("save", help="from ZooKeeper to a file", description="save: from ZooKeeper to a file.")
    save.add_argument("file", metavar="FILE", type=Path, help="packed with gzip if it ends in .gz")
    add_server_options(save)
    save.add_argument("--group", action="append", default=[], help="repeatable (default: all groups)")
    save.add_argument("--gzip", action="store_true", help="pack it whatever its name")
    save.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
    save.add_argument("--json", action="store_true", help="what was saved, as of `show`")
    load = actions.add_parser("load", help="from a file into a sandbox", description="load: into a sandbox.")
    load.add_argument("file", metavar="FILE", type=Path)
    add_server_options(load, bootstrap=False)
    add_load_options(load)
    load.add_argument("--members", action="store_true", help="keep registrations and owners alive until Ctrl-C")
    load.add_argument("--overwrite", action="store_true", help="groups without members, and topics, may exist")
    load.add_argument("--dry-run", action="store_true", help="only say what would be done")
    load.add_argument("--json", action="store_true", help="what is done, and what is not, as JSON")
    show = actions.add_parser("show", help="what a file holds", description="show: what a file holds.")
    show.add_argument("file", metavar="FILE", type=Path)
    show.add_argument("--json", action="store_true")


def add_load_options(parser: argparse.ArgumentParser) -> None:
    """Also of `zkconsumer sandbox`."""
    parser.add_argument("--group", action="append", default=[], help="of the snapshot only this group and its topics;"
                        " repeatable")  # fmt: skip
    parser.add_argument("--offsets", choices=("keep", "restart"), default="keep", help="of the snapshot: as they are,"
                        " or 0, where the sandbox's logs begin")  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    actions = {"save": _save, "load": _load, "show": _show}
    return actions[arguments.action](arguments)


# --- save, show ---


def _save(arguments: argparse.Namespace) -> int:
    file: Path = arguments.file
    if file.exists() and not arguments.overwrite:
        raise IllegalArgumentException(f"{file} exists: take another name, or --overwrite")
    if not os.access(file.absolute().parent, os.W_OK):  # before production is asked for all of it
        raise IllegalArgumentException(f"{file}: there is no such directory, or nothing may be written to it")
    connect = needed_zookeeper_connect(arguments)
    with open_zookeeper(arguments) as zookeeper, progress("reading …") as status:
        snapshot = take_snapshot(
            zookeeper,
            connect,
            arguments.group,
            lambda nodes: status.update(f"reading … {nodes:,} nodes"),
            _read_from_kafka(zookeeper, arguments, status),
        )
    write_snapshot(file, snapshot, compressed=arguments.gzip or file.suffix == ".gz")
    if arguments.json:
        print(json.dumps({"file": str(file), "bytes": file.stat().st_size, **_facts(snapshot)}, indent=2))
        return 0
    offsets = sum(map(len, snapshot.in_kafka.values()))
    in_kafka = f"{offsets:,} offsets of {len(snapshot.in_kafka):,} groups in Kafka, " if offsets else ""
    print(f"{file}: {len(snapshot.nodes):,} nodes, {in_kafka}{file.stat().st_size:,} bytes")
    return 0


def _read_from_kafka(zookeeper: ZooKeeper, arguments: argparse.Namespace, status: Status) -> dict[str, KafkaOffsets]:
    bootstrap = bootstrap_servers(arguments)
    if bootstrap is None:
        return {}
    with BrokerConnections() as connections:
        cluster = BrokerCluster(connections, bootstrap)
        groups = KafkaGroups(connections, cluster.brokers())
        names = arguments.group or groups_in_kafka(groups, list_groups(zookeeper))
        return take_from_kafka(
            groups, cluster, names, lambda done: status.update(f"reading … {done:,} of {len(names):,} groups in Kafka")
        )


def _show(arguments: argparse.Namespace) -> int:
    facts = _facts(read_snapshot(arguments.file))
    if arguments.json:
        print(json.dumps(facts, indent=2))
        return 0
    print(f"from {facts['from']}, {facts['began']} to {facts['ended']}, {facts['nodes']:,} nodes")
    print(f"{len(facts['topics'])} topics with {sum(facts['topics'].values()):,} partitions,"
          f" {facts['brokers']} brokers, {len(facts['groups'])} groups")  # fmt: skip
    width = max(map(len, [*facts["groups"], *facts["kafka_groups"]]), default=0)
    for group, counts in facts["groups"].items():
        print(f"  {group:<{width}}  {counts['members']} members, {counts['owners']} owners,"
              f" {counts['offsets']} offsets")  # fmt: skip
    for group, count in facts["kafka_groups"].items():
        print(f"  {group:<{width}}  {count} offsets in Kafka")
    return 0


def _facts(snapshot: Snapshot) -> dict[str, Any]:
    topics = {
        topic: len(snapshot.names_below(f"{paths.topic(topic)}/partitions"))
        for topic in snapshot.names_below(paths.BROKER_TOPICS)
    }
    groups = {}
    for group in snapshot.names_below(paths.CONSUMERS):
        depth = {"ids": 2, "owners": 3, "offsets": 3}
        kinds = [n[0] for n, _ in snapshot.below(GroupPaths(group).directory) if depth.get(n[0]) == len(n)]
        groups[group] = {
            "members": kinds.count("ids"), "owners": kinds.count("owners"), "offsets": kinds.count("offsets")
        }  # fmt: skip
    return {
        "from": snapshot.source, "began": snapshot.began, "ended": snapshot.ended, "nodes": len(snapshot.nodes),
        "brokers": len(snapshot.names_below(paths.BROKER_IDS)), "topics": topics, "groups": groups,
        "kafka_groups": {group: len(offsets) for group, offsets in snapshot.in_kafka.items()},
    }  # fmt: skip


# --- load ---


def _load(arguments: argparse.Namespace) -> int:
    snapshot = read_snapshot(arguments.file)
    wishes = Wishes(arguments.group, arguments.overwrite, arguments.offsets == "restart", arguments.members)
    connect = needed_zookeeper_connect(arguments)
    with open_zookeeper(arguments) as zookeeper, ExitStack() as stack:
        plan = plan_load(snapshot, read_target(zookeeper, connect, snapshot.in_kafka), wishes)
        for line in () if arguments.json else told(plan):
            print(line)
        for reason in plan.refused:
            print(f"refused: {reason}", file=sys.stderr)
        if arguments.json and (plan.refused or arguments.dry_run):
            print(json.dumps(_as_json(plan, loaded=False), indent=2))
        if plan.refused:
            print("nothing was written: --overwrite allows what exists, but never a group with members or a topic with"
                  " other partitions", file=sys.stderr)  # fmt: skip
            return FAILED
        if arguments.dry_run:
            print("nothing was written: this was a dry run", file=sys.stderr)
            return 0
        held = load(plan, zookeeper, connect, stack)
        print(json.dumps(_as_json(plan, loaded=True), indent=2) if arguments.json else "loaded", flush=True)
        if plan.members:
            print("Ctrl-C ends the members", flush=True, file=sys.stderr if arguments.json else sys.stdout)
            stop = threading.Event()
            with StopSignals(stop.set):
                wait_and_tell_losses(stop, held)
    return 0


def load(plan: LoadPlan, zookeeper: ZooKeeper, connect: str, stack: ExitStack) -> HeldMembers | None:
    """Carry it out; the members live until `stack` ends."""
    try:
        with progress("loading …") as status:
            carry_out(plan, zookeeper, lambda step: status.update(f"{step} …"))
            _await_leaders(plan, zookeeper, status)
            if plan.in_kafka:
                _write_to_kafka(plan, zookeeper, status)
        if not plan.members:
            return None
        held = stack.enter_context(HeldMembers(connect, by_session(plan.members), timeout_ms=TOOL_TIMEOUT_MS))
    except KeyboardInterrupt as error:
        error.add_note("interrupted half-way: the same command with --overwrite does the rest")
        raise
    for path in held.conflicts:
        print(f"{path}: somebody else has it", file=sys.stderr)
    return held


def wait_and_tell_losses(stop: threading.Event, held: HeldMembers | None) -> None:
    """Until stop is set."""
    lost = 0
    while not stop.wait(1.0):
        if held is not None and held.lost() > lost:
            lost = held.lost()
            print(f"{lost} sessions that held members have expired, and their members are gone", file=sys.stderr)


def told(plan: LoadPlan) -> Iterator[str]:
    """What it does, a line each."""
    if plan.topics or plan.kept_topics:
        kept = f"; {len(plan.kept_topics)} are there already" if plan.kept_topics else ""
        yield f"topics    {len(plan.topics)} with {plan.partitions} partitions{kept}"
    yield f"groups    {len(plan.groups)} with {plan.offsets} offsets"
    if plan.in_kafka:
        yield f"in Kafka  {len(plan.in_kafka)} groups with {sum(map(len, plan.in_kafka.values()))} offsets"
    ids, owners = member_counts(path for nodes in plan.members.values() for path in nodes)
    if plan.members:
        yield f"members   {ids} registrations and {owners} owners, kept alive while this runs"
    for line in plan.left_out:
        yield f"left out  {line}"


def _as_json(plan: LoadPlan, *, loaded: bool) -> dict[str, Any]:
    ids, owners = member_counts(path for nodes in plan.members.values() for path in nodes)
    return {
        "topics": {topic: len(assignment) for topic, assignment in plan.topics.items()},
        "kept_topics": plan.kept_topics, "groups": plan.groups, "offsets": plan.offsets,
        "kafka_groups": {group: len(offsets) for group, offsets in plan.in_kafka.items()},
        "registrations": ids, "owners": owners, "left_out": plan.left_out, "refused": plan.refused, "loaded": loaded,
    }  # fmt: skip


@contextmanager
def progress(text: str) -> Iterator[Status]:
    """On a terminal only, and not where the result goes."""
    with Console(stderr=True, highlight=False).status(text) as status:
        yield status


def _await_leaders(plan: LoadPlan, zookeeper: ZooKeeper, status: Status) -> None:
    def missing() -> int:
        return without_leader(plan, zookeeper) if plan.topics else 0

    _await_none(missing, plan.partitions, "have no leader", status)


def _write_to_kafka(plan: LoadPlan, zookeeper: ZooKeeper, status: Status) -> None:
    brokers = ZooKeeperCluster(zookeeper).brokers()
    with BrokerConnections() as connections:
        count = sum(map(len, plan.in_kafka.values()))
        _await_none(lambda: unknown_to_brokers(plan, connections, brokers), count, "are not known to brokers", status)
        write_to_kafka(plan, KafkaGroups(connections, brokers), lambda step: status.update(f"{step} …"))


def _await_none(count: Callable[[], int], partitions: int, what: str, status: Status) -> None:
    within_s = max(LEADERS_WITHIN_S, partitions / PARTITIONS_A_SECOND)
    give_up_s, pause = time.monotonic() + within_s, threading.Event()
    while missing := count():
        status.update(f"{missing} of {partitions} partitions {what} yet …")
        if time.monotonic() > give_up_s:
            raise IllegalArgumentException(
                f"{missing} of {partitions} partitions {what} after {within_s:.0f} s: see the log of the"
                " sandbox's brokers; the same command with --overwrite goes on"
            )
        pause.wait(0.2)
