"""The jobs over a history (pipeline.jobs) on a standalone cluster of two workers, and in one process: the same answers?

    python -m tests.bench.on_cluster [--rows 10000000]

Not a part of `make bench`. Each job runs once on a tiny history before the clock starts. What it finds on the large one
is compared by the number of rows and the sum of their hashes. Exit code 1: something is not the same.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.histories import make_history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.histories import History

TINY_ROWS = 100_000
CLUSTER = "two workers"
ALONE = "one process"


def frames(history: History) -> Mapping[str, Callable[[], DataFrame]]:
    """Every row that each job finds."""
    from pipeline import jobs

    produced, delivered, owned = history["produced"], history["delivered"], history["owned"]
    return {
        "lost": lambda: jobs.lost(produced, delivered),
        "duplicated": lambda: jobs.duplicated(delivered),
        "reordered": lambda: jobs.reordered(delivered),
        "delivered by non-owner": lambda: jobs.delivered_by_non_owner(delivered, owned),
        "pauses": lambda: jobs.pauses(delivered),
        "lag": lambda: jobs.lag_over_time(produced, delivered),
    }


def answers(spark: SparkSession, tiny: Path, directory: Path) -> dict[str, tuple[float, int, int]]:
    """Of each job: seconds, rows, and the sum of their hashes."""
    from pyspark.sql import functions as F

    from pipeline.histories import read_parquet

    found = {}
    for place in (tiny, directory):
        for name, frame in frames(read_parquet(spark, place)).items():
            start = time.perf_counter()
            hashes = F.sum(F.xxhash64("*").cast("decimal(38,0)"))
            [row] = frame().agg(F.count("*"), hashes).collect()
            found[name] = time.perf_counter() - start, int(row[0]), int(row[1] or 0)
    return found


def both(rows: int) -> dict[str, dict[str, tuple[float, int, int]]]:
    from tests.spark.sessions import end, local_session
    from tests.spark.standalone import StandaloneCluster

    found = {}
    with tempfile.TemporaryDirectory(prefix="histories-") as made:
        tempfile.tempdir = made  # Spark's own directories go with it
        tiny, directory = Path(made, "tiny"), Path(made, "whole")
        make_history(tiny, TINY_ROWS)
        make_history(directory, rows)
        with StandaloneCluster(memory="2g", environment={}) as cluster:
            for where, master in ((CLUSTER, cluster.url), (ALONE, "local[2]")):
                settings = {"spark.sql.shuffle.partitions": "8", "spark.executor.memory": "1500m"}
                spark = local_session(master, **settings, **{"spark.driver.memory": "3g"})
                try:
                    found[where] = answers(spark, tiny, directory)
                    if where == CLUSTER and executors(spark) != len(cluster.workers):
                        raise RuntimeError(f"{executors(spark)} executors took part")
                finally:
                    end(spark)
    return found


def executors(spark: SparkSession) -> int:
    """Besides the driver."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.on_cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    found = both(parser.parse_args().rows)
    same = True
    for name, (seconds, rows, hashes) in found[CLUSTER].items():
        alone_s, *alone = found[ALONE][name]
        is_same = alone == [rows, hashes]
        same = same and is_same and rows > 0
        verdict = "the same" if is_same else f"NOT THE SAME: {alone[0]:,} rows in {ALONE}"
        print(f"{name}: {rows:,} rows, {CLUSTER} {seconds:.1f} s, {ALONE} {alone_s:.1f} s, {verdict}", flush=True)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
