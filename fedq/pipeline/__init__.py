"""fedq's streams as tables of Spark, rows that it publishes, and what stands between them.

    options -> planning -> pushdown -> stream_client (gRPC) -> columns -> arrow_batches
        -> spark_source
    sink (options, encoding, ordering, publisher, task, arrow_rows) -> spark_sink

Each module knows those before it alone (docs/adr/0077, 0081). Nothing below this floor imports it;
pyarrow and pyspark are imported by `arrow_batches`, `arrow_rows`, the last ones, and jobs, which
are programs on top (docs/adr/0080); `pages` draws what they found.
"""
