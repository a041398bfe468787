"""Passwords that wait to be verified, by fair queueing: by place, then by user.

In: logins of clients, verdicts of whoever verifies (it takes long on purpose, so the driver does it
beside its turns). Out: the passwords to verify next, and who waits for a verdict. A place is an
address, or of IPv6 the network of a customer (/64): within one, addresses cost nothing. So who
guesses from one place delays the others by one password each, however many are guessed, and there
one user does not wait for what is guessed of another. Places whose last password was wrong have one
in four while others wait: so who guesses from many places delays the others by one each, once.

Invariants: a client waits for one password at most; equal ones are verified once; places and users
without a login that waits are not kept. `Failures` bounds what is remembered and said of failures.
"""

import ipaddress
from typing import Final

from fedq.amqp.commands import Command
from fedq.amqp.connection import Connection
from fedq.core import limits
from fedq.node.outbox import Verification
from fedq.node.records.budget import Budget
from fedq.node.records.client_state import Client

#: Within that time no more than so many failed logins are told one by one.
_TELL_WITHIN_MS: Final = 10_000
_NAME_SHOWN_MAX: Final = 64
#: Every so many passwords one is of a place whose last one was wrong.
_PASSWORDS_PER_DOUBT: Final = 4


class Login:
    """One password of one user, and the clients that wait for the verdict about it."""

    __slots__ = ("clients", "digest", "is_running", "password", "place", "record", "user")

    def __init__(self, place: str, user: str, record: str, password: str, digest: bytes) -> None:
        self.place = place
        self.user = user
        self.record = record
        self.password = password
        self.digest = digest
        self.clients: dict[Client, None] = {}
        self.is_running = False


class LoginQueue:
    """The queue of logins, by place and user; see the module's docstring."""

    __slots__ = (
        "_by_client", "_by_digest", "_doubted", "_doubts", "_last_number", "_running", "_waiting"
    )  # fmt: skip

    def __init__(self) -> None:
        #: By place and user, the next one first.
        self._waiting: dict[str, dict[str, dict[Login, None]]] = {}
        #: The same of places whose last password was wrong; and all such places, oldest first.
        self._doubted: dict[str, dict[str, dict[Login, None]]] = {}
        self._doubts: dict[str, None] = {}
        self._by_digest: dict[bytes, Login] = {}
        self._by_client: dict[Client, Login] = {}
        self._running: dict[int, Login] = {}
        self._last_number = 0

    @property
    def running(self) -> int:
        """How many passwords are being verified."""
        return len(self._running)

    def __contains__(self, client: Client) -> bool:
        """Whether the client waits for a verdict."""
        return client in self._by_client

    def join(self, client: Client, digest: bytes) -> bool:
        """Lets the client wait for the verdict about this password, if somebody does already."""
        login = self._by_digest.get(digest)
        if login is None:
            return False
        login.clients[client] = None
        self._by_client[client] = login
        return True

    def add(self, client: Client, login: Login) -> None:
        """Adds a password, for whose verdict the client is the first to wait."""
        self._by_digest[login.digest] = login
        row = self._row_of(login.place)
        row.setdefault(login.place, {}).setdefault(login.user, {})[login] = None
        self.join(client, login.digest)

    def next(self) -> Verification | None:
        """The password to verify next; None: nothing waits."""
        row = self._waiting or self._doubted
        if self._doubted and (self._last_number + 1) % _PASSWORDS_PER_DOUBT == 0:
            row = self._doubted
        if not row:
            return None
        place, users = next(iter(row.items()))
        user, logins = next(iter(users.items()))
        login = next(iter(logins))
        self._take_out(login)
        # The others come first now.
        if user in users:
            users[user] = users.pop(user)
        if place in row:
            row[place] = row.pop(place)
        self._last_number += 1
        login.is_running = True
        self._running[self._last_number] = login
        return Verification(self._last_number, login.record, login.password)

    def end(self, number: int) -> Login | None:
        """Ends a login whose verdict is there; nobody waits for it any more."""
        login = self._running.pop(number, None)
        if login is not None:
            del self._by_digest[login.digest]
            for client in login.clients:
                del self._by_client[client]
        return login

    def forget(self, client: Client) -> Login | None:
        """Forgets a client that is gone; returns the password that only it wanted verified."""
        login = self._by_client.pop(client, None)
        if login is None:
            return None
        del login.clients[client]
        if login.clients or login.is_running:
            return None
        del self._by_digest[login.digest]
        self._take_out(login)
        return login

    def doubt(self, place: str) -> None:
        """Notes that a password from that place was wrong."""
        if place in self._doubts:
            return
        if len(self._doubts) >= limits.LOGINS_REMEMBERED_MAX:
            self.trust(next(iter(self._doubts)))
        self._doubts[place] = None
        if place in self._waiting:
            self._doubted[place] = self._waiting.pop(place)

    def trust(self, place: str) -> None:
        """Notes that a password from there was right, or that a wrong one was long ago."""
        if place not in self._doubts:
            return
        del self._doubts[place]
        if place in self._doubted:
            self._waiting[place] = self._doubted.pop(place)

    def _row_of(self, place: str) -> dict[str, dict[str, dict[Login, None]]]:
        return self._doubted if place in self._doubts else self._waiting

    def _take_out(self, login: Login) -> None:
        row = self._row_of(login.place)
        users = row[login.place]
        logins = users[login.user]
        del logins[login]
        if not logins:
            del users[login.user]
        if not users:
            del row[login.place]


