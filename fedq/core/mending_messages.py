"""What copies of a fragment say to each other about messages that one of them cannot read.

Plain values, as all that nodes say to each other (`fedq.core.peer_messages`). From version 10 on.
"""

from typing import NamedTuple

from fedq.core.ids import FragmentId


class BodiesWanted(NamedTuple):
    """Persistent messages that the sender cannot read in its copy: it asks for those of another.

    Positions ascend. Answered by `Bodies`.
    """

    fragment: FragmentId
    reign: int
    #: Names the question; never used twice by one process.
    request: int
    positions: list[int]


class Bodies(NamedTuple):
    """Messages as they stand in the sender's copy.

    Of what was asked for, up to position `through`, those that are not here it does not have, or
    cannot read either.
    """

    fragment: FragmentId
    reign: int
    request: int
    through: int
    positions: list[int]
    #: As they were published.
    messages: list[bytes]
    #: A byte for each: the flags with which the copy keeps it, which may be others.
    flags: bytes
