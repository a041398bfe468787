"""Frames between nodes that share a process: each crosses as bytes, as on a real stream."""

from fedq.core.peer_messages import PeerFrame
from fedq.shell.peers.codec import decode_frame, encode_frame
from fedq.shell.peers.repeats import without_repeats


def crossed(frame: PeerFrame) -> PeerFrame:
    """The frame as it arrives, with each content once however small it is."""
    rest, repeats = without_repeats(frame, 1 << 62)
    return decode_frame(encode_frame(rest, repeats=repeats))
