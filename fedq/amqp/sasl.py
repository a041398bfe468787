"""What clients send to prove who they are: the SASL mechanisms PLAIN (RFC 4616) and AMQPLAIN.

EXTERNAL (RFC 4422, appendix A) has nothing to decode: the certificate of the TLS connection says
who the client is, and what it sends is ignored.

For the `authenticate` function that is given to a connection. Input is at most one handshake
frame; nothing here raises, since a malformed answer is just a failed login.
"""

from typing import Final

from fedq.amqp.strings import encode_long_string
from fedq.amqp.values import decode_table
from fedq.core.errors import ConnectionViolation

PLAIN: Final = "PLAIN"
AMQPLAIN: Final = "AMQPLAIN"
EXTERNAL: Final = "EXTERNAL"
#: Those that work on every connection.
MECHANISMS: Final = (PLAIN, AMQPLAIN)


def credentials(mechanism: str, response: bytes) -> tuple[str, str] | None:
    """(user, password) of the response, or `None` when it holds none."""
    if mechanism == PLAIN:
        return _plain(response)
    if mechanism == AMQPLAIN:
        return _amqplain(response)
    return None


def _plain(response: bytes) -> tuple[str, str] | None:
    """User and password of PLAIN: authorization identity (not used) NUL user NUL password."""
    fields = response.split(b"\0")
    if len(fields) != 3:
        return None
    try:
        return fields[1].decode(), fields[2].decode()
    except UnicodeDecodeError:
        return None


def _amqplain(response: bytes) -> tuple[str, str] | None:
    """User and password of AMQPLAIN: a field table without its length, keys LOGIN and PASSWORD."""
    try:
        table, _ = decode_table(encode_long_string(response))
    except ConnectionViolation:
        return None
    user, password = table.get("LOGIN"), table.get("PASSWORD")
    if isinstance(user, str) and isinstance(password, str):
        return user, password
    return None
