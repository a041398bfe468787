"""The types of exchange: those of the specification (3.1.3), and of RabbitMQ's plugins."""

from typing import Final

CONSISTENT_HASH: Final = "x-consistent-hash"
DELAYED: Final = "x-delayed-message"
EXCHANGE_TYPES: Final = ("direct", "fanout", "topic", "headers", CONSISTENT_HASH, DELAYED)
