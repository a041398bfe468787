"""The disk's encoding: records, the segments they lie in, and how they are read back. Pure."""
