"""What asks a node: which one, over its admin service or as a client, and its answers as JSON."""
