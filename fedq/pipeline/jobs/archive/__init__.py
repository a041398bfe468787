"""`fedq pipeline archive`: a stream as Parquet files, exactly once."""
