"""A Spark application as users write it, in a process of its own, so that it can be killed.

    python -m tests.spark.driver ZOOKEEPER_CONNECT GROUP TOPIC DIRECTORY

Prints the process id of Spark's JVM, then one line for each batch it begins. A line on standard input stops the query;
what is in the sink is then written to DIRECTORY/rows.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import pipeline
from tests.spark.sessions import local_session


def main() -> None:
    connect, group, topic, directory = sys.argv[1:]
    spark = local_session()
    pipeline.register(spark)
    print("jvm", spark.sparkContext._gateway.proc.pid, flush=True)  # type: ignore[union-attr]
    rows = (
        spark.readStream.format("zkconsumer")
        .option("zookeeper.connect", connect)
        .option("group.id", group)
        .option("topics", f"{topic}:2")
        .option("auto.offset.reset", "smallest")
        .option("rebalance.max.retries", "50")
        .option("rebalance.backoff.ms", "500")
        .option("release.timeout.ms", "30000")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .load()
    )

    def write(batch: DataFrame, number: int) -> None:
        print("batch", number, flush=True)
        batch.select("partition", "offset").write.mode("overwrite").parquet(f"{directory}/rows/batch={number}")

    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", f"{directory}/checkpoint").start()
    sys.stdin.readline()
    query.stop()
    _write_result(spark, Path(directory))
    spark.stop()


def _write_result(spark: SparkSession, directory: Path) -> None:
    found = spark.read.parquet(str(directory / "rows")).select("partition", "offset").collect()
    (directory / "rows.json").write_text(json.dumps([list(row) for row in found]))


if __name__ == "__main__":
    main()
