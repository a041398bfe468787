"""Mutations that leave enough of an input's structure for it to get past the first check.

An input is a run of *units* (frames, records, lines), as a `Shape` cuts it. A mutation drops,
repeats, swaps or borrows units, or tweaks the bytes within one and, mostly, seals it again:
lengths and checksums are made right, so that what is wrong is found further in.

Pure functions of their arguments, the generator included: the same seed gives the same input.
"""

import struct
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple
from zlib import crc32

#: Numbers at which lengths, counts and tags go wrong.
_NUMBERS: Final = (
    0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x1_0000, 0x7FFF_FFFF,
    0x8000_0000, 0xFFFF_FFFF, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1,
)  # fmt: skip
_SIZES: Final = (1, 2, 4, 8)
#: How often a unit may be repeated at once.
_REPEATS_MAX: Final = 40

#: Changes the bytes of a unit.
Tweak = Callable[[bytes, Random], bytes]


class Shape(NamedTuple):
    """How inputs of a target are cut into units, and how a damaged unit is made whole again."""

    cut: Callable[[bytes], list[bytes]]
    seal: Callable[[bytes], bytes]


def _alone(data: bytes) -> list[bytes]:
    return [data]


def _as_it_is(data: bytes) -> bytes:
    return data


PLAIN: Final = Shape(_alone, _as_it_is)


def tweak(data: bytes, rng: Random) -> bytes:
    """One or a few small changes anywhere."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(6):
            case 0:
                changed[at : at + 1] = rng.randbytes(1)
            case 1:
                changed[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 2:
                del changed[at : at + rng.randrange(1, 9)]
            case 3:
                size = rng.choice(_SIZES)
                number = rng.choice(_NUMBERS) & ((1 << 8 * size) - 1)
                changed[at : at + size] = number.to_bytes(size, rng.choice(("big", "little")))
            case 4:
                piece = changed[at : at + rng.randrange(1, 33)]
                changed[at:at] = piece * rng.randrange(1, 9)
            case _:
                source = rng.randrange(len(changed) + 1)
                changed[at : at + 8] = changed[source : source + 8]
    return bytes(changed)


def mutate(
    data: bytes, rng: Random, shape: Shape, stock: list[bytes], change: Tweak = tweak
) -> bytes:
    """Another input from this one; `stock` are inputs to borrow units from."""
    units = shape.cut(data) or [b""]
    at = rng.randrange(len(units))
    match rng.randrange(8):
        case 0 if len(units) > 1:
            del units[at]
        case 1:
            units[at:at] = [units[at]] * rng.choice((1, 1, 2, _REPEATS_MAX))
        case 2:
            other = rng.randrange(len(units))
            units[at], units[other] = units[other], units[at]
        case 3:
            borrowed = shape.cut(rng.choice(stock)) or [b""]
            units.insert(at, rng.choice(borrowed))
        case _:
            changed = change(units[at], rng)
            units[at] = shape.seal(changed) if rng.random() < 0.75 else changed
    return b"".join(units)


# --- AMQP -----------------------------------------------------------------------------------------

_FRAME_HEAD: Final = struct.Struct(">BHI")
_HEADER_BYTES: Final = 8


def _cut_amqp(data: bytes) -> list[bytes]:
    """The protocol header, if there is one, and frames as they announce themselves."""
    at = _HEADER_BYTES if data.startswith(b"AMQP") else 0
    units = [data[:at]] if at else []
    while at < len(data):
        end = len(data)
        if at + _FRAME_HEAD.size <= end:
            size = int(_FRAME_HEAD.unpack_from(data, at)[2])
            end = min(end, at + _FRAME_HEAD.size + size + 1)
        units.append(data[at:end])
        at = end
    return units


def _seal_amqp(frame: bytes) -> bytes:
    if frame.startswith(b"AMQP") or len(frame) < _HEADER_BYTES:
        return frame
    kind, channel, _ = _FRAME_HEAD.unpack_from(frame)
    payload = frame[_FRAME_HEAD.size : -1]
    return b"%b%b\xce" % (_FRAME_HEAD.pack(kind, channel, len(payload)), payload)


AMQP: Final = Shape(_cut_amqp, _seal_amqp)

# --- the journal ----------------------------------------------------------------------------------

_RECORD_HEAD: Final = struct.Struct(">II")


def _cut_journal(data: bytes) -> list[bytes]:
    at = 0
    units: list[bytes] = []
    while at < len(data):
        end = len(data)
        if at + _RECORD_HEAD.size <= end:
            end = min(end, at + _RECORD_HEAD.size + int(_RECORD_HEAD.unpack_from(data, at)[0]))
        units.append(data[at:end])
        at = end
    return units


def _seal_journal(record: bytes) -> bytes:
    body = record[_RECORD_HEAD.size :]
    return _RECORD_HEAD.pack(len(body), crc32(body)) + body


JOURNAL: Final = Shape(_cut_journal, _seal_journal)
