"""The peer codec: every message kind survives the wire, and no bytes do harm."""

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.core import message as message_encoding
from fedq.core import peer_messages as peer
from fedq.core.ids import FragmentId, Incarnation, MapVersion, NodeId, Origin, QueueKey
from fedq.shell import peer_codec
from fedq.shell.pb import peer_pb2 as pb
from fedq.shell.peer_codec import PROTOCOL_VERSION, MalformedFrameError, decode_frame, encode_frame

U64 = st.integers(0, 2**64 - 1)
NUMBERS = st.lists(U64, max_size=5)
CONTENTS = st.builds(
    message_encoding.encode,
    st.integers(0, 1),
    st.binary(max_size=20),
    st.binary(max_size=20),
    st.binary(max_size=50),
)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
KEYS = st.builds(QueueKey, NAMES, NAMES)
#: Routing keys as the wire gives them: any bytes, the undecodable ones as surrogates.
ROUTING_KEYS = st.binary(max_size=20).map(lambda key: key.decode("utf-8", "surrogateescape"))
RANGES = st.lists(st.tuples(U64, U64).map(lambda pair: (min(pair), max(pair))), max_size=5)
FRAGMENTS = st.integers(-(2**63), 2**63 - 1).map(FragmentId)
ITEMS = st.lists(st.builds(peer.InterestItem, KEYS, ROUTING_KEYS, st.just("") | NAMES), max_size=3)

BY_FIELD: dict[str, st.SearchStrategy[object]] = {
    "fragment": FRAGMENTS,
    "origin": st.builds(Origin, NAMES.map(NodeId), U64.map(Incarnation)),
    "messages": st.lists(CONTENTS, max_size=4),
    "resent": st.booleans(),
    "once": st.booleans(),
    "exclusive": st.booleans(),
    "whole": st.booleans(),
    "done": st.booleans(),
    "positions": NUMBERS,
    "redelivered": NUMBERS,
    "acknowledged": NUMBERS,
    "requeued": NUMBERS,
    "rejected": NUMBERS,
    "unseen": NUMBERS,
    "unmatched": NUMBERS,
    "refused": NUMBERS,
    "level": st.integers(-(1 << 31), (1 << 31) - 1),
    "held": RANGES,
    "dropped": RANGES,
    "records": st.binary(max_size=100),
    "origins": st.binary(max_size=100),
    "added": ITEMS,
    "removed": ITEMS,
    "everything": st.lists(KEYS, max_size=3),
    "selective": st.lists(KEYS, max_size=3),
    "vhost": NAMES,
    "verb": st.integers(0, 2),
}
KINDS = get_args(peer.PeerMessage)


def _matched(message: peer.PeerMessage) -> peer.PeerMessage:
    if isinstance(message, peer.Deliver | peer.Got):
        size = min(len(message.positions), len(message.messages))
        return message._replace(
            positions=message.positions[:size], messages=message.messages[:size]
        )
    return message


def messages_of(kind: type) -> st.SearchStrategy[peer.PeerMessage]:
    """Any message of one kind."""
    fields = [BY_FIELD.get(name, U64) for name in kind._fields]  # type: ignore[attr-defined]
    return st.tuples(*fields).map(lambda values: _matched(kind(*values)))


HEARTBEATS = st.none() | st.builds(peer.Heartbeat, U64, U64, st.booleans())


