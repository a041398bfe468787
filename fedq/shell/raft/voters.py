"""The set of voters, as a Raft log names it: the entry's form, and which set is the newest.

    u8 2 | u8 number of names | for each: u8 length, UTF-8

Inputs: a log's entries, the set that its snapshot ends with, the configuration's. Outputs: the set
that counts. Invariants (docs/adr/0084-voters-change-in-the-log.md): the newest set in the log
counts, committed or not, and with the entry it goes; two sets that follow each other differ by one
name at most. The decoder is strict: names ascend and differ, nothing is left over.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from fedq.core.ids import NodeId
from fedq.core.limits import VOTERS_MAX

ENTRY_VOTERS: Final = 2
_KIND: Final = bytes([ENTRY_VOTERS])
_NAME_BYTES_MAX: Final = 255


class VoterSet(NamedTuple):
    """The voters, and the number of the entry that names them; 0: the configuration does."""

    number: int
    #: In ascending order.
    names: tuple[NodeId, ...]

    def is_alone(self, node: NodeId) -> bool:
        """Whether the node is the only voter."""
        return self.names == (node,)


class KeptEntries(Protocol):
    """What is needed of a journal here."""

    @property
    def first_index(self) -> int:
        """The index of the oldest entry kept."""

    @property
    def last_index(self) -> int:
        """The index of the newest entry."""

    def command_at(self, index: int) -> bytes:
        """The kind byte and the command of an entry that is kept."""


def encode_voters(names: Sequence[NodeId]) -> bytes:
    """The entry of a set; its names ascend."""
    parts = [_KIND, bytes([len(names)])]
    for name in names:
        encoded = name.encode()
        parts += [bytes([len(encoded)]), encoded]
    return b"".join(parts)


def decode_voters(entry: bytes) -> tuple[NodeId, ...]:
    """The names in an entry of this kind; ValueError for what `encode_voters` cannot have made."""
    if len(entry) < 2 or entry[0] != ENTRY_VOTERS or not 1 <= entry[1] <= VOTERS_MAX:
        raise ValueError(f"no set of 1 to {VOTERS_MAX} voters")
    names: list[NodeId] = []
    at = 2
    for _ in range(entry[1]):
        end = at + 1 + entry[at] if at < len(entry) else at
        if not at + 1 < end <= len(entry):
            raise ValueError("the set of voters ends too early, or a name is empty")
        names.append(NodeId(entry[at + 1 : end].decode()))
        at = end
    if at != len(entry) or names != sorted(set(names)):
        raise ValueError("the names of a set of voters ascend, and nothing follows them")
    return tuple(names)


def is_voters(entry: bytes) -> bool:
    """Whether an entry is a set of voters, from its first to its last byte."""
    if entry[:1] != _KIND:
        return False
    try:
        decode_voters(entry)
    except ValueError:
        return False
    return True


def newest_set(log: KeptEntries, upto: int, base: VoterSet) -> VoterSet:
    """The set that counts as of entry `upto`; `base`: as of the oldest entry kept."""
    for index in range(upto, log.first_index, -1):
        entry = log.command_at(index)
        if entry[0] == ENTRY_VOTERS:
            return VoterSet(index, decode_voters(entry))
    return base


def next_set(
    names: Sequence[NodeId], wanted: Sequence[NodeId], joining: Sequence[NodeId],
    alive: Sequence[NodeId], leader: NodeId,
) -> tuple[NodeId, ...] | None:  # fmt: skip
    """The set that differs by one name and is nearer to the wanted one; None: none is possible.

    `joining`: who could be counted at once; `alive`: who was heard of just now, the leader among
    them. A set whose majority is not alive is not possible, nor is one without the leader.
    """
    added = [name for name in wanted if name not in names and name in joining]
    gone = [name for name in names if name not in wanted and name != leader]
    # Who is dead goes first: each of the others makes the majority safer meanwhile.
    gone.sort(key=lambda name: name in alive)
    steps = [sorted({*names, name}) for name in added if len(names) < VOTERS_MAX]
    steps += [[other for other in names if other != name] for name in gone]
    for step in steps:
        if 2 * len([name for name in step if name in alive]) > len(step):
            return tuple(step)
    return None
