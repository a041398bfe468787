"""Contents that several messages of a frame carry: they travel once, and arrive everywhere."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.methods import (
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.core import message as message_encoding
from fedq.core import peer_messages as peer
from fedq.core.ids import FragmentId, Incarnation, MapVersion, NodeId, Origin
from fedq.core.versions import REPEATS
from fedq.shell.pb import peer_pb2 as pb
from fedq.shell.peers import codec, repeats
from fedq.shell.peers.codec import decode_frame
from fedq.shell.peers.malformed import MalformedFrameError
from fedq.shell.peers.reader import FrameReader
from fedq.shell.peers.send_queue import FrameSendQueue
from tests.examples import examples
from tests.property.peer_strategies import any_message
from tests.property.test_long_frames import small
from tests.unit.node.harness import Cluster

N1 = NodeId("n1")
ORIGIN = Origin(N1, Incarnation(1))


def content(body: bytes) -> bytes:
    return message_encoding.encode(0, b"\0\0", b"\0\0", body)


#: Objects of which a frame may carry each several times; some are equal, and not the same.
POOL = [content(b"x" * size) for size in (0, 1, 40, 90, 200, 90)]
PICKED = st.lists(st.sampled_from(POOL), min_size=1, max_size=5)
CARRIERS = (
    PICKED.map(lambda m: peer.PublishBatch(FragmentId(1), 1, ORIGIN, 1, False, m))
    | PICKED.map(lambda m: peer.PublishAtomic(FragmentId(1), 1, ORIGIN, 1, False, m, [], [], []))
    | PICKED.map(lambda m: peer.Deliver(FragmentId(1), 1, list(range(len(m))), [], m))
    | PICKED.map(lambda m: peer.Relay(1, "/", m))
)


def frame_of(messages: list[peer.PeerMessage], first: int = 1) -> peer.PeerFrame:
    number = first if messages else 0
    return peer.PeerFrame(N1, Incarnation(3), (4, 5), number, 9, MapVersion(2), messages, None)


def heard(queue: FrameSendQueue) -> tuple[list[peer.PeerMessage], int]:
    """What arrives of all that waits, and in how many bytes it travels."""
    reader, found, size = FrameReader(), list[peer.PeerMessage](), 0
    while (data := queue.take()) is not None:
        size += len(data)
        frame = reader.take(data)
        if frame is not None:
            found += frame.messages
    return found, size


@given(st.lists(st.lists(CARRIERS | any_message, max_size=6), max_size=4), st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_what_is_repeated_arrives_as_it_was(
    frames: list[list[peer.PeerMessage]], older: bool
) -> None:
    queue, first = FrameSendQueue(), 1
    queue.version = REPEATS - older
    for messages in frames:
        queue.add(frame_of(messages, first))
        first += len(messages)
    with small(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "WORTH_BYTES", 0)
        found, _ = heard(queue)
    assert found == [message for messages in frames for message in messages]


def test_one_publish_to_three_queues_of_another_node_crosses_once() -> None:
    """Before, it crossed once for each of them."""
    cluster = Cluster(3)
    one, two = cluster.client("n1"), cluster.client("n2")
    one.ask(ExchangeDeclare("all", "fanout"), ExchangeDeclareOk)
    for name in ("a", "b", "c"):
        one.ask(QueueDeclare(name), QueueDeclareOk)
        one.ask(QueueBind(name, "all"), QueueBindOk)
    two.ask(ConfirmSelect(), ConfirmSelectOk)
    cluster.overheard.clear()
    two.publish("", *(each * 10_000 for each in "xyz"), exchange="all")
    cluster.settle()
    batches = [
        message
        for sender, _, message in cluster.overheard
        if isinstance(message, peer.PublishBatch) and sender == "n2"
    ]
    assert len(batches) == 3, "one for each queue"
    queue = FrameSendQueue()
    queue.add(frame_of(list(batches)))
    found, size = heard(queue)
    assert found == batches
    assert size < 31_000, "three contents, and not nine"
    one_batch, other_batch = found[0], found[2]
    assert isinstance(one_batch, peer.PublishBatch)
    assert isinstance(other_batch, peer.PublishBatch)
    assert one_batch.messages[1] is other_batch.messages[1], "and is in memory once"


REPEATED = st.builds(
    pb.RepeatedContents, message=st.integers(0, 3), place=st.integers(0, 2),
    size=st.integers(0, 3), of_message=st.integers(0, 3), of_place=st.integers(0, 2),
)  # fmt: skip
A = content(b"a" * 9)
PARTS = st.sampled_from([
    pb.PeerMessage(publish_batch=pb.PublishBatch(first=1, messages=[A, A])),
    pb.PeerMessage(relay=pb.Relay(messages=[b"", b""])),
    pb.PeerMessage(relay=pb.Relay(messages=[A, b""])),
    pb.PeerMessage(replicate=pb.Replicate(last=1)),
    pb.PeerMessage(),
])  # fmt: skip
FRAMES = st.builds(
    pb.PeerFrame, version=st.just(REPEATS), sender=st.just("n1"), first=st.just(1),
    messages=st.lists(PARTS, max_size=4), repeats=st.lists(REPEATED, max_size=4),
    longs=st.lists(st.builds(pb.LongContent, message=st.integers(0, 3), size=st.just(5))),
)  # fmt: skip


@given(FRAMES.map(pb.PeerFrame.SerializeToString), st.binary(min_size=5, max_size=5))
@settings(max_examples=examples(300), deadline=None)
def test_whatever_comes_is_a_frame_or_refused(data: bytes, more: bytes) -> None:
    reader = FrameReader()
    try:
        for part in (data, more):
            frame = reader.take(part)
            assert frame is None or all(
                all(message.messages)
                for message in frame.messages
                if isinstance(message, (peer.Relay, peer.PublishBatch))
            )
    except MalformedFrameError:
        return


FULL = pb.PeerMessage(relay=pb.Relay(first=1, messages=[A]))
HOLE = pb.PeerMessage(relay=pb.Relay(first=1, messages=[b"", b""]))


@pytest.mark.parametrize(
    ("messages", "repeated", "words"),
    [
        ([FULL, HOLE], [(1, 0, 1, 1, 0)], "is not before it"),
        ([HOLE, FULL], [(0, 0, 1, 1, 0)], "is not before it"),
        ([FULL, HOLE], [(2, 0, 1, 0, 0)], "is not before it"),
        ([FULL, HOLE], [(1, 0, 2, 0, 0)], "that are not there"),
        ([FULL, HOLE], [(1, 0, 2**32 - 1, 0, 0)], "that are not there"),
        ([HOLE, HOLE], [(1, 0, 1, 0, 0)], "that are not there"),
        ([FULL, HOLE], [(1, 2, 1, 0, 0)], "no place in its message"),
        ([FULL, HOLE], [(1, 0, 1, 0, 0), (1, 0, 1, 0, 0)], "no place in its message"),
        ([FULL, FULL], [(1, 0, 1, 0, 0)], "no place in its message"),
        ([pb.PeerMessage(offer=pb.Offer()), HOLE], [(1, 0, 1, 0, 0)], "a message that has none"),
        ([FULL, pb.PeerMessage(offer=pb.Offer())], [(1, 0, 1, 0, 0)], "a message that has none"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(
    messages: list[pb.PeerMessage], repeated: list[tuple[int, ...]], words: str
) -> None:
    with pytest.raises(MalformedFrameError, match=words):
        decode_frame(_frame(messages, repeated))


def test_a_small_frame_does_not_become_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "FRAME_BYTES_MAX", 1_100)
    data = _frame([FULL, *[HOLE] * 60], [(each, 0, 1, 0, 0) for each in range(1, 61)])
    assert len(data) < 1_100 < 60 * len(A)
    with pytest.raises(MalformedFrameError, match="more than fits into one"):
        decode_frame(data)


def _frame(messages: list[pb.PeerMessage], repeated: list[tuple[int, ...]]) -> bytes:
    wire = pb.PeerFrame(version=REPEATS, sender="n1", first=1, messages=messages)
    for message, place, size, of_message, of_place in repeated:
        wire.repeats.add(
            message=message, place=place, size=size, of_message=of_message, of_place=of_place
        )
    return wire.SerializeToString()
