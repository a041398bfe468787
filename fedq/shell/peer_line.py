"""Frames of a link that wait for their stream: what gathers while one is written becomes one.

In: frames, in order. Out: bytes for the stream. Each message of gRPC costs both ends some 100 µs,
whatever is in it, and one sets out when gRPC has said that the one before is written: on a busy
machine that takes a millisecond or more, and small frames would wait behind each other. So a frame
goes at once when the stream is idle, and with all that came meanwhile when it is not.

Invariants: messages keep their order and their numbers; frames of different sessions stay apart;
joined frames are of the newest map version among them, so none is taken in too early, and stay
below `peer_frame_bytes_max`, unless a single one is larger.
"""

from collections import deque
from typing import Final

from fedq.core.limits import peer_frame_bytes_max
from fedq.core.peer_messages import PeerFrame
from fedq.core.versions import NEWEST
from fedq.proxy.links import FIXED_BYTES, size_of
from fedq.shell.peer_codec import encode_frame

#: So many messages at most, whatever their size.
_JOINED_MAX: Final = 1_000


class FrameLine:
    """See the module's docstring."""

    __slots__ = ("_frames", "bytes_waiting", "version")

    def __init__(self) -> None:
        #: With about how many bytes each will be.
        self._frames: deque[tuple[PeerFrame, int]] = deque()
        self.bytes_waiting = 0
        #: Which version of frames the other end takes.
        self.version = NEWEST

    def add(self, frame: PeerFrame) -> None:
        """One more, behind the others."""
        size = FIXED_BYTES + sum(map(size_of, frame.messages))
        self._frames.append((frame, size))
        self.bytes_waiting += size

    def take(self) -> bytes | None:
        """The next frame, with those behind it that can be one with it; None: there is none."""
        frames = self._frames
        if not frames:
            return None
        frame, size = frames.popleft()
        self.bytes_waiting -= size
        if not frames:
            return encode_frame(frame, self.version)
        messages = list(frame.messages)
        while frames:
            later, more = frames[0]
            if not _follows(frame, len(messages), later):
                break
            if size + more > peer_frame_bytes_max or len(messages) >= _JOINED_MAX:
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
        return encode_frame(frame._replace(messages=messages), self.version)

    def clear(self) -> None:
        """The stream is down: nothing waits any more."""
        self._frames.clear()
        self.bytes_waiting = 0


def _follows(frame: PeerFrame, count: int, later: PeerFrame) -> bool:
    """Whether `later` goes on where the frame, with `count` messages by now, ends."""
    if frame.session != later.session or frame.incarnation != later.incarnation:
        return False
    return not count or not later.messages or later.first == frame.first + count
