"""What a primary knows of one backup, and what of its copy is sent next, newest messages first.

Inputs: ranges of positions that the backup lacks, the fragment's messages, what was read of them
from the disk. Outputs: the next positions and messages; which one has to be read first
(`Progress.waits_for`).
"""

from typing import Protocol

from fedq.core.limits import WORK_BYTES_SHIFT
from fedq.core.ranges import Range

WAITING, COPYING, STREAMING = 0, 1, 2
STATE_NAMES = ("waiting", "copying", "streaming")

#: What a note takes in a chunk.
NOTE_BYTES = 16
#: Positions that are looked at for one chunk, at most; and for a unit of work, where the message
#: is gone, as a shift.
LOOKED_MAX = 8_192
_GONE_SHIFT = 3
#: What it takes to hold a message that was read for a copy, beside its bytes.
READ_BYTES = 128


class Messages(Protocol):
    """The live messages of a fragment, to look up."""

    def message_at(self, position: int, /) -> bytes | None:
        """The message, no bytes for one that is on disk alone; None if there is none."""

    def on_disk_from(self, position: int, /) -> int:
        """From which position on all up to this one are on disk alone; beyond it if it is not."""


class Progress:
    """What the primary knows of one backup."""

    __slots__ = (
        "acked", "bytes_read", "chunk_acked", "chunk_sent", "done_sent", "mark", "mark_ms",
        "missing", "moved_ms", "noted", "read", "sent", "state", "tries", "waits_for",
    )  # fmt: skip

    def __init__(self, state: int, base: int, now_ms: int) -> None:
        self.state = state
        #: The last event sent, and the last one acknowledged.
        self.sent = base
        self.acked = base if state == STREAMING else -1
        #: Positions of which the backup lacks something, ascending; copied from the end. Those
        #: that are gone by then are left out.
        self.missing: list[Range] = []
        #: Those of which it lacks only the latest notes.
        self.noted: dict[int, None] = {}
        #: The position that is next and has to be read from the disk first; 0: none has. What was
        #: read and is not sent yet, and what that takes; which position was looked for in vain, and
        #: how often.
        self.waits_for = 0
        self.read: dict[int, bytes] = {}
        self.bytes_read = 0
        self.tries: tuple[int, int] = (0, 0)
        self.chunk_sent = 0
        self.chunk_acked = 0
        self.done_sent = False
        #: When it last moved, or began to owe something.
        self.moved_ms = now_ms
        #: What was committed at that time: says how far behind it is, once it has that.
        self.mark = 0
        self.mark_ms = now_ms

    def put_read(self, bodies: dict[int, bytes]) -> None:
        """Takes what was read from the disk, instead of what was before."""
        self.read = bodies
        self.bytes_read = sum(map(len, bodies.values())) + READ_BYTES * len(bodies)

    def take_read(self, position: int) -> bytes | None:
        """Hands out what was read, once, if it was."""
        message = self.read.pop(position, None)
        if message is not None:
            self.bytes_read -= len(message) + READ_BYTES
        return message


class Chunk:
    """What the next chunk of a copy has so far, newest first."""

    __slots__ = ("bodies", "looked_at", "positions", "size", "told")

    def __init__(self) -> None:
        self.size = 0
        #: Positions that were looked at, those of messages that are gone among them.
        self.looked_at = 0
        self.positions: list[int] = []
        self.bodies: list[bytes] = []
        #: Positions in this chunk, those whose notes alone are sent among them.
        self.told: list[int] = []

    @property
    def cost(self) -> int:
        """What it is to put it together, in units of work."""
        gone = self.looked_at - len(self.told)
        return 1 + len(self.told) + (gone >> _GONE_SHIFT) + (self.size >> WORK_BYTES_SHIFT)

    def take(self, progress: Progress, position: int, messages: Messages) -> int:
        """Takes the next message, if it is still there; returns which position is next."""
        self.looked_at += 1
        message = messages.message_at(position)
        if message == b"" and position not in progress.noted:
            message = progress.take_read(position)
            if message is None:
                progress.waits_for = position
                return position
        if message is None:
            return position - 1
        self.told.append(position)
        if position in progress.noted:
            self.size += NOTE_BYTES
        else:
            self.positions.append(position)
            self.bodies.append(message)
            self.size += len(message)
        return position - 1

    def take_read(self, progress: Progress, lowest: int, position: int, most: int) -> int:
        """Takes messages that were read, down to one or as many bytes; returns which is next."""
        read, bodies, begun, size = progress.read, self.bodies, position, self.size
        while position >= lowest and size < most:
            message = read.pop(position, None)
            if message is None:
                progress.waits_for = position
                break
            bodies.append(message)
            size += len(message)
            position -= 1
        taken = range(begun, position, -1)
        self.looked_at += len(taken)
        self.positions.extend(taken)
        self.told.extend(taken)
        progress.bytes_read -= size - self.size + READ_BYTES * len(taken)
        self.size = size
        return position
