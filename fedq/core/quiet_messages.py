"""How a primary that is going to hand over has everybody keep quiet about its fragment.

Plain values, as all that nodes say to each other (`fedq.core.peer_messages`). From version 13 on.
"""

from typing import NamedTuple

from fedq.core.ids import FragmentId


class Quiesce(NamedTuple):
    """The receiver is to send nothing, for now, of this fragment, which the sender leads.

    It keeps publishes and settlements until the fragment is led anew, or the sender says 0.
    Answered by `Quiesced`, which comes behind all that was sent before.
    If the fragment is to be retired (docs/adr/0100), the receiver does so only if none of its
    publishes waits for an answer.
    """

    fragment: FragmentId
    reign: int
    #: Names the question; never used twice by one process. 0: all may go on.
    number: int
    #: The fragment is to be retired. From version 15 on.
    retires: bool = False


class Quiesced(NamedTuple):
    """The sender keeps quiet, as `Quiesce` with that number asks."""

    fragment: FragmentId
    reign: int
    number: int
    #: It does not: it has publishes on their way to a fragment that is to be retired.
    busy: bool = False
