"""Floor 5: everything that touches the world, around a node that only decides."""
