"""The cluster map: its state, and every replicated operation on it."""
