"""Where chance comes from: one injected seed, a named stream for each user.

Two kinds. `Salts` is for what nobody may guess: what was seen of it says nothing about the rest.
`derive` is for choices that are to be spread, and that nobody depends on; its outputs give away its
state. The only module below the line that may import `random`; it never touches the global
generator.
"""

import random
from hashlib import blake2b
from typing import Final

Rng = random.Random

_OUTPUT_BYTES: Final = 64


def derive(seed: int, name: str) -> Rng:
    """An independent generator for `name`; the same seed and name always give the same stream."""
    return random.Random(f"{seed}/{name}")


class Salts:
    """Numbers that cannot be guessed: a keyed BLAKE2b of a counter (a generator in counter mode).

    The key is the seed's; it is kept, the seed itself is not. The same seed and name always give
    the same ones, which is what the simulator wants; a process takes its seed from the system.
    """

    __slots__ = ("_count", "_key")

    def __init__(self, seed: int, name: str) -> None:
        """`seed` of up to 256 bits is used whole."""
        self._key = blake2b(f"{seed:x}/{name}".encode("utf-8", "surrogateescape")).digest()
        self._count = 0

    def octets(self, count: int) -> bytes:
        """The next octets, 64 at most."""
        assert 0 < count <= _OUTPUT_BYTES
        self._count += 1
        return blake2b(self._count.to_bytes(8), digest_size=count, key=self._key).digest()

    def number(self, bits: int) -> int:
        """The next number of so many bits, a multiple of 8."""
        return int.from_bytes(self.octets(bits // 8))
