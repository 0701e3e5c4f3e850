"""The assignors of 0.8.2.2 and 1.1.1 themselves, asked about groups that exist in ZooKeeper only.

`python -m tests.conformance.real_assignors FILE` records what they answer, for tests that have no Java.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kazoo.client import KazooClient

from tests.conformance.generated_groups import Case, cases
from zkconsumer.testing.scala import Pending, ScalaConsumer, ScalaVersion
from zkconsumer.testing.scala_protocol import JavaError, groups
from zkconsumer.testing.zookeeper import ZooKeeperServer

RELEASES: Mapping[ScalaVersion, str] = {"0.8.2.2": "0.8.2", "1.1.1": "1.1"}
"""With the profile that emulates each."""
STRATEGIES = ("range", "roundrobin")

SEED = 82
COUNT = 120

Answer = dict[str, dict[int, int]] | str
"""A member's thread number by topic and partition, or the error as `class: message`."""


class Question(NamedTuple):
    """What is this member given?"""

    release: ScalaVersion
    strategy: str
    consumer_id: str


class RealAssignors:
    """A consumer of each release that belongs to no group and only answers questions."""

    def __init__(self, client: KazooClient, consumers: Sequence[ScalaConsumer]) -> None:
        self.client = client
        self.consumers = consumers

    def ask(self, case: Case, members: Sequence[str]) -> dict[Question, Answer]:
        """Write the case to ZooKeeper and ask all of them about these members."""
        case.write(self.client)
        pending = {
            Question(real.version, strategy, member): real.begin(
                "assign", strategy, case.group, member, str(case.exclude_internal_topics).lower()
            )
            for real in self.consumers
            for strategy in STRATEGIES
            for member in members
        }
        return {question: _answer(waiting) for question, waiting in pending.items()}


@contextmanager
def real_assignors(server: ZooKeeperServer) -> Iterator[tuple[str, RealAssignors]]:
    """In a chroot of their own: its address, and they."""
    address = server.chroot()
    with ExitStack() as stack:
        client = stack.enter_context(server.client(chroot=address.partition("/")[2]))
        client.ensure_path("/brokers/topics")
        consumers = [stack.enter_context(ScalaConsumer(address, "bystander", version=version)) for version in RELEASES]
        yield address, RealAssignors(client, consumers)


def some_members(case: Case, number: int) -> list[str]:
    """One of the case's members by turns, and of every tenth case all: asking costs more than making cases up."""
    members = list(case.members)
    return members if number % 10 == 0 else [members[number % len(members)]]


def _answer(waiting: Pending) -> Answer:
    try:
        words = waiting.wait()
    except JavaError as error:
        return str(error)
    answer: dict[str, dict[int, int]] = {}
    for topic, partition, thread in groups(words, 3):
        answer.setdefault(topic, {})[int(partition)] = int(thread.rpartition("-")[2])
    return answer


def _recorded() -> Iterator[dict[str, Any]]:
    with ZooKeeperServer() as server, real_assignors(server) as (_, real):
        for number, case in enumerate(cases(seed=SEED, count=COUNT)):
            answers = real.ask(case, some_members(case, number))
            yield case.to_json() | {
                "listed_topics": real.client.get_children("/brokers/topics"),
                "listed_members": real.client.get_children(f"/consumers/{case.group}/ids"),
                "answers": [[*question, answer] for question, answer in answers.items()],
            }


def main(file: Path) -> None:
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in _recorded())
    file.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
