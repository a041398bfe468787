"""Frames between nodes for ever: those once written still read, and are still written alike.

Inputs: `tests/golden/peer-v7*`, and what is in them as plain values. None of them is rewritten: a
new version gets a file beside the old one, for as long as a release speaks the old one.
"""

from typing import Final, get_args

from fedq.core import message as message_encoding
from fedq.core import peer_messages as peer
from fedq.core.ids import Epoch, FragmentId, Incarnation, MapVersion, NodeId, Origin, QueueKey
from fedq.core.reader_messages import (
    BEGINS,
    CLAIMS,
    FULL,
    GIVES,
    GOES_ON,
    IS_AT,
    JOINS,
    LEAVES,
    WAITS,
    YIELDS,
    ReadAs,
    ReadTurn,
)
from fedq.core.suspects import LastWords, Suspect
from fedq.shell.peers.codec import (
    decode_frame,
    decode_raft,
    encode_frame,
    encode_raft,
    frame_of,
    read_frame,
)
from fedq.shell.peers.hello import Hello, Process, Proof, decode_hello, encode_hello
from fedq.shell.peers.longs import Long
from fedq.shell.peers.repeats import Repeat, without_repeats
from tests.unit.golden import frames

VERSION: Final = 7
NORTH, SOUTH = NodeId("north"), NodeId("süd")
F = FragmentId(2**40)
ORIGIN: Final = Origin(SOUTH, Incarnation(3))
#: Positions of a reign, and the highest of all.
P: Final = 5 << 40
MOST: Final = 2**64 - 2**40
LOG: Final = QueueKey("/", "log")


def content(body: str) -> bytes:
    """An encoded message without properties."""
    return message_encoding.encode(
        0, message_encoding.make_route("", "orders"), b"\0\0", body.encode()
    )


A, B = content("a"), content("b")

