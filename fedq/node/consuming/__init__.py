"""From queues to consumers, and what becomes of deliveries."""
