"""The load generator's parts: bytes, numbers and times, without a broker."""
