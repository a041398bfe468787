"""What is fuzzed: a named function of bytes that raises when a promise is broken.

Whatever escapes from `run` is a finding. Inputs are whole: a target that is about pieces cuts them
itself, by a generator seeded with the bytes, so that an input alone repeats what happened.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from zlib import crc32

from tests.fuzz.mutation import PLAIN, Shape


@dataclass(frozen=True, slots=True)
class Target:
    """One decoder or machine that faces the network or the disk."""

    name: str
    run: Callable[[bytes], None]
    #: Valid inputs to begin with.
    seeds: Callable[[], list[bytes]]
    shape: Shape = PLAIN
    #: Longer inputs are not tried.
    bytes_max: int = 4_096
    #: Python calls that an input may cost: so many, and so many for each byte.
    calls: int = 2_000
    calls_per_byte: int = 30
    #: Tests try fewer inputs.
    is_slow: bool = False


def error_of(call: Callable[[], object], *kinds: type[Exception]) -> Exception | None:
    """What the call raises, if it is of these kinds; anything else escapes, and is a finding."""
    error = None
    try:
        call()
    except kinds as raised:
        error = raised
    assert error is None or str(error), "an error says what is wrong"
    return error


def chooser(data: bytes) -> Random:
    """The generator that belongs to an input."""
    return Random(crc32(data))


def pieces(data: bytes) -> list[bytes]:
    """The input in pieces of any size, none at all among them."""
    rng = chooser(data)
    edges = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(12)))
    return [data[a:b] for a, b in zip([0, *edges], [*edges, len(data)], strict=True)]
