"""Watch a group of old consumers share a topic: ours and the real Scala one, on a real ZooKeeper and a real broker.

Four stages: one of ours reads alone; the real consumer of Kafka 0.8.2.2 joins its group; a second of ours joins; the
Scala one is killed. After each stage the table shows who owns which partition, as it stands in ZooKeeper.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from zkconsumer.commands.tree import read_tree
from zkconsumer.paths import GroupPaths, GroupTopicPaths
from zkconsumer.zookeeper import ZooKeeper

if TYPE_CHECKING:
    from zkconsumer.testing.kafka import KafkaCluster
    from zkconsumer.testing.scala import ScalaConsumer

EXAMPLES = """\
  zkconsumer demo                         about half a minute
  zkconsumer demo --records 1000000       with more to read
  zkconsumer demo --partitions 12"""

KAFKA: Final = "0.8.2.2"
TOPIC, GROUP = "orders", "billing"
SESSION_TIMEOUT_MS = 3000
SETTLE_TIMEOUT_S = 60.0
COLOURS = ("green", "magenta", "cyan", "yellow")

Owners = dict[int, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--records", metavar="N", type=int, default=200_000, help="how many to share (default 200000)")
    parser.add_argument("--partitions", metavar="N", type=int, default=6, help="of the topic (default 6)")


def run(arguments: argparse.Namespace) -> int:
    """0 if every record was delivered, 1 if not."""
    console = Console(highlight=False)
    console.print(__doc__.replace("\n", " ").replace("  ", "\n\n").strip() + "\n", style="dim")
    with ExitStack() as stack, _progress(console) as steps:
        kafka = _start_servers(stack, steps, arguments)
        stages, delivered = _play(kafka, steps, arguments)
    _show_owners(console, stages)
    _show_tree(console, delivered.tree)
    return _show_records(console, delivered, arguments.records)


class _Delivered:
    """What each member was given, and what ZooKeeper looked like in the middle of it."""

    def __init__(self) -> None:
        self.by_member: dict[str, list[tuple[int, int]]] = {}
        self.tree: object = None


class _OurMember:
    """A connector and a thread that reads its one stream."""

    def __init__(self, zookeeper_connect: str, name: str) -> None:
        from zkconsumer import ConsumerConfig, ZookeeperConsumerConnector

        self.consumer_id = f"{GROUP}_{name}"
        self.records: list[tuple[int, int]] = []
        config = ConsumerConfig(
            zookeeper_connect=zookeeper_connect,
            group_id=GROUP,
            consumer_id=name,
            auto_offset_reset="smallest",
            zookeeper_session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_backoff_ms=1000,
        )
        self._connector = ZookeeperConsumerConnector(config)
        self._reader = threading.Thread(target=self._read, name=f"read-{name}")

    def __enter__(self) -> _OurMember:
        try:
            [self._stream] = self._connector.create_message_streams({TOPIC: 1})[TOPIC]
            self._reader.start()
        except BaseException:
            self._connector.shutdown()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._connector.shutdown()
        self._reader.join()

    def _read(self) -> None:
        for record in self._stream:
            self.records.append((record.partition, record.offset))


def _start_servers(stack: ExitStack, steps: _Steps, arguments: argparse.Namespace) -> KafkaCluster:
    from zkconsumer.testing.kafka import KafkaCluster
    from zkconsumer.testing.programs import program
    from zkconsumer.testing.zookeeper import ZooKeeperServer

    program("kafka", KAFKA).jars()
    with steps.step("ZooKeeper starts"):
        zookeeper = stack.enter_context(ZooKeeperServer())
    with steps.step(f"a Kafka {KAFKA} broker starts"):
        kafka = stack.enter_context(KafkaCluster(version=KAFKA, zookeeper=zookeeper))
    with steps.step(f"topic {TOPIC} with {arguments.partitions} partitions gets {arguments.records // 2:,} records"):
        kafka.create_topic(TOPIC, partitions=arguments.partitions)
        kafka.produce_many(TOPIC, arguments.records // 2)
    return kafka


def _play(kafka: KafkaCluster, steps: _Steps, arguments: argparse.Namespace) -> tuple[dict[str, Owners], _Delivered]:

    connect, number = kafka.zookeeper_connect, arguments.partitions
    stages: dict[str, Owners] = {}
    result = _Delivered()
    with ExitStack() as members:
        zookeeper = members.enter_context(ZooKeeper(connect, session_timeout_ms=6000, connection_timeout_ms=6000))

        def join(stage: str, text: str, new: _OurMember | ScalaConsumer, *others: str) -> None:
            with steps.step(text):
                members.enter_context(new)
                stages[stage] = _settled_owners(zookeeper, number, {new.consumer_id, *others})

        ours, scala, second = _OurMember(connect, "ours-1"), _scala_member(connect), _OurMember(connect, "ours-2")
        join("ours alone", "ours-1 joins and reads alone", ours)
        join("+ Scala", f"the real Scala consumer of {KAFKA} joins", scala, ours.consumer_id)
        join("+ ours", "ours-2 joins", second, ours.consumer_id, scala.consumer_id)
        with steps.step(f"{arguments.records - arguments.records // 2:,} more records, for all three"):
            kafka.produce_many(TOPIC, arguments.records - arguments.records // 2)
            result.tree = read_tree(zookeeper, GroupPaths(GROUP).directory, 5)
            _await_records(arguments.records, ours, second, scala)
        result.by_member[scala.consumer_id] = [(record.partition, record.offset) for record in scala.delivered()]
        with steps.step("the Scala consumer is killed; when its session has ended, the others take over"):
            scala.kill()
            stages["Scala killed"] = _settled_owners(zookeeper, number, {ours.consumer_id, second.consumer_id})
    result.by_member |= {ours.consumer_id: ours.records, second.consumer_id: second.records}
    return stages, result


def _scala_member(connect: str) -> ScalaConsumer:
    from zkconsumer.testing.scala import ScalaConsumer

    return ScalaConsumer(
        connect,
        GROUP,
        {TOPIC: 1},
        version=KAFKA,
        consumer_id="scala",
        properties={
            "auto.offset.reset": "smallest",
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "rebalance.backoff.ms": "1000",
        },
        report_values=False,
    )


def _settled_owners(zookeeper: ZooKeeper, partitions: int, wanted: set[str]) -> Owners:
    """The owners, once every partition has one and exactly the wanted members share them."""
    from zkconsumer.testing.waiting import eventually

    where = {number: GroupTopicPaths(GROUP, TOPIC).owner(number) for number in range(partitions)}

    def owners() -> Owners | None:
        stored = zookeeper.read_many(where.values())
        found = {number: (stored[path] or b"").decode().rpartition("-")[0] for number, path in where.items()}
        return found if set(found.values()) == wanted else None

    return eventually(owners, f"partitions shared by {', '.join(sorted(wanted))}", SETTLE_TIMEOUT_S) or {}


def _await_records(records: int, ours: _OurMember, second: _OurMember, scala: ScalaConsumer) -> None:
    from zkconsumer.testing.waiting import eventually

    def all_there() -> bool:
        number = len(set(ours.records) | set(second.records))
        return number + scala.number_delivered >= records

    eventually(all_there, f"{records} records delivered", 120.0)


def _show_owners(console: Console, stages: Mapping[str, Owners]) -> None:
    members = sorted({owner for owners in stages.values() for owner in owners.values()})
    colour = {member: COLOURS[number % len(COLOURS)] for number, member in enumerate(members)}
    table = Table(title="who owns which partition", title_justify="left", pad_edge=False)
    table.add_column("partition", justify="right")
    for stage in stages:
        table.add_column(stage)
    for partition in next(iter(stages.values())):
        names = [owners[partition] for owners in stages.values()]
        table.add_row(str(partition), *(Text(name.partition("_")[2], style=colour[name]) for name in names))
    console.print()
    console.print(table)


def _show_tree(console: Console, tree: object) -> None:
    console.print("\nwhat the group looks like in ZooKeeper (bold: gone when its session ends)\n", style="italic")
    console.print(tree)


def _show_records(console: Console, delivered: _Delivered, records: int) -> int:
    times = Counter(record for member in delivered.by_member.values() for record in member)
    table = Table(title="what was delivered", title_justify="left", pad_edge=False)
    table.add_column("member")
    table.add_column("records", justify="right")
    for member, theirs in delivered.by_member.items():
        table.add_row(member.partition("_")[2], f"{len(theirs):,}")
    console.print()
    console.print(table)
    missing = records - len(times)
    twice = sum(times.values()) - len(times)
    console.print(
        f"{len(times):,} of {records:,} records delivered, {missing:,} missing, {twice:,} more than once", end=""
    )
    console.print(" (after a crash, what was not committed comes again)" if twice else "")
    return 1 if missing else 0


class _Steps:
    """One line a step, with its time; a spinner on a terminal."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        task: TaskID = self._progress.add_task(text, total=None)
        began_s = time.monotonic()
        yield
        self._progress.remove_task(task)
        self._progress.console.print(f"  {time.monotonic() - began_s:5.1f} s  {text}", markup=False)


@contextmanager
def _progress(console: Console) -> Iterator[_Steps]:
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Steps(progress)
