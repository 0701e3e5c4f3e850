"""Changes of offsets that were killed: before every step, inside requests, with brokers and ZooKeeper dying too.

Whatever happened: nothing else is begun before it is settled, `resume` leaves what was planned, `roll-back` what was
there before, and the journal goes.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
from kazoo.client import KazooClient

from tests.broker.command_process import command
from tests.conformance.group import Group, fresh
from tests.tools.conftest import Ran, Run
from tests.tools.stepping import Stepped, stepped
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.link import Direction, Link
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer

Positions = dict[int, int]
Store = Literal["kafka", "zookeeper"]
STORES: tuple[Store, Store] = ("kafka", "zookeeper")

PLANNED = {0: 3, 1: 4, 2: 5}
BEFORE: dict[Store, Positions] = {"kafka": {}, "zookeeper": {0: 1, 1: 1, 2: 1}}
STEPS = ["journal", "write 0", "write 1", "write 2", "verify", "end", "done"]
WRITES = ["write 0", "write 1", "write 2"]
UNDOING: dict[Store, list[str]] = {
    "kafka": ["remove", "verify", "end", "done"],
    "zookeeper": ["remove", "write 0", "write 1", "verify", "end", "done"],
}
# Brokers' OffsetCommit, DeleteGroups and OffsetDelete, behind the size; ZooKeeper's create and set, behind size and
# number.
WRITING = {number.to_bytes(2, "big") for number in (8, 42, 47)} | {(1).to_bytes(4, "big"), (5).to_bytes(4, "big")}
OFFSET_FETCH = {(9).to_bytes(2, "big")}
PART = 20  # bytes: less than any request that writes


class Servers:
    """A ZooKeeper and a broker, each behind a link: what a change says goes through, what is checked does not."""

    def __init__(self, release: str) -> None:
        self.zookeeper = ZooKeeperServer()
        self.kafka = KafkaCluster(version=release, zookeeper=self.zookeeper, linked=True)

    def __enter__(self) -> Servers:
        self.zookeeper.start()
        try:
            self.kafka.start()
            self.link = Link(self.zookeeper.connect_string)
            self.link.start()
            self.client = KazooClient(self.kafka.zookeeper_connect, timeout=60)
            self.client.start()
            self.topic = fresh("t")
            self.kafka.create_topic(self.topic, partitions=3)
            for partition in range(3):
                self.kafka.produce(self.topic, [b"m"] * 5, partition=partition)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "client"):
            self.client.stop()
            self.client.close()
        if hasattr(self, "link"):
            self.link.close()
        self.kafka.close()
        self.zookeeper.close()

    @property
    def linked_connect(self) -> str:
        return f"{self.link.address}{self.client.chroot}"


class Change:
    """A migration of one new group: from three offsets to a store that has others, or none."""

    def __init__(self, servers: Servers, run: Run, target: Store, directory: Path) -> None:
        self.servers, self.target = servers, target
        self.group = Group(servers.client, fresh("killed"))
        self.journal = directory / "journal"
        self._run = run
        self.link = servers.link if target == "zookeeper" else servers.kafka.links[0]
        self._source: Store = "zookeeper" if target == "kafka" else "kafka"
        for partition, offset in PLANNED.items():
            self.group.put(f"offsets/{servers.topic}/{partition}", str(offset))
        if target == "zookeeper":
            assert self.offsets("migrate", "--execute").code == 0
            for partition, offset in BEFORE[target].items():
                self.group.put(f"offsets/{servers.topic}/{partition}", str(offset))

    def offsets(self, action: str, *arguments: str) -> Ran:
        """Our command, past ZooKeeper's link."""
        where = ("--zookeeper", self.servers.kafka.zookeeper_connect, "--group", self.group.name)
        return self._run("offsets", action, *where, "--journal-dir", str(self.journal), *arguments)

    def begun(self, how: str = "migrate") -> AbstractContextManager[Stepped]:
        return stepped(self.servers.linked_connect, self.group.name, self.target, self.journal, how)

    def stored(self) -> Positions:
        found = self.offsets("get", "--store", self.target, "--json").stdout
        return {row["partition"]: row["offset"] for row in json.loads(found)}

    def after_writes(self, count: int) -> Positions:
        return {**BEFORE[self.target], **{one: offset for one, offset in PLANNED.items() if one < count}}

    def await_stored(self, expected: Positions, when: str) -> None:
        """What a dead process sent last may still be on its way."""
        eventually(lambda: self.stored() == expected, lambda: f"{when}: {self.stored()}, not {expected}", 60)

    def settle(self, how: str, when: str) -> None:
        """It is refused to begin another one; then resumed or rolled back, and all is as it should be."""
        another = self.offsets("migrate", "--from", self._source, "--to", self.target, "--execute")
        assert (another.code, "was cut short" in another.stderr) == (1, True), when

        settled = self.offsets(how, "--store", self.target)

        assert settled.code == 0, (when, settled)
        assert self.stored() == (PLANNED if how == "resume" else BEFORE[self.target]), when
        self.assert_nothing_is_left(when)

    def assert_nothing_is_left(self, when: str) -> None:
        assert list(self.journal.glob("*.json")) == [], when
        assert "no change of" in self.offsets("resume", "--store", self.target).stdout


