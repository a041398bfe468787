"""Long contents travel behind their frame in pieces: what arrives is what was sent, or refused."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.core import message as message_encoding
from fedq.core import peer_messages as peer
from fedq.core.ids import FragmentId, Incarnation, MapVersion, NodeId, Origin
from fedq.core.versions import PIECES
from fedq.shell.pb import peer_pb2 as pb
from fedq.shell.peers import longs as peer_longs
from fedq.shell.peers import reader as peer_reader
from fedq.shell.peers import send_queue as peer_queue
from fedq.shell.peers.codec import decode_frame
from fedq.shell.peers.malformed import MalformedFrameError
from fedq.shell.peers.reader import FrameReader
from fedq.shell.peers.send_queue import FrameSendQueue
from tests.examples import examples
from tests.property.peer_strategies import any_message

#: In place of the bounds of a node.
LONG, PIECE = 60, 25
N1 = NodeId("n1")
ORIGIN = Origin(N1, Incarnation(1))
bodies = st.integers(0, 200).map(
    lambda size: message_encoding.encode(0, b"\0\0", b"\0\0", b"x" * size)
)
longer = st.lists(bodies, min_size=1, max_size=4)
#: Those that carry something, with much of it.
laden = (
    st.builds(peer.Replicate, st.just(FragmentId(1)), st.just(1), st.just(0), st.just(1),
              st.binary(max_size=300))
    | st.builds(peer.CopyChunk, st.just(FragmentId(1)), st.just(1), st.just(1), st.booleans(),
                st.binary(max_size=300))
    | longer.map(lambda m: peer.PublishBatch(FragmentId(1), 1, ORIGIN, 1, False, m))
    | longer.map(lambda m: peer.PublishAtomic(FragmentId(1), 1, ORIGIN, 1, False, m, [], [], []))
    | longer.map(lambda m: peer.Deliver(FragmentId(1), 1, list(range(len(m))), [], m))
    | bodies.map(lambda m: peer.Got(1, FragmentId(1), 1, [4], [], [m], 0))
    | longer.map(lambda m: peer.Relay(1, "/", m))
)  # fmt: skip


@contextmanager
def small() -> Iterator[None]:
    """Little is long."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (peer_queue, peer_longs):
            patch.setattr(module, "PEER_LONG_BYTES_MIN", LONG)
        for reading in (peer_reader, peer_longs):
            patch.setattr(reading, "PEER_PIECE_BYTES_MAX", PIECE)
        yield


def frame_of(messages: list[peer.PeerMessage], first: int) -> peer.PeerFrame:
    number = first if messages else 0
    return peer.PeerFrame(N1, Incarnation(3), (4, 5), number, 9, MapVersion(2), messages, None)


@given(st.lists(st.lists(laden | any_message, max_size=4), max_size=5), st.integers(0, 3))
@settings(max_examples=examples(200), deadline=None)
def test_what_is_sent_in_pieces_arrives_as_it_was(
    frames: list[list[peer.PeerMessage]], older: int
) -> None:
    queue, reader = FrameSendQueue(), FrameReader()
    queue.version = PIECES - (older == 0)
    first = 1
    for messages in frames:
        queue.add(frame_of(messages, first))
        first += len(messages)
    heard: list[peer.PeerMessage] = []
    with small():
        while (data := queue.take()) is not None:
            frame = decode_frame(data) if queue.version < PIECES else reader.take(data)
            if frame is not None:
                heard += frame.messages
    assert heard == [message for messages in frames for message in messages]
    assert reader.bytes_begun == queue.bytes_waiting == 0


def test_only_pieces_are_held_of_what_is_written() -> None:
    """Before, a long message was there three more times while it left."""
    queue = FrameSendQueue()
    queue.add(frame_of([peer.Replicate(FragmentId(1), 1, 0, 1, b"x" * 1_000)], 1))
    with small():
        sizes = []
        while (data := queue.take()) is not None:
            sizes.append(len(data))
    assert sizes[1:] == [PIECE] * 40
    assert sizes[0] < 100, "the frame is without it"