#: One of every kind, and those that look otherwise when there is nothing in them.
MESSAGES: Final[list[peer.PeerMessage]] = [
    peer.PublishBatch(F, 5, ORIGIN, 1, True, [A, B]),
    peer.PublishBatch(FragmentId(1), 0, Origin(NORTH, Incarnation(0)), 2**60, False, [A]),
    peer.PublishAtomic(F, 5, ORIGIN, 3, False, [A], [P + 1], [P + 2], [P + 3, MOST]),
    peer.PublishDone(F, 5, 7, [6]),
    peer.Watch(F, 5, 2, True, 9),
    peer.Offer(F, 5),
    peer.Credit(F, 5, 100, True, -(2**31 - 1)),
    peer.CreditBack(F, 5, 3),
    peer.Deliver(F, 5, [P + 1, P + 2], [P + 2], [A, B]),
    peer.Settle(F, 5, [P + 1], [P + 2], [P + 3], [P + 4]),
    peer.Attach(F, 6, 1, False, 4, [(1, 3), (P + 1, MOST)]),
    peer.ReplicaOffer(F, 6, 8, [(P, P)]),
    peer.ReplicaWanted(F, 6),
    peer.CopyQuery(F, Epoch(7)),
    peer.CopyWorth(F, Epoch(7), True, MOST, 2, 2**64 - 1),
    peer.CopyStart(F, 6, 8, P, [(1, 2), (4, 4)], b"origins"),
    peer.CopyChunk(F, 6, 1, True, b"records"),
    peer.Replicate(F, 6, P, P + 2, b"records"),
    peer.ReplicaAck(F, 6, P + 2, 1),
    peer.MapApplied(MapVersion(12), 2**64 - 1),
    peer.Interest(
        4, True, [peer.InterestItem(LOG, "\udcff.#", '{"a":1}')],
        [peer.InterestItem(LOG, "key", "")], [QueueKey("shop", "")], [LOG], True,
    ),
    peer.Interest(5, False, [], [], [], []),
    peer.InterestDone(4),
    peer.Tally("übung", "", 3, 2**32 - 1),
    peer.Relay(1, "/", [A, B]),
    peer.RelayDone(2, [1], [2]),
    peer.Call(9, F, peer.CALL_LEFT),
    peer.Reply(9, F, 1, MOST),
    peer.Get(10, F, 6),
    peer.Got(10, F, 6, [P + 1], [P + 1], [A], 17),
    peer.Got(11, F, 6, [], [], [], 0),
]  # fmt: skip
#: Those that came with version 9.
STREAMS: Final[list[peer.PeerMessage]] = [
    peer.ReadStream(F, 6, peer.READ_FROM, P + 1, 128),
    peer.ReadStream(F, 6, 5, 2**40, 0),
    peer.StreamPart(F, 6, peer.READ_FROM, P + 1, P + 5, [P + 1, P + 4], [A, B]),
    peer.StreamPart(F, 6, 5, 2**62, MOST, [], []),
]
#: Those that they say since version 10.
FILTERS: Final[list[peer.PeerMessage]] = [
    peer.ReadStream(F, 6, peer.READ_FROM, P + 1, 128, 7, (b"", b"\xffa", b"eu"), True),
    peer.ReadStream(F, 6, peer.READ_FROM, P + 1, 0, 2**60),
    peer.StreamPart(F, 6, peer.READ_FROM, P + 1, P + 5, [P + 1, P + 4], [A, B], 7),
    peer.StreamPart(F, 6, peer.READ_FROM, P + 1, P + 5, [], [], 2**60),
]
#: Likewise, about named readers.
NAMED: Final[list[peer.PeerMessage]] = [
    ReadAs(F, 6, 7, BEGINS, "app", 5, 2**62, True),
    ReadAs(F, 6, 7, JOINS, "app", 1, 0, False),
    ReadAs(F, 6, 7, CLAIMS, "app", 0, P + 1, False),
    ReadAs(F, 6, 2**60, IS_AT, "ü" * 127, 0, MOST, True),
    ReadAs(F, 6, 7, LEAVES, "", 0, P, False),
    ReadTurn(F, 6, 7, GOES_ON, P + 1),
    ReadTurn(F, 6, 7, WAITS, 0),
    ReadTurn(F, 6, 2**60, FULL, 0),
]
#: Those about streams in several fragments, since version 11.
PARTED: Final[list[peer.PeerMessage]] = [
    ReadAs(F, 6, 7, GIVES, "app", 0, P + 1, False),
    ReadTurn(F, 6, 7, YIELDS, 0),
]
#: Publishes of publishers with names, since version 12.
NAMED_PUBLISHERS: Final[list[peer.PeerMessage]] = [
    peer.PublishBatch(F, 6, ORIGIN, 7, False, [A, B, A], (peer.NamedRun(1, 2, "sink", 2**62),)),
    peer.PublishBatch(
        F, 6, ORIGIN, 7, True, [A, B],
        (peer.NamedRun(0, 1, "ü" * 127, 1), peer.NamedRun(1, 1, "a", 2**63 - 1)),
    ),
    peer.PublishAtomic(
        F, 6, ORIGIN, 7, False, [A], [P + 1], [], [], (peer.NamedRun(0, 1, "sink", 9),)
    ),
]  # fmt: skip
#: And how everybody keeps quiet before a hand-over, since version 13.
QUIET: Final[list[peer.PeerMessage]] = [
    peer.Quiesce(F, 6, 3), peer.Quiesce(F, 6, 0), peer.Quiesced(F, 6, 3),
]  # fmt: skip
#: The same about a fragment that is to be retired, since version 15.
RETIRING: Final[list[peer.PeerMessage]] = [
    peer.Quiesce(F, 6, 3, retires=True), peer.Quiesced(F, 6, 3, busy=True),
]  # fmt: skip
#: Those that came with version 10.
MENDING: Final[list[peer.PeerMessage]] = [
    peer.BodiesWanted(F, 6, 3, [P + 1, P + 4, MOST]),
    peer.Bodies(F, 6, 3, MOST, [P + 1, P + 4], [A, B], b"\x01\x21"),
    peer.Bodies(F, 6, 4, 0, [], [], b""),
]
BEAT: Final = peer.Heartbeat(2**40, 2**40 - 5, True, True, "0a1b", True, True)
WORDS: Final = LastWords(
    "a step", [Suspect(F, P + 1, 9, bytes(range(16)), True), Suspect(F, 0, 0, b"", False)]
)
ENVELOPE: Final = peer.PeerFrame(
    SOUTH, Incarnation(3), (4, 5), 0, 9, MapVersion(2**40), [], None
)  # fmt: skip
#: A frame for each message, and those that carry what else there is.
FRAMES: Final = [
    *(ENVELOPE._replace(first=1, messages=[message]) for message in MESSAGES),
    ENVELOPE,
    ENVELOPE._replace(heartbeat=BEAT, asks=True),
    ENVELOPE._replace(heartbeat=peer.Heartbeat(0, 0, False)),
    ENVELOPE._replace(last_words=WORDS),
    ENVELOPE._replace(first=2**60, messages=MESSAGES[3:6], heartbeat=BEAT),
]


