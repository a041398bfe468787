"""Clients that are about to log in: how many there may be, and who makes room for whom.

In: who comes, from which address, and when; whether it has logged in by now. Out: whether it may
come in, and who has to go for that. Connections are the server's business (`amqp_server.py`).

It holds `size` clients, and of one address `per_address`. When one of the two is reached, the
oldest (of that address) makes room if it had `SAFE_S`, and else nobody more comes in. So whoever
says nothing, or too little, costs a bounded amount; and who does so from one place shuts nobody out
who comes from another one.

Invariant: clients that have logged in, or are gone, are found out at the latest when room is short.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

#: How long a client is safe from newcomers.
SAFE_S: Final = 1.0
#: Not for each newcomer is it looked who has logged in: there may be thousands in a second.
SWEEP_S: Final = 0.1

Guest = TypeVar("Guest")


class Lobby(Generic[Guest]):
    """See the module's docstring."""

    __slots__ = ("_by_address", "_guests", "_has_opened", "_swept_at", "per_address", "safe_s",
                 "size", "sweep_s")  # fmt: skip

    def __init__(
        self, size: int, per_address: int, has_opened: Callable[[Guest], bool],
        safe_s: float = SAFE_S, sweep_s: float = SWEEP_S,
    ) -> None:  # fmt: skip
        """`has_opened`: whether a client has logged in."""
        self.size = size
        self.per_address = per_address
        self.safe_s = safe_s
        self.sweep_s = sweep_s
        self._has_opened = has_opened
        #: Oldest first: since when, and from where.
        self._guests: dict[Guest, tuple[float, str]] = {}
        self._by_address: dict[str, dict[Guest, None]] = {}
        self._swept_at = float("-inf")

    def __len__(self) -> int:
        return len(self._guests)

    def enter(self, guest: Guest, address: str, now: float) -> bool:
        """Takes a client in, if there is room."""
        if not self._has_room(address):
            return False
        self._guests[guest] = (now, address)
        self._by_address.setdefault(address, {})[guest] = None
        return True

    def leave(self, guest: Guest) -> None:
        """The client has logged in, or is gone."""
        found = self._guests.pop(guest, None)
        if found is None:
            return
        of_address = self._by_address[found[1]]
        del of_address[guest]
        if not of_address:
            del self._by_address[found[1]]

    def make_room(self, address: str, now: float, is_full: bool = False) -> Guest | None:
        """Who has to go before a client from that address can come in; None: nobody can, or has to.

        `is_full`: there is no room for any client more, logged in or not.
        """
        if self._has_room(address) and not is_full:
            return None
        if now - self._swept_at >= self.sweep_s:
            self._swept_at = now
            for guest in [guest for guest in self._guests if self._has_opened(guest)]:
                self.leave(guest)
        if self._has_room(address) and not is_full:
            return None
        of_address = self._by_address.get(address, {})
        row = of_address if len(of_address) >= self.per_address else self._guests
        while row:
            guest = next(iter(row))
            if not self._has_opened(guest) and now - self._guests[guest][0] < self.safe_s:
                return None
            has_opened = self._has_opened(guest)
            self.leave(guest)
            if not has_opened:
                return guest
        return None

    def _has_room(self, address: str) -> bool:
        if len(self._guests) >= self.size:
            return False
        return len(self._by_address.get(address, ())) < self.per_address
