"""Tests of what publishes rows, without Spark."""
