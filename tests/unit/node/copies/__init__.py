"""Tests of `fedq.node.copies`."""
