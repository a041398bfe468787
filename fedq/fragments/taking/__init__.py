"""Which nodes take a fragment's messages, how many they are handed, and how fast they are."""
