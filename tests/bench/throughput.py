"""Records a second from a broker to the loop that reads them: ours in its ways, the real consumers, other clients.

    python -m tests.bench throughput [--quick]

All subjects of a case read the same topic of the same broker, in turn, round by round, each in a process of its own
(subjects.py, readers.py). The clock begins with the first record handed over. CPU seconds and peak memory are those of
the whole process with its start.

In message format 0 nobody's records have to be converted, so that the old consumers are at their best; the case of
format 2 does the same for the new ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tests.bench.filling import fill
from tests.bench.readers import Task
from tests.bench.report import Measured, Report, Wanted
from tests.bench.subjects import Result, Subject, Subjects
from zkconsumer.testing.kafka import KafkaCluster

BENCH = "throughput"
CPU, MEMORY = "CPU s/M", "MiB"
SCALA, TOOL, SCALA_1_1 = "Scala 0.8.2.2", "Scala 0.8.2.2, its own tool", "Scala 1.1.1"
JAVA = ("Java new 1.1.1", "Java new 3.9.1")
READ, ARROW, RAW = "ours, value read", "ours, Arrow", "raw socket"
WAYS = ("ours, iterate", READ, "ours, batches", ARROW)
PURE = tuple(f"{way}, pure" for way in WAYS)
PYTHON = ("confluent-kafka", "confluent-kafka, tuned", "aiokafka", "kafka-python")


@dataclass(frozen=True)
class Case:
    """One topic, and who reads it. Ratios are formed against the first subject."""

    name: str
    subjects: Sequence[str]
    records: int = 5_000_000
    value_size: int = 100
    message_format: int = 0
    codec: str | None = None
    partitions: int = 1
    streams: int = 1
    version: str = "1.1.1"
    brokers: int = 1
    rounds: int = 3


MAIN = Case("100 B", (SCALA, TOOL, SCALA_1_1, *JAVA, *WAYS, *PURE, *PYTHON, RAW), rounds=5)
NEW = Case("100 B, format 2", (JAVA[0], JAVA[1], *WAYS, *PYTHON, RAW), message_format=2, rounds=5)
LARGE = Case("10 KB", (SCALA, *JAVA, *WAYS, PYTHON[1], PYTHON[2], RAW), records=150_000, value_size=10_000, rounds=5)
CASES: Sequence[Case] = (
    MAIN,
    NEW,
    LARGE,
    *(
        Case(f"100 B, {codec}", (SCALA, JAVA[1], READ, ARROW, PYTHON[1]), records=3_000_000, codec=codec)
        for codec in ("gzip", "snappy", "lz4")
    ),
    *(
        Case(f"{streams} streams", (SCALA, READ, "ours, batches"), records=3_200_000, partitions=16, streams=streams)
        for streams in (1, 4, 16)
    ),
    *(
        Case(
            f"3 brokers, {streams} streams", (SCALA, READ, ARROW), 3_000_000, partitions=12, streams=streams, brokers=3
        )
        for streams in (1, 4)
    ),
    Case("100 B, zstd", (JAVA[1], READ, ARROW, PYTHON[1]), 3_000_000, message_format=2, codec="zstd", version="3.9.1"),
)
QUICK_SUBJECTS = (SCALA, JAVA[1], READ, ARROW, f"{READ}, pure", RAW)
QUICK_CASES = (replace(MAIN, name="100 B", subjects=QUICK_SUBJECTS, records=500_000, rounds=1),)


def promises() -> Iterator[Wanted]:
    """What issue and documentation promise, for the full run."""
    for peer in (SCALA, TOOL):
        yield Wanted(BENCH, MAIN.name, READ, peer, 2.0)
    for case, peer in itertools.product((MAIN, NEW), JAVA):
        yield Wanted(BENCH, case.name, READ, peer, 1.5)
    for peer in (SCALA, *JAVA):
        yield Wanted(BENCH, MAIN.name, READ, peer, 3.0, CPU)
    yield Wanted(BENCH, MAIN.name, f"{READ}, pure", SCALA, 0.25)
    for peer in ("kafka-python", "aiokafka"):
        yield Wanted(BENCH, MAIN.name, f"{READ}, pure", peer, 1.0)
    for case in (MAIN, NEW):
        yield Wanted(BENCH, case.name, ARROW, RAW, 0.5)
    yield Wanted(BENCH, LARGE.name, READ, RAW, 0.8)
    for case, peers in ((MAIN, (SCALA, TOOL, SCALA_1_1, *JAVA)), (LARGE, (SCALA, *JAVA))):
        for peer in peers:
            yield Wanted(BENCH, case.name, READ, peer, 1.0, MEMORY)


def run(report: Report) -> None:
    cases = [case for case in (QUICK_CASES if report.quick else CASES) if report.takes(case.name)]
    with Subjects() as subjects:
        for (version, brokers), together in itertools.groupby(cases, lambda case: (case.version, case.brokers)):
            report.progress(f"Kafka {version}, brokers: {brokers}")
            with KafkaCluster(version=version, brokers=brokers, full_speed=True) as kafka:
                for case in together:
                    _measure(report, kafka, case, [subjects.by_name[name] for name in report.taken(case.subjects)])
    if not report.quick:
        report.want(*promises())


def _measure(report: Report, kafka: KafkaCluster, case: Case, subjects: Sequence[Subject]) -> None:
    results: dict[str, list[Result]] = {subject.name: [] for subject in subjects}
    with _topic(report, kafka, case) as task:
        rounds = report.rounds(case.rounds)
        for number in range(rounds):
            for subject in subjects:
                result = subject.measure(task)
                results[subject.name].append(result)
                report.progress(
                    f"  {case.name}, {number + 1} of {rounds}: {subject.name} {result.million_a_second:.3g} M/s"
                )
    for name, found in results.items():
        beside = {CPU: [one.cpu_s_a_million for one in found], MEMORY: [one.peak_mib for one in found]}
        report.add(Measured(BENCH, case.name, name, "M/s", [one.million_a_second for one in found], beside=beside))
    report.show_case(BENCH, case.name, case.subjects[0])


@contextmanager
def _topic(report: Report, kafka: KafkaCluster, case: Case) -> Iterator[Task]:
    topic = "".join(letter if letter.isalnum() else "-" for letter in case.name)
    report.progress(f"  {case.name}: {case.records:,} records of {case.value_size} bytes")
    kafka.create_topic(topic, partitions=case.partitions, message_format=case.message_format)
    fill(kafka.bootstrap_servers, topic, case.records, case.partitions, case.value_size, codec=case.codec)
    yield Task(kafka.zookeeper_connect, kafka.bootstrap_servers, topic, case.partitions, case.streams, case.records)
    kafka.delete_topic(topic)


__all__ = ["CASES", "promises", "run"]