def test_the_golden_frames_still_read_and_are_still_written_alike() -> None:
    golden = frames("peer-v7.frames")
    assert [encode_frame(frame, VERSION) for frame in FRAMES] == golden
    read = [decode_frame(data) for data in golden]
    assert read == FRAMES
    kinds = [type(message) for frame in read for message in frame.messages]
    assert kinds == [type(message) for frame in FRAMES for message in frame.messages]
    later = [type(message) for message in [*STREAMS, *MENDING, *NAMED, *QUIET]]
    assert {*kinds, *later} == {*get_args(peer.PeerMessage)}


def test_the_golden_frames_of_streams_still_read_and_are_still_written_alike() -> None:
    golden = frames("peer-v9-streams.frames")
    written = [ENVELOPE._replace(first=1, messages=[message]) for message in STREAMS]
    assert [encode_frame(frame, 9) for frame in written] == golden
    assert [decode_frame(data) for data in golden] == written


def test_the_golden_frames_of_filters_still_read_and_are_still_written_alike() -> None:
    golden = frames("peer-v10-filters.frames")
    written = [ENVELOPE._replace(first=1, messages=[message]) for message in FILTERS]
    assert [encode_frame(frame, 10) for frame in written] == golden
    assert [decode_frame(data) for data in golden] == written


def test_the_golden_frames_of_mending_still_read_and_are_still_written_alike() -> None:
    golden = frames("peer-v10-mending.frames")
    written = [ENVELOPE._replace(first=1, messages=[message]) for message in MENDING]
    assert [encode_frame(frame, 10) for frame in written] == golden
    assert [decode_frame(data) for data in golden] == written


def test_the_golden_frames_of_names_still_read_and_are_still_written_alike() -> None:
    golden = frames("peer-v10-named.frames")
    written = [ENVELOPE._replace(first=1, messages=[message]) for message in NAMED]
    assert [encode_frame(frame, 10) for frame in written] == golden
    assert [decode_frame(data) for data in golden] == written


def test_the_golden_frames_of_shares_still_read_and_are_still_written_alike() -> None:
    golden = frames("peer-v11-parted.frames")
    written = [ENVELOPE._replace(first=1, messages=[message]) for message in PARTED]
    assert [encode_frame(frame, 11) for frame in written] == golden
    assert [decode_frame(data) for data in golden] == written


def test_the_golden_frames_of_named_publishers_still_read_and_are_still_written_alike() -> None:
    golden = frames("peer-v12-publishers.frames")
    written = [ENVELOPE._replace(first=1, messages=[message]) for message in NAMED_PUBLISHERS]
    assert [encode_frame(frame, 12) for frame in written] == golden
    assert [decode_frame(data) for data in golden] == written


def test_the_golden_frames_of_quiet_hand_overs_still_read_and_are_still_written_alike() -> None:
    golden = frames("peer-v13-quiet.frames")
    written = [ENVELOPE._replace(first=1, messages=[message]) for message in QUIET]
    assert [encode_frame(frame, 13) for frame in written] == golden
    assert [decode_frame(data) for data in golden] == written


def test_the_golden_frames_of_retiring_still_read_and_are_still_written_alike() -> None:
    golden = frames("peer-v15-retiring.frames")
    written = [ENVELOPE._replace(first=1, messages=[message]) for message in RETIRING]
    assert [encode_frame(frame, 15) for frame in written] == golden
    assert [decode_frame(data) for data in golden] == written


#: Heartbeats of nodes that say what they are short of, in any version (docs/adr/0069).
ALARMS: Final = [
    ENVELOPE._replace(heartbeat=BEAT._replace(memory_full=memory, disk_low=disk))
    for memory, disk in ((True, False), (False, True), (True, True))
]


