"""An application for a cluster, as a user would submit it: it imports nothing of these tests, only `pipeline`.

    spark-submit … cluster_job.py ZOOKEEPER_CONNECT TOPIC GROUP DIRECTORY [HISTORY]

A bounded read, a stream that joins the group and ends with what is there, a receiver of another group, and the jobs
over a history if one is named. What came of it goes to DIRECTORY/result.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import pipeline
from pipeline import jobs
from pipeline.histories import History, read_parquet
from pipeline.tracker import Tracker


def main() -> None:
    connect, topic, group, directory, *history = sys.argv[1:]
    begin_and_end_a_local_session(connect, topic, group)
    spark = SparkSession.builder.appName("cluster job").getOrCreate()
    pipeline.register(spark)
    options = {"zookeeper.connect": connect, "group.id": group, "topics": topic, "auto.offset.reset": "smallest"}
    bounded = spark.read.format("zkconsumer").options(**options).load().count()
    query = (
        spark.readStream.format("zkconsumer")
        .options(**options, members="2")
        .load()
        .select("partition", "offset")
        .writeStream.format("parquet")
        .option("path", f"{directory}/rows")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    written = spark.read.schema("partition int, offset bigint").parquet(f"{directory}/rows")
    result = {
        "executors": spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1,
        "workers": spark.sparkContext.parallelize(range(4), 4).mapPartitions(whereabouts).distinct().collect(),
        "bounded": bounded,
        "rows": written.count(),
        "distinct_rows": written.distinct().count(),
        "received": received(spark, connect, topic, f"{group}-received", directory),
        "tracker": Tracker.of_process(spark.sparkContext).address[0],
        "found": [faults_in(read_parquet(spark, Path(one))) for one in history],
    }
    Path(directory, "result.json").write_text(json.dumps(result))
    spark.stop()


def begin_and_end_a_local_session(connect: str, topic: str, group: str) -> None:
    """Whose receivers would have found the driver where those of a cluster do not."""
    spark = SparkSession.builder.appName("local").master("local[2]").getOrCreate()
    pipeline.create_stream(spark, connect, group, {topic: 1})
    spark.stop()


def received(spark: SparkSession, connect: str, topic: str, group: str, directory: str) -> dict[str, Any]:
    """What a receiver on one of the executors gets of all there is, and where it ran."""
    rows = pipeline.create_stream(
        spark,
        connect,
        group,
        {topic: 2},
        {"auto.offset.reset": "smallest"},
        write_ahead=True,
        directory=f"{directory}/segments",
        schema="partition int, offset bigint",
    )
    writer = rows.writeStream.format("parquet").option("path", f"{directory}/received")
    query = writer.option("checkpointLocation", f"{directory}/checkpoint of received").start()
    receivers: list[Any] = []
    while sum(progress.numInputRows for progress in query.recentProgress) < 2000 or not receivers:
        query.awaitTermination(1)
        receivers = [
            one
            for p in query.recentProgress
            for one in json.loads(p.sources[0].latestOffset or "{}").get("receivers", ())
        ]
    query.stop()
    found = spark.read.schema("partition int, offset bigint").parquet(f"{directory}/received")
    return {"rows": found.count(), "distinct_rows": found.distinct().count(), "receivers": receivers[-1:]}


def faults_in(history: History) -> dict[str, list[list[Any]]]:
    """What each job finds, in an order that does not depend on Spark's."""
    produced, delivered, owned = history["produced"], history["delivered"], history["owned"]
    frames = {
        "lost": jobs.lost(produced, delivered),
        "duplicated": jobs.duplicated(delivered),
        "reordered": jobs.reordered(delivered),
        "delivered_by_non_owner": jobs.delivered_by_non_owner(delivered, owned),
        "pauses": jobs.pauses(delivered),
    }
    return {name: sorted([list(row) for row in frame.collect()], key=str) for name, frame in frames.items()}


def whereabouts(_: Iterable[int]) -> Iterator[Any]:
    """Which executor this is, where it has our code from, and which reader of records it uses."""
    import os

    import fetcher
    from fetcher.implementation import IMPLEMENTATION

    yield os.getcwd(), os.path.abspath(fetcher.__file__), IMPLEMENTATION


if __name__ == "__main__":
    main()
