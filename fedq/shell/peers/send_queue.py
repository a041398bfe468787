"""Frames of a link that wait for their stream: what gathers while one is written becomes one.

In: frames, in order. Out: bytes for the stream. Each message of gRPC costs both ends some 100 µs,
whatever is in it, and one sets out when gRPC has said that the one before is written: on a busy
machine that takes a millisecond or more, and small frames would wait behind each other. So a frame
goes at once when the stream is idle, and with all that came meanwhile when it is not.

Invariants: messages keep their order and their numbers; frames of different sessions stay apart;
joined frames are of the newest map version among them, so none is taken in too early, and stay
below `PEER_FRAME_BYTES_MAX`, unless a single one is larger; the long contents of a frame
(`fedq.shell.peers.longs`) follow it before anything else does; a content that several messages of
a frame carry is in it once (`fedq.shell.peers.repeats`).
"""

from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Final

from fedq.core.limits import PEER_FRAME_BYTES_MAX, PEER_LONG_BYTES_MIN
from fedq.core.peer_messages import PeerFrame
from fedq.core.versions import NEWEST, PIECES, REPEATS
from fedq.proxy.links import FIXED_BYTES, size_of
from fedq.shell.peers.codec import encode_frame
from fedq.shell.peers.longs import pieces, shortened
from fedq.shell.peers.repeats import Repeat, without_repeats

#: So many messages at most, whatever their size.
_JOINED_MAX: Final = 1_000


class FrameSendQueue:
    """The frames of one link that wait for their stream."""

    __slots__ = ("_frames", "_rest", "bytes_waiting", "version")

    def __init__(self) -> None:
        #: With about how many bytes each will be.
        self._frames: deque[tuple[PeerFrame, int]] = deque()
        self.bytes_waiting = 0
        #: Of the frame that was taken: its long contents, in pieces, as far as they are not taken.
        self._rest: Iterator[bytes] = iter(())
        #: Which version of frames the other end takes.
        self.version = NEWEST

    def add(self, frame: PeerFrame) -> None:
        """Adds a frame, behind the others."""
        size = FIXED_BYTES + sum(map(size_of, frame.messages))
        self._frames.append((frame, size))
        self.bytes_waiting += size

    def take(self) -> bytes | None:
        """Takes what is to be written next; None: nothing.

        A frame, with those behind it that can be one with it; or a piece of what follows it.
        """
        piece = next(self._rest, None)
        return piece if piece is not None else self._take_frame()

    def _take_frame(self) -> bytes | None:
        frames = self._frames
        if not frames:
            return None
        frame, size = frames.popleft()
        self.bytes_waiting -= size
        if not frames:
            return self._encoded(frame, size)
        messages = list(frame.messages)
        while frames:
            later, more = frames[0]
            if not _follows(frame, len(messages), later):
                break
            if size + more > PEER_FRAME_BYTES_MAX or len(messages) >= _JOINED_MAX:
                break
            frames.popleft()
            self.bytes_waiting -= more
            size += more
            messages += later.messages
            frame = later._replace(
                first=frame.first or later.first,
                heartbeat=later.heartbeat or frame.heartbeat,
                asks=later.asks or frame.asks,
                last_words=later.last_words or frame.last_words,
            )
        return self._encoded(frame._replace(messages=messages), size)

    def _encoded(self, frame: PeerFrame, size: int) -> bytes:
        repeats: list[Repeat] = []
        if len(frame.messages) > 1 and self.version >= REPEATS:
            frame, repeats = without_repeats(frame, size)
        if size < PEER_LONG_BYTES_MIN or self.version < PIECES:
            return encode_frame(frame, self.version, (), repeats)
        frame, longs = shortened(frame)
        if longs:
            self._rest = chain.from_iterable([pieces(long.content) for long in longs])
        return encode_frame(frame, self.version, longs, repeats)

    def clear(self) -> None:
        """Voids what waits; what was begun is still to be written to its end."""
        self._frames.clear()
        self.bytes_waiting = 0

    def reset(self) -> None:
        """Forgets everything, as the stream is down."""
        self.clear()
        self._rest = iter(())


def _follows(frame: PeerFrame, count: int, later: PeerFrame) -> bool:
    """Whether `later` goes on where the frame, with `count` messages by now, ends."""
    if frame.session != later.session or frame.incarnation != later.incarnation:
        return False
    return not count or not later.messages or later.first == frame.first + count
