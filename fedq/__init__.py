"""fedq: an AMQP 0-9-1 broker federation. docs/ARCHITECTURE.md is the map of this package."""

__version__ = "0.1.0"
