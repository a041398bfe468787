"""Floor 2: who has which events of a fragment. Knows record ranges, not queues."""
