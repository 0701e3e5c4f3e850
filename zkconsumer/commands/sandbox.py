"""Start a real ZooKeeper and real Kafka brokers on this machine, in the foreground, until Ctrl-C.

Everything listens on 127.0.0.1 only and lives in temporary directories: when the command ends, nothing is left.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from zkconsumer.commands.common import TOOL_TIMEOUT_MS
from zkconsumer.commands.snapshot import add_load_options, load, told, wait_and_tell_losses
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.snapshots.files import Snapshot, read_snapshot
from zkconsumer.snapshots.holding import HeldMembers
from zkconsumer.snapshots.loading import Wishes, plan_load, read_target
from zkconsumer.zookeeper import ZooKeeper

if TYPE_CHECKING:
    from zkconsumer.testing.kafka import KafkaCluster
    from zkconsumer.testing.zookeeper import ZooKeeperServer

EXAMPLES = """\
  zkconsumer sandbox                              one ZooKeeper, one Kafka 1.1.1
  zkconsumer sandbox --kafka 0.8.2.2 --brokers 3  three brokers of 0.8.2.2
  zkconsumer sandbox --topic orders:8 --records 100000
                                                  with a topic of 8 partitions, filled
  zkconsumer sandbox --brokers 0                  ZooKeeper alone
  zkconsumer sandbox --snapshot production.gz     with topics and groups of another cluster (zkconsumer snapshot)
  zkconsumer sandbox --zookeeper-port 2181        on a port of your choice"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kafka", metavar="VERSION", default="1.1.1", help="0.8.2.2, 1.1.1 (default) or 3.9.1")
    parser.add_argument("--brokers", metavar="N", type=int, default=1, help="how many: 0 to 3 (default 1)")
    parser.add_argument(
        "--topic",
        metavar="NAME[:PARTITIONS]",
        action="append",
        default=[],
        type=_topic,
        help="create a topic, with 4 partitions unless told otherwise; may be repeated",
    )
    parser.add_argument("--records", metavar="N", type=int, default=0, help="fill each topic with N records")
    parser.add_argument("--snapshot", metavar="FILE", type=Path, help="load a file of `zkconsumer snapshot save`; its"
                        " members are kept alive while the sandbox runs")  # fmt: skip
    parser.add_argument("--without-members", action="store_true", help="do not register the snapshot's members")
    add_load_options(parser)
    parser.add_argument("--zookeeper-port", metavar="PORT", type=int, default=0, help="default: any free one")
    parser.add_argument(
        "--backend", choices=["process", "container"], default="process", help="child processes (default) or containers"
    )


def run(arguments: argparse.Namespace) -> int:
    """Until Ctrl-C or SIGTERM; exit code 0 then."""
    if not 0 <= arguments.brokers <= 3:
        print("zkconsumer sandbox: --brokers takes 0 to 3", file=sys.stderr)
        return 2
    snapshot = read_snapshot(arguments.snapshot) if arguments.snapshot else None
    console = Console(highlight=False)
    with _told_to_stop() as stop, ExitStack() as servers:
        try:
            zookeeper, kafka = start_servers(servers, arguments, console)
            held = _load(snapshot, zookeeper, kafka, arguments, servers) if snapshot else None
            _print_addresses(console, zookeeper, kafka, arguments)
            wait_and_tell_losses(stop, held)
        except KeyboardInterrupt:
            pass  # while the servers were starting
        console.print("\nstopping …")
    console.print("stopped; nothing is left behind")
    return 0


