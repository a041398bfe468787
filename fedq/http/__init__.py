"""HTTP: RabbitMQ's management API, and metrics for Prometheus."""
