"""Client suites that fedq's authors did not write, run against fedq: `python -m conformance`."""
