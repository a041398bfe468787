"""What single steps cost, in microseconds: one claim per file, each a list of `Case`s."""