RELEASES = ["1.1.1", *(pytest.param(one, marks=pytest.mark.conformance_full) for one in ("0.8.2.2", "3.9.1"))]


@pytest.fixture(scope="module", params=RELEASES)
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    with Servers(request.param) as servers:
        yield servers


@pytest.fixture(params=STORES)
def new_change(request: pytest.FixtureRequest, servers: Servers, run: Run, tmp_path: Path) -> Callable[[], Change]:
    """A change to make, to Kafka and to ZooKeeper in turn."""
    return partial(Change, servers, run, request.param, tmp_path)


@pytest.mark.parametrize("how", ["resume", "roll-back"])
@pytest.mark.parametrize("step", STEPS)
def test_a_migration_killed_before_any_step_is_finished_or_undone(
    new_change: Callable[[], Change], step: str, how: str
) -> None:
    change = new_change()
    with change.begun() as migration:
        migration.reach(step)
        migration.kill()

    written = {"journal": 0, "write 0": 0, "write 1": 1, "write 2": 2}.get(step, 3)
    change.await_stored(change.after_writes(written), step)
    if step in ("journal", "done"):  # nothing was begun, or all was done
        change.assert_nothing_is_left(step)
    else:
        change.settle(how, step)


def at_request(change: Change, kinds: Collection[bytes], act: Callable[[], None]) -> list[bytes]:
    """Do this when the first request of these kinds about this group has arrived. Those that arrived."""
    arrived: list[bytes] = []
    at = slice(8, 12) if change.target == "zookeeper" else slice(4, 6)

    def look(_connection: int, direction: Direction, data: bytes) -> None:
        if direction is Direction.UP and data[at] in kinds and change.group.name.encode() in data:
            arrived.append(data)
            if len(arrived) == 1:
                act()

    change.link.tap(look)
    return arrived


def in_the_middle(change: Change, process: Stepped, *, behind: Collection[bytes] = ()) -> None:
    """Only a part of the next request arrives, then its sender is cut off, and dead. Next: behind one of these."""
    cut = partial(change.link.cut_after, PART, Direction.UP)
    if behind:
        at_request(change, behind, cut)
    else:
        cut()
    process.take()
    eventually(lambda: change.link.is_cut, timeout_s=60)
    process.kill()
    change.link.heal()


def before_the_answer(change: Change, process: Stepped, *, behind: Collection[bytes] = ()) -> None:
    """The request that writes arrives, its answer does not, and its sender is dead."""
    arrived = at_request(change, WRITING, partial(change.link.black_hole, Direction.DOWN))
    process.take()
    eventually(lambda: arrived, timeout_s=60)
    process.kill()
    change.link.drop_connections()
    change.link.heal()


DYING = [in_the_middle, before_the_answer]


@pytest.mark.parametrize("dies", DYING, ids=lambda dies: dies.__name__)
@pytest.mark.parametrize("how", ["resume", "roll-back"])
@pytest.mark.parametrize("step", WRITES)
def test_a_migration_killed_inside_a_request_is_finished_or_undone(
    new_change: Callable[[], Change], step: str, how: str, dies: Callable[..., None]
) -> None:
    """Of a request that arrived in part nothing is stored, of one whose answer was not seen all."""
    change = new_change()
    with change.begun() as migration:
        migration.reach(step)
        dies(change, migration)

    written = WRITES.index(step) + (dies is before_the_answer)
    change.await_stored(change.after_writes(written), f"{step}, {dies.__name__}")
    change.settle(how, step)


