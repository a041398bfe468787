"""pika, as strangers use it. It ships no types, so it is imported untyped in this one place."""

import logging
from typing import NamedTuple

import pika  # type: ignore[import-untyped]
import pika.exceptions  # type: ignore[import-untyped]
from pika.adapters.blocking_connection import (  # type: ignore[import-untyped]
    BlockingChannel,
    BlockingConnection,
)

from tests.integration.waiting import patient

__all__ = [
    "PERSISTENT",
    "Address",
    "BlockingChannel",
    "BlockingConnection",
    "connect",
    "parameters",
    "pika",
]

# pika logs each refused connection at length, and these clients try brokers that only just start.
logging.getLogger("pika").setLevel(logging.CRITICAL)

#: Properties of a message that must survive the restart of everything.
PERSISTENT = pika.BasicProperties(delivery_mode=2)


class Address(NamedTuple):
    """Where a broker listens for clients."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address as clients write it."""
        return f"amqp://guest:guest@{self.host}:{self.port}/"


def parameters(address: Address, **more: object) -> pika.ConnectionParameters:
    """Connection parameters that give up soon; `more` overrides them."""
    usual: dict[str, object] = {
        "host": address.host,
        "port": address.port,
        "heartbeat": 30,
        "socket_timeout": patient(5),
        "stack_timeout": patient(10),
        "blocked_connection_timeout": patient(20),
    }
    return pika.ConnectionParameters(**(usual | more))


def connect(address: Address, **more: object) -> BlockingConnection:
    """An open blocking connection."""
    return BlockingConnection(parameters(address, **more))
