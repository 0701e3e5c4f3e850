"""Read, set, rewind, copy, rename, compare and migrate the offsets of groups, in ZooKeeper and in Kafka.

Whatever would change is shown; nothing is changed without --execute. Refused: groups with members (--even-if-live),
positions that go back (--allow-backwards; rewind may), offsets outside the log. A change is written down in a journal
first and read back after: one that was cut short is finished by `resume` or undone by `roll-back`.
Exit codes: 0 done or nothing to do, 1 failed or refused, 3 the stores differ (diff).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

from fetcher.admin import BrokerConnections
from fetcher.errors import KafkaException
from fetcher.structs import TopicAndPartition
from zkconsumer.commands.common import FAILED, terminal_width
from zkconsumer.commands.options import add_server_options, bootstrap_servers, open_zookeeper, zookeeper_connect
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.groups.cluster import BrokerCluster, Cluster, ZooKeeperCluster, log_ends, log_ranges
from zkconsumer.groups.kafka_group import KafkaGroups
from zkconsumer.groups.moving import Journal, Outcome, Plan, carry_out, plan_for, refusals, resume, roll_back
from zkconsumer.groups.stores import KafkaStore, Positions, Store, ZooKeeperStore
from zkconsumer.groups.tables import fitted

EXAMPLES = """\
  zkconsumer offsets get --zookeeper 127.0.0.1:2181 --group group1
  zkconsumer offsets set --zookeeper 127.0.0.1:2181 --group group1 orders:0=120 orders:1=80 --execute
  zkconsumer offsets rewind --zookeeper 127.0.0.1:2181 --group group1 --by 1000 --execute
  zkconsumer offsets rewind --zookeeper 127.0.0.1:2181 --group group1 --topic orders --to-earliest
  zkconsumer offsets copy --bootstrap-server 127.0.0.1:9092 --group group1 --to-group group2 --execute
  zkconsumer offsets rename --zookeeper 127.0.0.1:2181 --group group1 --to-group group2 --execute
  zkconsumer offsets diff --zookeeper 127.0.0.1:2181 --group group1
  zkconsumer offsets migrate --zookeeper 127.0.0.1:2181 --group group1 --from zookeeper --to kafka --execute
  zkconsumer offsets resume --zookeeper 127.0.0.1:2181 --group group1 --store kafka
  zkconsumer offsets roll-back --zookeeper 127.0.0.1:2181 --group group1 --store kafka"""

DIFFERENT = 3
STORES = ("zookeeper", "kafka")


@dataclass(frozen=True)
class Servers:
    """What was named on the command line."""

    connections: BrokerConnections
    cluster: Cluster
    stores: Mapping[str, Store]
    journal: Journal

    def store(self, name: str) -> Store:
        if name not in self.stores:
            raise IllegalArgumentException("offsets in ZooKeeper need --zookeeper HOST:PORT[/CHROOT]")
        return self.stores[name]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, (_, summary) in ACTIONS.items():
        action = actions.add_parser(name, help=summary, description=f"{name}: {summary}.")
        add_server_options(action)
        action.add_argument("--group", required=True)
        action.add_argument("--journal-dir", metavar="DIR", type=Path, default=_default_journal_directory())
        if name not in ("diff", "migrate"):
            action.add_argument(
                "--store", choices=STORES, help="default: zookeeper if --zookeeper is given, else kafka"
            )
        action.add_argument("--json", action="store_true")
        if name in ("set", "rewind", "copy", "rename", "migrate"):
            action.add_argument("--execute", action="store_true", help="do it; without it only shown")
            action.add_argument("--allow-backwards", action="store_true")
            action.add_argument("--even-if-live", action="store_true", help="members may overwrite it")
        if name == "set":
            action.add_argument("positions", metavar="TOPIC:PARTITION=OFFSET", nargs="+")
        if name == "rewind":
            action.add_argument("--topic", action="append", help="repeatable (default: all that have offsets)")
            how = action.add_mutually_exclusive_group(required=True)
            how.add_argument("--by", metavar="N", type=int, help="so many offsets back")
            how.add_argument("--to-time", metavar="MS", type=int, help="to the first message from this time on")
            how.add_argument("--to-earliest", action="store_true")
            how.add_argument("--to-latest", action="store_true")
        if name in ("copy", "rename"):
            action.add_argument("--to-group", required=True)
        if name == "migrate":
            action.add_argument("--from", choices=STORES, default="zookeeper", dest="source")
            action.add_argument("--to", choices=STORES, default="kafka", dest="target")


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "set":
        arguments.wanted = _parse_all(arguments.positions)
    with ExitStack() as stack:
        return ACTIONS[arguments.action][0](_open(arguments, stack), arguments)


def _open(arguments: argparse.Namespace, stack: ExitStack) -> Servers:
    bootstrap, connect = bootstrap_servers(arguments), zookeeper_connect(arguments)
    if bootstrap is None and connect is None:
        raise IllegalArgumentException("where are the offsets? Give --zookeeper, --bootstrap-server, or both")
    connections = stack.enter_context(BrokerConnections())
    zookeeper = stack.enter_context(open_zookeeper(arguments)) if connect else None
    if zookeeper is not None and bootstrap is None:
        cluster: Cluster = ZooKeeperCluster(zookeeper)
    else:
        cluster = BrokerCluster(connections, bootstrap or [])
    stores: dict[str, Store] = {"kafka": KafkaStore(KafkaGroups(connections, cluster.brokers()), cluster)}
    if zookeeper is not None:
        stores["zookeeper"] = ZooKeeperStore(zookeeper)
    identity = cluster.identity() or (ZooKeeperCluster(zookeeper).identity() if zookeeper is not None else "")
    return Servers(connections, cluster, stores, Journal(arguments.journal_dir, identity))


def _store(servers: Servers, arguments: argparse.Namespace) -> Store:
    return servers.store(arguments.store or ("zookeeper" if "zookeeper" in servers.stores else "kafka"))


# --- looking ---


def _get(servers: Servers, arguments: argparse.Namespace) -> int:
    store = _store(servers, arguments)
    positions = store.read(arguments.group)
    if arguments.json:
        print(
            json.dumps([{"topic": t, "partition": p, "offset": offset} for (t, p), offset in sorted(positions.items())])
        )
    elif positions:
        _print_table(
            ["TOPIC", "PARTITION", "OFFSET"], [[*where, offset] for where, offset in sorted(positions.items())]
        )
    if not positions:
        raise IllegalArgumentException(f"group {arguments.group} has no offsets in {store.name}")
    return 0


def _diff(servers: Servers, arguments: argparse.Namespace) -> int:
    old, new = (servers.store(name).read(arguments.group) for name in STORES)
    rows = [
        (where, old.get(where), new.get(where)) for where in sorted({*old, *new}) if old.get(where) != new.get(where)
    ]
    if arguments.json:
        print(json.dumps([{"topic": w[0], "partition": w[1], "zookeeper": a, "kafka": b} for w, a, b in rows]))
    elif rows:
        _print_table(["TOPIC", "PARTITION", "ZOOKEEPER", "KAFKA"], [[*where, a, b] for where, a, b in rows])
    if not old and not new:
        raise IllegalArgumentException(f"group {arguments.group} has no offsets, neither in zookeeper nor in kafka")
    return DIFFERENT if rows else 0


# --- changing ---


def _set(servers: Servers, arguments: argparse.Namespace) -> int:
    return _change(servers, arguments, _store(servers, arguments), arguments.group, arguments.wanted)


def _rewind(servers: Servers, arguments: argparse.Namespace) -> int:
    store = _store(servers, arguments)
    stored = store.read(arguments.group)
    if arguments.topic and arguments.by is None:
        partitions_of = servers.cluster.partitions_of(arguments.topic)
        missing = [topic for topic, numbers in partitions_of.items() if not numbers]
        if missing:
            raise IllegalArgumentException(f"there is no topic {missing[0]}")
        partitions = [TopicAndPartition(topic, number) for topic in partitions_of for number in partitions_of[topic]]
    else:
        partitions = [where for where in stored if not arguments.topic or where.topic in arguments.topic]
    if not partitions:
        of = f" of {', '.join(arguments.topic)}" if arguments.topic else ""
        raise IllegalArgumentException(f"group {arguments.group} has no offsets{of} in {store.name}")
    begins, ends = log_ranges(servers.connections, servers.cluster, partitions)
    if arguments.by is not None:
        found = {where: max(stored[where] - arguments.by, _number(begins[where])) for where in partitions}
    elif arguments.to_time is not None:
        at = log_ends(servers.connections, servers.cluster, partitions, arguments.to_time)
        # Nothing as late as that: the end. (A leader that does not answer is found out by the check against the log.)
        found = {where: one if isinstance(one := at[where], int) else _number(ends[where]) for where in partitions}
    else:
        found = {where: _number((begins if arguments.to_earliest else ends)[where]) for where in partitions}
    arguments.allow_backwards = True
    return _change(servers, arguments, store, arguments.group, found)


def _copy(servers: Servers, arguments: argparse.Namespace) -> int:
    store = _store(servers, arguments)
    return _change(servers, arguments, store, arguments.to_group, _existing(store, arguments.group))


def _rename(servers: Servers, arguments: argparse.Namespace) -> int:
    """Copied and verified first: killed in between, the same command does the rest."""
    store = _store(servers, arguments)
    positions = _existing(store, arguments.group)
    _refuse_if_live(servers, arguments, arguments.group)
    code = _change(servers, arguments, store, arguments.to_group, positions)
    if code == 0 and arguments.execute:
        store.remove(arguments.group, positions)
        line = f"removed {len(positions)} offsets of {arguments.group} from {store.name}"
        print(line, file=sys.stderr if arguments.json else sys.stdout)
    return code


def _migrate(servers: Servers, arguments: argparse.Namespace) -> int:
    if arguments.source == arguments.target:
        raise IllegalArgumentException(f"from {arguments.source} to {arguments.target}: that is the same store")
    wanted = _existing(servers.store(arguments.source), arguments.group)
    return _change(servers, arguments, servers.store(arguments.target), arguments.group, wanted)


def _existing(store: Store, group: str) -> Positions:
    found = store.read(group)
    if not found:
        raise IllegalArgumentException(f"group {group} has no offsets in {store.name}")
    return found


def _change(servers: Servers, arguments: argparse.Namespace, store: Store, group: str, wanted: Positions) -> int:
    with servers.journal.held(store.name, group) if arguments.execute else nullcontext():
        return _plan_and_change(servers, arguments, store, group, wanted)


def _plan_and_change(
    servers: Servers, arguments: argparse.Namespace, store: Store, group: str, wanted: Positions
) -> int:
    journal = servers.journal
    if journal.unfinished(store.name, group) is not None:
        path = journal.path(store.name, group)
        raise IllegalArgumentException(f"{path} is there: {_how_to_go_on(store.name, group)}")
    plan = plan_for(store, group, wanted)
    if not arguments.json:
        _print_plan(plan)
    if not plan.changes:
        return _told(arguments, plan)
    _refuse_if_live(servers, arguments, group)
    partitions = [change.where for change in plan.changes]
    begins, ends = log_ranges(servers.connections, servers.cluster, partitions)
    reasons = list(refusals(plan, begins, ends, allow_backwards=arguments.allow_backwards))
    for reason in reasons:
        print(f"refused: {reason}", file=sys.stderr)
    if reasons:
        _told(arguments, plan, refused=reasons)
        return FAILED
    if not arguments.execute:
        print("nothing was changed: --execute does it", file=sys.stderr)
        return _told(arguments, plan)
    try:
        carry_out(plan, store, journal)
    except (KafkaException, KeyboardInterrupt) as error:
        if journal.unfinished(store.name, group) is not None:
            error.add_note(_how_to_go_on(store.name, group))
        raise
    written = {change.where: change.after for change in plan.changes}
    return _told(arguments, plan, f"{len(written)} offsets of {group} in {store.name} written and read back", written)


def _told(
    arguments: argparse.Namespace,
    plan: Plan,
    line: str = "",
    written: Outcome | None = None,
    refused: Sequence[str] = (),
) -> int:
    """What came of it, in a line or as JSON; 0."""
    if arguments.json:
        changes = [{**one.where._asdict(), "before": one.before, "after": one.after} for one in plan.changes]
        rows = [{**where._asdict(), "offset": offset} for where, offset in sorted((written or {}).items())]
        head = {"store": plan.store, "group": plan.group, "changes": changes}
        print(json.dumps({**head, "refused": list(refused), "written": rows}, indent=2))
    elif line:
        print(line)
    return 0


def _how_to_go_on(store: str, group: str) -> str:
    resume = f"`zkconsumer offsets resume --group {group} --store {store}`"
    return f"a change of {group} in {store} was cut short: {resume} finishes it, `roll-back` undoes it"


def _refuse_if_live(servers: Servers, arguments: argparse.Namespace, group: str) -> None:
    if arguments.even_if_live:
        return
    live = []
    for store in servers.stores.values():
        try:
            live += [store.name] if store.is_live(group) else []
        except KafkaException as error:
            raise IllegalArgumentException(
                f"whether group {group} has members in {store.name} is not known: {error}; --even-if-live"
                " if you know that none runs"
            ) from None
    if live:
        raise IllegalArgumentException(
            f"group {group} has members ({', '.join(live)}), who would overwrite it: stop them, or --even-if-live"
        )


def _resume(servers: Servers, arguments: argparse.Namespace) -> int:
    return _finish(servers, arguments, resume, "written and read back")


def _roll_back(servers: Servers, arguments: argparse.Namespace) -> int:
    return _finish(servers, arguments, roll_back, "set back and read back")


def _finish(
    servers: Servers, arguments: argparse.Namespace, how: Callable[[Plan, Store, Journal], Outcome], done: str
) -> int:
    store, journal = _store(servers, arguments), servers.journal
    with journal.held(store.name, arguments.group):
        plan = journal.unfinished(store.name, arguments.group)
        if plan is None:
            nothing = f"no change of {arguments.group} in {store.name} was cut short"
            return _told(arguments, Plan(store.name, arguments.group, ()), nothing)
        try:
            written = how(plan, store, journal)
        except (KafkaException, KeyboardInterrupt) as error:
            if journal.unfinished(store.name, arguments.group) is not None:
                error.add_note(_how_to_go_on(store.name, arguments.group))
            raise
    of = f"{len(written)} of {len(plan.changes)} offsets of {arguments.group} in {store.name}"
    return _told(arguments, plan, f"{of} {done}", written)


# --- text ---


def _parse_all(texts: Sequence[str]) -> Positions:
    found: Positions = {}
    for where, offset in map(_parse, texts):
        if found.setdefault(where, offset) != offset:
            raise IllegalArgumentException(f"{where} is given twice: {found[where]} and {offset}")
    return found


def _parse(text: str) -> tuple[TopicAndPartition, int]:
    where, _, offset = text.partition("=")
    topic, _, partition = where.rpartition(":")
    if not topic or not all(part.isascii() and part.isdigit() for part in (partition, offset)):
        raise IllegalArgumentException(f"{text!r} should be TOPIC:PARTITION=OFFSET")
    return TopicAndPartition(topic, int(partition)), int(offset)


def _number(offset: int | KafkaException) -> int:
    if isinstance(offset, KafkaException):
        raise offset
    return offset


def _print_plan(plan: Plan) -> None:
    if not plan.changes:
        print(f"nothing to change for {plan.group} in {plan.store}")
        return
    rows: list[list[object]] = [
        [*change.where, change.before, change.after, None if change.before is None else change.after - change.before]
        for change in plan.changes
    ]
    _print_table(["TOPIC", "PARTITION", "BEFORE", "AFTER", "MOVES"], rows)


def _print_table(titles: list[str], rows: list[list[object]]) -> None:
    table = [titles, *(["-" if cell is None else str(cell) for cell in row] for row in rows)]
    print("\n".join(fitted(table, terminal_width() or sys.maxsize, gap="  ")))


def _default_journal_directory() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "zkconsumer" / "journal"


ACTIONS: dict[str, tuple[Callable[[Servers, argparse.Namespace], int], str]] = {
    "get": (_get, "what is stored"),
    "set": (_set, "store these"),
    "rewind": (_rewind, "by number, to a time, to the beginning or the end"),
    "copy": (_copy, "to another group"),
    "rename": (_rename, "to another group, and remove them from this one"),
    "diff": (_diff, "what differs between the stores"),
    "migrate": (_migrate, "from one store to the other"),
    "resume": (_resume, "finish a change that was cut short"),
    "roll-back": (_roll_back, "undo a change that was cut short"),
}
