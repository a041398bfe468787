"""What a message between nodes says in several fields: whether they fit together.

In: messages whose fields are each within what they may say. Out: `MalformedFrameError`, or nothing.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from fedq.amqp.filtering import fault_of_values
from fedq.core import peer_messages as peer
from fedq.core.limits import SEQUENCE_MAX
from fedq.shell.peers.malformed import MalformedFrameError
from fedq.wiring.cluster_map.stream_arguments import LAST, NEXT, TIME

#: What may be asked about a stream: the other beginnings are known without a question.
_READ_KINDS: Final = (peer.READ_FROM, LAST, NEXT, TIME)


def _check_deliver(message: peer.Deliver | peer.Got | peer.StreamPart | peer.Bodies) -> None:
    if len(message.positions) != len(message.messages):
        raise MalformedFrameError("a delivery whose positions and messages differ in number")


def _check_got(message: peer.Got) -> None:
    _check_deliver(message)
    if len(message.messages) > 1:
        raise MalformedFrameError("more than one message for one basic.get")


def _check_publishes(message: peer.PublishBatch | peer.Relay) -> None:
    if not message.messages:
        raise MalformedFrameError("publishes without a message")
    if isinstance(message, peer.PublishBatch) and message.named:
        _check_named(message)


def _check_named(message: peer.PublishBatch | peer.PublishAtomic) -> None:
    """Runs of publishers with names ascend, do not overlap, and are within the batch."""
    behind = 0
    for run in message.named:
        if run.place < behind:
            raise MalformedFrameError("runs of publishers that do not ascend")
        behind = run.place + run.size
        if run.first + run.size - 1 > SEQUENCE_MAX:
            raise MalformedFrameError("a run whose last sequence is too high")
    if behind > len(message.messages):
        raise MalformedFrameError("a run of a publisher that ends behind its batch")


def _check_replicate(message: peer.Replicate) -> None:
    if message.last < message.previous:
        raise MalformedFrameError("records that end before they begin")


def _check_stream_part(message: peer.StreamPart) -> None:
    _check_deliver(message)
    if not _ascends(message):
        raise MalformedFrameError("a part of a stream that does not ascend")


def _check_read_stream(message: peer.ReadStream) -> None:
    fault = fault_of_values(message.values)
    if fault is not None:
        raise MalformedFrameError(f"a filter of a stream: {fault}")
    if message.kind not in _READ_KINDS:
        raise MalformedFrameError(f"a question about a stream, of the unknown kind {message.kind}")
    if _asks_for_nothing(message):
        raise MalformedFrameError("a question for no messages of a stream, which takes none back")


def _check_bodies_wanted(message: peer.BodiesWanted | peer.Bodies) -> None:
    if any(a >= b for a, b in pairwise(message.positions)):
        raise MalformedFrameError("positions of bodies that do not ascend")


def _check_bodies(message: peer.Bodies) -> None:
    _check_deliver(message)
    _check_bodies_wanted(message)
    if len(message.flags) != len(message.messages):
        raise MalformedFrameError("bodies whose flags and messages differ in number")


def _asks_for_nothing(question: peer.ReadStream) -> bool:
    """Whether it wants no messages, and takes back no question with a number."""
    return question.kind == peer.READ_FROM and not question.amount and not question.request


def _ascends(part: peer.StreamPart) -> bool:
    """Whether the positions ascend, between where it was asked for and where it goes on."""
    if part.kind != peer.READ_FROM:
        return not part.positions
    return all(a < b for a, b in pairwise([part.value - 1, *part.positions, part.next]))


#: Whose fields have to fit together, and what raises `MalformedFrameError` when they do not. Each
#: message is looked up here, so those that need no look pay nothing more.
CHECKS: Final[dict[type[peer.PeerMessage], Callable[[Any], None]]] = {
    peer.Deliver: _check_deliver,
    peer.Got: _check_got,
    peer.PublishBatch: _check_publishes,
    peer.PublishAtomic: _check_named,
    peer.Relay: _check_publishes,
    peer.Replicate: _check_replicate,
    peer.StreamPart: _check_stream_part,
    peer.ReadStream: _check_read_stream,
    peer.BodiesWanted: _check_bodies_wanted,
    peer.Bodies: _check_bodies,
}
