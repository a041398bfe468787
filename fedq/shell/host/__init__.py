"""The machine and the process that a node runs in: clock, memory, descriptors, watchdog."""
