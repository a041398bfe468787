"""The paths of RabbitMQ's management API."""
