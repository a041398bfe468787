"""Connections and channels: who logs in, what they may do, and when they must go."""
