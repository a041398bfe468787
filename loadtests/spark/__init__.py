"""How fast Spark writes to a node and reads from it, each beside what it is compared with."""
