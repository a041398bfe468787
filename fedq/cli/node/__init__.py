"""Commands on a node's own machine: its process, its configuration, certificates and files."""
