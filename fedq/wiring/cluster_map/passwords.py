"""Passwords as the cluster map keeps them: salted, and slow to guess.

A record is the text `scrypt$<log2 of N>$<salt>$<key>` (salt and key in hexadecimal; scrypt, RFC
7914, with r = 8 and p = 1, of the password's SHA-256), or "" for a user without a password, who can
only log in by certificate. The cost stands in the record, so a later version may raise it for new
passwords. What comes from a RabbitMQ is kept as it came (`fedq.wiring.cluster_map.rabbit_hashes`).

Inputs: passwords, and salts that the caller drew; outputs: records and verdicts. Pure computation,
about 10 ms and 4 MiB at the cost used now. What these functions are given is within its limits
(`refuse_password`, `is_record`); no record makes a check cost more than `COST_MAX` allows.
"""

import hashlib
import hmac
from typing import Final

from fedq.core import limits
from fedq.wiring.cluster_map import rabbit_hashes

#: Log2 of scrypt's N for new passwords: see ADR 0017 for what it costs whom.
COST: Final = 12
COST_MIN: Final = 1
#: What a record may ask of a node: 32 MiB, some 100 ms.
COST_MAX: Final = 15
SALT_BYTES: Final = 16
KEY_BYTES: Final = 32
#: What somebody who is no user, or has no password, is verified against: so that takes as long.
NOBODY: Final = f"scrypt${COST}${'00' * SALT_BYTES}${'00' * KEY_BYTES}"

_SCHEME: Final = "scrypt"
_BLOCK: Final = 8
#: What scrypt takes (128 * N * r bytes), and some room.
_MEMORY_MAX: Final = 2 * 128 * _BLOCK * (1 << COST_MAX)


def refuse_password(password: str) -> str | None:
    """Why this may not be a user's password; None if it may."""
    if not password:
        return "the password is empty; nobody could log in with it"
    if len(password.encode("utf-8", "surrogateescape")) > limits.PASSWORD_BYTES_MAX:
        return f"the password is longer than {limits.PASSWORD_BYTES_MAX} bytes"
    return None


def make_record(password: str, salt: bytes, cost: int = COST) -> str:
    """What the map keeps of a password; `salt` are SALT_BYTES random bytes, fresh for each."""
    assert len(salt) == SALT_BYTES
    assert COST_MIN <= cost <= COST_MAX
    return f"{_SCHEME}${cost}${salt.hex()}${_key(password, salt, cost).hex()}"


def is_record(text: str) -> bool:
    """Whether the text is a record that `verify` may be given."""
    return not text or _parts(text) is not None or rabbit_hashes.is_rabbit_hash(text)


def verify(record: str, password: str) -> bool:
    """Whether this is the password of the record; nothing is that of an empty one."""
    if refuse_password(password) is not None:
        return False
    if rabbit_hashes.is_rabbit_hash(record):
        # Nobody is to see by the time it takes that this user's password is quicker to guess.
        verify(NOBODY, password)
        return rabbit_hashes.is_right(record, password.encode("utf-8", "surrogateescape"))
    parts = _parts(record)
    if parts is None:
        return False
    cost, salt, key = parts
    return hmac.compare_digest(key, _key(password, salt, cost))


def _parts(text: str) -> tuple[int, bytes, bytes] | None:
    if len(text) > limits.PASSWORD_RECORD_BYTES_MAX or not text.isascii():
        return None
    fields = text.split("$")
    if len(fields) != 4 or fields[0] != _SCHEME or fields[1] not in _COSTS:
        return None
    try:
        salt, key = bytes.fromhex(fields[2]), bytes.fromhex(fields[3])
    except ValueError:
        return None
    if len(salt) != SALT_BYTES or len(key) != KEY_BYTES:
        return None
    return int(fields[1]), salt, key


_COSTS: Final = tuple(str(cost) for cost in range(COST_MIN, COST_MAX + 1))


def _key(password: str, salt: bytes, cost: int) -> bytes:
    # Hashed first, since scrypt takes a password and the same with zeros behind it for one.
    text = hashlib.sha256(password.encode("utf-8", "surrogateescape")).digest()
    return hashlib.scrypt(
        text,
        salt=salt,
        n=1 << cost,
        r=_BLOCK,
        p=1,
        maxmem=_MEMORY_MAX,
        dklen=KEY_BYTES,
    )
