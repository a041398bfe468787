"""Floor 2: a fragment of a queue: its messages, who holds them, and whom they are offered to."""
