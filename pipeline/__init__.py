"""The data pipeline on Spark: the consumer as a source, and jobs that judge histories. Only here is pyspark known.

import pipeline

pipeline.register(spark)
spark.readStream.format("zkconsumer").option("zookeeper.connect", …)
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pipeline.receiver_mode import create_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["create_stream", "register"]


def register(spark: SparkSession) -> None:
    """Make format("zkconsumer") known to this session."""
    try:
        import pyarrow  # noqa: F401  # else Spark's workers end with a message nobody understands
    except ImportError:
        raise ImportError("the pipeline needs pyarrow: pip install 'zkconsumer[spark]'") from None
    from pipeline.source import ZkConsumerDataSource

    context = spark.sparkContext
    if (context.master or "").startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable  # "python3" of the path need not be the one that has us
    spark.dataSource.register(ZkConsumerDataSource)
