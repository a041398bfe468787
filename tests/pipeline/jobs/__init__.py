"""Jobs of the pipeline, as far as they need no Spark."""