@pytest.mark.parametrize("how", ["resume", "roll-back"])
def test_a_roll_back_killed_before_any_step_is_finished_or_turned(new_change: Callable[[], Change], how: str) -> None:
    """Two of three offsets are written when it begins; resume goes forward again from wherever it stood."""
    for step in UNDOING[new_change().target]:
        change = new_change()
        with change.begun() as migration:
            migration.reach("write 2")
            migration.kill()
        with change.begun("roll-back") as undoing:
            undoing.reach(step)
            undoing.kill()

        if step == "done":
            assert change.stored() == BEFORE[change.target]
            change.assert_nothing_is_left(step)
        else:
            change.settle(how, step)


@pytest.mark.parametrize("dies", DYING, ids=lambda dies: dies.__name__)
@pytest.mark.parametrize("how", ["resume", "roll-back"])
def test_a_roll_back_killed_inside_a_request_is_finished_or_turned(
    new_change: Callable[[], Change], how: str, dies: Callable[..., None]
) -> None:
    """The one that deletes the group in Kafka, the first that writes to ZooKeeper."""
    change = new_change()
    step = "remove" if change.target == "kafka" else "write 0"
    with change.begun() as migration:
        migration.reach("verify")
        migration.kill()
    with change.begun("roll-back") as undoing:
        undoing.reach(step)
        dies(change, undoing, behind=OFFSET_FETCH if change.target == "kafka" else ())

    one_undone = {"kafka": {}, "zookeeper": {**PLANNED, 0: 1}}[change.target]
    if change.target == "kafka" and change.servers.kafka.version == "0.8.2.2":
        one_undone = PLANNED  # that broker does not know the request; the one that it knows would have come next
    change.await_stored(one_undone if dies is before_the_answer else PLANNED, dies.__name__)
    change.settle(how, dies.__name__)


@pytest.mark.parametrize("how", ["resume", "roll-back"])
def test_a_resumption_killed_before_any_step_is_finished_or_undone(new_change: Callable[[], Change], how: str) -> None:
    for step in ["write 0", "write 1", "verify", "end"]:
        change = new_change()
        with change.begun() as migration:
            migration.reach("write 1")
            migration.kill()
        with change.begun("resume") as resuming:
            resuming.reach(step)
            resuming.kill()

        change.settle(how, step)


def test_a_change_under_way_is_nobody_elses(servers: Servers, run: Run, tmp_path: Path) -> None:
    """While it runs: neither another one, nor resume or roll-back of what looks cut short. Then it ends as planned."""
    change = Change(servers, run, "zookeeper", tmp_path)
    with change.begun() as migration:
        migration.reach("write 1")
        others = [
            change.offsets("migrate", "--from", "kafka", "--to", "zookeeper", "--execute"),
            change.offsets("resume"),
            change.offsets("roll-back"),
        ]
        migration.take()
        code = migration.wait()

    assert {other.code for other in others} == {1}
    assert all("another process is changing these offsets right now" in other.stderr for other in others)
    assert (code, change.stored()) == (0, PLANNED)
    change.assert_nothing_is_left("under way")


def test_a_journal_of_another_cluster_is_not_taken_for_ones_own(
    servers: Servers, run: Run, empty: KazooClient, connect: str, tmp_path: Path
) -> None:
    """The same name of a group, the same directory, another ZooKeeper: nothing is written there; the journal stays."""
    change = Change(servers, run, "zookeeper", tmp_path)
    with change.begun() as migration:
        migration.reach("write 1")
        migration.kill()
    there = f"{change.group.path}/offsets/{servers.topic}/0"
    empty.create(there, b"2", makepath=True)
    empty.create("/brokers", b"")
    where = ("--zookeeper", connect, "--group", change.group.name, "--journal-dir", str(change.journal))

    refused = [
        run("offsets", "resume", *where),
        run("offsets", "roll-back", *where),
        run("offsets", "set", *where, f"{servers.topic}:0=3", "--execute"),
    ]

    assert {one.code for one in refused} == {1}
    assert all("is of another cluster" in one.stderr and one.stderr.count("\n") == 1 for one in refused)
    assert empty.get(there)[0] == b"2"
    change.settle("roll-back", "at home")


def test_what_somebody_moved_on_meanwhile_stays(servers: Servers, run: Run, tmp_path: Path) -> None:
    """A member that commits between the crash and the roll-back: its offset is nobody's to undo."""
    change = Change(servers, run, "zookeeper", tmp_path)
    with change.begun() as migration:
        migration.reach("write 2")
        migration.kill()
    change.group.put(f"offsets/{servers.topic}/1", "5")

    undone = change.offsets("roll-back")

    assert undone.stdout == f"1 of 3 offsets of {change.group.name} in zookeeper set back and read back\n"
    assert change.stored() == {0: 1, 1: 5, 2: 1}
    change.assert_nothing_is_left("moved on")


