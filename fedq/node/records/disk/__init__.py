"""Reads and writes of this node's own disk that are under way: plain records."""
