"""fedq's streams as tables of Spark, and what stands between the two (docs/adr/0077).

    options -> planning -> stream_client (gRPC) -> columns -> arrow_batches -> spark_source

Each module knows those before it alone. Nothing below this floor imports it; pyarrow and pyspark
are imported by the last two, and by jobs, which are programs on top (docs/adr/0080); `pages` draws
what they found.
"""
