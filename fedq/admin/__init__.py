"""Floor 6: people and tools look in. Reads `fedq.node.overview_types`, changes nothing."""
