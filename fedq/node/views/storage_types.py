"""What a node shows of where a queue's messages are, and why there: plain values, read-only."""

from dataclasses import dataclass
from enum import Enum

from fedq.core.ids import FragmentId


class CopyRole(Enum):
    """What a copy is to its node."""

    PRIMARY = "primary"
    BACKUP = "backup"
    #: On its disk since an earlier process; the cluster map has given it no part yet.
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class StreamOverview:
    """A fragment of a stream, as the node that serves it knows it."""

    #: The offsets of its first and last message; None: it has none.
    first_offset: int | None
    last_offset: int | None
    #: The grain in which messages go, and what the messages of all segments take.
    segments: int
    size: int
    #: Readers on this node.
    readers: int


class FragmentCause(Enum):
    """Why a fragment is there."""

    #: The first one, declared with its queue: it is never retired.
    DECLARED = "declared"
    #: The declaration, or an operator, fixes the number of fragments.
    FIXED = "fixed"
    #: Publishes came through a node whose fragments were elsewhere.
    TRAFFIC = "traffic"


@dataclass(frozen=True, slots=True)
class ShapeOverview:
    """Why a fragment is as it is, as its primary says."""

    #: For how long nothing has happened in it; None: it is the only one, or was not looked at yet.
    idle_ms: int | None
    #: The map is about to be asked to retire it, or was.
    retiring: bool
    #: Why it is not retired, as sentences.
    stays: tuple[str, ...]
    #: Why it, or a copy of it, is not where it is wished to be.
    waits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CopyOverview:
    """A node's copy of a fragment: what of it is in memory, and what on its disk. Bytes all."""

    fragment: FragmentId
    role: CopyRole
    messages: int
    #: Of these: bodies are on disk alone.
    stowed_messages: int
    #: With their upkeep.
    memory_bytes: int
    #: Of the bodies that are on disk alone.
    stowed_bytes: int
    #: Records of it in the journal, dead ones among them, and in how many segments;
    journal_bytes: int
    journal_segments: int
    #: bytes of these segments, of whatever queue, that were dead when that was last counted.
    dead_bytes: int
    #: In scratch files, dead ones among them.
    scratch_bytes: int
    #: Being read, and read ahead or never gone: what can be handed out without reading.
    reading_bytes: int = 0
    at_hand_bytes: int = 0
    #: How old the message is that is next in line, in milliseconds, at least and at most (None:
    #: unknown); both None: none waits, or this is no primary.
    age_ms: int | None = None
    age_ms_max: int | None = None
    stream: StreamOverview | None = None
    #: It is not a copy that was still being made.
    whole: bool = True
    #: The number of its last event, and the reign that this was of.
    last: int = 0
    last_reign: int = 0
    #: Of a primary.
    shape: ShapeOverview | None = None
