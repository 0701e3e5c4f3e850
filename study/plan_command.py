"""Show who gets which partitions under each strategy, old and new, and how many move when a member joins or leaves.

The group comes from flags, from a TOML file, or from where it lives: ZooKeeper or Kafka.
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from study.assignors import Assignor
from study.plan import NEWCOMER, STRATEGIES, Group, plan
from study.plan_input import check_subscription, expanded, from_flags, from_kafka, from_toml, from_zookeeper
from study.plan_output import as_json, print_tables
from study.plan_own import own_strategy
from study.plan_picture import as_svg
from zkconsumer.commands.options import bootstrap_servers, zookeeper_connect
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.groups.files import write_whole

EXAMPLES = """\
  zkconsumer plan --topic orders=12 --topic clicks=5 --member c*4
  zkconsumer plan --topic t1=5 --topic t2=7 --member a=t1:2,t2 --member b=t2 --strategy range --strategy sticky
  zkconsumer plan --file group.toml --leave c3 --picture plan.svg
  zkconsumer plan --topic orders=12 --member c*4 --strategy sticky --strategy my_module:assign
  zkconsumer plan --zookeeper 127.0.0.1:2181/kafka --group billing --json
  zkconsumer plan --bootstrap-server 127.0.0.1:9092 --group billing --leave consumer-1-8d0ecf26"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_argument_group("the group, from one of")
    source.add_argument("--topic", metavar="NAME=PARTITIONS", action="append", default=[], help="again for each topic")
    source.add_argument(
        "--member",
        metavar="NAME[=TOPIC[:THREADS],…]",
        action="append",
        default=[],
        help="again for each member; without topics: all of them; c*20 is c0 to c19",
    )
    source.add_argument("--file", metavar="TOML", type=Path, help='[topics] orders = 12, [members] c1 = ["orders"]')
    source.add_argument(
        "--zookeeper", metavar="HOST:PORT[/CHROOT]", help="with --group: a living group of old consumers"
    )
    source.add_argument("--bootstrap-server", metavar="HOST:PORT,…", help="with --group: one of new consumers")
    source.add_argument("--group", metavar="NAME")
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        action="append",
        help=f"only these, of: {', '.join(STRATEGIES)}; also a beginning; or your own as module:callable",
    )
    parser.add_argument(
        "--join", metavar="NAME[=…]", help="who joins (default: one like the first member); topics as for --member"
    )
    parser.add_argument("--leave", metavar="NAME", help="who leaves (default: the last member)")
    parser.add_argument("--detailed", action="store_true", help="who gets what, also if it is long")
    parser.add_argument("--json", action="store_true", help="everything, for programs")
    parser.add_argument("--picture", metavar="FILE.svg", type=Path, help="write a picture, for a browser")


def run(arguments: argparse.Namespace) -> int:
    """0, or an error that says what was wrong."""
    with _undisturbed():
        return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    group = _group(arguments)
    leave = _leaver(group, arguments.leave)
    join = _newcomer(group, arguments.join)
    strategies = _strategies(arguments.strategy)
    outcomes = []
    with Console(stderr=True).status("") as status:
        for name, own in strategies.items():
            status.update(f"sharing out by {name}")
            outcomes.append(plan(group, name, join=join, leave=leave, own=own))
    if arguments.picture:
        write_whole(arguments.picture, as_svg(group, outcomes))
    if arguments.json:
        print(json.dumps(as_json(group, outcomes), ensure_ascii=False))
        return 0
    console = Console(highlight=False)
    print_tables(console, group, outcomes, detailed=arguments.detailed)
    if arguments.picture:
        console.print(f"picture: {arguments.picture}", markup=False)
    return 0


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No garbage collection meanwhile: it would look at hundreds of thousands of partitions again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _group(arguments: argparse.Namespace) -> Group:
    flags = bool(arguments.topic or arguments.member)
    servers = arguments.zookeeper is not None or arguments.bootstrap_server is not None
    if sum([flags, arguments.file is not None, servers or arguments.group is not None]) != 1:
        raise IllegalArgumentException(
            "say where the group comes from: --topic and --member, or --file, or --group with --zookeeper or"
            " --bootstrap-server"
        )
    if arguments.file is not None:
        return from_toml(arguments.file)
    if flags:
        return from_flags(arguments.topic, arguments.member)
    if arguments.group is None:
        raise IllegalArgumentException("--zookeeper and --bootstrap-server need --group: which group there?")
    return _living(arguments)


def _living(arguments: argparse.Namespace) -> Group:
    """From the server that was named, else from those of the config file, ZooKeeper first."""
    if arguments.zookeeper is not None and arguments.bootstrap_server is not None:
        raise IllegalArgumentException("a group lives at --zookeeper or at --bootstrap-server: give one of them")
    connect = None if arguments.bootstrap_server is not None else zookeeper_connect(arguments)
    bootstrap = bootstrap_servers(arguments)
    if connect is not None:
        return from_zookeeper(connect, arguments.group)
    if bootstrap is None:
        raise IllegalArgumentException("where does the group live? Give --zookeeper, --bootstrap-server, or --config")
    return from_kafka(bootstrap, arguments.group)


def _leaver(group: Group, wanted: str | None) -> str:
    if wanted is not None and wanted not in group.members:
        raise IllegalArgumentException(f"--leave {wanted}: there is no such member")
    return wanted or list(group.members)[-1]


def _newcomer(group: Group, wanted: str | None) -> tuple[str, Mapping[str, int]]:
    if wanted is None:
        name = NEWCOMER
        while name in group.members:
            name += "+"
        return name, next(iter(group.members.values()))
    (name, threads), *others = expanded(wanted, group.topics) or [("", {})]
    if others or not name:
        raise IllegalArgumentException(f"--join {wanted}: one member joins, not {len(others) + bool(name)}")
    check_subscription(name, threads, group.topics)
    if name in group.members:
        raise IllegalArgumentException(f"--join {name}: it is a member already")
    return name, threads


def _strategies(wanted: list[str] | None) -> dict[str, Assignor | None]:
    """By name; one's own beside it."""
    if not wanted:
        return dict.fromkeys(STRATEGIES)
    found: dict[str, Assignor | None] = {}
    for name in wanted:
        if ":" in name:
            found[name] = own_strategy(name)
            continue
        named = [each for each in STRATEGIES if each.startswith(name)]
        if not named:
            raise IllegalArgumentException(f"--strategy {name}: there are {', '.join(STRATEGIES)}, and your own")
        found.update(dict.fromkeys(named))
    order = [*STRATEGIES, *found]
    return {name: found[name] for name in sorted(found, key=order.index)}
