"""What else reads bytes: peers' frames, Raft frames, commands of the map, snapshots, the journal.

Peers have proven who they are, and disks are ours; a version that was upgraded by halves or a torn
write still must do no harm. Promises: nothing is raised but the decoder's own error, and what was
accepted is encoded to the same again.
"""

from dataclasses import replace
from typing import Any, Final, get_args, get_origin, get_type_hints
from zlib import crc32

from fedq.core import peer_messages as peer
from fedq.core.errors import NodeFailure, Refused
from fedq.core.ids import FragmentId, Incarnation, MapVersion, NodeId
from fedq.core.suspects import LastWords, Stopped, Suspect
from fedq.journal import records
from fedq.journal.bodies import messages_in
from fedq.journal.decoding import CorruptRecord, decode, outlines, scan, tracked
from fedq.journal.events import Copy, Enqueue, Record
from fedq.journal.indexes import decode_index, encode_index
from fedq.journal.payloads import Outline
from fedq.journal.recovery import CorruptJournal, recover
from fedq.journal.segments import SegmentPlan
from fedq.shell.disk import stopped
from fedq.shell.peers.codec import decode_frame, encode_frame
from fedq.shell.peers.malformed import MalformedFrameError
from fedq.shell.raft import wire as raft_wire
from fedq.shell.raft.wire import LogEntry, WireError
from fedq.wiring.cluster_map import invariants
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import Operation, encode_command
from tests.fuzz.mutation import JOURNAL
from tests.fuzz.target import Target, error_of
from tests.unit.journal import samples
from tests.unit.wiring import maps

# --- peers ----------------------------------------------------------------------------------------


def run_peer(data: bytes) -> None:
    """A frame is refused, or means the same when it is sent on."""
    if error_of(lambda: decode_frame(data), MalformedFrameError):
        return
    frame = decode_frame(data)
    assert decode_frame(encode_frame(frame)) == frame


def _sample(hint: Any) -> Any:
    """Some value of a field's type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is list:
        return [_sample(arguments[0])]
    if origin is tuple:
        return tuple(_sample(one) for one in arguments if one is not ...)
    if arguments:
        return _sample(arguments[0])
    if hasattr(hint, "_fields"):
        return hint(*map(_sample, get_type_hints(hint).values()))
    samples_of = {str: "n1", bytes: samples.message("body"), bool: True, int: 1}
    return samples_of.get(getattr(hint, "__supertype__", hint), 1)


def peer_seeds() -> list[bytes]:
    messages = [_sample(kind) for kind in get_args(peer.PeerMessage)]
    frames = [[message] for message in messages] + [messages]
    beat = peer.Heartbeat(1, 2, True)
    suspects = [Suspect(FragmentId(7), 9, 4, bytes(16), True)]
    found = [
        peer.PeerFrame(NodeId("n1"), Incarnation(3), (4, 5), 1, 9, MapVersion(2), one, beat)
        for one in frames
    ]
    found.append(found[0]._replace(messages=[], last_words=LastWords("a step", suspects)))
    return [encode_frame(frame) for frame in found]


# --- the Raft log ---------------------------------------------------------------------------------


def run_raft(data: bytes) -> None:
    """A frame is refused, or is what its message is encoded to."""
    if error_of(lambda: raft_wire.decode(data), WireError) is None:
        assert raft_wire.encode(raft_wire.decode(data)) == data


def raft_seeds() -> list[bytes]:
    entries = [
        LogEntry(3, b"\x00command"), LogEntry(3, raft_wire.NO_OP), LogEntry(3, b"\x02\x01\x02n1"),
    ]  # fmt: skip
    messages: list[raft_wire.RaftMessage] = [
        raft_wire.VoteRequest(4, 7, 3, True), raft_wire.Vote(4), raft_wire.LeadNow(4),
        raft_wire.Append(3, 6, 8, 9, 2, entries), raft_wire.Append(3, 6, 8, 9, 2, []),
        raft_wire.SnapshotChunk(3, 7, 0, 100, b"chunk"), raft_wire.Ack(3, 7, 12, True, False),
        raft_wire.Forward([b"one", b"two"]), raft_wire.Standing(3, 7, 2, True),
        raft_wire.Promote(3, 7), raft_wire.Standing(3, 7, 2, True, 5),
    ]  # fmt: skip
    return [raft_wire.encode(message) for message in messages]


# --- the cluster map ------------------------------------------------------------------------------


def _a_map() -> ClusterMap:
    wired = maps.Wired("a", "b")
    wired.ok(maps.queue("jobs", fragments=2))
    wired.ok(maps.exchange("events"))
    wired.ok(maps.bind("events", "jobs", "a.*"))
    return wired.map


_SNAPSHOT: Final = _a_map().snapshot()


def run_command(data: bytes) -> None:
    """Any bytes have a result, the same on every node, after which the map is consistent."""
    one, other = ClusterMap(), ClusterMap()
    one.restore(_SNAPSHOT)
    other.restore(_SNAPSHOT)
    try:
        applied = one.apply(data)
    except NodeFailure:
        # What a newer release may have written stops the node; nothing has changed.
        assert one.snapshot() == _SNAPSHOT
        return
    assert other.apply(data) == applied
    assert all(one.text for one in applied.results if isinstance(one, Refused))
    invariants.check(one)
    snapshot = one.snapshot()
    assert other.snapshot() == snapshot
    other.restore(snapshot)
    assert other.snapshot() == snapshot


def command_seeds() -> list[bytes]:
    operations: list[Operation] = [
        maps.up("c"), maps.down("b"), maps.queue("new"), maps.exchange("new"),
        maps.bind("events", "jobs", "a.#"), maps.unbind("events", "jobs", "a.#"),
    ]  # fmt: skip
    commands = [encode_command(f"r{i}", [one]) for i, one in enumerate(operations)]
    return [*commands, encode_command("all", operations)]


def run_snapshot(data: bytes) -> None:
    """A snapshot is refused, and then nothing changed, or it is the map's from now on."""
    restored = ClusterMap()
    before = restored.snapshot()
    if error_of(lambda: restored.restore(data), ValueError):
        assert restored.snapshot() == before
        return
    invariants.check(restored)
    again = ClusterMap()
    again.restore(restored.snapshot())
    assert again.snapshot() == restored.snapshot()


