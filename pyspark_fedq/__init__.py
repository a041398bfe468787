"""The name by which Spark finds the data source `fedq`: it imports every package `pyspark_…`."""

from fedq.pipeline.spark_source import FedqSource as DefaultSource

__all__ = ["DefaultSource"]
