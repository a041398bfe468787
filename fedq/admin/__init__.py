"""Floor 6: people and tools look in. Reads `fedq.node.views.overview_types`, changes nothing."""
