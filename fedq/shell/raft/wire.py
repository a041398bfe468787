"""What voters say to each other about the Raft log, as bytes: versioned, bounded, never pickled.

Inputs: the message values below. Outputs: one frame each, and back.

    version u8 | kind u8 | fixed fields | variable part

Integers are big-endian; indexes and terms are u64, at most 2**63 - 1. The decoder is strict: an
unknown version or kind, a flag other than 0 and 1, a length that does not fit, an entry of an
unknown kind, a term that runs backwards or any byte left over is a `WireError`, and a frame that
is refused has had no effect. What `decode` returns, `encode` turns into the same bytes again.
"""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from fedq.core import limits
from fedq.shell.raft.voters import is_voters

WIRE_VERSION: Final = 2

#: The first byte of a log entry: what follows is a command, or nothing (a new leader's entry); the
#: third kind is a set of voters.
ENTRY_COMMAND: Final = 0
ENTRY_NO_OP: Final = 1
NO_OP: Final = bytes([ENTRY_NO_OP])
#: No entry that names voters, but the one that every log begins with.
TOLD_OF_A_SET: Final = 1

ENTRY_BYTES_MAX: Final = 1 + limits.COMMAND_BYTES_MAX
#: What one frame carries at most, in bytes of entries, commands or snapshot.
PAYLOAD_BYTES_MAX: Final = 64 * limits.KIB
ENTRIES_PER_FRAME_MAX: Final = 512
FRAME_BYTES_MAX: Final = 96 * limits.KIB
SNAPSHOT_BYTES_MAX: Final = limits.SNAPSHOT_BYTES_MAX
_NUMBER_MAX: Final = 2**63 - 1

assert ENTRY_BYTES_MAX <= PAYLOAD_BYTES_MAX < FRAME_BYTES_MAX < limits.PEER_FRAME_BYTES_MAX


class WireError(ValueError):
    """A frame that no voter of this version can have sent."""


class LogEntry(NamedTuple):
    """An entry on its way: the term that made it, and its kind byte with its command."""

    term: int
    command: bytes


class VoteRequest(NamedTuple):
    """The sender wants to lead `term`; its log ends with (`last_index`, `last_term`)."""

    term: int
    last_index: int
    last_term: int
    #: The leader itself asked for this election: voters do not hold on to it.
    forced: bool


class Vote(NamedTuple):
    """The sender's vote of `term` is the receiver's."""

    term: int


class LeadNow(NamedTuple):
    """The leader of `term` hands over: the receiver calls an election at once."""

    term: int


class Append(NamedTuple):
    """Entries that follow on (`prev_index`, `prev_term`); none is a heartbeat.

    `prev_index` 0 claims nothing about the receiver's log (it is being sent a snapshot).
    """

    term: int
    #: The leader counts its frames to each follower; the answer says which one it is to.
    number: int
    commit_index: int
    prev_index: int
    prev_term: int
    entries: list[LogEntry]


class SnapshotChunk(NamedTuple):
    """Bytes `offset` … of an encoded snapshot of `total` bytes."""

    term: int
    number: int
    offset: int
    total: int
    data: bytes


class Ack(NamedTuple):
    """The answer to the `Append` or `SnapshotChunk` of the same number.

    `success`: the sender's log equals the leader's, on disk, up to `next_index` - 1.
    `reset`: it does not; go on from `next_index`. `learner`: it may have forgotten what it promised
    before, so it must not be counted for a commit.
    """

    term: int
    number: int
    next_index: int
    success: bool
    reset: bool
    learner: bool = False


