"""Definitions in RabbitMQ's JSON: exported, checked, and imported."""
