"""A group whose members are processes, records for it, and what ZooKeeper's log says about who owned what when."""

from __future__ import annotations

import math
import os
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, Self

from tests.broker.member_process import Delivery, Note, NoteFile, notes_path, read_deliveries
from zkconsumer.testing.errors import ServerError
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.process import GuardedProcess
from zkconsumer.testing.transactions import Operation, Transaction, flatten
from zkconsumer.testing.waiting import scaled

ROOT = Path(__file__).parents[2]
SESSION_TIMEOUT_S = 3.0
ENDING_S = 60.0
SLICES = 20
SLICES_KEPT_BACK = 5
PAUSE_S = 0.1


class Member:
    """One member: join() -> (leave or kill) -> ended -> (close) its files are gone, what was read of them stays."""

    def __init__(
        self,
        zookeeper_connect: str,
        group: str,
        name: str,
        topic: str,
        *,
        streams: int = 1,
        commits: Literal["auto", "by-hand"] = "auto",
    ) -> None:
        """One that will be killed, and is to prove that nothing is lost, commits by hand: see member_process."""
        self.consumer_id = f"{group}_{name}"
        self.was_killed = False
        self.notes: list[list[Note]] = [[] for _ in range(streams)]
        self.deliveries: list[Delivery] = []
        self._process = GuardedProcess(f"member-{name}")
        self._files = [NoteFile(notes_path(self._process.directory, stream)) for stream in range(streams)]
        session_timeout_ms = int(scaled(SESSION_TIMEOUT_S) * 1000)
        self._arguments = [zookeeper_connect, group, name, topic, str(streams), str(session_timeout_ms), commits]

    def join(self) -> None:
        """Start the process; it is a member some time later."""
        self._process.open()
        module = "tests.broker.member_process"
        self._process.spawn(
            [sys.executable, "-m", module, str(self._process.directory), *self._arguments],
            environment={"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        )

    def leave(self) -> None:
        """SIGTERM, and wait. ServerError if it did not end by itself, and well."""
        self._process.signal(signal.SIGTERM)
        if not self._process.wait(scaled(ENDING_S)) or self._process.exit_code != 0:
            raise ServerError(f"{self.consumer_id} ended with {self._process.exit_code}:\n{self._process.log_tail()}")

    def kill(self) -> None:
        """SIGKILL: its session lives on for a while."""
        self.was_killed = True
        self._process.end(signal.SIGKILL)

    def hurry(self) -> None:
        """Read as fast as it can. Only for one that has registered: before, the signal would end it."""
        self._process.signal(signal.SIGUSR1)

    def slow_down(self) -> None:
        """Read slowly, as at first. Only for one that has registered."""
        self._process.signal(signal.SIGUSR2)

    def read(self) -> list[Note]:
        """Look at its files: what is new, added to `notes` as well. ServerError if it has ended and should not have."""
        if not self._process.poll() and self._process.exit_code not in (0, -signal.SIGKILL):
            raise ServerError(f"{self.consumer_id} ended with {self._process.exit_code}:\n{self._process.log_tail()}")
        self.deliveries = read_deliveries(self._process.directory) or self.deliveries
        new = [list(file.read()) for file in self._files]
        for notes, added in zip(self.notes, new, strict=True):
            notes += added
        return [note for added in new for note in added]

    def output(self) -> str:
        """The end of what it wrote: nothing, if all is well."""
        return self._process.log_tail()

    def close(self) -> None:
        """End it if it runs. Idempotent."""
        self._process.close()


class Producer:
    """Stores numbered records in slices with pauses, and keeps the last ones back until hurry() (or the end)."""

    def __init__(self, kafka: KafkaCluster, topic: str, count: int) -> None:
        self._kafka = kafka
        self._topic = topic
        self._sizes = [count // SLICES] * SLICES
        self._sizes[-1] += count % SLICES
        self._hurry = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="producer")

    def hurry(self) -> None:
        """Store the rest at once."""
        self._hurry.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hurry()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            for number, size in enumerate(self._sizes, 1):
                self._kafka.produce_many(self._topic, size)
                self._hurry.wait(scaled(PAUSE_S) if number < SLICES - SLICES_KEPT_BACK else None)
        except BaseException as error:
            self._error = error


class Ownership(NamedTuple):
    """A partition was a thread's, by the clock of the ZooKeeper server."""

    thread_id: str
    partition: int
    from_ms: int
    to_ms: float


def ownerships(transactions: Iterable[Transaction], group_path: str, topic: str) -> list[Ownership]:
    """From the owner nodes' creation to their deletion, or the end of their session.

    A session that the server ended (a lost one) counts until its consumer registers again: that is when it knows.
    """
    found: list[Ownership] = []
    owned: dict[int, tuple[str, int, int]] = {}  # thread, since when, session
    lost: list[tuple[str, int, int]] = []  # thread, partition, since when
    owner_path = re.compile(rf"{re.escape(group_path)}/owners/{re.escape(topic)}/(\d+)")
    id_path = re.compile(rf"{re.escape(group_path)}/ids/(.+)")

    for entry in flatten(transactions):
        if entry.operation is Operation.CREATE and entry.path is not None:
            if match := owner_path.fullmatch(entry.path):
                owned[int(match[1])] = ((entry.data or b"").decode(), entry.time_ms, entry.session)
            elif match := id_path.fullmatch(entry.path):
                renewed = [one for one in lost if one[0].rpartition("-")[0] == match[1]]
                found += [Ownership(thread, partition, since, entry.time_ms) for thread, partition, since in renewed]
                lost = [one for one in lost if one not in renewed]
        elif entry.operation is Operation.DELETE and entry.path is not None:
            if match := owner_path.fullmatch(entry.path):
                thread, since, _ = owned.pop(int(match[1]))
                found.append(Ownership(thread, int(match[1]), since, entry.time_ms))
        elif entry.operation is Operation.CLOSE_SESSION:
            for partition, (thread, since, session) in list(owned.items()):
                if session == entry.session:
                    del owned[partition]
                    if entry.cxid == 0:
                        lost.append((thread, partition, since))
                    else:
                        found.append(Ownership(thread, partition, since, entry.time_ms))
    found += [Ownership(thread, partition, since, math.inf) for thread, partition, since in lost]
    found += [Ownership(thread, partition, since, math.inf) for partition, (thread, since, _) in owned.items()]
    return found


def deliveries_by_others(deliveries: Iterable[Delivery], owned: Iterable[Ownership]) -> Iterator[Delivery]:
    """Deliveries at a time at which the partition was not that thread's."""
    intervals: dict[tuple[str, int], list[Ownership]] = {}
    for one in owned:
        intervals.setdefault((one.thread_id, one.partition), []).append(one)
    for delivery in deliveries:
        own = intervals.get((delivery.thread_id, delivery.partition), [])
        if not any(one.from_ms <= delivery.time_ms <= one.to_ms for one in own):
            yield delivery


def records_missing(members: Iterable[Member], ends: dict[int, int]) -> set[tuple[int, int]]:
    """(partition, offset) of what nobody noted."""
    noted = {(note.partition, note.offset) for member in members for notes in member.notes for note in notes}
    return {(partition, offset) for partition, end in ends.items() for offset in range(end)} - noted
