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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.bench.filling import fill
from tests.bench.promises import AtLeast, Promise
from tests.bench.readers import Task
from tests.bench.report import Report, Sample
from tests.bench.subjects import Subject, Subjects
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
    expected_s: float
    records: int = 2_000_000
    value_size: int = 100
    message_format: int = 0
    codec: str | None = None
    partitions: int = 1
    streams: int = 1
    version: str = "1.1.1"
    brokers: int = 1


MAIN = Case("100 B", (SCALA, TOOL, SCALA_1_1, *JAVA, *WAYS, *PURE, *PYTHON, RAW), 180, records=5_000_000)
NEW = Case("100 B, format 2", (*JAVA, *WAYS, *PURE, *PYTHON, RAW), 110, records=5_000_000, message_format=2)
LARGE = Case("10 KB", (SCALA, *JAVA, *WAYS, *PURE, *PYTHON, RAW), 95, records=100_000, value_size=10_000)
COMPRESSED = (SCALA, JAVA[1], READ, ARROW, f"{READ}, pure", PYTHON[1], PYTHON[2])
CASES: Sequence[Case] = (
    MAIN,
    NEW,
    LARGE,
    *(Case(f"100 B, {codec}", COMPRESSED, 45, codec=codec) for codec in ("gzip", "snappy")),
    Case("100 B, lz4", COMPRESSED[:-1], 40, codec="lz4"),  # which aiokafka refuses in format 0
    *(
        Case(f"{streams} streams", (SCALA, READ, "ours, batches", ARROW), 30, partitions=16, streams=streams)
        for streams in (1, 4, 16)
    ),
    *(
        Case(
            f"3 brokers, {streams} streams",
            (SCALA, READ, "ours, batches", ARROW),
            30,
            partitions=12,
            streams=streams,
            brokers=3,
        )
        for streams in (1, 4)
    ),
    Case("100 B, zstd", COMPRESSED[1:], 40, message_format=2, codec="zstd", version="3.9.1"),
)
QUICK_SUBJECTS = (SCALA, JAVA[1], READ, ARROW, f"{READ}, pure", RAW)
QUICK_CASES = (Case(MAIN.name, QUICK_SUBJECTS, 14, records=500_000),)
ROUNDS = 5


def cases(*, quick: bool) -> Mapping[str, float]:
    return {case.name: case.expected_s for case in (QUICK_CASES if quick else CASES)}


def promises() -> Iterator[Promise]:
    for peer in (SCALA, TOOL):
        yield AtLeast(BENCH, MAIN.name, READ, peer, 2.0)
    for case, peer in itertools.product((MAIN, NEW), JAVA):
        yield AtLeast(BENCH, case.name, READ, peer, 1.5)
    for peer in (SCALA, *JAVA):
        yield AtLeast(BENCH, MAIN.name, READ, peer, 3.0, CPU)
    yield AtLeast(BENCH, MAIN.name, f"{READ}, pure", SCALA, 0.25)
    for case, peer in itertools.product((MAIN, NEW), ("kafka-python", "aiokafka")):
        yield AtLeast(BENCH, case.name, f"{READ}, pure", peer, 1.0)
    for case in (MAIN, NEW):
        yield AtLeast(BENCH, case.name, ARROW, RAW, 0.5)
    yield AtLeast(BENCH, LARGE.name, READ, RAW, 0.8)
    for case, peers in ((MAIN, (SCALA, TOOL, SCALA_1_1, *JAVA)), (NEW, JAVA), (LARGE, (SCALA, *JAVA))):
        for peer in peers:
            yield AtLeast(BENCH, case.name, READ, peer, 1.0, MEMORY)


def run(report: Report) -> None:
    cases = [case for case in (QUICK_CASES if report.quick else CASES) if report.takes(case.name)]
    with Subjects() as subjects:
        for (version, brokers), together in itertools.groupby(cases, lambda case: (case.version, case.brokers)):
            report.progress(f"Kafka {version}, brokers: {brokers}")
            with KafkaCluster(version=version, brokers=brokers, full_speed=True) as kafka:
                for case in together:
                    _measure(report, kafka, case, [subjects.by_name[name] for name in report.taken(case.subjects)])


def _measure(report: Report, kafka: KafkaCluster, case: Case, subjects: Sequence[Subject]) -> None:
    with report.case(case.name, rounds=ROUNDS, against=subjects[0].name) as found, _topic(report, kafka, case) as task:
        for _ in found.rounds():
            for subject in subjects:
                found.sample(subject.name, "M/s", _sample, subject, task)


def _sample(subject: Subject, task: Task) -> Sample:
    result = subject.measure(task)
    return Sample(result.million_a_second, {CPU: result.cpu_s_a_million, MEMORY: result.peak_mib})


@contextmanager
def _topic(report: Report, kafka: KafkaCluster, case: Case) -> Iterator[Task]:
    topic = "".join(letter if letter.isalnum() else "-" for letter in case.name)
    report.progress(f"{case.name}: filling a topic with {case.records:,} records of {case.value_size} bytes")
    kafka.create_topic(topic, partitions=case.partitions, message_format=case.message_format)
    fill(kafka.bootstrap_servers, topic, case.records, case.partitions, case.value_size, codec=case.codec)
    try:
        yield Task(kafka.zookeeper_connect, kafka.bootstrap_servers, topic, case.partitions, case.streams, case.records)
    finally:
        kafka.delete_topic(topic)


__all__ = ["CASES", "cases", "promises", "run"]
