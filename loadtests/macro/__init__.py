"""Whole brokers under load, next to RabbitMQ in the same run on the same machine."""
