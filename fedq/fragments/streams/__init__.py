"""What a fragment of a stream knows beside its messages, which stay when they were read."""
