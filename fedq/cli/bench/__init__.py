"""`fedq bench`: the load generator's command."""
