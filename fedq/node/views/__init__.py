"""Read-only views of a living node, for people and tools."""
