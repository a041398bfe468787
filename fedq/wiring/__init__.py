"""The wiring: the cluster map, where a publish goes, and what the leader decides."""
