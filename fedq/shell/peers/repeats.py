"""Contents that one frame carries more than once: they travel once (docs/adr/0089).

A publish that goes to several queues whose fragments another node leads is in one batch for each of
them, and what was published to them in one turn is in one frame. The contents are the same objects
then, so whoever encodes sees it at once; whoever decodes has one object again for all the places.

In: a frame; or what came, and where its contents repeat others. Out: the frame with each content
once and the *repeats*: places whose contents are those of places of an earlier message. Invariant:
of what a frame says nothing is believed: what does not fit raises `MalformedFrameError`; with all
that is repeated a frame is no longer than one that repeats nothing may be.
"""

from collections.abc import Iterator, Sequence
from itertools import count, repeat
from typing import Final, NamedTuple

from fedq.core.peer_messages import CARRY_MESSAGES, PeerFrame
from fedq.shell.pb import peer_pb2 as pb
from fedq.shell.peers.longs import Filled
from fedq.shell.peers.malformed import MalformedFrameError

#: Contents of fewer bytes, in the mean of a frame, travel again: to find them costs as much.
WORTH_BYTES: Final = 256


class Repeat(NamedTuple):
    """A stretch of a message's contents that an earlier message has, from these places on."""

    message: int
    place: int
    size: int
    of_message: int
    of_place: int


def without_repeats(frame: PeerFrame, size: int) -> tuple[PeerFrame, list[Repeat]]:
    """The frame with every content once, and where the others belong.

    `size`: about how many bytes the frame has. Where its contents are small nothing is looked for.
    """
    found: list[Repeat] = []
    carriers = [
        (number, message)
        for number, message in enumerate(frame.messages)
        if isinstance(message, CARRY_MESSAGES)
    ]
    contents = sum(len(each.messages) for _, each in carriers)
    if len(carriers) == 1 or size < WORTH_BYTES * contents:
        return frame, found
    messages = list(frame.messages)
    #: Where each content stands first, by its identity: the frame keeps all of them alive.
    first: dict[int, tuple[int, int]] = {}
    for number, message in carriers:
        ids = list(map(id, message.messages))
        if first.keys().isdisjoint(ids):
            first.update(zip(ids, zip(repeat(number), count()), strict=False))
        elif repeats := list(_runs(number, message.messages, first)):
            found += repeats
            messages[number] = message._replace(messages=_left_out(message.messages, repeats))
    return (frame._replace(messages=messages), found) if found else (frame, found)


def _runs(
    number: int, contents: Sequence[bytes], first: dict[int, tuple[int, int]]
) -> Iterator[Repeat]:
    """What of a message's contents stands before it, in runs; the others stand here first."""
    begun, size, of_message, of_place = 0, 0, 0, 0
    for place, content in enumerate(contents):
        # The empty content is one object wherever it stands, and says "left out" elsewhere.
        there, at = first.setdefault(id(content), (number, place)) if content else (number, place)
        if size and (there, at, place) == (of_message, of_place + size, begun + size):
            size += 1
            continue
        if size:
            yield Repeat(number, begun, size, of_message, of_place)
        begun, size, of_message, of_place = place, int(there != number), there, at
    if size:
        yield Repeat(number, begun, size, of_message, of_place)


def _left_out(contents: Sequence[bytes], repeats: Sequence[Repeat]) -> list[bytes]:
    rest = list(contents)
    for each in repeats:
        rest[each.place : each.place + each.size] = [b""] * each.size
    return rest


def put_back(wire: pb.PeerFrame, filled: dict[int, Filled], bytes_max: int) -> None:
    """Puts what is repeated into its places; `filled`: messages that are whole by now, by number.

    Those that others repeat are among them in the end, so that all share what they carry.
    `bytes_max`: so many bytes are repeated at most. Raises `MalformedFrameError`.
    """
    for each in wire.repeats:
        if not each.of_message < each.message < len(wire.messages):
            raise MalformedFrameError("a message repeats one that is not before it")
        contents = _contents(wire, filled, each.of_message)
        contents = contents[each.of_place : each.of_place + each.size]
        bytes_max -= sum(map(len, contents))
        if len(contents) < each.size or not all(contents):
            raise MalformedFrameError("a message repeats contents that are not there")
        if bytes_max < 0:
            raise MalformedFrameError("a frame repeats more than fits into one")
        there = _contents(wire, filled, each.message)
        places = slice(each.place, each.place + each.size)
        if places.stop > len(there) or any(there[places]):
            raise MalformedFrameError("a repeated content that has no place in its message")
        there[places] = contents


def _contents(wire: pb.PeerFrame, filled: dict[int, Filled], number: int) -> list[bytes]:
    """What a message carries, to be changed; raises `MalformedFrameError` if it is no such kind."""
    found = filled.get(number)
    if found is None:
        part = wire.messages[number]
        slot = part.WhichOneof("kind")
        if slot is None:
            raise MalformedFrameError("a message of an unknown kind")
        found = filled[number] = Filled(getattr(part, slot), {})
    return found.messages
