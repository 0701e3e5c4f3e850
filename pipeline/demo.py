"""A stage for the demo: a Spark query joins a group, writes what is there, and shows who read what.

python -m pipeline.demo ZOOKEEPER_CONNECT TOPIC GROUP
"""

from __future__ import annotations

import logging
import sys
import tempfile

from rich.console import Console
from rich.table import Table

EXPLANATION = "Spark joins group {group} with two members and writes what topic {topic} holds to Parquet."


def show(connect: str, topic: str, group: str, console: Console | None = None) -> int:
    """How many rows were written. The session is this call's own; about 15 seconds."""
    from pyspark.sql import SparkSession

    import pipeline

    console = console or Console(highlight=False)
    console.print(EXPLANATION.format(group=group, topic=topic), style="dim")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    with console.status("Spark starts"):
        builder = SparkSession.builder.master("local[2]").appName("zkconsumer demo").config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.host", "127.0.0.1")
        spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    try:
        spark.sparkContext.setLogLevel("ERROR")
        pipeline.register(spark)
        with console.status("the query runs"), tempfile.TemporaryDirectory(prefix="zkconsumer-demo-") as directory:
            options = {"zookeeper.connect": connect, "group.id": group, "topics": topic, "members": "2"}
            rows = spark.readStream.format("zkconsumer").options(**options, **{"auto.offset.reset": "smallest"}).load()
            query = (
                rows.select("partition", "offset", "consumer_thread")
                .writeStream.format("parquet")
                .option("path", f"{directory}/rows")
                .option("checkpointLocation", f"{directory}/checkpoint")
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            found = spark.read.schema("partition int, offset bigint, consumer_thread string").parquet(
                f"{directory}/rows"
            )
            counted = found.groupBy("partition", "consumer_thread").count().orderBy("partition").collect()
    finally:
        spark.stop()
    table = Table("partition", "owned by", "rows", title=f"topic {topic} in Spark")
    for row in counted:
        table.add_row(str(row["partition"]), row["consumer_thread"], f"{row['count']:,}")
    console.print(table)
    return sum(row["count"] for row in counted)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python -m pipeline.demo ZOOKEEPER_CONNECT TOPIC GROUP")
    show(sys.argv[1], sys.argv[2], sys.argv[3])
