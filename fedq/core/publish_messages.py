"""What nodes say to each other about publishes into a fragment held elsewhere; see `peer_messages`.

Data only.
"""

from typing import Final, NamedTuple

from fedq.core.ids import FragmentId, Origin

#: What it costs to take a run of a publisher with a name, in units of work.
RUN_WORK: Final = 8


class NamedRun(NamedTuple):
    """Messages of a batch, one behind the other, that a publisher with a name has published.

    Runs of a batch ascend, and do not overlap (docs/adr/0078).
    """

    #: The place of the first one in the batch, and how many they are.
    place: int
    size: int
    publisher: str
    #: The sequence of the first one; the others follow without gaps.
    first: int


class PublishBatch(NamedTuple):
    """Messages for a fragment, numbered `first`, `first + 1`, … by their origin."""

    fragment: FragmentId
    reign: int
    origin: Origin
    first: int
    #: Sent before, to an earlier primary: consumers may have seen these messages.
    resent: bool
    messages: list[bytes]
    #: Those of publishers with names.
    named: tuple[NamedRun, ...] = ()


class PublishDone(NamedTuple):
    """Every message of the receiver up to number `through` is committed (cumulative)."""

    fragment: FragmentId
    reign: int
    through: int
    #: Numbers up to `through` that the queue's policy turned away: they are nowhere.
    refused: list[int]


class PublishAtomic(NamedTuple):
    """A transaction on one fragment: its publishes and settlements take effect together."""

    fragment: FragmentId
    reign: int
    origin: Origin
    first: int
    resent: bool
    messages: list[bytes]
    acknowledged: list[int]
    requeued: list[int]
    rejected: list[int]
    #: Those of publishers with names.
    named: tuple[NamedRun, ...] = ()