def start_servers(
    servers: ExitStack, arguments: argparse.Namespace, console: Console
) -> tuple[ZooKeeperServer, KafkaCluster | None]:
    """Start what was asked for; `servers` ends it."""
    from zkconsumer.testing.kafka import KafkaCluster
    from zkconsumer.testing.programs import program
    from zkconsumer.testing.zookeeper import ZooKeeperServer

    if arguments.brokers:
        program("kafka", arguments.kafka).jars()  # fetched first, with progress of its own; a wrong version ends here
    with console.status("starting ZooKeeper …"):
        server = ZooKeeperServer(backend=arguments.backend, port=arguments.zookeeper_port)
        zookeeper = servers.enter_context(server)
    if not arguments.brokers:
        return zookeeper, None
    with console.status(f"starting {arguments.brokers} × Kafka {arguments.kafka} …"):
        cluster = KafkaCluster(
            version=arguments.kafka,
            brokers=arguments.brokers,
            zookeeper=zookeeper,
            backend=arguments.backend,
            settings={"auto.create.topics.enable": "true"},
        )
        kafka = servers.enter_context(cluster)
    for name, partitions in arguments.topic:
        with console.status(f"creating {name} with {partitions} partitions …"):
            kafka.create_topic(name, partitions=partitions)
            if arguments.records:
                kafka.produce_many(name, arguments.records)
    return zookeeper, kafka


def _load(
    snapshot: Snapshot,
    zookeeper: ZooKeeperServer,
    kafka: KafkaCluster | None,
    arguments: argparse.Namespace,
    servers: ExitStack,
) -> HeldMembers | None:
    connect = kafka.zookeeper_connect if kafka is not None else zookeeper.connect_string
    wishes = Wishes(
        arguments.group,
        restart_offsets=arguments.offsets == "restart",
        with_members=not arguments.without_members,
    )
    client = ZooKeeper(connect, session_timeout_ms=TOOL_TIMEOUT_MS, connection_timeout_ms=TOOL_TIMEOUT_MS)
    with client:
        plan = plan_load(snapshot, read_target(client, connect, snapshot.in_kafka), wishes)
        if plan.refused:
            raise IllegalArgumentException("; ".join(plan.refused))
        held = load(plan, client, connect, servers)
    print(f"\nloaded from {arguments.snapshot}:")
    for line in told(plan):
        print(f"  {line}")
    return held


def _print_addresses(
    console: Console, zookeeper: ZooKeeperServer, kafka: KafkaCluster | None, arguments: argparse.Namespace
) -> None:
    connect = kafka.zookeeper_connect if kafka is not None else zookeeper.connect_string
    console.print(Text("\nrunning; paste this into a consumer.properties:\n", style="bold green"))
    # markup=False, soft_wrap: what is to be copied must come out as it is.
    console.print(f"zookeeper.connect={connect}", markup=False, soft_wrap=True)
    console.print("group.id=sandbox", markup=False)
    console.print("auto.offset.reset=smallest", markup=False)
    if kafka is not None:
        console.print("\nand this into a producer's or a new consumer's settings:\n", style="bold")
        console.print(f"bootstrap.servers={kafka.bootstrap_servers}", markup=False, soft_wrap=True)
    console.print("\nwhat you can do next, in another terminal:\n", style="bold")
    topic = arguments.topic[0][0] if arguments.topic else "orders"
    for line in _suggestions(connect, zookeeper.connect_string, topic, has_brokers=kafka is not None):
        console.print(line, markup=False, soft_wrap=True)
    console.print("\nCtrl-C stops everything and removes all of its files.", style="dim")


def _suggestions(connect: str, zookeeper: str, topic: str, *, has_brokers: bool) -> Iterator[str]:
    if has_brokers:
        yield f"  zkconsumer console-consumer --zookeeper {connect} --topic {topic} --from-beginning"
        yield f"  zkconsumer consumer-perf --zookeeper {connect} --topic {topic} --threads 1"
    yield f"  zkconsumer tree --zookeeper {connect}"
    host, _, port = zookeeper.rpartition(":")
    yield f"  echo srvr | nc {host} {port}"


def _topic(text: str) -> tuple[str, int]:
    name, colon, partitions = text.rpartition(":")
    if not colon:
        return text, 4
    if not partitions.isdigit() or not int(partitions):
        raise argparse.ArgumentTypeError(f"{text!r}: NAME:PARTITIONS, with a number of at least 1")
    return name, int(partitions)


@contextmanager
def _told_to_stop() -> Iterator[threading.Event]:
    """Set by Ctrl-C or SIGTERM once the servers run; before that both interrupt the start."""
    stop = threading.Event()

    def told(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            return  # a second Ctrl-C must not disturb the stopping
        stop.set()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
