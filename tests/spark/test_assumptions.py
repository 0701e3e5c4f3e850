"""What our promises take for granted of Spark, asked of Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit


def test_commit_of_a_batch_comes_when_the_next_one_is_in_the_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """So a batch whose predecessor was committed may be handed over: Spark will write it, whatever happens."""
    spark.dataSource.register(counting_source())
    rows = spark.readStream.format("counting").option("directory", str(tmp_path)).load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()

    said = [json.loads(line) for line in (tmp_path / "said").read_text().splitlines()]

    assert [one["committed"] for one in said] == [1, 2, 3, 4]
    # Batch n of the checkpoint ends at offset n + 1: at the commit of offset e, the batch from e on is number e.
    assert all(str(one["committed"]) in one["in the checkpoint"] for one in said)


def counting_source() -> type[DataSource]:
    """One record a batch, five batches; writes down what the checkpoint holds at each commit."""

    class Reader(DataSourceStreamReader):
        def __init__(self, directory: str) -> None:
            self._directory = directory

        def initialOffset(self) -> dict[str, Any]:
            return {"at": 0}

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            return {"at": min(start["at"] + 1, 5)}

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
            return [InputPartition(end["at"])]

        def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
            yield (partition.value,)

        def commit(self, end: dict[str, Any]) -> None:
            found = [path.name for path in Path(self._directory, "checkpoint", "offsets").iterdir()]
            line = {"committed": end["at"], "in the checkpoint": found}
            with Path(self._directory, "said").open("a") as said:
                said.write(json.dumps(line) + "\n")

    class Counting(DataSource):
        @classmethod
        def name(cls) -> str:
            return "counting"

        def schema(self) -> str:
            return "number int"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            options: Mapping[str, str] = self.options
            return Reader(options["directory"])

    return Counting
