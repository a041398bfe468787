"""Streams and their readers."""
