"""Who may connect: user names and passwords from the node's configuration."""

import hmac

from fedq.amqp.sasl import credentials
from fedq.node.settings import NodeSettings

#: The user that is known to everybody, and therefore accepted from loopback only.
WELL_KNOWN = "guest"


class Access:
    """Checks the answer of a SASL mechanism."""

    __slots__ = ("_users",)

    def __init__(self, settings: NodeSettings) -> None:
        self._users = settings.users

    def authenticate(self, mechanism: str, response: bytes, is_loopback: bool) -> str | None:
        """The user's name, or None for anyone unknown or with a wrong password."""
        given = credentials(mechanism, response)
        if given is None:
            return None
        user, password = given
        known = self._users.get(user)
        right = hmac.compare_digest((known or "").encode(), password.encode())
        if known is None or not right or (user == WELL_KNOWN and not is_loopback):
            return None
        return user
