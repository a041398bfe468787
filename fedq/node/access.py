"""Who may log in, and which virtual hosts they may open; the cluster's first users.

Inputs: what clients say of themselves, the cluster map, ticks. Outputs: a user's name or None, a
refusal or None, and the proposal of the configuration's users while the map has never had any.

A password takes some 10 ms to verify, on purpose (`fedq.wiring.passwords`), and logins are decided
inside a turn. So what was verified is remembered, under a key that only this process knows: all
further connections with the same password cost nothing. So are wrong passwords, and how many new
ones are tried is limited per user and per node: beyond, they are refused unseen. How many passwords
are verified at all is limited, too: meanwhile `client_flow` lets logins wait (ADR 0017).
"""

from hashlib import blake2b
from typing import Final

from fedq.amqp.sasl import EXTERNAL, credentials
from fedq.core import limits
from fedq.core.errors import NOT_ALLOWED, Refused
from fedq.core.seeds import Salts
from fedq.node.accounts import connections_of
from fedq.node.budget import Budget
from fedq.node.client_state import Client
from fedq.node.proposals import Proposals
from fedq.node.state import NodeState
from fedq.wiring.operations_access import MAX_CHANNELS, MAX_CONNECTIONS, FirstUsers
from fedq.wiring.passwords import SALT_BYTES, make_record, verify
from fedq.wiring.state import GrantKey

#: The user that is known to everybody, and therefore accepted from loopback only.
WELL_KNOWN: Final = "guest"
#: How often an operator hears that passwords are being guessed.
TELL_EVERY_MS: Final = 10_000


