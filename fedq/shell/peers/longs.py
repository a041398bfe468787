"""Long contents of peer frames: they travel behind their frame, in pieces, and are copied once.

gRPC and protobuf hold a message three times over while it passes through them. So a message of a
client, or a journal record, that is long is left out of its frame, which says instead where it
belongs; it follows on the same stream, cut into pieces that cost next to nothing while they pass.

In: a frame; or a part of one and what came behind it. Out: the frame without its long contents, and
these; or a part that reads as if they had never been left out. Invariant: of what a frame says of
its long contents nothing is believed: what does not fit raises `MalformedFrameError`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from fedq.core.limits import PEER_LONG_BYTES_MIN, PEER_PIECE_BYTES_MAX
from fedq.core.peer_messages import CARRY_MESSAGES, CARRY_RECORDS, Got, PeerFrame, PeerMessage
from fedq.core.peer_messages import PublishAtomic as Atomic
from fedq.shell.peers.malformed import MalformedFrameError

#: Long contents of one message, by their places in it.
Places: TypeAlias = dict[int, bytes]

_WITH_MESSAGES: Final = (*CARRY_MESSAGES, Got, Atomic)


class Long(NamedTuple):
    """Where a long content belongs: in which message of its frame, and where in that."""

    message: int
    #: Among its `messages`; 0 for `records`.
    place: int
    content: bytes


def shortened(frame: PeerFrame) -> tuple[PeerFrame, list[Long]]:
    """The frame without its long contents, and these in their order."""
    found: list[Long] = []
    messages: list[PeerMessage] = []
    for number, message in enumerate(frame.messages):
        rest: PeerMessage = message
        if isinstance(message, CARRY_RECORDS):
            if len(message.records) >= PEER_LONG_BYTES_MIN:
                found.append(Long(number, 0, message.records))
                rest = message._replace(records=b"")
        elif isinstance(message, _WITH_MESSAGES):
            contents = message.messages
            places = [at for at, one in enumerate(contents) if len(one) >= PEER_LONG_BYTES_MIN]
            if places:
                found += [Long(number, at, contents[at]) for at in places]
                left_out = dict.fromkeys(places, b"")
                kept = [left_out.get(at, one) for at, one in enumerate(contents)]
                rest = message._replace(messages=kept)
        messages.append(rest)
    return (frame._replace(messages=messages), found) if found else (frame, found)


def pieces(content: bytes) -> Iterator[bytes]:
    """The pieces in which a long content is written to the stream."""
    for at in range(0, len(content), PEER_PIECE_BYTES_MAX):
        yield content[at : at + PEER_PIECE_BYTES_MAX]


def by_message(longs: Iterable[Long], count: int) -> dict[int, Places]:
    """Long contents by their places, by the numbers of their messages, of which there are so many.

    Raises `MalformedFrameError` if they have no place.
    """
    found: dict[int, Places] = {}
    for number, place, content in longs:
        there = found.setdefault(number, {})
        if number >= count or place in there:
            raise MalformedFrameError("a long content that has no place in its frame")
        there[place] = content
    return found


class Filled:
    """A message on the wire, with what was left out of its frame in its places."""

    __slots__ = ("_part", "messages", "records")

    def __init__(self, part: Any, contents: Places) -> None:
        """`contents`: by place, see `Long`."""
        self._part = part
        self.messages: list[bytes] = []
        if hasattr(part, "records"):
            if list(contents) != [0] or part.records:
                raise MalformedFrameError("long records that have no place in their message")
            self.records = contents[0]
        elif hasattr(part, "messages"):
            messages = list(part.messages)
            for place, content in contents.items():
                if place >= len(messages) or messages[place]:
                    raise MalformedFrameError("a long content that has no place in its message")
                messages[place] = content
            self.messages = messages
        else:
            raise MalformedFrameError("a long content in a message that has none")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)
