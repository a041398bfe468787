"""The name by which Spark finds the data source `fedq`: it imports every package `pyspark_…`.

Spark does so in every session that uses any Python data source, also where fedq is installed for
something else. There, without what the source needs, this package has none, and all others go on;
`fedq pipeline doctor` says what lacks.
"""

from contextlib import suppress

__all__ = ["DefaultSource"]

with suppress(ImportError):
    from fedq.pipeline.spark_source import FedqSource as DefaultSource
