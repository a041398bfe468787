"""What the leader decides: who is gone, who leads what, and how copies are spread."""
