"""A job with receivers, in a process of its own, so that it can be killed.

    python -m tests.spark.receiver_driver ZOOKEEPER_CONNECT GROUP TOPIC DIRECTORY MASTER [RECEIVERS] [no-write-ahead]

Says which process is Spark's JVM ("jvm PID"), and what each new progress tells of the receivers ("told JSON"). A line
on standard input stops the query.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import pipeline
from tests.spark.conftest import OPTIONS
from tests.spark.sessions import end, local_session


def job(
    spark: Any, connect: str, group: str, topic: str, directory: str, *, receivers: int = 1, write_ahead: bool = True
) -> Any:
    """The query, also for who goes on with it."""
    rows = pipeline.create_stream(
        spark,
        connect,
        group,
        {topic: 2},
        {**OPTIONS, "zookeeper.session.timeout.ms": "20000"},
        receivers=receivers,
        write_ahead=write_ahead,
        directory=f"{directory}/segments",
        schema="partition int, offset bigint",
    )
    writer = rows.writeStream.format("parquet").option("path", f"{directory}/rows")
    return writer.option("checkpointLocation", f"{directory}/checkpoint").start()


def main() -> None:
    connect, group, topic, directory, master, *more = sys.argv[1:]
    spark = local_session(master)
    print("jvm", spark.sparkContext._gateway.proc.pid, flush=True)  # type: ignore[union-attr]
    receivers = int(more[0]) if more else 1
    query = job(spark, connect, group, topic, directory, receivers=receivers, write_ahead="no-write-ahead" not in more)
    stopping = threading.Event()

    def wait_for_a_line() -> None:
        sys.stdin.readline()
        stopping.set()

    threading.Thread(target=wait_for_a_line, daemon=True).start()
    shown = None
    while not stopping.wait(0.5):
        if query.exception() is not None:
            raise query.exception()
        progress = query.lastProgress
        told = progress and progress.sources[0].latestOffset
        if told and told != shown:
            print("told", told, flush=True)
            shown = told
    query.stop()
    end(spark)


if __name__ == "__main__":
    main()
