"""Log lines that others cause: a few of many."""
