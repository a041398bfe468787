"""Frames of one peer's stream: put together from what comes on it.

In: messages of the stream, in order. Out: frames, each with the long contents that follow it.
Invariants: what was announced is believed as far as it has come: a lie costs no memory; only the
last piece of a content may be shorter than `PEER_PIECE_BYTES_MAX`; a frame with all that follows it
is no longer than `FRAME_BYTES_MAX`; whatever comes either is a part of a frame or raises
`MalformedFrameError`.
"""

from fedq.core.limits import PEER_PIECE_BYTES_MAX
from fedq.core.peer_messages import PeerFrame
from fedq.shell.pb import peer_pb2 as pb
from fedq.shell.peers.codec import FRAME_BYTES_MAX, frame_of, read_frame
from fedq.shell.peers.longs import Long
from fedq.shell.peers.malformed import MalformedFrameError


class FrameReader:
    """Puts frames of one stream together. After an error it is of no use any more."""

    __slots__ = ("_begun", "_contents", "_missing", "_pieces", "bytes_begun")

    def __init__(self) -> None:
        #: A frame that lacks long contents.
        self._begun: pb.PeerFrame | None = None
        self._contents: list[bytes] = []
        #: Of the content at hand: what has come, and how much is to come.
        self._pieces: list[bytes] = []
        self._missing = 0
        #: What has come of that frame's long contents.
        self.bytes_begun = 0

    def take(self, data: bytes) -> PeerFrame | None:
        """Takes bytes; returns the frame that is complete with them; None: more is to come."""
        if self._begun is not None:
            return self._take_piece(self._begun, data)
        wire = read_frame(data)
        if not wire.longs:
            return frame_of(wire)
        if min(long.size for long in wire.longs) == 0:
            raise MalformedFrameError("a long content of no bytes")
        if len(data) + sum(long.size for long in wire.longs) > FRAME_BYTES_MAX:
            raise MalformedFrameError(f"a frame of more than {FRAME_BYTES_MAX} bytes")
        self._begun = wire
        self._missing = wire.longs[0].size
        return None

    def _take_piece(self, begun: pb.PeerFrame, data: bytes) -> PeerFrame | None:
        if not min(self._missing, PEER_PIECE_BYTES_MAX) <= len(data) <= self._missing:
            # Of pieces of a byte each would cost forty.
            raise MalformedFrameError("a piece of a long content that is too short, or too long")
        self._pieces.append(data)
        self._missing -= len(data)
        self.bytes_begun += len(data)
        if self._missing:
            return None
        self._contents.append(b"".join(self._pieces))
        self._pieces = []
        if len(self._contents) < len(begun.longs):
            self._missing = begun.longs[len(self._contents)].size
            return None
        longs = [
            Long(long.message, long.place, content)
            for long, content in zip(begun.longs, self._contents, strict=True)
        ]
        self._begun, self._contents, self.bytes_begun = None, [], 0
        return frame_of(begun, longs)