def test_the_golden_alarms_still_read_and_are_still_written_alike() -> None:
    golden = frames("peer-v9-alarms.frames")
    assert [encode_frame(frame, 9) for frame in ALARMS] == golden
    assert [decode_frame(data) for data in golden] == ALARMS


#: What a frame without its long contents says of them.
WITHOUT_LONGS: Final = ENVELOPE._replace(
    first=1,
    messages=[
        peer.Relay(1, "/", [A, b"", b""]),
        peer.Offer(F, 5),
        peer.Replicate(F, 5, P, P + 1, b""),
    ],
)
LONGS: Final = [Long(0, 1, content("b" * 9)), Long(0, 2, content("c")), Long(2, 0, b"records")]
WITH_LONGS: Final = WITHOUT_LONGS._replace(
    messages=[
        peer.Relay(1, "/", [A, LONGS[0].content, LONGS[1].content]),
        peer.Offer(F, 5),
        peer.Replicate(F, 5, P, P + 1, LONGS[2].content),
    ]
)


def test_a_golden_frame_with_long_contents_still_reads_and_is_still_written_alike() -> None:
    (golden,) = frames("peer-v7-longs.frames")
    assert encode_frame(WITHOUT_LONGS, VERSION, LONGS) == golden
    wire = read_frame(golden)
    assert [(long.message, long.place, long.size) for long in wire.longs] == [
        (number, place, len(data)) for number, place, data in LONGS
    ]
    assert frame_of(wire, LONGS) == WITH_LONGS


#: What a frame says in which later messages repeat the first one's contents.
REPEATS: Final = [Repeat(1, 0, 2, 0, 0), Repeat(2, 1, 1, 0, 1)]
WITHOUT_REPEATS: Final = ENVELOPE._replace(
    first=1,
    messages=[
        peer.PublishBatch(F, 5, ORIGIN, 1, False, [A, B]),
        peer.PublishBatch(FragmentId(1), 5, ORIGIN, 7, False, [b"", b""]),
        peer.Relay(1, "/", [content("c"), b""]),
    ],
)
WITH_REPEATS: Final = WITHOUT_REPEATS._replace(
    messages=[
        peer.PublishBatch(F, 5, ORIGIN, 1, False, [A, B]),
        peer.PublishBatch(FragmentId(1), 5, ORIGIN, 7, False, [A, B]),
        peer.Relay(1, "/", [content("c"), B]),
    ]
)


def test_a_golden_frame_with_repeats_still_reads_and_is_still_written_alike() -> None:
    (golden,) = frames("peer-v13-repeats.frames")
    assert without_repeats(WITH_REPEATS, 1 << 20) == (WITHOUT_REPEATS, REPEATS)
    assert encode_frame(WITHOUT_REPEATS, 13, (), REPEATS) == golden
    assert decode_frame(golden) == WITH_REPEATS


#: More than one entry of what is agreed upon has no order on the wire.
HELLOS: Final = [
    Hello(
        SOUTH, Process(Incarnation(3), "0a1b", 1_800_000_000_000), {"peers": "north, süd"},
        (2, "ff"), b"nonce", Proof(b"certificate", b"signature"), (5, VERSION), 6,
    ),
    Hello(NORTH, Process(Incarnation(1), "", 0), {}, speaks=(VERSION, VERSION)),
]  # fmt: skip


def test_the_golden_introductions_still_read_and_are_still_written_alike() -> None:
    golden = frames("peer-v7-hellos.frames")
    assert [encode_hello(hello) for hello in HELLOS] == golden
    assert [decode_hello(data) for data in golden] == HELLOS


def test_the_golden_introduction_with_a_cluster_still_reads_and_is_still_written_alike() -> None:
    hello = HELLOS[-1]._replace(speaks=(5, 12), cluster=12, belongs_to="0123456789abcdef")
    (golden,) = frames("peer-v12-hellos.frames")
    assert encode_hello(hello) == golden
    assert decode_hello(golden) == hello


def test_the_golden_wrapping_of_a_raft_frame_still_reads_and_is_still_written_alike() -> None:
    (golden,) = frames("peer-v7-raft.frames")
    assert encode_raft(b"a frame") == golden
    assert decode_raft(golden) == b"a frame"
