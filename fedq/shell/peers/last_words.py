"""Last words in the form of `protos/peer.proto`: their fields, each within what it may say."""

from fedq.core.limits import STOP_WORDS_MAX, SUSPECTS_MAX
from fedq.core.suspects import LastWords, checked
from fedq.shell.pb import peer_pb2 as pb
from fedq.shell.peers.malformed import MalformedFrameError


def put_last_words(frame: pb.PeerFrame, words: LastWords | None) -> None:
    """Puts last words into a frame that is to be sent."""
    if words is None:
        return
    wire = frame.last_words
    wire.SetInParent()
    wire.step = words.step
    for fragment, position, size, digest, proven in words.suspects:
        wire.suspects.add(
            fragment=fragment, position=position, size=size, digest=digest, proven=proven
        )


def get_last_words(frame: pb.PeerFrame) -> LastWords | None:
    """Takes last words from a peer's frame; raises `MalformedFrameError` for what says more."""
    if not frame.HasField("last_words"):
        return None
    wire = frame.last_words
    if len(wire.suspects) > SUSPECTS_MAX or len(wire.step) > STOP_WORDS_MAX:
        raise MalformedFrameError("last words that are too long")
    try:
        suspects = [
            checked(each.fragment, each.position, each.size, each.digest, each.proven)
            for each in wire.suspects
        ]
    except ValueError as error:
        raise MalformedFrameError(f"last words: {error}") from error
    return LastWords(wire.step, suspects)
