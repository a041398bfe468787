"""Which broker a client turns to next: its own first, the others in turn when that fails."""

import threading
from collections.abc import Sequence

from tests.integration.stock import Address

#: A client that was refused everywhere waits a little before the next round.
PAUSE_S = 0.05


def parse_address(text: str) -> Address:
    """`host:port` as an address; raises `ValueError` for anything else."""
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise ValueError(f"{text!r} is not host:port")
    return Address(host, int(port))


class Rotation:
    """Addresses in turn, beginning with the first."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._addresses = list(addresses)
        self._index = 0
        self._failures = 0

    def next(self) -> Address:
        """The address to try now."""
        address = self._addresses[self._index % len(self._addresses)]
        self._index += 1
        return address

    def succeeded(self) -> None:
        """The last address serves."""
        self._failures = 0

    def rest(self) -> None:
        """After a failure: nothing at first, a pause once every address has failed."""
        self._failures += 1
        if self._failures >= len(self._addresses):
            threading.Event().wait(PAUSE_S)
