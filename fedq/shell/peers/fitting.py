"""What a message between nodes says in several fields: whether they fit together.

In: messages whose fields are each within what they may say. Out: `MalformedFrameError`, or nothing.
"""

from itertools import pairwise
from typing import Final

from fedq.amqp.filtering import fault_of_values
from fedq.core import peer_messages as peer
from fedq.shell.peers.malformed import MalformedFrameError
from fedq.wiring.cluster_map.stream_arguments import LAST, NEXT, TIME

#: What may be asked about a stream: the other beginnings are known without a question.
_READ_KINDS: Final = (peer.READ_FROM, LAST, NEXT, TIME)


def check(message: peer.PeerMessage) -> None:
    """Raises `MalformedFrameError` for fields that do not fit together."""
    match message:
        case peer.Deliver() | peer.Got() | peer.StreamPart() | peer.Bodies() if len(
            message.positions
        ) != len(message.messages):
            raise MalformedFrameError("a delivery whose positions and messages differ in number")
        case peer.StreamPart() if not _ascends(message):
            raise MalformedFrameError("a part of a stream that does not ascend")
        case peer.ReadStream() if (fault := fault_of_values(message.values)) is not None:
            raise MalformedFrameError(f"a filter of a stream: {fault}")
        case peer.ReadStream() if message.kind not in _READ_KINDS:
            raise MalformedFrameError(
                f"a question about a stream, of the unknown kind {message.kind}"
            )
        case peer.ReadStream() if _asks_for_nothing(message):
            raise MalformedFrameError(
                "a question for no messages of a stream, which takes none back"
            )
        case peer.Bodies() | peer.BodiesWanted() if any(
            a >= b for a, b in pairwise(message.positions)
        ):
            raise MalformedFrameError("positions of bodies that do not ascend")
        case peer.Bodies() if len(message.flags) != len(message.messages):
            raise MalformedFrameError("bodies whose flags and messages differ in number")
        case peer.Got() if len(message.messages) > 1:
            raise MalformedFrameError("more than one message for one basic.get")
        case peer.PublishBatch() | peer.Relay() if not message.messages:
            raise MalformedFrameError("publishes without a message")
        case peer.Replicate() if message.last < message.previous:
            raise MalformedFrameError("records that end before they begin")


def _asks_for_nothing(question: peer.ReadStream) -> bool:
    """Whether it wants no messages, and takes back no question with a number."""
    return question.kind == peer.READ_FROM and not question.amount and not question.request


def _ascends(part: peer.StreamPart) -> bool:
    """Whether the positions ascend, between where it was asked for and where it goes on."""
    if part.kind != peer.READ_FROM:
        return not part.positions
    return all(a < b for a, b in pairwise([part.value - 1, *part.positions, part.next]))
