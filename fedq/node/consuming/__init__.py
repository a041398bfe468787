"""The way from queues to consumers, and what becomes of deliveries."""
