"""The Raft log behind the cluster map, made safe on a disk."""
