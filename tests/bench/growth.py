"""How the cost of a record and of a rebalance grows with partitions, streams and members: no worse than linear.

    python -m tests.bench growth [--quick]

A record's cost is CPU time of the whole consumer by the number of records, so a slope near 0 is right: it should not
matter how many partitions or streams they come from. By the number of records itself the CPU time is to be linear.

A rebalance's cost is the time a settled group takes to settle again when one more member comes (see settle.py, with
the short back-off). It stops, commits, releases, reads and claims everything, so it may grow with the partitions, and
with the members, who all do it at once on the cores there are.
"""

from __future__ import annotations

from tests.bench import settle
from tests.bench.filling import fill
from tests.bench.readers import Task
from tests.bench.report import Growth, Report
from tests.bench.settle import Size
from tests.bench.subjects import Subject, Subjects
from zkconsumer.testing.kafka import KafkaCluster

BENCH = "growth"
READ = "ours, value read"
ROUNDS = 5
RECORDS = 2_000_000
FLAT = 0.35  # of a cost that should not grow at all; threads that take turns are not quite free


def run(report: Report) -> None:
    rounds = report.rounds(ROUNDS)
    with Subjects() as subjects, KafkaCluster(version="1.1.1", full_speed=True) as kafka:
        _records(report, kafka, subjects.by_name[READ], rounds)
        _rebalances(report, kafka, rounds)


def _records(report: Report, kafka: KafkaCluster, subject: Subject, rounds: int) -> None:
    records = 160_000 if report.quick else RECORDS
    numbers = (1, 16) if report.quick else (1, 4, 16, 64)
    tasks = {partitions: _filled(report, kafka, partitions, records) for partitions in numbers}
    parts = (0.25, 1.0) if report.quick else (0.125, 0.25, 0.5, 1.0)

    by_partitions = list(tasks.items())
    by_streams = [(streams, tasks[16]._replace(streams=streams)) for streams in numbers if streams <= 16]
    by_records = [(number, tasks[1]._replace(records=number)) for number in (int(records * part) for part in parts)]
    for case, size, points, flat in (
        ("a record, by partitions", "partitions", by_partitions, True),
        ("a record, by streams", "streams", by_streams, True),
        ("all records, by their number", "records", by_records, False),
    ):
        if not report.takes(case):
            continue
        samples: list[list[float]] = [[] for _ in points]
        for number in range(rounds):
            for found, (_, task) in zip(samples, points, strict=True):
                cpu_us = subject.measure(task).cpu_s_a_million
                found.append(cpu_us if flat else cpu_us * task.records / 1e6)
            report.progress(f"  {case}: round {number + 1} of {rounds}")
        unit = "CPU µs a record" if flat else "CPU s"
        at_most = None if report.quick else FLAT if flat else 1.1
        measured = [(at, found) for (at, _), found in zip(points, samples, strict=True)]
        report.grow(Growth(BENCH, case, "ours", size, unit, measured, at_most))


def _filled(report: Report, kafka: KafkaCluster, partitions: int, records: int) -> Task:
    topic = f"growth-{partitions}"
    report.progress(f"  {records:,} records in {partitions} partitions")
    kafka.create_topic(topic, partitions=partitions, message_format=0)
    fill(kafka.bootstrap_servers, topic, records, partitions, 100)
    return Task(kafka.zookeeper_connect, kafka.bootstrap_servers, topic, partitions, 1, records)


def _rebalances(report: Report, kafka: KafkaCluster, rounds: int) -> None:
    by_partitions = [] if report.quick else [Size(4, partitions) for partitions in (64, 256, 1024)]
    by_members = [Size(members, 64) for members in ((2, 4) if report.quick else (2, 4, 8, 16))]
    for partitions in sorted({size.partitions for size in (*by_partitions, *by_members)}):
        kafka.create_topic(settle.topic_of(partitions), partitions=partitions)
    with settle.sides(kafka.zookeeper_connect, settle.SHORT_BACKOFF) as both:
        for case, name, sizes in (
            ("a rebalance of 4 members, by partitions", "partitions", by_partitions),
            ("a rebalance of 64 partitions, by members", "members", by_members),
        ):
            if not sizes or not report.takes(case):
                continue
            found: dict[str, list[list[float]]] = {side.name: [[] for _ in sizes] for side in both}
            for number in range(rounds):
                for position, size in enumerate(sizes):
                    for side in both:
                        seconds = settle.seconds_to_settle(
                            kafka.zookeeper_connect, side, size, there_before=size.members - 1
                        )
                        found[side.name][position].append(seconds)
                report.progress(f"  {case}: round {number + 1} of {rounds}")
            for side in both:
                points = [(getattr(size, name), of) for size, of in zip(sizes, found[side.name], strict=True)]
                at_most = 1.1 if side.name == settle.OURS and not report.quick else None
                report.grow(Growth(BENCH, case, side.name, name, "s", points, at_most))
