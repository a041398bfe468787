"""Many connections at once, each of a few bytes, on sockets that are not looked at one by one."""

import selectors
import socket
import time
from collections.abc import Iterable, Sequence

from fedq.amqp import method_types as m
from fedq.amqp.methods import encode_method
from tests.attacks.attacker import HEADER, PATIENCE_S, READ_BYTES
from tests.integration.stock import Address
from tests.integration.waiting import TooLateError


def login(user: str = "guest", password: str = "guest", vhost: str = "/") -> bytes:
    """All that a client says until its connection is open."""
    start = m.ConnectionStartOk({}, "PLAIN", f"\0{user}\0{password}".encode(), "en_US")
    tune, opening = m.ConnectionTuneOk(2_047, 131_072, 0), m.ConnectionOpen(vhost)
    return HEADER + b"".join(encode_method(0, method) for method in (start, tune, opening))


def crowd(
    address: Address, words: Sequence[bytes], last: type, channel: int = 1, at_once: int = 200
) -> list[socket.socket]:
    """A connection for each of `words`, which were answered up to a method of the type `last`."""
    mark = encode_method(channel, last())
    members: list[socket.socket] = []
    for at in range(0, len(words), at_once):
        coming = {}
        for each in words[at : at + at_once]:
            member = socket.create_connection(address, timeout=PATIENCE_S)
            member.sendall(each)
            member.setblocking(False)
            coming[member] = b""
        members += coming
        _hear(coming, mark)
    return members


def _hear(coming: dict[socket.socket, bytes], mark: bytes) -> None:
    """Returns when each has heard that."""
    until = time.monotonic() + PATIENCE_S
    with selectors.DefaultSelector() as selector:
        for member in coming:
            selector.register(member, selectors.EVENT_READ, member)
        while coming:
            if time.monotonic() > until:
                raise TooLateError(f"{len(coming)} clients of a crowd wait")
            for key, _ in selector.select(1.0):
                member = key.data
                data = member.recv(READ_BYTES)
                if not data:
                    raise TooLateError("a client of a crowd was turned away")
                # The answer may come in two pieces.
                coming[member] = coming[member][-10:] + data
                if mark in coming[member]:
                    del coming[member]
                    selector.unregister(member)


def hang_up(members: Iterable[socket.socket]) -> None:
    """All of them."""
    for each in members:
        each.close()