def test_what_somebody_else_writes_meanwhile_is_noticed(servers: Servers, run: Run, tmp_path: Path) -> None:
    """What is read back is not what was written: it fails, and the journal stays."""
    change = Change(servers, run, "zookeeper", tmp_path)
    with change.begun() as migration:
        migration.reach("verify")
        change.group.put(f"offsets/{servers.topic}/1", "2")
        migration.take()
        code = migration.wait()

    assert code != 0
    change.settle("resume", "somebody else wrote")


@pytest.mark.parametrize("how", ["resume", "roll-back"])
def test_a_broker_killed_during_a_migration(servers: Servers, run: Run, tmp_path: Path, how: str) -> None:
    """It dies with the command's request unanswered: one line, what to do, and after its restart that works."""
    change = Change(servers, run, "kafka", tmp_path)
    broker, link = servers.kafka.broker(0), servers.kafka.links[0]
    held = at_request(change, WRITING, partial(link.black_hole, Direction.DOWN))
    where = ("--zookeeper", servers.linked_connect, "--group", change.group.name, "--journal-dir", str(change.journal))
    with command(tmp_path / "run", "offsets", "migrate", *where, "--execute") as migration:
        eventually(lambda: held, migration.stderr, 60)
        broker.kill()
        link.drop_connections()
        ended = migration.wait()
    link.heal()
    broker.start()

    assert ended.exit_code == 1
    error, advice = ended.stderr.splitlines()
    assert error.startswith(f"zkconsumer offsets: broker {link.address} ")
    assert advice == (
        f"a change of {change.group.name} in kafka was cut short: `zkconsumer offsets resume --group"
        f" {change.group.name} --store kafka` finishes it, `roll-back` undoes it"
    )
    change.settle(how, "the broker is back")


@pytest.mark.parametrize("how", ["resume", "roll-back"])
@pytest.mark.parametrize("target", STORES)
def test_zookeeper_killed_during_a_migration_and_the_migration_too(
    servers: Servers, run: Run, tmp_path: Path, target: Store, how: str
) -> None:
    """After a write to it whose answer nobody saw, or in the middle of one to Kafka."""
    change = Change(servers, run, target, tmp_path)
    with change.begun() as migration:
        migration.reach("write 1")
        if target == "zookeeper":
            arrived = at_request(change, WRITING, partial(servers.link.black_hole, Direction.DOWN))
            migration.take()
            eventually(lambda: arrived, timeout_s=60)
        servers.zookeeper.kill()
        migration.kill()
    servers.link.drop_connections()
    servers.link.heal()
    servers.zookeeper.start()
    eventually(lambda: servers.client.exists("/brokers/ids/0"), "the broker is registered", 60)

    change.settle(how, "ZooKeeper is back")


def test_zookeeper_killed_and_back_does_not_end_a_migration(servers: Servers, run: Run, tmp_path: Path) -> None:
    """It waits, and goes on in its session."""
    change = Change(servers, run, "zookeeper", tmp_path)
    with change.begun() as migration:
        migration.reach("write 1")
        servers.zookeeper.kill()
        migration.take()
        servers.zookeeper.start()
        code = migration.wait()

    assert code == 0
    assert change.stored() == PLANNED
    change.assert_nothing_is_left("ZooKeeper is back")


def test_a_migration_ended_by_ctrl_c_says_how_to_go_on(servers: Servers, run: Run, tmp_path: Path) -> None:
    change = Change(servers, run, "kafka", tmp_path)
    link = servers.kafka.links[0]
    held = at_request(change, WRITING, partial(link.black_hole, Direction.DOWN))
    where = ("--zookeeper", servers.linked_connect, "--group", change.group.name, "--journal-dir", str(change.journal))
    with command(tmp_path / "run", "offsets", "migrate", *where, "--execute") as migration:
        eventually(lambda: held, migration.stderr, 60)
        ended = migration.end(signal.SIGINT)
    link.drop_connections()
    link.heal()

    assert (ended.exit_code, "was cut short: `zkconsumer offsets resume" in ended.stderr) == (130, True)
    assert ended.stderr.count("\n") == 1
    change.settle("roll-back", "Ctrl-C")
