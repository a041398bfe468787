"""The rights of users to log in and to open virtual hosts; the cluster's first users.

Inputs: what clients say of themselves, the cluster map, ticks. Outputs: a user's name or None, a
refusal or None, and the proposal of the configuration's users while the map has never had any.

A password takes some 10 ms to verify, on purpose (`fedq.wiring.cluster_map.passwords`): too long
for a turn. The driver does it beside the turns, in an order that is fair to all places that clients
come from (`fedq.node.clients.logins`), and the client goes on with the verdict. What was verified
is remembered, under a key that only this process knows: all further connections with the same
password cost nothing. So are wrong passwords, and how many new ones are tried is limited for each
user and place: beyond, they are refused unseen (ADR 0017, 0045).
"""

from hashlib import blake2b
from typing import Final

from fedq.amqp.connection import ConnectionSettings
from fedq.amqp.handshake import LoginPending
from fedq.amqp.sasl import EXTERNAL, credentials
from fedq.core import limits
from fedq.core.errors import CONNECTION_FORCED, NOT_ALLOWED, Refused
from fedq.core.seeds import Salts
from fedq.node.clients.elsewhere import refuse_newcomer, sends_away, where_to_go
from fedq.node.clients.logins import Failures, Login, LoginQueue, place_of
from fedq.node.cluster.proposals import Proposals
from fedq.node.cluster.tallies import Tallies
from fedq.node.records.accounts import connections_of
from fedq.node.records.budget import Budget
from fedq.node.records.client_state import Client
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map.operations_access import MAX_CHANNELS, MAX_CONNECTIONS, FirstUsers
from fedq.wiring.cluster_map.passwords import SALT_BYTES, make_record
from fedq.wiring.cluster_map.state import GrantKey

#: The user that is known to everybody, and therefore accepted from loopback only.
WELL_KNOWN: Final = "guest"


