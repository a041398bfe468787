"""Answers the two requests with which amqpstorm's tests clean up after themselves.

They delete queues and exchanges through RabbitMQ's HTTP API. Here the same is done over AMQP, on
whichever broker is under test, so that all of them start from the same. Input: the broker's port.
Invariants: nothing but `DELETE` of a queue or an exchange has an effect; anything else is 501.
"""

from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import pika  # type: ignore[import-untyped]
from pika.exceptions import AMQPChannelError  # type: ignore[import-untyped]

from conformance.serving import Serving
from tests.integration.ports import LOOPBACK


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, broker_port: int) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.broker_port = broker_port


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not worth a line."""

    def do_DELETE(self) -> None:
        """`/api/queues/VHOST/NAME` and `/api/exchanges/VHOST/NAME`."""
        match self.path.split("/"):
            case ["", "api", ("queues" | "exchanges") as kind, vhost, name]:
                delete(self.server.broker_port, kind, unquote(vhost), unquote(name))
                self.send_response(204)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
            case _:
                self.send_error(501, "there is no more of the API here")


def delete(port: int, kind: str, vhost: str, name: str) -> None:
    """Deletes the queue or exchange; one that is not there is no error."""
    parameters = pika.ConnectionParameters(LOOPBACK, port, vhost)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        # An exclusive queue of another connection, or amq.*: its own test ends it, or nobody.
        with suppress(AMQPChannelError):
            if kind == "queues":
                channel.queue_delete(name)
            else:
                channel.exchange_delete(name)


class Management(Serving):
    """The server, as a context manager; ends with it."""

    def __init__(self, broker_port: int) -> None:
        """`broker_port`: where the broker under test listens for AMQP."""
        server = _Server(broker_port)
        super().__init__(server)
        #: Where it listens for HTTP.
        self.port = server.server_port
