"""Clients that are about to log in: how many there may be, and who makes room for whom.

In: who comes, from which address, and when; whether it has logged in by now. Out: whether it may
come in, and who has to go for that. Connections are the server's business (`amqp_server.py`).

It holds `size` clients, and of one address `per_address`. When it is full, the oldest client of the
address that has most makes room for one of an address that has fewer. Else the oldest of the same
address does, or of all if none has two, if it had `SAFE_S`; or nobody more comes in. So whoever
says nothing, or too little, costs a bounded amount; and who does so from some places shuts nobody
out who comes from another one.

Invariant: clients that have logged in, or are gone, are found out at the latest when room is short.
"""

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

#: How long a client is safe from newcomers.
SAFE_S: Final = 1.0
#: Not for each newcomer is it looked who has logged in: there may be thousands in a second.
SWEEP_S: Final = 0.1

Guest = TypeVar("Guest")


class Lobby(Generic[Guest]):
    """The clients of one server that are about to log in."""

    __slots__ = (
        "_by_address", "_by_count", "_guests", "_has_opened", "_swept_at", "per_address", "safe_s",
        "size", "sweep_s",
    )  # fmt: skip

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
        #: Addresses by how many clients each has; of a count that none has there is nothing.
        self._by_count: dict[int, dict[str, None]] = {}
        self._swept_at = float("-inf")

    def __len__(self) -> int:
        return len(self._guests)

    def enter(self, guest: Guest, address: str, now: float) -> bool:
        """Takes a client in, if there is room."""
        if not self._has_room(address):
            return False
        self._guests[guest] = (now, address)
        of_address = self._by_address.setdefault(address, {})
        of_address[guest] = None
        self._count(address, len(of_address) - 1, len(of_address))
        return True

    def leave(self, guest: Guest) -> None:
        """Takes out a client that has logged in, or is gone."""
        found = self._guests.pop(guest, None)
        if found is None:
            return
        of_address = self._by_address[found[1]]
        del of_address[guest]
        self._count(found[1], len(of_address) + 1, len(of_address))
        if not of_address:
            del self._by_address[found[1]]

    def make_room(self, address: str, now: float, is_full: bool = False) -> Guest | None:
        """The client that has to go before one from that address can come in; None: there is none.

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
        if len(of_address) < self.per_address and self._guests:
            most = max(self._by_count)
            if most > len(of_address) + 1:
                crowd = self._by_address[next(iter(self._by_count[most]))]
                return self._oldest(crowd, now)
        return self._oldest(of_address or self._guests, now - self.safe_s)

    def _oldest(self, row: Mapping[Guest, object], until: float) -> Guest | None:
        """Takes out the oldest that still has to log in, if it came by then."""
        while row:
            guest = next(iter(row))
            has_opened = self._has_opened(guest)
            if not has_opened and self._guests[guest][0] > until:
                return None
            self.leave(guest)
            if not has_opened:
                return guest
        return None

    def _count(self, address: str, before: int, after: int) -> None:
        """Sets how many clients an address has now."""
        if before:
            equals = self._by_count[before]
            del equals[address]
            if not equals:
                del self._by_count[before]
        if after:
            self._by_count.setdefault(after, {})[address] = None

    def _has_room(self, address: str) -> bool:
        if len(self._guests) >= self.size:
            return False
        return len(self._by_address.get(address, ())) < self.per_address
