"""fedq's streams as tables of Spark: what needs no Spark is tried everywhere."""
