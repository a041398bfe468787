"""Floor 0: the words every floor shares. Imports nothing of fedq."""
