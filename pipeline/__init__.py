"""The data pipeline on Spark: the consumer as a source, and jobs that judge histories. Only here is pyspark known."""
