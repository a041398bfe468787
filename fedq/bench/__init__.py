"""A load generator for any AMQP 0-9-1 broker: what `fedq bench` runs.

It must cost far less than the broker it measures, so the data path works on bytes in bulk:
publishes are precomputed blocks into which one stamp is joined, deliveries are cut by columns, and
a run of numbers is compared as a whole. Nothing here is part of a node.
"""
