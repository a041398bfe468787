"""Commands about a cluster that runs: members, queues, clients, users, permissions."""
