"""Clients of the generator on one end of a socket pair, the test on the other."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from fedq.bench.board import Board
from fedq.bench.clients import Client, Measure

Kind = TypeVar("Kind", bound=Client)


def measure() -> Measure:
    """One process's figures, while measuring."""
    made = Measure(Board(1), 0)
    made.is_on = True
    return made


@contextmanager
def connected(make: Callable[[socket.socket], Kind]) -> Iterator[tuple[Kind, socket.socket]]:
    """(the client, the other end of its connection)."""
    near, far = socket.socketpair()
    near.setblocking(False)
    with near, far:
        yield make(near), far