class Failures:
    """Logins that failed: how often somebody may, and what an operator reads of them."""

    __slots__ = ("_budgets", "_since_ms", "_told", "_untold", "total")

    def __init__(self) -> None:
        #: Of each place and user that have failed of late.
        self._budgets: dict[tuple[str, str], Budget] = {}
        #: Since the node's start.
        self.total = 0
        self._since_ms = -_TELL_WITHIN_MS
        #: Within the present time.
        self._told = 0
        self._untold = 0

    def budget_of(self, place: str, user: str) -> Budget:
        """How many more wrong passwords of the user that place may cost."""
        key = (place, user)
        known = self._budgets.get(key)
        if known is None:
            if len(self._budgets) >= limits.FAILED_LOGINS_REMEMBERED_MAX:
                del self._budgets[next(iter(self._budgets))]
            known = self._budgets[key] = Budget(
                limits.FAILED_LOGINS_PER_USER_S, limits.FAILED_LOGINS_PER_USER_BURST
            )
        return known

    def note(self, user: str, address: str, reason: str, now_ms: int) -> list[str]:
        """Notes one more failure; returns what is to be said now."""
        lines = self.tick(now_ms)
        if self._since_ms + _TELL_WITHIN_MS <= now_ms:
            self._since_ms, self._told = now_ms, 0
        self.total += 1
        if self._told < limits.FAILED_LOGINS_TOLD:
            self._told += 1
            return [*lines, f"login of {shown(user)} from {address} failed: {reason}"]
        self._untold += 1
        return lines

    def tick(self, now_ms: int) -> list[str]:
        """How many failures were not told one by one, when their time is over."""
        if not self._untold or now_ms < self._since_ms + _TELL_WITHIN_MS:
            return []
        untold, self._untold = self._untold, 0
        return [
            f"{untold} further logins failed within {_TELL_WITHIN_MS // 1_000} s, and "
            f"{self.total} since this node's start: somebody may be guessing passwords"
        ]


def commands_of(
    machine: Connection, data: bytes | None, user: str | None, now_ms: int
) -> list[Command]:
    """What a client asks for in its bytes; None: in those that waited for who it is."""
    if data is None:
        return machine.conclude_login(user, now_ms)
    return machine.receive(data, now_ms)


def shown(user: str) -> str:
    """A name that anybody may have sent, for a log line."""
    return repr(user[:_NAME_SHOWN_MAX])


def place_of(address: str) -> str:
    """The place that a client comes from, of its "host:port"."""
    host = address.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        parsed = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
