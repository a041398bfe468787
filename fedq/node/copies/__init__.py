"""Fragments of shared queues that this node leads or copies, and questions to all of them."""
