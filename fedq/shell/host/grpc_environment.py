"""What fedq wants of gRPC in a process of its own: settings that it reads from the environment.

They are read when `grpc` is first imported, so whoever owns the process calls `settle_grpc` before;
hence this module imports nothing that does. A program that uses fedq as a library keeps the
environment that it has.
"""

import os
from typing import Final

SETTINGS: Final = {
    # By itself it writes to stderr, about sockets, handshakes and every peer that goes away. What
    # matters of that is in the node's own log, and a user is told in a sentence.
    "GRPC_VERBOSITY": "NONE",
    # Its threads poll the sockets for whoever waits, as they did before it had an event engine,
    # which hands each event from thread to thread: a frame there and one back take two thirds of
    # the time, and three quarters of the processor's (`loadtests/micro/peer_streams.py`).
    "GRPC_EXPERIMENTS": "-event_engine_client,-event_engine_listener",
}


def settle_grpc() -> None:
    """Sets what the environment does not say otherwise."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
