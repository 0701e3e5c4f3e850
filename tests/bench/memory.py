"""How much memory a consumer takes: while it reads millions of records, and while nobody reads its streams.

    python -m tests.bench.memory [--records 10000000] [--kafka-version 1.1.1]

Starts a ZooKeeper and a broker of its own, fills a topic with records of 100 bytes, and lets a consumer with default
settings read it in a process of its own, whose resident memory (VmRSS) it prints. See docs/memory.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from zkconsumer.config import ConsumerConfig
from zkconsumer.connector import ZookeeperConsumerConnector
from zkconsumer.testing.kafka import KAFKA_VERSIONS, KafkaCluster
from zkconsumer.testing.waiting import eventually

VALUE_SIZE = 100
PARTITIONS = 8
STEP = 1_000_000
UNREAD_ROWS = 5
UNREAD_STEP_S = 3.0
MIB = 1024 * 1024


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.memory", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--records", type=int, default=10_000_000, help="how many to read (default: 10,000,000)")
    parser.add_argument("--kafka-version", choices=KAFKA_VERSIONS, default="1.1.1")
    parser.add_argument("--child", nargs=2, metavar=("MODE", "CONNECT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        mode, connect = arguments.child
        (read_all if mode == "read" else leave_unread)(connect, arguments.records)
    else:
        run(arguments.kafka_version, arguments.records)


def run(version: str, records: int) -> None:
    """Servers, records, then each of the two consumers in a process that does nothing else."""
    with KafkaCluster(version=version, full_speed=True) as kafka:
        kafka.create_topic("memory", partitions=PARTITIONS)
        began_s = time.monotonic()
        kafka.produce_many("memory", records, value_size=VALUE_SIZE)
        print(f"{records:,} records of {VALUE_SIZE} bytes produced in {time.monotonic() - began_s:.0f} s", flush=True)
        for mode in ("read", "unread"):
            child = [sys.executable, "-m", "tests.bench.memory", "--child", mode, kafka.zookeeper_connect]
            subprocess.run([*child, "--records", str(records)], check=True)


def read_all(connect: str, records: int) -> None:
    """One stream, read as fast as it goes."""
    print("\none stream, read to the end\n")
    print("|    records | resident MiB |\n|-----------:|-------------:|", flush=True)
    with consumer(connect) as connector:
        (stream,) = connector.create_message_streams({"memory": 1})["memory"]
        for number, record in enumerate(stream, 1):
            if record.message is None:
                raise SystemExit(f"offset {record.offset} of partition {record.partition}: no value")
            if number == 1 or number % STEP == 0 or number == records:
                print(f"| {number:>10,} | {resident_mib():>12.1f} |", flush=True)
            if number == records:
                return


def leave_unread(connect: str, records: int) -> None:
    """Two streams that nobody reads: the fetcher fills the queue of one and then waits for room in it."""
    with consumer(connect) as connector:
        before_mib = resident_mib()
        streams = connector.create_message_streams({"memory": 2})["memory"]
        config = connector.config
        eventually(
            lambda: max(len(stream.queue) for stream in streams) == config.queued_max_message_chunks, "a full queue", 60
        )
        response_mib = PARTITIONS * config.fetch_message_max_bytes / MIB
        bound_mib = config.queued_max_message_chunks * len(streams) * response_mib + response_mib
        print(f"\ntwo streams that nobody reads; not more than {before_mib:.1f} + {bound_mib:.1f} MiB\n")
        print("| seconds | chunks queued | resident MiB |\n|--------:|--------------:|-------------:|")
        print(f"|  before | {0:>13} | {before_mib:>12.1f} |")
        waiting, began_s = threading.Event(), time.monotonic()
        for _ in range(UNREAD_ROWS):
            waiting.wait(UNREAD_STEP_S)
            seconds, queued = time.monotonic() - began_s, sum(len(stream.queue) for stream in streams)
            print(f"| {seconds:>7.0f} | {queued:>13} | {resident_mib():>12.1f} |", flush=True)
        if resident_mib() > before_mib + bound_mib:
            raise SystemExit("more memory than the bound: something is kept that should not be")


def consumer(connect: str) -> ZookeeperConsumerConnector:
    group = f"memory-{os.getpid()}"
    return ZookeeperConsumerConnector(
        ConsumerConfig(zookeeper_connect=connect, group_id=group, auto_offset_reset="smallest")
    )


def resident_mib() -> float:
    """VmRSS of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("/proc/self/status has no VmRSS: this needs Linux")


if __name__ == "__main__":
    main()
