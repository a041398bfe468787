"""Tests of `fedq.shovel`."""
