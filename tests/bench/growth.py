"""How the cost of a record and of a rebalance grows with partitions, streams and members: no worse than linear.

    python -m tests.bench growth [--quick]

A record's cost is CPU time of the whole consumer by the number of records, so a slope near 0 is right: it should not
matter how many partitions, streams or members they come from. By the number of records itself the CPU time is to be
linear.

A rebalance's cost is the time a settled group takes to settle again when one more member comes (see settle.py, with
the short back-off). It stops, commits, releases, reads and claims everything, so it may grow with the partitions, and
with the members and their streams, who all do it at once on the cores there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.bench import settle
from tests.bench.filling import fill
from tests.bench.promises import Promise, Slope
from tests.bench.readers import Task
from tests.bench.report import Report
from tests.bench.settle import Size
from tests.bench.subjects import Subject, Subjects
from zkconsumer.testing.kafka import KafkaCluster

BENCH = "growth"
READ = "ours, value read"
ROUNDS = 3
RECORDS = 5_000_000  # so that joining the group, which is another case, hardly counts
FLAT, LINEAR = 0.35, 1.1  # of a cost that should not grow at all: threads that take turns are not quite free


class ByRecord(NamedTuple):
    """CPU time of records; `to_task` makes a task of a size and a topic of so many partitions."""

    name: str
    grows_by: str
    sizes: Sequence[float]
    quick_sizes: Sequence[float]
    partitions_of: Callable[[float], int]
    to_task: Callable[[Task, float], Task]
    is_flat: bool
    expected_s: float


class ByRebalance(NamedTuple):
    name: str
    grows_by: str
    sizes: Sequence[Size]
    quick_sizes: Sequence[Size]
    expected_s: float


RECORD_CASES = (
    ByRecord(
        "a record, by partitions", "partitions", (1, 4, 16, 64), (1, 16), int, lambda task, _: task, True, 55
    ),
    ByRecord(
        "a record, by streams", "streams", (1, 4, 16), (1, 16), lambda _: 16,
        lambda task, size: task._replace(streams=int(size)), True, 25,
    ),
    ByRecord(
        "a record, by members", "members", (1, 4, 16), (1, 4), lambda _: 16,
        lambda task, size: task._replace(members=int(size)), True, 35,
    ),
    ByRecord(
        "all records, by their number", "records", tuple(RECORDS * part for part in (0.125, 0.25, 0.5, 1)),
        (40_000, 160_000), lambda _: 1, lambda task, size: task._replace(records=int(size)), False, 25,
    ),
)  # fmt: skip
REBALANCE_CASES = (
    ByRebalance(
        "a rebalance of 4 members, by partitions", "partitions",
        tuple(Size(4, partitions) for partitions in (64, 256, 1024)), (), 85,
    ),
    ByRebalance(
        "a rebalance of 64 partitions, by members", "members",
        tuple(Size(members, 64) for members in (2, 4, 8, 16)), (Size(2, 64), Size(4, 64)), 115,
    ),
    ByRebalance(
        "a rebalance of 4 members, by streams", "streams",
        tuple(Size(4, 64, streams) for streams in (1, 4, 16)), (), 85,
    ),
)  # fmt: skip


def cases(*, quick: bool) -> Mapping[str, float]:
    every = (*RECORD_CASES, *REBALANCE_CASES)
    return {one.name: 5.0 if quick else one.expected_s for one in every if one.quick_sizes or not quick}


def promises() -> Iterator[Promise]:
    for one in RECORD_CASES:
        yield Slope(BENCH, one.name, READ, FLAT if one.is_flat else LINEAR)
    for case in REBALANCE_CASES:
        yield Slope(BENCH, case.name, settle.OURS, LINEAR)


def run(report: Report) -> None:
    with KafkaCluster(version="1.1.1", full_speed=True) as kafka:
        if by_record := [one for one in RECORD_CASES if report.takes(one.name)]:
            with Subjects() as subjects:
                _records(report, kafka, subjects.by_name[READ], by_record)
        if by_rebalance := [one for one in REBALANCE_CASES if report.takes(one.name)]:
            _rebalances(report, kafka, by_rebalance)


def _records(report: Report, kafka: KafkaCluster, subject: Subject, cases: Sequence[ByRecord]) -> None:
    topics: dict[int, Task] = {}
    for case in cases:
        sizes = case.quick_sizes if report.quick else case.sizes
        with report.case(case.name, rounds=ROUNDS, grows_by=case.grows_by) as found:
            for partitions in {case.partitions_of(size): None for size in sizes}:
                if partitions not in topics:
                    topics[partitions] = _filled(report, kafka, partitions)
            for _ in found.rounds():
                for size in sizes:
                    task = case.to_task(topics[case.partitions_of(size)], size)
                    found.sample(
                        READ,
                        "CPU µs a record" if case.is_flat else "CPU s",
                        _cpu,
                        subject,
                        task,
                        case.is_flat,
                        more_is_better=False,
                        size=size,
                    )


def _cpu(subject: Subject, task: Task, is_flat: bool) -> float:
    cpu_us = subject.measure(task).cpu_s_a_million
    return cpu_us if is_flat else cpu_us * task.records / 1e6


def _filled(report: Report, kafka: KafkaCluster, partitions: int) -> Task:
    topic, records = f"growth-{partitions}", 160_000 if report.quick else RECORDS
    report.progress(f"filling {partitions} partitions with {records:,} records")
    kafka.create_topic(topic, partitions=partitions, message_format=0)
    fill(kafka.bootstrap_servers, topic, records, partitions, 100)
    return Task(kafka.zookeeper_connect, kafka.bootstrap_servers, topic, partitions, 1, records)


def _rebalances(report: Report, kafka: KafkaCluster, cases: Sequence[ByRebalance]) -> None:
    sizes_of = {case.name: case.quick_sizes if report.quick else case.sizes for case in cases}
    for partitions in sorted({size.partitions for sizes in sizes_of.values() for size in sizes}):
        kafka.create_topic(settle.topic_of(partitions), partitions=partitions)
    connect = kafka.zookeeper_connect
    most = max(size.members for sizes in sizes_of.values() for size in sizes)
    with settle.sides(connect, settle.SHORT_BACKOFF, most) as both:
        for case in cases:
            with report.case(case.name, rounds=ROUNDS, against=settle.SCALA, grows_by=case.grows_by) as found:
                for _ in found.rounds():
                    for size in sizes_of[case.name]:
                        for side in both:
                            found.sample(
                                side.name,
                                "s",
                                settle.seconds_to_settle,
                                connect,
                                side,
                                size,
                                size.members - 1,
                                settle.steady_s(report),
                                more_is_better=False,
                                size=float(getattr(size, case.grows_by)),
                            )
