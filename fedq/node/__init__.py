"""The node: one member of a cluster as a deterministic machine, made of rooms."""
