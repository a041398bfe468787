"""`fedq pipeline fanout`: how long subscribers waited, by nodes and their number."""