class Standing(NamedTuple):
    """What a voter says of itself when a stream begins, and while it knows of no leader."""

    term: int
    last_index: int
    last_term: int
    #: It votes only as `fedq.shell.raft.electorate` lets it.
    is_learner: bool
    #: The entry that names the voters, as its log has it; 0: none does, the configuration counts;
    #: `TOLD_OF_A_SET`: somebody of a cluster has called it, and its log is empty.
    set_index: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether its log holds nothing but what every log begins with."""
        return self.last_index <= 1


class Promote(NamedTuple):
    """The leader of `term` takes the receiver, which has entry `index`, for a voter again."""

    term: int
    entry: int


class Forward(NamedTuple):
    """Commands a follower asks the leader to put into the log; may be dropped."""

    commands: list[bytes]


RaftMessage: TypeAlias = (
    VoteRequest | Vote | LeadNow | Append | SnapshotChunk | Ack | Forward | Standing | Promote
)

_HEAD = struct.Struct(">BB")
_VOTE_REQUEST = struct.Struct(">QQQB")
_TERM = struct.Struct(">Q")
_APPEND = struct.Struct(">QQQQQH")
_ENTRY = struct.Struct(">QI")
_CHUNK = struct.Struct(">QQQQ")
_ACK = struct.Struct(">QQQBBB")
_STANDING = struct.Struct(">QQQB")
_STANDING_IN_SET = struct.Struct(">QQQBQ")
_PROMOTE = struct.Struct(">QQ")
_COUNT = struct.Struct(">H")
_SIZE = struct.Struct(">I")

_KIND_VOTE_REQUEST = 1
_KIND_VOTE = 2
_KIND_LEAD_NOW = 3
_KIND_APPEND = 4
_KIND_CHUNK = 5
_KIND_ACK = 6
_KIND_FORWARD = 7
_KIND_STANDING = 8
_KIND_PROMOTE = 9
#: From version 13 of the cluster on: a standing of who has a set of voters in its log.
_KIND_STANDING_IN_SET = 10


def encode(message: RaftMessage) -> bytes:
    """The frame of a message; the caller keeps to the limits above."""
    kind, parts = _body(message)
    frame = b"".join((_HEAD.pack(WIRE_VERSION, kind), *parts))
    # internal: what this node sends.
    assert len(frame) <= FRAME_BYTES_MAX, f"a frame of {len(frame)} bytes"
    return frame


def _body(message: RaftMessage) -> tuple[int, list[bytes]]:
    match message:
        case VoteRequest():
            return _KIND_VOTE_REQUEST, [_VOTE_REQUEST.pack(*message)]
        case Vote():
            return _KIND_VOTE, [_TERM.pack(message.term)]
        case LeadNow():
            return _KIND_LEAD_NOW, [_TERM.pack(message.term)]
        case Append():
            parts = [_APPEND.pack(*message[:-1], len(message.entries))]
            for entry in message.entries:
                parts.append(_ENTRY.pack(entry.term, len(entry.command)))
                parts.append(entry.command)
            return _KIND_APPEND, parts
        case SnapshotChunk():
            return _KIND_CHUNK, [_CHUNK.pack(*message[:-1]), message.data]
        case Ack():
            return _KIND_ACK, [_ACK.pack(*message)]
        case Standing(set_index=0):
            return _KIND_STANDING, [_STANDING.pack(*message[:-1])]
        case Standing():
            return _KIND_STANDING_IN_SET, [_STANDING_IN_SET.pack(*message)]
        case Promote():
            return _KIND_PROMOTE, [_PROMOTE.pack(*message)]
        case Forward(commands):
            parts = [_COUNT.pack(len(commands))]
            for command in commands:
                parts.append(_SIZE.pack(len(command)))
                parts.append(command)
            return _KIND_FORWARD, parts


def decode(frame: bytes) -> RaftMessage:
    """The message of a frame from an authenticated voter.

    Raises `WireError` for anything `encode` cannot have made.
    """
    if not _HEAD.size <= len(frame) <= FRAME_BYTES_MAX:
        raise WireError(f"a Raft frame has 2 to {FRAME_BYTES_MAX} bytes, this one {len(frame)}")
    version, kind = _HEAD.unpack_from(frame)
    if version != WIRE_VERSION:
        raise WireError(f"Raft frame version {version}; this node speaks version {WIRE_VERSION}")
    reader = _READERS.get(kind)
    if reader is None:
        raise WireError(f"unknown kind of Raft frame: {kind}")
    try:
        message, end = reader(frame, _HEAD.size)
    except struct.error as error:
        raise WireError("the Raft frame ends too early") from error
    if end != len(frame):
        raise WireError(f"{len(frame) - end} bytes too many in a Raft frame")
    return message


def _read_vote_request(frame: bytes, at: int) -> tuple[VoteRequest, int]:
    term, last_index, last_term, forced = _VOTE_REQUEST.unpack_from(frame, at)
    _check_numbers(term, last_index, last_term)
    if last_term > term:
        raise WireError("a candidate's log ends in a later term than its own")
    message = VoteRequest(term, last_index, last_term, _flag(forced))
    return message, at + _VOTE_REQUEST.size


def _read_vote(frame: bytes, at: int) -> tuple[Vote, int]:
    (term,) = _TERM.unpack_from(frame, at)
    _check_numbers(term)
    return Vote(term), at + _TERM.size


def _read_lead_now(frame: bytes, at: int) -> tuple[LeadNow, int]:
    (term,) = _TERM.unpack_from(frame, at)
    _check_numbers(term)
    return LeadNow(term), at + _TERM.size


def _read_append(frame: bytes, at: int) -> tuple[Append, int]:
    *fields, count = _APPEND.unpack_from(frame, at)
    _check_numbers(*fields)
    term, number, commit_index, prev_index, prev_term = fields
    if count > ENTRIES_PER_FRAME_MAX or (prev_index == 0 and count):
        raise WireError(f"{count} entries after index {prev_index} in one Raft frame")
    at += _APPEND.size
    entries: list[LogEntry] = []
    newest = prev_term
    for _ in range(count):
        entry_term, size = _ENTRY.unpack_from(frame, at)
        at += _ENTRY.size
        if not newest <= entry_term <= term:
            raise WireError("the terms of a log's entries never fall, nor pass the leader's")
        command = _bytes_at(frame, at, size, ENTRY_BYTES_MAX)
        _check_entry(command)
        entries.append(LogEntry(entry_term, command))
        newest = entry_term
        at += size
    return Append(term, number, commit_index, prev_index, prev_term, entries), at


def _read_chunk(frame: bytes, at: int) -> tuple[SnapshotChunk, int]:
    term, number, offset, total = _CHUNK.unpack_from(frame, at)
    _check_numbers(term, number)
    data = frame[at + _CHUNK.size :]
    if not (data and offset + len(data) <= total <= SNAPSHOT_BYTES_MAX):
        raise WireError(f"{len(data)} bytes at {offset} of a snapshot of {total}")
    if len(data) > PAYLOAD_BYTES_MAX:
        raise WireError(f"a snapshot chunk has at most {PAYLOAD_BYTES_MAX} bytes")
    return SnapshotChunk(term, number, offset, total, data), len(frame)


def _read_ack(frame: bytes, at: int) -> tuple[Ack, int]:
    term, number, next_index, success, reset, learner = _ACK.unpack_from(frame, at)
    _check_numbers(term, number, next_index)
    flags = (_flag(success), _flag(reset), _flag(learner))
    return Ack(term, number, next_index, *flags), at + _ACK.size


def _read_standing(frame: bytes, at: int) -> tuple[Standing, int]:
    term, last_index, last_term, learner = _STANDING.unpack_from(frame, at)
    _check_numbers(term, last_index, last_term)
    if last_term > term:
        raise WireError("a voter's log ends in a later term than its own")
    return Standing(term, last_index, last_term, _flag(learner)), at + _STANDING.size


def _read_standing_in_set(frame: bytes, at: int) -> tuple[Standing, int]:
    (set_index,) = _TERM.unpack_from(frame, at + _STANDING.size)
    _check_numbers(set_index)
    standing, end = _read_standing(frame, at)
    if set_index != TOLD_OF_A_SET and not 1 < set_index <= standing.last_index:
        raise WireError(f"a set of voters in entry {set_index} of {standing.last_index}")
    return standing._replace(set_index=set_index), end + _TERM.size


def _read_promote(frame: bytes, at: int) -> tuple[Promote, int]:
    term, index = _PROMOTE.unpack_from(frame, at)
    _check_numbers(term, index)
    return Promote(term, index), at + _PROMOTE.size


def _read_forward(frame: bytes, at: int) -> tuple[Forward, int]:
    (count,) = _COUNT.unpack_from(frame, at)
    at += _COUNT.size
    if count > ENTRIES_PER_FRAME_MAX:
        raise WireError(f"{count} commands in one Raft frame; at most {ENTRIES_PER_FRAME_MAX}")
    commands: list[bytes] = []
    for _ in range(count):
        (size,) = _SIZE.unpack_from(frame, at)
        at += _SIZE.size
        commands.append(_bytes_at(frame, at, size, limits.COMMAND_BYTES_MAX))
        at += size
    return Forward(commands), at


_READERS: Final[dict[int, Callable[[bytes, int], tuple[RaftMessage, int]]]] = {
    _KIND_VOTE_REQUEST: _read_vote_request,
    _KIND_VOTE: _read_vote,
    _KIND_LEAD_NOW: _read_lead_now,
    _KIND_APPEND: _read_append,
    _KIND_CHUNK: _read_chunk,
    _KIND_ACK: _read_ack,
    _KIND_FORWARD: _read_forward,
    _KIND_STANDING: _read_standing,
    _KIND_PROMOTE: _read_promote,
    _KIND_STANDING_IN_SET: _read_standing_in_set,
}


def _bytes_at(frame: bytes, at: int, size: int, size_max: int) -> bytes:
    if not 1 <= size <= size_max:
        raise WireError(f"a command of {size} bytes; at least 1, at most {size_max}")
    if at + size > len(frame):
        raise WireError("the Raft frame ends too early")
    return frame[at : at + size]


def is_entry(command: bytes) -> bool:
    """Whether these are the kind byte and the contents of an entry of a log."""
    if command[0] == ENTRY_COMMAND:
        return len(command) > 1
    return command == NO_OP or is_voters(command)


def _check_entry(command: bytes) -> None:
    if not is_entry(command):
        raise WireError(f"unknown kind of log entry: {command[0]}, {len(command)} bytes")


def _check_numbers(*numbers: int) -> None:
    if max(numbers) > _NUMBER_MAX:
        raise WireError("an index or term beyond 2**63 - 1")


def _flag(value: int) -> bool:
    if value > 1:
        raise WireError(f"a flag is 0 or 1, not {value}")
    return value == 1
