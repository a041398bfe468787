"""What the pipeline's jobs take on large streams."""
