"""Logins of those who read streams through the admin port: as AMQP users (docs/adr/0076).

Inputs: what a call says of its caller, the map's users. Outputs: a user's name, or `AdminError`.
As for AMQP clients: a password is verified in a thread, since that takes its time; right and wrong
ones are remembered under a key that only this process knows, and how many wrong ones are tried is
limited for each user and place (`fedq.node.clients.access`). No sentence says whether there is a
user of that name.
"""

import asyncio
import binascii
import ipaddress
import secrets
import time
from base64 import b64decode
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple
from urllib.parse import unquote

from fedq.admin.refusal import too_often, unauthenticated
from fedq.core import limits
from fedq.node.clients.access import WELL_KNOWN
from fedq.node.clients.logins import Failures, place_of
from fedq.node.records.budget import Budget
from fedq.node.views.stream_view import StreamOverview
from fedq.wiring.cluster_map.passwords import NOBODY, verify

_HEADER: Final = "authorization"
_BASIC: Final = "basic "
#: A user, a password and a colon, as base64: no longer than that.
_CREDENTIALS_BYTES_MAX: Final = 2 * (limits.PASSWORD_BYTES_MAX + limits.NAME_BYTES_MAX)
_HOW: Final = "say the user and the password of an AMQP user: fedq://USER:PASSWORD@HOST:PORT"


class Caller(NamedTuple):
    """What a call says of its caller: user, password, and where it comes from."""

    user: str
    password: str
    address: str
    is_loopback: bool


def caller_of(metadata: Iterable[tuple[str, str | bytes]], peer: str) -> Caller:
    """The caller, by a call's metadata and gRPC's name of the other end; raises AdminError."""
    shown = [value for name, value in metadata if name == _HEADER]
    if len(shown) != 1:
        raise unauthenticated(_HOW)
    value = shown[0]
    text = value if isinstance(value, str) else value.decode("latin-1")
    if len(text) > _CREDENTIALS_BYTES_MAX or not text.lower().startswith(_BASIC):
        raise unauthenticated(_HOW)
    try:
        pair = b64decode(text[len(_BASIC) :].strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        raise unauthenticated(_HOW) from None
    user, colon, password = pair.partition(":")
    if not colon or not user:
        raise unauthenticated(_HOW)
    address = unquote(peer.partition(":")[2])
    return Caller(user, password, address, peer.startswith("unix") or _is_loopback(address))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(place_of(address).partition("/")[0]).is_loopback or (
            address.startswith("[::1]")
        )
    except ValueError:
        return False


class StreamLogins:
    """Verifies callers, and remembers what came of it. Belongs to one event loop."""

    __slots__ = (
        "_failed", "_failures", "_key", "_known", "_overview", "_running", "_verifying",
    )  # fmt: skip

    def __init__(self, overview: StreamOverview) -> None:
        self._overview = overview
        self._key = secrets.token_bytes(64)
        #: Digests of user, record and password that go together, and of those that do not.
        self._known: dict[bytes, None] = {}
        self._failed: dict[bytes, None] = {}
        #: Verdicts to come, by digest.
        self._running: dict[bytes, asyncio.Future[bool]] = {}
        self._failures = Failures()
        self._verifying = asyncio.Semaphore(limits.LOGINS_RUNNING_MAX)

    async def check(self, caller: Caller) -> str:
        """The caller's user; raises AdminError for anybody who is none."""
        record = self._overview.password_record(caller.user)
        refused = unauthenticated(
            f"login refused for user {caller.user!r}: no such user, or a wrong password"
        )
        if caller.user == WELL_KNOWN and not caller.is_loopback:
            raise unauthenticated(f"user {WELL_KNOWN!r} may come from loopback only")
        if len(caller.password.encode()) > limits.PASSWORD_BYTES_MAX:
            raise refused
        # Who is nobody is refused like everybody else, as late and as often.
        record = record or NOBODY
        digest = self._digest(caller.user, record, caller.password)
        if digest in self._known:
            return caller.user
        if digest in self._failed or not await self._is_right(caller, record, digest):
            raise refused
        return caller.user

    async def _is_right(self, caller: Caller, record: str, digest: bytes) -> bool:
        """Whether the password is right; those who say the same one wait for one verdict."""
        verdict = self._running.get(digest)
        if verdict is None:
            budget = self._failures.budget_of(place_of(caller.address), caller.user)
            if not budget.has_left(_now_ms()):
                raise too_often("too many wrong passwords of that user from there: ask again later")
            # Given back if it is right. So no more of them wait than may be wrong.
            budget.spend()
            verdict = asyncio.ensure_future(self._verify(caller.password, record, digest, budget))
            self._running[digest] = verdict
        # Whoever asked first may hang up, and the others wait on.
        is_right = await asyncio.shield(verdict)
        # It may have got another password meanwhile, or be gone.
        return is_right and self._overview.password_record(caller.user) == record

    async def _verify(self, password: str, record: str, digest: bytes, budget: Budget) -> bool:
        """Looks at a password, at a cost, and remembers what came of it."""
        try:
            async with self._verifying:
                is_right = await asyncio.to_thread(verify, record, password)
        finally:
            del self._running[digest]
        if is_right:
            budget.give_back()
            _remember(self._known, digest, limits.LOGINS_REMEMBERED_MAX)
        else:
            _remember(self._failed, digest, limits.FAILED_LOGINS_REMEMBERED_MAX)
        return is_right

    def _digest(self, user: str, record: str, password: str) -> bytes:
        made = blake2b(key=self._key, digest_size=32)
        for text in (user, record, password):
            data = text.encode()
            made.update(len(data).to_bytes(8))
            made.update(data)
        return made.digest()


def _remember(table: dict[bytes, None], digest: bytes, most: int) -> None:
    if len(table) >= most:
        del table[next(iter(table))]
    table[digest] = None


def _now_ms() -> int:
    return int(time.monotonic() * 1_000)
