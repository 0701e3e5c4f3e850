"""The assignors of the new consumer themselves, of kafka-clients 1.1.1 and 3.9.1, asked about groups made by chance.

`python -m tests.conformance.real_new_assignors FILE` records what they answer, for tests that have no Java. Groups live
on: after a first assignment members join, leave, subscribe to other topics and bring along what they had.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fetcher.structs import TopicAndPartition
from study.assignors.model import Assignment, Member
from zkconsumer.testing.jars import jars_of
from zkconsumer.testing.java import class_path_of, find_java
from zkconsumer.testing.java_compiler import compile_java

SOURCES = Path(__file__).parents[1] / "vectors" / "new-assignment"
STRATEGIES = {
    "1.1.1": ("AssignorsOf11", ("range", "roundrobin", "sticky")),
    "3.9.1": ("AssignorsOf39", ("range", "roundrobin", "sticky", "cooperative-sticky")),
}
SEED = 54
GROUPS = 20
STEPS = 5

TOPICS = ("t0", "t1", "t2", "t10", "orders", "Aa", "BB", "clicks-eu", "polygenelubricants")
IDS = ("c0", "c1", "c10", "c2", "C3", "host-1794979821442", "z", "Aa", "BB", "é")


class Question(NamedTuple):
    """A cluster and a group, and whose answer is wanted."""

    release: str
    strategy: str
    topics: Mapping[str, int]
    members: Mapping[str, Member]

    def line(self) -> str:
        """As the Java programs read it."""
        topics = ",".join(f"{topic}:{count}" for topic, count in self.topics.items())
        members = [
            f"{name};{member.generation};{','.join(sorted(member.topics))};{_partitions_text(member.owned)}"
            for name, member in self.members.items()
        ]
        return "\t".join([self.strategy, topics, *members])

    def to_json(self) -> dict[str, Any]:
        members = {
            name: {
                "topics": sorted(member.topics),
                "owned": None if member.owned is None else [list(partition) for partition in member.owned],
                "generation": member.generation,
            }
            for name, member in self.members.items()
        }
        return {
            "release": self.release,
            "strategy": self.strategy,
            "topics": dict(self.topics),
            "members": members,
        }


class RealNewAssignors:
    """One Java process a release that answers line by line."""

    def __init__(self, release: str) -> None:
        self.release = release
        self._directory = tempfile.TemporaryDirectory(prefix="new-assignors-")
        program, _ = STRATEGIES[release]
        jars = [jar for jar in jars_of(f"kafka-{release}") if jar.name.startswith(("kafka-clients", "slf4j-api"))]
        classes = Path(self._directory.name)
        compile_java(SOURCES / f"{program}.java", jars, classes)
        command = [str(find_java()), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8"]
        command += ["-Dstdout.encoding=UTF-8", "-cp", class_path_of([classes, *jars]), program]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    def ask(self, question: Question) -> Assignment:
        """Blocks until it has answered."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(question.line() + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the assignors of {self.release} ended at: {question.line()}")
        return _answer(line.rstrip("\n"))

    def close(self) -> None:
        self._process.communicate()
        self._directory.cleanup()


def next_question(before: Question | None, answer: Assignment | None, chance: random.Random, names: str) -> Question:
    """The first of a group, or what it looks like after some change, everybody owning what was answered."""
    release, strategy = names.split(" ")
    if before is None or answer is None:
        topics = {topic: chance.choice((1, 2, 3, 5, 7, 12)) for topic in chance.sample(TOPICS, chance.randint(1, 5))}
        alike = chance.random() < 0.5
        ids = chance.sample(IDS, chance.randint(1, 6))
        return Question(release, strategy, topics, {name: _newcomer(topics, chance, alike) for name in ids})
    topics = dict(before.topics)
    generation = 1 + max(member.generation for member in before.members.values())
    members = {name: Member(member.topics, tuple(answer[name]), generation) for name, member in before.members.items()}
    alike = len({member.topics for member in members.values()}) == 1
    late = chance.choice(sorted(members))
    if strategy == "cooperative-sticky" and alike and before.members[late].owned and chance.random() < 0.2:
        members[late] = before.members[late]  # it missed a rebalance, and claims what others have by now
    for _ in range(chance.choice((1, 1, 2))):
        _change(topics, members, chance, alike)
    return Question(release, strategy, topics, members)


def _change(topics: dict[str, int], members: dict[str, Member], chance: random.Random, alike: bool) -> None:
    what = chance.choice(("join", "join", "leave", "leave", "partitions", "subscribe", "nothing"))
    free = [name for name in IDS if name not in members]
    if what == "join" and free:
        newcomer = _newcomer(topics, chance, alike)
        subscription = next(iter(members.values())).topics if alike else newcomer.topics
        members[chance.choice(free)] = Member(subscription)
    elif what == "leave" and len(members) > 1:
        del members[chance.choice(sorted(members))]
    elif what == "partitions":
        topics[chance.choice(sorted(topics))] += chance.choice((1, 4))
    elif what == "subscribe" and not alike:
        name = chance.choice(sorted(members))
        members[name] = Member(_newcomer(topics, chance, alike).topics, members[name].owned, members[name].generation)


def _newcomer(topics: Mapping[str, int], chance: random.Random, alike: bool) -> Member:
    if alike:
        return Member(frozenset(topics))
    return Member(frozenset(chance.sample(sorted(topics), chance.randint(1, len(topics)))))


def _partitions_text(partitions: Sequence[TopicAndPartition] | None) -> str:
    return "-" if partitions is None else ",".join(f"{topic}:{partition}" for topic, partition in partitions)


def _answer(line: str) -> Assignment:
    result: Assignment = {}
    for part in line.split("\t"):
        name, _, partitions = part.partition(";")
        result[name] = [
            TopicAndPartition(topic, int(number))
            for topic, _, number in (text.rpartition(":") for text in partitions.split(",") if text)
        ]
    return result


def recorded(seed: int = SEED, groups: int = GROUPS) -> Iterator[tuple[Question, Assignment]]:
    """Every step of every group's life with the real answer."""
    for release, (_, strategies) in STRATEGIES.items():
        real = RealNewAssignors(release)
        try:
            for strategy in strategies:
                for number in range(groups):
                    chance = random.Random(f"{seed} {release} {strategy} {number}")
                    question, answer = None, None
                    for _ in range(STEPS):
                        question = next_question(question, answer, chance, f"{release} {strategy}")
                        answer = real.ask(question)
                        yield question, answer
        finally:
            real.close()


def main(file: Path) -> None:
    lines = [
        json.dumps(question.to_json() | {"answer": answer}, ensure_ascii=False, separators=(",", ":"))
        for question, answer in recorded()
    ]
    file.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
