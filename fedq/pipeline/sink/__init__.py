"""Rows that are published, each once (docs/adr/0081): all of it but Spark's own interface."""
