"""What a node says of what it failed at: in its last words, and in a file for its next start.

A *suspect* is a message that was being worked on. It is known by its place, if it had one, and by
what it is, so that it is recognised when it comes again by another way.
"""

from hashlib import blake2b
from typing import Final, NamedTuple

from fedq.core.ids import FragmentId
from fedq.core.limits import RECORD_BYTES_MAX

DIGEST_BYTES: Final = 16


class Suspect(NamedTuple):
    """A message, or (position 0, no digest) a whole fragment, that a node failed at."""

    #: 0: it was in no fragment yet.
    fragment: FragmentId
    position: int
    #: The length of the message, and `digest_of` it; 0 and empty: a whole fragment.
    size: int
    digest: bytes
    #: It fails wherever it is tried, alone.
    proven: bool


class LastWords(NamedTuple):
    """What a node tells the others when it has to stop, as its last act."""

    #: What it was at, in words.
    step: str
    suspects: list[Suspect]


class Stopped(NamedTuple):
    """What is known of a stop."""

    #: The process, as its data directory counts.
    incarnation: int
    unix_ms: int
    step: str
    #: Kind and words of the exception, and where it was raised.
    error: str
    suspects: list[Suspect]
    #: The suspected messages themselves, as far as there is room.
    copies: list[bytes]


def digest_of(message: bytes) -> bytes:
    """What a message is, whatever a broker has noted in its flags."""
    return blake2b(memoryview(message)[1:], digest_size=DIGEST_BYTES).digest()


#: As positions and fragments of peers' messages.
_POSITION_MAX: Final = (1 << 64) - (1 << 40)
_FRAGMENT_MAX: Final = 1 << 60


def checked(fragment: int, position: int, size: int, digest: bytes, proven: bool) -> Suspect:
    """A suspect from elsewhere; raises `ValueError` for what can be none."""
    if not 0 <= fragment <= _FRAGMENT_MAX:
        raise ValueError(f"{fragment} is no fragment")
    if not 0 <= position <= _POSITION_MAX or (position and not fragment):
        raise ValueError(f"{position} is no position in fragment {fragment}")
    if digest:
        if len(digest) != DIGEST_BYTES or not 0 < size <= RECORD_BYTES_MAX:
            raise ValueError(f"a digest of {len(digest)} bytes, for a message of {size} bytes")
    elif size or position or not fragment:
        raise ValueError("a message without its digest")
    return Suspect(FragmentId(fragment), position, size, digest, proven)
