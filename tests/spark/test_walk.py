"""docs/pipeline.md, executed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from zkconsumer.testing.kafka import KafkaCluster

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"


def test_the_walk_does_what_the_page_says(spark: SparkSession, kafka: KafkaCluster, tmp_path: Path) -> None:
    kafka.create_topic("orders", partitions=2)
    for partition in range(2):
        kafka.produce("orders", [b"an order"] * 1000, partition=partition)
    names: dict[str, Any] = {"connect": kafka.zookeeper_connect, "directory": str(tmp_path)}

    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)

    assert names["values"].count() == 2000
    assert names["written"].select("partition", "offset").distinct().count() == names["written"].count() == 2000
    assert names["written"].select("consumer_thread").distinct().count() == 2
    assert names["left"] == 0
    assert [tuple(row) for row in names["lost"]] == [(2, 3, 2)]
    assert [tuple(row) for row in names["again"]] == [(1, 13, 13)]
