"""Streams: messages that stay when they are read, and the places of their readers."""
