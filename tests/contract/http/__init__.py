"""The HTTP API of fedq beside a real RabbitMQ's: paths, keys and types of what they answer."""
