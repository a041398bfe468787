"""What nodes say to each other about named readers of streams (docs/adr/0063), from version 10 on.

Two of the verbs are of version 11: those of streams in several fragments (docs/adr/0064).

Data only; the other messages are in `fedq.core.peer_messages`.
"""

from typing import Final, NamedTuple

from fedq.core.ids import FragmentId


class ReadAs(NamedTuple):
    """A reader of the sender has a name. The first three are answered by `ReadTurn`, in time."""

    fragment: FragmentId
    reign: int
    #: The reader, by a number of its node.
    request: int
    #: One of those below.
    verb: int
    name: str
    #: Where it begins, if the name is new: one of the kinds of
    #: `fedq.wiring.cluster_map.stream_arguments`, and its number; of the last four verbs the
    #: number alone, a position (0: it knows none).
    kind: int
    value: int
    #: The name is to be forgotten when all that have it are gone.
    forgets: bool


#: It begins; it waits for its turn, as the stream has another primary now; it was being served.
BEGINS: Final = 1
JOINS: Final = 2
CLAIMS: Final = 3
#: What it has not acknowledged begins there; and then it left.
IS_AT: Final = 4
LEAVES: Final = 5
#: It has acknowledged all, up to there, and gives its turn back, as it was asked to; it stays.
GIVES: Final = 6


class ReadTurn(NamedTuple):
    """What becomes of a reader of the receiver that has a name."""

    fragment: FragmentId
    reign: int
    request: int
    #: One of those below.
    verb: int
    #: Where it goes on, if it does.
    value: int


GOES_ON: Final = 1
#: Another one with its name is being served; or there are too many names.
WAITS: Final = 2
FULL: Final = 3
#: It gets no more, and is to give its turn back when it has acknowledged what it got.
YIELDS: Final = 4
