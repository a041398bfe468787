"""Real Spark on real nodes; skipped, with the reason, where there is no PySpark or no Java."""
