"""Passwords as RabbitMQ keeps them: a salt and one round of a hash, from its definitions.

A record is the text `rabbit-<hash>$<salt>$<digest>` (both in hexadecimal); RabbitMQ says the name
of a module and base64 of the same salt and digest. Inputs: what RabbitMQ says, passwords; outputs:
records, and back, and verdicts. Pure computation.

Such a hash is quick to guess, for whoever has the file. The record stays what it is until the user
gets another password: it is known to nobody here, and may go back to a RabbitMQ (docs/adr/0112).
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final, NamedTuple

#: How RabbitMQ's definitions begin the names of its hashes.
_MODULE: Final = "rabbit_password_hashing_"
_SCHEME: Final = "rabbit-"
#: Hash -> the size of its digest.
_SIZES: Final = {"md5": 16, "sha256": 32, "sha512": 64}
_SALT_BYTES: Final = 4
#: No hash takes more as base64; what is longer is not decoded.
_BASE64_MAX: Final = 128


class RabbitHash(NamedTuple):
    """What RabbitMQ's API calls `hashing_algorithm` and `password_hash`."""

    algorithm: str
    base64: str


def record_of(algorithm: str, text: str) -> str | None:
    """The record of what RabbitMQ says, or None: it is nothing that RabbitMQ could verify.

    `algorithm` may be "", as in files of old releases: the size of the digest tells.
    """
    if len(text) > _BASE64_MAX:
        return None
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    name = algorithm.removeprefix(_MODULE)
    if not algorithm:
        name = next((each for each in _SIZES if _SIZES[each] + _SALT_BYTES == len(data)), "")
    elif not algorithm.startswith(_MODULE):
        return None
    if name not in _SIZES or len(data) != _SALT_BYTES + _SIZES[name]:
        return None
    return f"{_SCHEME}{name}${data[:_SALT_BYTES].hex()}${data[_SALT_BYTES:].hex()}"


def is_rabbit_hash(record: str) -> bool:
    """Whether the text is such a record."""
    return _parts(record) is not None


def rabbit_hash_of(record: str) -> RabbitHash | None:
    """What RabbitMQ says of the record's password; None: the record is of another kind."""
    parts = _parts(record)
    if parts is None:
        return None
    name, salt, digest = parts
    return RabbitHash(f"{_MODULE}{name}", base64.b64encode(salt + digest).decode())


def is_right(record: str, password: bytes) -> bool:
    """Whether this is the password of such a record."""
    parts = _parts(record)
    if parts is None:
        return False
    name, salt, digest = parts
    made = hashlib.new(name, salt + password, usedforsecurity=False).digest()
    return hmac.compare_digest(digest, made)


def _parts(record: str) -> tuple[str, bytes, bytes] | None:
    """Name, salt and digest; exactly one text stands for them."""
    fields = record.split("$")
    if len(fields) != 3 or not record.startswith(_SCHEME) or not record.isascii():
        return None
    name = fields[0].removeprefix(_SCHEME)
    try:
        salt, digest = bytes.fromhex(fields[1]), bytes.fromhex(fields[2])
    except ValueError:
        return None
    if len(salt) != _SALT_BYTES or len(digest) != _SIZES.get(name):
        return None
    if (salt.hex(), digest.hex()) != (fields[1], fields[2]):
        return None
    return name, salt, digest
