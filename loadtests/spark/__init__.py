"""How fast Spark writes to nodes and reads from them, and what the jobs of the pipeline take."""
