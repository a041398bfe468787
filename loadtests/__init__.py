"""Measurements: `micro` for single steps, `macro` for whole brokers under load."""