class Access:
    """Decides who may log in, and what a user may open."""

    __slots__ = (
        "_asked_ms", "_failed", "_failures", "_first", "_key", "_known", "_salts", "_verified",
        "proposals", "queue", "speaking", "state", "tallies",
    )  # fmt: skip

    def __init__(self, state: NodeState, proposals: Proposals, tallies: Tallies) -> None:
        self.state = state
        self.tallies = tallies
        self.proposals = proposals
        settings = state.settings
        self._salts = Salts(settings.seed, f"{settings.node}/{settings.incarnation}/access")
        self._key = self._salts.octets(64)
        #: Digests of user, record and password that go together, and of those that do not.
        self._known: dict[bytes, None] = {}
        self._failed: dict[bytes, None] = {}
        self._failures = Failures()
        self.queue = LoginQueue()
        #: Whose answer is being read.
        self.speaking: Client | None = None
        self._verified = Budget(limits.LOGINS_VERIFIED_S, limits.LOGINS_VERIFIED_BURST)
        #: The configuration's users with their records, as far as they have been made.
        self._first: list[tuple[str, str]] = []
        self._asked_ms = -settings.proposal_retry_ms

    # --- logging in --------------------------------------------------------------------------

    def authenticate(
        self,
        mechanism: str,
        response: bytes,
        is_loopback: bool,
        certificate_name: str | None = None,
    ) -> str | None:
        """The user's name, or None for anyone unknown or with a wrong password.

        `certificate_name`: whom the client's verified TLS certificate names, for EXTERNAL. Raises
        `LoginPending` for a password that has to be verified: `on_verified` has its end.
        """
        if mechanism == EXTERNAL:
            user, password = certificate_name, None
        else:
            user, password = credentials(mechanism, response) or (None, None)
        known = self.state.map.users.get(user) if user is not None else None
        if user is None or known is None:
            self._fail(user or "", "there is no such user")
            return None
        if user == WELL_KNOWN and not is_loopback:
            self._fail(user, "that user may come from loopback only")
            return None
        if mechanism == EXTERNAL:
            return user
        if password is None or not self._is_right(user, known.password, password):
            return None
        return user

    def _is_right(self, user: str, record: str, password: str) -> bool:
        if not record or len(password) > limits.PASSWORD_BYTES_MAX:
            self._fail(user, "wrong password" if record else "that user has no password")
            return False
        digest = self._digest(user, record, password)
        if digest in self._known:
            return True
        if digest in self._failed:
            self._fail(user, "wrong password, once more")
            return False
        client = self.speaking
        assert client is not None, "a client's answer is being read"
        if not self.queue.join(client, digest):
            place = place_of(client.address)
            budget = self._failures.budget_of(place, user)
            if not budget.has_left(self.state.now_ms):
                self._fail(user, "too many wrong passwords of that user from there: not looked at")
                return False
            # Given back if it is right. So no more of them wait than may be wrong.
            budget.spend()
            self.queue.add(client, Login(place, user, record, password, digest))
            self._verify_next()
        raise LoginPending

    def forget(self, client: Client) -> None:
        """Forgets a client that is gone."""
        login = self.queue.forget(client)
        if login is not None:
            self._failures.budget_of(login.place, login.user).give_back()

    def _verify_next(self) -> None:
        """Hands out passwords to verify, as many as may be under way."""
        while self.queue.running < limits.LOGINS_RUNNING_MAX:
            if not self._verified.has_left(self.state.now_ms):
                return
            wanted = self.queue.next()
            if wanted is None:
                return
            self._verified.spend()
            self.state.out.verifications.append(wanted)

    def on_verified(self, number: int, is_right: bool | None) -> list[tuple[Client, str | None]]:
        """Takes a verdict: the clients that waited for it, and who they are."""
        login = self.queue.end(number)
        if login is not None and is_right is not None:
            if is_right:
                self.queue.trust(login.place)
            else:
                self.queue.doubt(login.place)
        self._verify_next()
        if login is None:
            return []
        user, known = login.user, self.state.map.users.get(login.user)
        if is_right:
            _remember(self._known, login.digest, limits.LOGINS_REMEMBERED_MAX)
        elif is_right is not None:
            _remember(self._failed, login.digest, limits.FAILED_LOGINS_REMEMBERED_MAX)
        if is_right is not False:
            self._failures.budget_of(login.place, user).give_back()
        # It may have got another password meanwhile, or be gone.
        is_user = is_right is True and known is not None and known.password == login.record
        if not is_user:
            for client in login.clients:
                self.speaking = client
                self._fail(user, "wrong password")
            self.speaking = None
        return [(client, user if is_user else None) for client in login.clients]

    def _fail(self, user: str, reason: str) -> None:
        """Notes a failed login."""
        address = "somewhere" if self.speaking is None else self.speaking.address
        now_ms = self.state.now_ms
        self.state.out.warnings += self._failures.note(user, address, reason, now_ms)

    @property
    def failed_logins(self) -> int:
        """How many logins have failed since this node's start."""
        return self._failures.total

    def _digest(self, user: str, record: str, password: str) -> bytes:
        made = blake2b(key=self._key, digest_size=32)
        for text in (user, record, password):
            data = text.encode("utf-8", "surrogateescape")
            made.update(len(data).to_bytes(8))
            made.update(data)
        return made.digest()

    # --- virtual hosts -----------------------------------------------------------------------

    def may_open(self, user: str, vhost: str) -> Refused | None:
        """Why the user may not open the virtual host (connection.open); None if it may."""
        if vhost not in self.state.map.vhosts:
            return Refused(NOT_ALLOWED, f"vhost {vhost} not found")
        if GrantKey(user, vhost) not in self.state.map.grants:
            return Refused(NOT_ALLOWED, f"access to vhost '{vhost}' refused for user '{user}'")
        if sends_away(self.state):
            return Refused(CONNECTION_FORCED, where_to_go(self.state))
        return refuse_newcomer(self.state) or self._refuse_connection(user, vhost)

    def _refuse_connection(self, user: str, vhost: str) -> Refused | None:
        """Why there may be no further connection; those of all nodes count."""
        known, accounts, elsewhere = self.state.map, self.state.accounts, self.tallies.connections
        limit = known.limit_of_vhost(vhost, MAX_CONNECTIONS)
        if limit is not None and (
            connections_of(accounts.vhosts.get(vhost)) + elsewhere(("vhost", vhost)) >= limit
        ):
            return Refused(
                NOT_ALLOWED,
                f"access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) "
                "is reached",
            )
        limit = known.limit_of_user(user, MAX_CONNECTIONS)
        if limit is not None and (
            connections_of(accounts.users.get(user)) + elsewhere(("user", user)) >= limit
        ):
            return Refused(
                NOT_ALLOWED,
                f"connection refused for user '{user}': user connection limit ({limit}) is reached",
            )
        return None

    def refuse_channel(self, client: Client) -> Refused | None:
        """Why the client may not have the channel that it has just opened; None if it may."""
        limit = self.state.map.limit_of_user(client.user, MAX_CHANNELS)
        if limit is None:
            return None
        elsewhere = self.tallies.channels(("user", client.user))
        if self.state.accounts.channels_of(client) + elsewhere <= limit:
            return None
        return Refused(
            NOT_ALLOWED,
            f"number of channels opened for user '{client.user}' has reached the maximum allowed "
            f"user limit of ({limit})",
        )

    # --- first users -------------------------------------------------------------------------

    def tick(self) -> None:
        """Proposes the users of the configuration to a map that has never had any."""
        self._verify_next()
        self.state.out.warnings += self._failures.tick(self.state.now_ms)
        state, settings = self.state, self.state.settings
        if state.map.seeded or not state.map.is_up(state.me, settings.incarnation):
            return
        names = list(settings.users)[: limits.FIRST_USERS_MAX]
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


def connection_settings(state: NodeState, access: Access) -> ConnectionSettings:
    """What every connection of a node is offered and asked."""
    return ConnectionSettings(
        node=state.me,
        authenticate=access.authenticate,
        vhosts=lambda vhost: vhost in state.map.vhosts,
        may_open=access.may_open,
        channels_max=state.settings.channels_max,
        body_bytes_max=state.settings.body_bytes_max,
    )
