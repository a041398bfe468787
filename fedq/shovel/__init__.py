"""Shovels: messages are moved between brokers by a process beside the node (docs/adr/0114)."""
