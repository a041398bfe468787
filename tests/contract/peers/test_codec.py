"""The peer codec: every message kind survives the wire, and no bytes do harm."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.core import message as message_encoding
from fedq.core import peer_messages as peer
from fedq.core.ids import Incarnation, MapVersion, NodeId
from fedq.core.suspects import LastWords
from fedq.core.versions import MINE, NEWEST, shown
from fedq.shell.pb import peer_pb2 as pb
from fedq.shell.peers import codec as peer_codec
from fedq.shell.peers import hello as peer_hello
from fedq.shell.peers.codec import decode_frame, encode_frame
from fedq.shell.peers.malformed import MalformedFrameError
from tests.examples import examples
from tests.property.peer_strategies import EVENT_MAX, KINDS, LAST_WORDS, any_message, messages_of

U64 = st.integers(0, 2**64 - 1)
HEARTBEATS = st.none() | st.builds(
    peer.Heartbeat, U64, U64, st.booleans(), st.booleans(), st.text(max_size=20), st.booleans()
)


def frame_with(
    messages: list[peer.PeerMessage], heartbeat: peer.Heartbeat | None = None
) -> peer.PeerFrame:
    return peer.PeerFrame(
        NodeId("n1"), Incarnation(3), (4, 5), 1, 9, MapVersion(2), messages, heartbeat
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_survives_the_wire(kind: type) -> None:
    @given(messages=st.lists(messages_of(kind), min_size=1, max_size=3), heartbeat=HEARTBEATS)
    @settings(max_examples=examples(25), deadline=None)
    def survives(messages: list[peer.PeerMessage], heartbeat: peer.Heartbeat | None) -> None:
        frame = frame_with(messages, heartbeat)
        decoded = decode_frame(encode_frame(frame))
        assert decoded == frame
        assert [type(message) for message in decoded.messages] == [kind] * len(messages)

    survives()


@given(
    numbers=st.tuples(U64, U64, U64, U64, U64, U64),
    mixed=st.lists(any_message, max_size=6),
    heartbeat=HEARTBEATS,
    last_words=st.none() | LAST_WORDS,
)
@settings(max_examples=examples(50), deadline=None)
def test_the_envelope_survives_the_wire(
    numbers: tuple[int, int, int, int, int, int],
    mixed: list[peer.PeerMessage],
    heartbeat: peer.Heartbeat | None,
    last_words: LastWords | None,
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
        last_words,
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
    frame=st.lists(any_message, max_size=3).map(frame_with),
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
        if isinstance(message, peer.Deliver | peer.Got | peer.StreamPart | peer.Bodies):
            assert len(message.positions) == len(message.messages)
        if isinstance(message, peer.Attach):
            assert all(first <= last for first, last in message.held)


def _wire(**fields: object) -> bytes:
    frame = pb.PeerFrame(version=NEWEST, sender="n1", first=1)
    frame.messages.add(**fields)
    return frame.SerializeToString()


_PLAIN = message_encoding.encode(0, b"\0\1q", b"\0\0", b"body")


def _batch(*messages: bytes, first: int = 1) -> bytes:
    batch = pb.PublishBatch(
        fragment=1, first=first, origin=pb.Origin(node="n"), messages=list(messages)
    )
    return _wire(publish_batch=batch)


def _ranges(*pairs: tuple[int, int]) -> pb.Ranges:
    return pb.Ranges(first=[pair[0] for pair in pairs], last=[pair[1] for pair in pairs])


def _interest(arguments: str = "", routing_key: bytes = b"k") -> bytes:
    item = pb.InterestItem(
        exchange=pb.QueueKey(vhost="/", name="x"), routing_key=routing_key, arguments=arguments
    )
    return _wire(interest=pb.Interest(added=[item]))


def _last(step: str = "a step", count: int = 1, **fields: object) -> bytes:
    frame = pb.PeerFrame(version=NEWEST, sender="n1")
    frame.last_words.step = step
    for _ in range(count):
        frame.last_words.suspects.add(**fields)
    return frame.SerializeToString()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (_last("s" * 1_001, 0), "too long"),
        (_last(count=1_025, fragment=1), "too long"),
        (_last(), "without its digest"),
        (_last(fragment=1, position=1), "without its digest"),
        (_last(fragment=1, size=1), "without its digest"),
        (_last(position=1, size=1, digest=bytes(16)), "no position"),
        (_last(fragment=1, position=2**64 - 1, size=1, digest=bytes(16)), "no position"),
        (_last(fragment=-1, size=1, digest=bytes(16)), "no fragment"),
        (_last(fragment=2**62, size=1, digest=bytes(16)), "no fragment"),
        (_last(size=1, digest=bytes(15)), "15 bytes"),
        (_last(size=2**40, digest=bytes(16)), "a message of"),
        (_last(digest=bytes(16)), "a message of 0 bytes"),
        (b"", "a frame of version 0"),
        (b"\xff\xff", "not a peer frame"),
        (
            pb.PeerFrame(version=NEWEST + 1, sender="n1").SerializeToString(),
            f"this node speaks {shown(MINE)}",
        ),
        (pb.PeerFrame(version=NEWEST).SerializeToString(), "name is empty"),
        (
            pb.PeerFrame(
                version=NEWEST, sender="n1", heartbeat=pb.Heartbeat(start="s" * 256)
            ).SerializeToString(),
            "start's id is longer",
        ),
        (
            pb.PeerFrame(version=NEWEST, sender="n" * 256).SerializeToString(),
            "longer than 255",
        ),
        (_wire(), "unknown kind"),
        (
            pb.PeerFrame(
                version=NEWEST, sender="n1", messages=[pb.PeerMessage(offer=pb.Offer())]
            ).SerializeToString(),
            "without a number",
        ),
        (_wire(deliver=pb.Deliver(fragment=1, positions=[1])), "differ in number"),
        (_wire(got=pb.Got(fragment=1, positions=[1])), "differ in number"),
        (_wire(stream_part=pb.StreamPart(fragment=1, positions=[1])), "differ in number"),
        (_wire(bodies=pb.Bodies(fragment=1, positions=[1])), "differ in number"),
        (
            _wire(bodies=pb.Bodies(fragment=1, positions=[1], messages=[_PLAIN])),
            "flags and messages differ in number",
        ),
        (
            _wire(bodies=pb.Bodies(fragment=1, positions=[2, 1], messages=[_PLAIN] * 2)),
            "do not ascend",
        ),
        (_wire(bodies_wanted=pb.BodiesWanted(fragment=1, positions=[1, 1])), "do not ascend"),
        (
            _wire(bodies_wanted=pb.BodiesWanted(fragment=1, positions=[2**64 - 1])),
            "a number is too high",
        ),
        (_wire(stream_part=pb.StreamPart(fragment=1, value=5, next=4)), "does not ascend"),
        (_wire(read_stream=pb.ReadStream(fragment=1, values=[b"x" * 256])), "at most 255"),
        (_wire(read_stream=pb.ReadStream(fragment=1, values=[b"x"] * 65)), "at most 64"),
        (_wire(read_stream=pb.ReadStream(fragment=1, values=[b"x" * 255] * 17)), "at most 4096"),
        (_wire(read_stream=pb.ReadStream(fragment=1, value=5)), "takes none back"),
        (_wire(read_stream=pb.ReadStream(fragment=1, kind=1)), "unknown kind 1"),
        (_wire(read_stream=pb.ReadStream(fragment=1, kind=6, amount=1)), "unknown kind 6"),
        (_wire(attach=pb.Attach(fragment=1, held=pb.Ranges(first=[1]))), "ends of some ranges"),
        (
            _wire(attach=pb.Attach(fragment=1, held=pb.Ranges(first=[2], last=[1]))),
            "before it begins",
        ),
        (_wire(publish_batch=pb.PublishBatch(fragment=1)), "name is empty"),
        (_batch(b"x"), "shorter than its head"),
        (_batch(bytes(7)), "not an exchange and a routing key"),
        (_batch(b"\0\0\2\0\0\0\0\0\0"), "does not hold what its flags announce"),
        (_batch(b"\0\0\2\0\0\0\2\0\0\x20\0"), "ends too early"),
        (_batch(b"\0\0\2\0\0\0\4\0\0\0\0"), "shorter than its route and properties"),
        (_batch(b"\4\0\2\0\0\0\2\0\0\0\0"), "flags do not say what its properties say"),
        (_batch(_PLAIN, bytes(7)), "not an exchange and a routing key"),
        (_batch(), "without a message"),
        (_batch(_PLAIN, first=0), "first: 0 is not from 1"),
        (_batch(_PLAIN, first=2**64 - 1), "first: 18446744073709551615 is not"),
        (_wire(watch=pb.Watch(fragment=1, consumers=2**64 - 1)), "consumers"),
        (_wire(credit=pb.Credit(fragment=1, level=2**62)), "level"),
        (_wire(attach=pb.Attach(fragment=1, held=_ranges((0, 2**64 - 1)))), "too high"),
        (_wire(attach=pb.Attach(fragment=1, held=_ranges((1, 5), (5, 6)))), "do not ascend"),
        (_wire(replicate=pb.Replicate(fragment=1, previous=2, last=1)), "before they begin"),
        (_wire(replicate=pb.Replicate(fragment=1, last=EVENT_MAX + 1)), "last"),
        (_wire(settle=pb.Settle(fragment=1, requeued=[2**64 - 1])), "too high"),
        (_wire(relay=pb.Relay(first=1, vhost="v" * 256, messages=[_PLAIN])), "longer than 255"),
        (_interest(arguments="{"), "arguments"),
        (_interest(arguments="[]"), "not a JSON object"),
        (_interest(arguments='{"a":' * 600 + "1" + "}" * 600), "arguments"),
        (_interest(routing_key=b"k" * 256), "longer than 255"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(data: bytes, text: str) -> None:
    with pytest.raises(MalformedFrameError, match=text):
        decode_frame(data)


def test_a_frame_beyond_the_limit_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_codec, "FRAME_BYTES_MAX", 10)
    with pytest.raises(MalformedFrameError, match="at most 10 are read"):
        decode_frame(bytes(11))


def test_the_largest_message_fits_a_frame() -> None:
    body = bytes(1_000_000)
    content = message_encoding.encode(0, b"\x00\x00", b"\x00\x00", body)
    frame = frame_with([peer.Relay(1, "/", [content] * 3)])
    assert decode_frame(encode_frame(frame)) == frame


def test_raft_frames_and_introductions_survive_the_wire() -> None:
    assert peer_codec.decode_raft(peer_codec.encode_raft(b"\x00vote")) == b"\x00vote"
    process = peer_hello.Process(Incarnation(7), "0123456789abcdef", 1_700_000_000_000)
    hello = peer_hello.Hello(NodeId("n2"), process, {"peers": "n1, n2"})
    assert peer_hello.decode_hello(peer_hello.encode_hello(hello)) == hello
    newer = hello._replace(speaks=(NEWEST, NEWEST + 3), cluster=NEWEST + 1, nonce=b"n" * 16)
    newer = newer._replace(directory="0a1b")
    assert peer_hello.decode_hello(peer_hello.encode_hello(newer)) == newer
    # Releases before this one spoke one version.
    older = pb.Hello(version=3, node="n2").SerializeToString()
    assert peer_hello.decode_hello(older).speaks == (3, 3)
    with pytest.raises(MalformedFrameError):
        peer_codec.decode_raft(b"\xff")
    nameless = pb.Hello(version=NEWEST).SerializeToString()
    for data in (b"\xff", b"", nameless, bytes(peer_hello.HELLO_BYTES_MAX + 1)):
        with pytest.raises(MalformedFrameError):
            peer_hello.decode_hello(data)
    # What is repeated in sentences for operators.
    for directory in ("d" * 256, "a\nline"):
        with pytest.raises(MalformedFrameError):
            peer_hello.decode_hello(peer_hello.encode_hello(newer._replace(directory=directory)))
