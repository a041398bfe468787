"""What a channel remembers of its deliveries and its confirms, by number."""
