"""Exclusive queues, which live on this node only, and what the map holds for them."""
