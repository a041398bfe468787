"""Checks the frames of a segment while its bytes come in pieces, without a look inside.

Inputs: how many bytes of whole frames the segment should have; its bytes, in order. Output: where
the first frame begins that is not whole. Marks are frames, too. Invariants: no bytes raise
anything, and what is kept between two pieces is a few numbers.
"""

from typing import Final
from zlib import crc32

from fedq.core import limits
from fedq.journal.records import FRAME, HEAD

_FRAME_BYTES: Final[int] = FRAME.size
_BODY_BYTES_MIN: Final[int] = HEAD.size
_BODY_BYTES_MAX: Final[int] = limits.RECORD_BYTES_MAX
_unpack_frame: Final = FRAME.unpack_from


class FrameCheck:
    """The check of one segment, as far as it has come."""

    __slots__ = ("_crc", "_expected", "_head", "_left", "at", "begin", "count", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        #: How many bytes were taken in, and where the frame begins that they end in.
        self.at = self.begin = 0
        #: How many frames were whole.
        self.count = 0
        #: Of that frame: its head as far as it came, what its body still has to come, and the
        #: checksums, as it says and as it is.
        self._head = b""
        self._left = self._expected = self._crc = 0

    @property
    def is_done(self) -> bool:
        """Whether all of the segment was checked."""
        return self.at >= self.size

    def take(self, data: bytes) -> bool:
        """Takes the next bytes; false if the frame at `begin` is not whole."""
        start, view, end = 0, memoryview(data), len(data)
        while start < end:
            if not self._left and not self._head:
                start = self._take_whole(data, view, start)
                if start < 0:
                    return False
                if start == end:
                    break
            if not self._left:
                taken = data[start : start + _FRAME_BYTES - len(self._head)]
                self._head += taken
                start += len(taken)
                if len(self._head) < _FRAME_BYTES:
                    break
                length, self._expected = FRAME.unpack(self._head)
                stop = self.begin + _FRAME_BYTES + length
                if not _BODY_BYTES_MIN <= length <= _BODY_BYTES_MAX or stop > self.size:
                    return False
                self._head, self._left, self._crc = b"", length, 0
                continue
            stop = min(end, start + self._left)
            self._crc = crc32(view[start:stop], self._crc)
            self._left -= stop - start
            start = stop
            if not self._left:
                if self._crc != self._expected:
                    return False
                self.begin = self.at + start
                self.count += 1
        self.at += end
        return self.at < self.size or self.begin == self.size

    def _take_whole(self, data: bytes, view: memoryview, start: int) -> int:
        """Takes frames that the data has whole, nearly all of them; returns where it stopped.

        -1 if one is not what was written, as `begin` says.
        """
        base, end, most = self.at, len(data), self.size - self.at
        while end - start > _FRAME_BYTES:
            length, expected = _unpack_frame(data, start)
            body_at = start + _FRAME_BYTES
            stop = body_at + length
            if not _BODY_BYTES_MIN <= length <= _BODY_BYTES_MAX or stop > most:
                return -1
            if stop > end:
                break
            if crc32(view[body_at:stop]) != expected:
                return -1
            self.count += 1
            start = stop
            self.begin = base + start
        return start
