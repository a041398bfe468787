"""Heartbeats in the form of `protos/peer.proto`."""

from fedq.core.limits import NAME_BYTES_MAX
from fedq.core.peer_messages import Heartbeat
from fedq.shell.pb import peer_pb2 as pb
from fedq.shell.peers.malformed import MalformedFrameError


def put_heartbeat(frame: pb.PeerFrame, heartbeat: Heartbeat) -> None:
    """Puts a heartbeat into a frame that is to be sent."""
    wire = frame.heartbeat
    wire.SetInParent()
    (
        wire.sent_ms, wire.echo_ms, wire.leads, wire.leaving, wire.start, wire.stalls, wire.full,
        wire.memory_full, wire.disk_low,
    ) = heartbeat  # fmt: skip


def get_heartbeat(frame: pb.PeerFrame) -> Heartbeat:
    """Takes a heartbeat from a peer's frame that has one; raises `MalformedFrameError`."""
    beat = frame.heartbeat
    if len(beat.start) > NAME_BYTES_MAX:
        raise MalformedFrameError("a start's id is longer than 255 characters")
    return Heartbeat(
        beat.sent_ms, beat.echo_ms, beat.leads, beat.leaving, beat.start, beat.stalls, beat.full,
        beat.memory_full, beat.disk_low,
    )  # fmt: skip