class Access:
    """See the module's docstring."""

    __slots__ = (
        "_asked_ms", "_failed", "_failures", "_failures_of", "_first", "_key", "_known", "_salts",
        "_told_ms", "_verified", "_verified_turn", "proposals", "state",
    )  # fmt: skip

    def __init__(self, state: NodeState, proposals: Proposals) -> None:
        self.state = state
        self.proposals = proposals
        settings = state.settings
        self._salts = Salts(settings.seed, f"{settings.node}/{settings.incarnation}/access")
        self._key = self._salts.octets(64)
        #: Digests of user, record and password that go together, and of those that do not.
        self._known: dict[bytes, None] = {}
        self._failed: dict[bytes, None] = {}
        self._failures = Budget(
            limits.failed_logins_per_node_s, limits.failed_logins_per_node_burst
        )
        self._verified = Budget(limits.logins_verified_s, limits.logins_verified_burst)
        #: The turn in which a password was verified last.
        self._verified_turn = -1
        self._failures_of: dict[str, Budget] = {}
        #: The configuration's users with their records, as far as they have been made.
        self._first: list[tuple[str, str]] = []
        self._asked_ms = -settings.proposal_retry_ms
        self._told_ms = -TELL_EVERY_MS

    # --- logging in --------------------------------------------------------------------------

    def authenticate(
        self,
        mechanism: str,
        response: bytes,
        is_loopback: bool,
        certificate_name: str | None = None,
    ) -> str | None:
        """The user's name, or None for anyone unknown or with a wrong password.

        `certificate_name`: whom the client's verified TLS certificate names, for EXTERNAL.
        """
        if mechanism == EXTERNAL:
            user, password = certificate_name, None
        else:
            user, password = credentials(mechanism, response) or (None, None)
        known = self.state.map.users.get(user) if user is not None else None
        if user is None or known is None or (user == WELL_KNOWN and not is_loopback):
            return None
        if mechanism == EXTERNAL:
            return user
        if password is None or not self._is_right(user, known.password, password):
            return None
        return user

    def has_room(self) -> bool:
        """Whether a password may be verified now; the node lets logins wait until it may.

        One in a turn: each takes long on purpose, and everybody else waits for the turn.
        """
        return self._verified_turn != self.state.work.turn and self.has_budget()

    def has_budget(self) -> bool:
        """Whether a password may be verified now, or in the next turn."""
        return self._verified.has_left(self.state.now_ms)

    def _is_right(self, user: str, record: str, password: str) -> bool:
        if not record or len(password) > limits.password_bytes_max:
            return False
        digest = self._digest(user, record, password)
        if digest in self._known:
            return True
        if digest in self._failed:
            return False
        now_ms, own = self.state.now_ms, self._budget_of(user)
        if not self._failures.has_left(now_ms) or not own.has_left(now_ms):
            self._tell(user)
            return False
        if not self.has_budget():
            return False
        self._verified.spend()
        self._verified_turn = self.state.work.turn
        if verify(record, password):
            _remember(self._known, digest, limits.logins_remembered_max)
            return True
        self._failures.spend()
        own.spend()
        _remember(self._failed, digest, limits.failed_logins_remembered_max)
        return False

    def _digest(self, user: str, record: str, password: str) -> bytes:
        made = blake2b(key=self._key, digest_size=32)
        for text in (user, record, password):
            data = text.encode("utf-8", "surrogateescape")
            made.update(len(data).to_bytes(8))
            made.update(data)
        return made.digest()

    def _budget_of(self, user: str) -> Budget:
        """The user's own; none is kept of those who have not failed of late."""
        known = self._failures_of.get(user)
        if known is None:
            if len(self._failures_of) >= limits.failed_logins_remembered_max:
                del self._failures_of[next(iter(self._failures_of))]
            known = self._failures_of[user] = Budget(
                limits.failed_logins_per_user_s, limits.failed_logins_per_user_burst
            )
        return known

    def _tell(self, user: str) -> None:
        if self.state.now_ms - self._told_ms >= TELL_EVERY_MS:
            self._told_ms = self.state.now_ms
            self.state.out.warnings.append(
                f"too many wrong passwords, lately of {user!r}: new ones are refused unseen"
            )

    # --- virtual hosts -----------------------------------------------------------------------

    def may_open(self, user: str, vhost: str) -> Refused | None:
        """Why the user may not open the virtual host (connection.open, 530); None if it may."""
        if vhost not in self.state.map.vhosts:
            return Refused(NOT_ALLOWED, f"vhost {vhost} not found")
        if GrantKey(user, vhost) not in self.state.map.grants:
            return Refused(NOT_ALLOWED, f"access to vhost '{vhost}' refused for user '{user}'")
        return self._refuse_connection(user, vhost)

    def _refuse_connection(self, user: str, vhost: str) -> Refused | None:
        """Why there may be no further connection; those of this node count."""
        known, accounts = self.state.map, self.state.accounts
        limit = known.limit_of_vhost(vhost, MAX_CONNECTIONS)
        if limit is not None and connections_of(accounts.vhosts.get(vhost)) >= limit:
            return Refused(
                NOT_ALLOWED,
                f"access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) "
                "is reached",
            )
        limit = known.limit_of_user(user, MAX_CONNECTIONS)
        if limit is not None and connections_of(accounts.users.get(user)) >= limit:
            return Refused(
                NOT_ALLOWED,
                f"connection refused for user '{user}': user connection limit ({limit}) is reached",
            )
        return None

    def refuse_channel(self, client: Client) -> Refused | None:
        """Why the client may not have the channel that it has just opened; None if it may."""
        limit = self.state.map.limit_of_user(client.user, MAX_CHANNELS)
        if limit is None or self.state.accounts.channels_of(client) <= limit:
            return None
        return Refused(
            NOT_ALLOWED,
            f"number of channels opened for user '{client.user}' has reached the maximum allowed "
            f"user limit of ({limit})",
        )

    # --- first users -------------------------------------------------------------------------

    def tick(self) -> None:
        """Proposes the users of the configuration to a map that has never had any."""
        state, settings = self.state, self.state.settings
        if state.map.seeded or not state.map.is_up(state.me, settings.incarnation):
            return
        names = list(settings.users)[: limits.first_users_max]
        if len(self._first) < len(names):
            # One in each tick, since each takes its time.
            name = names[len(self._first)]
            salt = self._salts.octets(SALT_BYTES)
            record = make_record(settings.users[name], salt, settings.password_cost)
            self._first.append((name, record))
        if len(self._first) < len(names):
            return
        if state.now_ms - self._asked_ms >= settings.proposal_retry_ms:
            self._asked_ms = state.now_ms
            self.proposals.ask(FirstUsers(tuple(self._first)))


def _remember(table: dict[bytes, None], digest: bytes, most: int) -> None:
    if len(table) >= most:
        del table[next(iter(table))]
    table[digest] = None
