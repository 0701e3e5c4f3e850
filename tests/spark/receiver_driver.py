"""A job with a receiver, in a process of its own, so that it can be killed.

    python -m tests.spark.receiver_driver ZOOKEEPER_CONNECT GROUP TOPIC DIRECTORY MASTER

Prints the process ids of Spark's JVM and, when rows have been written, of the receiver. Runs until it is killed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pipeline
from tests.spark.conftest import OPTIONS
from tests.spark.sessions import local_session


def job(spark: Any, connect: str, group: str, topic: str, directory: str) -> Any:
    """The query, also for who goes on with it."""
    rows = pipeline.create_stream(
        spark,
        connect,
        group,
        {topic: 2},
        {**OPTIONS, "zookeeper.session.timeout.ms": "20000"},
        write_ahead=True,
        directory=f"{directory}/segments",
        schema="partition int, offset bigint",
    )
    writer = rows.writeStream.format("parquet").option("path", f"{directory}/rows")
    return writer.option("checkpointLocation", f"{directory}/checkpoint").start()


def main() -> None:
    connect, group, topic, directory, master = sys.argv[1:]
    spark = local_session(master)
    print("jvm", spark.sparkContext._gateway.proc.pid, flush=True)  # type: ignore[union-attr]
    query = job(spark, connect, group, topic, directory)
    while not query.awaitTermination(1):
        progress = query.lastProgress
        told = json.loads(progress.sources[0].latestOffset or "{}") if progress else {}
        if progress and progress.batchId >= 2 and told.get("receivers"):
            print("receiver", told["receivers"][0]["pid"], flush=True)


if __name__ == "__main__":
    main()
