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
    from pyspark import SparkContext
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
    _show_sent_code_to_planners(context)
    spark.dataSource.register(ZkConsumerDataSource)


def _show_sent_code_to_planners(context: SparkContext) -> None:
    """Spark puts what came by --py-files on the path of tasks, but not of the process that plans a stream."""
    from pyspark import SparkFiles

    sent = [os.path.join(SparkFiles.getRootDirectory(), name) for name in context._python_includes or ()]
    known = [path for path in context.environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    if sent:
        context.environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*sent, *known]))