def frame_with(
    messages: list[peer.PeerMessage], heartbeat: peer.Heartbeat | None = None
) -> peer.PeerFrame:
    return peer.PeerFrame(
        NodeId("n1"), Incarnation(3), (4, 5), 1, 9, MapVersion(2), messages, heartbeat
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_survives_the_wire(kind: type) -> None:
    @given(messages=st.lists(messages_of(kind), min_size=1, max_size=3), heartbeat=HEARTBEATS)
    @settings(max_examples=25, deadline=None)
    def survives(messages: list[peer.PeerMessage], heartbeat: peer.Heartbeat | None) -> None:
        frame = frame_with(messages, heartbeat)
        decoded = decode_frame(encode_frame(frame))
        assert decoded == frame
        assert [type(message) for message in decoded.messages] == [kind] * len(messages)

    survives()


@given(
    numbers=st.tuples(U64, U64, U64, U64, U64, U64),
    mixed=st.lists(st.one_of([messages_of(kind) for kind in KINDS]), max_size=6),
    heartbeat=HEARTBEATS,
)
@settings(max_examples=50, deadline=None)
def test_the_envelope_survives_the_wire(
    numbers: tuple[int, int, int, int, int, int],
    mixed: list[peer.PeerMessage],
    heartbeat: peer.Heartbeat | None,
) -> None:
    incarnation, ours, theirs, first, acknowledged, version = numbers
    frame = peer.PeerFrame(
        NodeId("någon"),
        Incarnation(incarnation),
        (ours, theirs),
        max(first, 1) if mixed else first,
        acknowledged,
        MapVersion(version),
        mixed,
        heartbeat,
        version % 2 == 1,
    )
    assert decode_frame(encode_frame(frame)) == frame


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_random_bytes_are_a_frame_or_refused(data: bytes) -> None:
    try:
        frame = decode_frame(data)
    except MalformedFrameError:
        return
    assert decode_frame(encode_frame(frame)) == frame


@given(
    frame=st.lists(st.one_of([messages_of(kind) for kind in KINDS]), max_size=3).map(frame_with),
    where=st.integers(0, 10_000),
    bit=st.integers(0, 7),
)
@settings(deadline=None)
def test_a_flipped_bit_is_a_frame_or_refused(frame: peer.PeerFrame, where: int, bit: int) -> None:
    data = bytearray(encode_frame(frame))
    data[where % len(data)] ^= 1 << bit
    try:
        decoded = decode_frame(bytes(data))
    except MalformedFrameError:
        return
    for message in decoded.messages:
        if isinstance(message, peer.Deliver | peer.Got):
            assert len(message.positions) == len(message.messages)
        if isinstance(message, peer.Attach):
            assert all(first <= last for first, last in message.held)


def _wire(**fields: object) -> bytes:
    frame = pb.PeerFrame(version=PROTOCOL_VERSION, sender="n1", first=1)
    frame.messages.add(**fields)
    return frame.SerializeToString()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "protocol version 0"),
        (b"\xff\xff", "not a peer frame"),
        (
            pb.PeerFrame(version=PROTOCOL_VERSION + 1, sender="n1").SerializeToString(),
            "same release of fedq",
        ),
        (pb.PeerFrame(version=PROTOCOL_VERSION).SerializeToString(), "name is empty"),
        (
            pb.PeerFrame(version=PROTOCOL_VERSION, sender="n" * 256).SerializeToString(),
            "longer than 255",
        ),
        (_wire(), "unknown kind"),
        (
            pb.PeerFrame(
                version=PROTOCOL_VERSION, sender="n1", messages=[pb.PeerMessage(offer=pb.Offer())]
            ).SerializeToString(),
            "without a number",
        ),
        (_wire(deliver=pb.Deliver(positions=[1])), "differ in number"),
        (_wire(got=pb.Got(positions=[1])), "differ in number"),
        (_wire(attach=pb.Attach(held=pb.Ranges(first=[1]))), "ends of some ranges"),
        (_wire(attach=pb.Attach(held=pb.Ranges(first=[2], last=[1]))), "before it begins"),
        (_wire(publish_batch=pb.PublishBatch(messages=[b"x"])), "name is empty|its head"),
        (
            _wire(publish_batch=pb.PublishBatch(origin=pb.Origin(node="n"), messages=[b"x"])),
            "shorter than its head",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(data: bytes, text: str) -> None:
    with pytest.raises(MalformedFrameError, match=text):
        decode_frame(data)


def test_a_frame_beyond_the_limit_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_codec, "frame_bytes_max", 10)
    with pytest.raises(MalformedFrameError, match="at most 10 are read"):
        decode_frame(bytes(11))


def test_the_largest_message_fits_a_frame() -> None:
    body = bytes(1_000_000)
    content = message_encoding.encode(0, b"\x00\x00", b"", body)
    frame = frame_with([peer.Relay(1, "/", [content] * 3)])
    assert decode_frame(encode_frame(frame)) == frame


def test_raft_frames_and_welcomes_survive_the_wire() -> None:
    assert peer_codec.decode_raft(peer_codec.encode_raft(b"\x00vote")) == b"\x00vote"
    assert peer_codec.decode_welcome(peer_codec.encode_welcome(NodeId("n2"))) == "n2"
    with pytest.raises(MalformedFrameError):
        peer_codec.decode_raft(b"\xff")
    with pytest.raises(MalformedFrameError):
        peer_codec.decode_welcome(b"\xff")
    with pytest.raises(MalformedFrameError):
        peer_codec.decode_welcome(b"")
