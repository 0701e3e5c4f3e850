"""A change of offsets that takes one step at a time, when told to, so that it can be killed at each.

python -m tests.tools.stepping ZOOKEEPER GROUP STORE JOURNAL-DIR migrate|resume|roll-back

Prints the name of each step before it is taken, and takes it when a line comes. STORE: whose offsets are written, one
partition a request.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fetcher.admin import BrokerConnections
from tests.broker.command_process import ROOT
from zkconsumer.groups.cluster import ZooKeeperCluster
from zkconsumer.groups.kafka_group import KafkaGroups
from zkconsumer.groups.moving import Journal, carry_out, plan_for, resume, roll_back
from zkconsumer.groups.stores import KafkaStore, ZooKeeperStore
from zkconsumer.zookeeper import ZooKeeper


class Stepped:
    """One that runs, stopped before a step."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def reach(self, step: str) -> None:
        """Take all steps before this one."""
        while (reached := self._next()) != step:
            assert reached, f"it ended before {step!r}: {self._process.communicate()[1]}"
            self.take()

    def take(self) -> None:
        """The step it stands before; does not wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """As a power cut would; one that was cut off may have ended by itself."""
        self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        """Take the steps left; its exit code."""
        while self._next():
            self.take()
        return self._process.wait()

    def _next(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def stepped(connect: str, group: str, store: str, journal: Path, how: str) -> Iterator[Stepped]:
    """Killed at the end if it still runs."""
    command = [sys.executable, "-m", "tests.tools.stepping", connect, group, store, str(journal), how]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Stepped(process)
        finally:
            process.kill()


def main(connect: str, group: str, target: str, directory: str, how: str) -> None:
    def on_step(step: str) -> None:
        print(step, flush=True)
        sys.stdin.readline()

    with (
        ZooKeeper(connect, session_timeout_ms=30_000, connection_timeout_ms=30_000) as zookeeper,
        BrokerConnections() as connections,
    ):
        cluster = ZooKeeperCluster(zookeeper)
        old = ZooKeeperStore(zookeeper)
        new = KafkaStore(KafkaGroups(connections, cluster.brokers()), cluster)
        source, goal = (old, new) if target == "kafka" else (new, old)
        journal = Journal(Path(directory), cluster.identity())
        with journal.held(target, group):
            if how == "migrate":
                carry_out(plan_for(goal, group, source.read(group)), goal, journal, batch=1, on_step=on_step)
                return
            plan = journal.unfinished(target, group)
            assert plan is not None
            {"resume": resume, "roll-back": roll_back}[how](plan, goal, journal, batch=1, on_step=on_step)


if __name__ == "__main__":
    main(*sys.argv[1:])
