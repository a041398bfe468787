"""`fedq doctor`: whether a configuration will do on this machine, before a node starts with it."""
