"""Where a publish goes: exchanges, their tables, and the routes that are kept."""
