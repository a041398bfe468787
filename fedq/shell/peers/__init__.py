"""Streams between nodes over gRPC: who may connect, and frames as bytes."""