def test_what_was_begun_is_written_to_its_end_and_no_further_when_the_stream_is_down() -> None:
    queue, reader = FrameSendQueue(), FrameReader()
    frame = frame_of([peer.Replicate(FragmentId(1), 1, 0, 1, b"x" * 100)], 1)
    with small():
        queue.add(frame)
        assert reader.take(queue.take() or b"") is None
        queue.clear()
        queue.add(frame_of([], 0))
        found = [reader.take(queue.take() or b"") for _ in range(5)]
        assert found == [None, None, None, frame, frame_of([], 0)]
        queue.add(frame)
        queue.take()
        queue.reset()
        assert queue.take() is None


LONGS = st.builds(
    pb.LongContent, message=st.integers(0, 2), place=st.integers(0, 2), size=st.integers(0, 90)
)
PARTS = st.sampled_from([
    pb.PeerMessage(replicate=pb.Replicate(last=1)),
    pb.PeerMessage(replicate=pb.Replicate(last=1, records=b"here")),
    pb.PeerMessage(publish_batch=pb.PublishBatch(first=1, messages=[b"", b""])),
    pb.PeerMessage(offer=pb.Offer()),
])  # fmt: skip
FRAMES = st.builds(
    pb.PeerFrame, version=st.just(PIECES), sender=st.just("n1"), first=st.just(1),
    messages=st.lists(PARTS, max_size=2), longs=st.lists(LONGS, max_size=3),
)  # fmt: skip


@given(st.lists(FRAMES.map(pb.PeerFrame.SerializeToString) | st.binary(max_size=60), max_size=8))
@settings(max_examples=examples(300), deadline=None)
def test_whatever_comes_is_a_frame_or_refused(stream: list[bytes]) -> None:
    reader = FrameReader()
    for data in stream:
        try:
            reader.take(data)
        except MalformedFrameError:
            return
        assert reader.bytes_begun <= sum(map(len, stream))


RELAY = pb.PeerMessage(relay=pb.Relay(messages=[b""]))


@pytest.mark.parametrize(
    ("messages", "longs", "pieces", "words"),
    [
        ([pb.PeerMessage(offer=pb.Offer())], [(0, 0, 1)], [b"x"], "in a message that has none"),
        ([RELAY], [(0, 1, 1)], [b"x"], "place in its message"),
        ([RELAY], [(1, 0, 1)], [b"x"], "place in its frame"),
        ([pb.PeerMessage(replicate=pb.Replicate())], [(0, 1, 1)], [b"x"], "records that have no"),
        ([], [(0, 0, 0)], [], "of no bytes"),
        ([], [(0, 0, 1 << 40)], [], "a frame of more than"),
        ([pb.PeerMessage(replicate=pb.Replicate())], [(0, 0, 2)], [b"xyz"], "or too long"),
        ([pb.PeerMessage(replicate=pb.Replicate())], [(0, 0, 2)], [b""], "is too short"),
        ([pb.PeerMessage(replicate=pb.Replicate())], [(0, 0, 2)], [b"x"], "is too short"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(
    messages: list[pb.PeerMessage], longs: list[tuple[int, int, int]], pieces: list[bytes],
    words: str,
) -> None:  # fmt: skip
    wire = pb.PeerFrame(version=PIECES, sender="n1", first=1, messages=messages)
    for message, place, size in longs:
        wire.longs.add(message=message, place=place, size=size)
    reader = FrameReader()
    with pytest.raises(MalformedFrameError, match=words):
        [reader.take(data) for data in (wire.SerializeToString(), *pieces)]


def test_long_contents_that_do_not_follow_are_no_frame() -> None:
    wire = pb.PeerFrame(version=PIECES, sender="n1", first=1)
    wire.longs.add(size=4)
    with pytest.raises(MalformedFrameError, match="do not follow"):
        decode_frame(wire.SerializeToString())