# --- the journal ----------------------------------------------------------------------------------


def plain(record: Record | Outline) -> object:
    """An outline and what it is the outline of are equal."""
    if isinstance(record, Enqueue):
        ids = (record.first_position, record.origin, record.first_number, record.resent)
        return (*ids, record.messages)
    if isinstance(record, Outline):
        return (*record[:4], record.messages())
    return record


def messages_of(found: list[Record], fragment: FragmentId) -> dict[int, bytes]:
    """The messages of a fragment by position; the later one of two at the same."""
    messages: dict[int, bytes] = {}
    for record in tracked(each for each in found if each.fragment == fragment):
        if isinstance(record, Enqueue):
            messages.update(enumerate(record.messages, record.first_position))
        elif isinstance(record, Copy):
            messages.update(zip(record.positions, record.messages, strict=True))
    return dict(sorted(messages.items()))


def run_journal(data: bytes) -> None:
    """Records are read up to the damage; recovery tells it, or what it found."""
    for number in (samples.ONE, samples.TWO, FragmentId(0)):
        # Whatever the bytes are, a place says what can be read in it.
        messages_in(data, number, 0, 1 << 64)
    if error_of(lambda: scan(data), CorruptRecord):
        return
    found, end = scan(data)
    assert 0 <= end <= len(data)
    assert list(decode(data[:end])) == found
    fragment = found[0].fragment if found else FragmentId(1)
    in_place, reasons = messages_in(data[:end], fragment, 0, 1 << 65)
    assert not reasons, reasons
    assert list(in_place.items()) == list(messages_of(found, fragment).items())
    if all(record.fragment == fragment for record in found):
        read = outlines(data[:end], fragment)
        assert [plain(record) for record in read] == [plain(record) for record in found]
    else:
        # A backup takes nothing of another fragment.
        assert error_of(lambda: outlines(data[:end], fragment), CorruptRecord)
    error_of(lambda: recover({1: data}), CorruptJournal)


def journal_seeds() -> list[bytes]:
    fragment = samples.ONE
    texts = samples.bodies("a", "b", "c")
    enqueue = records.encode_enqueue(fragment, 1, 10, samples.NORTH, 5, texts, resent=True)
    note = records.encode_note(fragment, 1, 12, records.NOTE_EXPIRES, {10: 1, 11: 1 << 40})
    tracked = [
        enqueue,
        records.encode_copy(fragment, 1, [1, 4], texts[:2], {samples.SOUTH: 7}),
        records.encode_settle(fragment, 1, 13, [(10, 10), (12, 12)]),
        records.encode_keep(fragment, 2, 20, [(1, 5)]),
        note,
        records.encode_group(fragment, 1, enqueue + note),
        records.encode_reset(fragment, 2, 20),
        records.encode_drop(fragment, 2),
    ]
    return [*tracked, b"".join(tracked)]


def run_index(data: bytes) -> None:
    """An index is none, or says the same when it is written again."""
    for content in (data, data + crc32(data).to_bytes(4, "big")):
        found = decode_index(content, 7, 1_000, b"opening")
        if found is not None:
            again = decode_index(encode_index(found, 1_000, b"opening"), 7, 1_000, b"opening")
            assert again == found
            for fragment in found.places.fragments():
                assert again.places.of(fragment, 7) == found.places.of(fragment, 7)


def index_seeds() -> list[bytes]:
    plan = SegmentPlan(bytes_max=400)
    for position in range(1, 9):
        fragment = FragmentId(position % 3 - 1)
        plan.append(fragment, bytes(100), False, position, position, position > 6)
    full = [chunk.full for chunk in plan.take() if chunk.full is not None]
    seeds = [encode_index(replace(each, number=7), 1_000, b"opening") for each in full]
    return [*seeds, *(seed[:-4] for seed in seeds)]


# --- what a node failed at ------------------------------------------------------------------------


def run_stopped(data: bytes) -> None:
    """A file is refused, or says the same when it is written again."""
    if error_of(lambda: stopped.decode(data), ValueError) is None:
        found = stopped.decode(data)
        assert stopped.decode(stopped.encode(found)) == found


def stopped_seeds() -> list[bytes]:
    suspects = [
        Suspect(FragmentId(7), 9, 4, bytes(16), True), Suspect(FragmentId(7), 0, 0, b"", False),
        Suspect(FragmentId(0), 0, 4, bytes(16), False),
    ]  # fmt: skip
    return [
        stopped.encode(Stopped(3, 1_700_000_000_000, "a step", "an error", named, copies))
        for named, copies in ((suspects, [b"body"]), (suspects[:1], []), ([], []))
    ]


TARGETS: Final = (
    Target("stopped", run_stopped, stopped_seeds, calls_per_byte=60),
    Target("peer", run_peer, peer_seeds, calls_per_byte=60),
    Target("raft", run_raft, raft_seeds),
    Target("commands", run_command, command_seeds, calls=20_000, calls_per_byte=200),
    Target("snapshots", run_snapshot, lambda: [_SNAPSHOT], calls=20_000, calls_per_byte=200),
    Target("index", run_index, index_seeds, calls_per_byte=60),
    Target("journal", run_journal, journal_seeds, JOURNAL, calls_per_byte=60),
)
