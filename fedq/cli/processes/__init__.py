"""Processes that a command starts, watches and stops: nodes of `fedq up`, workers of a host."""
