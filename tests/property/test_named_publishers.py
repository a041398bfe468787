"""Publishers with names against a dict of highest sequences: on one fragment, and on three nodes.

Whatever is published, repeated, refused, consumed and copied, a sequence is taken once: when it is
above the highest one that was taken, or was refused. Readers of property lists agree with a decoder
that looks at each of them.
"""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedq.amqp.content import checked_flags, decode_properties, encode_properties, message_flags
from fedq.amqp.named_publishes import (
    KnownBy,
    NamedReader,
    likely_place,
    place_of_sequence,
    without_sequence,
)
from fedq.amqp.values import FieldTable, Long
from fedq.core.errors import ConnectionViolation
from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.limits import (
    PUBLISHER_REFUSED_MAX,
    PUBLISHER_SERIES_MAX,
    PUBLISHERS_KNOWN_MAX,
)
from fedq.core.message import FLAG_NAMED, encode, split
from fedq.core.publish_messages import NamedRun
from fedq.core.ranges import unpack_ranges
from fedq.fragments.fragment import Fragment
from fedq.fragments.primary.arrivals import pieces_of
from fedq.fragments.publishers.known_publishers import KnownPublishers, marks_of
from fedq.fragments.replica import Replica
from fedq.journal.events import FORGOTTEN, SOME, PublisherMark, Publishers
from fedq.journal.recovery import recover
from tests.examples import examples
from tests.unit.journal.samples import message
from tests.unit.node.harness import Cluster
from tests.unit.node.publishing.named import again, queue_on, send

ONE = FragmentId(1)
ME = Origin(NodeId("me"), Incarnation(1))
NAMES = ["a", "b", "c"]

#: A publisher publishes, or is refused, so many from that sequence on.
STEPS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(NAMES), st.integers(1, 30), st.integers(1, 6)),
    max_size=40,
)


class Model:
    """What was taken of whom, one sequence at a time."""

    def __init__(self) -> None:
        self.highest: dict[str, int] = {}
        self.refused: dict[str, set[int]] = {}

    def is_new(self, name: str, sequence: int) -> bool:
        """Whether it is to be taken."""
        return sequence > self.highest.get(name, 0) or sequence in self.refused.get(name, ())

    def take(self, name: str, sequence: int) -> None:
        """It was."""
        self.highest[name] = max(sequence, self.highest.get(name, 0))
        self.refused.get(name, set()).discard(sequence)

    def refuse(self, name: str, sequence: int) -> None:
        """It was turned away."""
        self.refused.setdefault(name, set()).add(sequence)


@given(STEPS)
def test_a_sequence_is_taken_once(steps: list[tuple[bool, str, int, int]]) -> None:
    known, model = KnownPublishers(), Model()
    for is_refused, name, first, count in steps:
        at = first
        for size, is_new in known.parts(name, first, count):
            wanted = [model.is_new(name, each) for each in range(at, at + size)]
            assert wanted == [is_new] * size
            part = range(at, at + size)
            at += size
            if not is_new:
                continue
            if is_refused:
                known.refuse(name, part[0], part[-1])
                for each in part:
                    model.refuse(name, each)
            else:
                known.take(name, part[0], part[-1])
                for each in part:
                    model.take(name, each)
        assert at == first + count
    assert {name: mark.highest for name, mark in known.marks.items()} == model.highest


@given(STEPS, st.integers(0, 40))
def test_copies_and_the_journal_know_the_same(
    steps: list[tuple[bool, str, int, int]], half: int
) -> None:
    """A copy follows from the start; what the journal has is the same, wherever it is cut off."""
    fragment = Fragment(ONE, 1, durable=True, recording=True)
    copy = Replica(ONE, durable=True)
    journal, number, taken = b"", 0, list[tuple[str, int]]()
    for place, (settles, name, first, count) in enumerate(steps):
        messages = [message(f"{name}{each}") for each in range(first, first + count)]
        runs = [NamedRun(0, count, name, first)]
        for start, stop, is_new, named in pieces_of(fragment, messages, runs):
            if is_new:
                fragment.publish(ME, number + 1 + start, messages[start:stop], named=named)
                taken += [(name, first + each) for each in range(start, stop)]
            else:
                fragment.pass_over(ME, number + 1 + start, stop - start)
        number += count
        if settles:
            fragment.settle(ME.node, fragment.take(ME.node, 3).positions)
        for record in fragment.out.records:
            copy.apply(record.data)
            journal += record.data
        fragment.out.records = []
        if place == half:
            known = marks_of(fragment.publishers)
            assert dict(copy.publishing.sure) == known
            recovered = recover({1: journal}).fragments.get(ONE)
            assert (recovered.publishers if recovered is not None else {}) == known
    assert list(copy.publishing.sure.items()) == list(marks_of(fragment.publishers).items())
    assert len(taken) == len(set(taken))
    assert [owed.through for owed in fragment.out.owed][-1:] == ([number] if number else [])


def test_ranges_and_publishers_are_bounded() -> None:
    known = KnownPublishers()
    for number in range(200):
        known.refuse("a", 3 * number + 1, 3 * number + 1)
        known.take("a", 3 * number + 2, 3 * number + 2)
    [mark] = known.marks.values()
    refused = unpack_ranges(mark.refused)
    assert len(refused) == PUBLISHER_REFUSED_MAX
    assert refused[-1] == (598, 598)
    # What was refused is never taken for taken; of the first some was taken between.
    assert refused[0] == (1, 3 * (200 - PUBLISHER_REFUSED_MAX) + 1)
    for number in range(PUBLISHERS_KNOWN_MAX + 5):
        known.refuse(f"refused {number}", 1, 9)
        known.take(f"n{number}", 1, 1)
    assert len(known) == PUBLISHERS_KNOWN_MAX
    assert next(iter(known.marks)) == "n5"
    held = known.bytes_held
    known.forget(known.first_names(PUBLISHERS_KNOWN_MAX))
    assert 0 < known.bytes_held < held, "what was refused of others"
    assert known.first_names(PUBLISHERS_KNOWN_MAX) == []
    assert known.bytes_held == 0


#: A publisher publishes, or is refused; or one of them, or the first, is forgotten. Some names are
#: of a series.
FATES = st.lists(
    st.tuples(
        st.sampled_from(["take", "refuse", "forget", "first", "begin"]),
        st.sampled_from(["a", "b", *[f"s\x1f{n}" for n in range(6)], "t\x1f1"]),
        st.integers(1, 30),
    ),
    max_size=60,
)


@given(FATES)
@example([("take", f"s\x1f{n}", 1) for n in range(6)])
def test_what_is_held_is_counted_and_copies_follow(fates: list[tuple[str, str, int]]) -> None:
    """Whatever is taken, refused and forgotten: a copy that hears the records knows the same."""
    known, copy, journal = KnownPublishers(), KnownPublishers(), dict[str, PublisherMark]()
    for what, name, number in fates:
        said: dict[str, PublisherMark] = {}
        if what == "take":
            news = known.take(name, number, number + 1)
            said = {**dict.fromkeys(news.over, FORGOTTEN), name: news.mark}
            assert name not in news.over
        elif what == "refuse":
            known.refuse(name, number, number + 1)
        elif what == "begin":
            known = KnownPublishers(known.marks)
        else:
            names = [name] if what == "forget" else known.first_names(1)
            known.forget(names)
            said = dict.fromkeys(names, FORGOTTEN)
        record = Publishers(ONE, 1, 1, SOME, said)
        copy.hear(record)
        record.take_into(journal)
        assert list(copy.marks.items()) == list(known.marks.items()) == list(journal.items())
        series = [each for each in known.marks if each.startswith("s\x1f")]
        assert len(series) <= PUBLISHER_SERIES_MAX
        assert known.begun_with.keys() <= known.marks.keys(), "it may be taken anew"
    assert copy.bytes_held >= sum(map(len, copy.marks))
    for table in (known, copy):
        table.forget([*table.marks])
        while table.bytes_held:
            table.first_names(1)
        assert table.bytes_held == 0


# --- property lists ------------------------------------------------------------------------------

VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.integers(-2, 300), st.integers(0, 9).map(Long),
    st.text(max_size=4), st.booleans(), st.just("x-fedq-sequence"),
    st.just("\x0fx-fedq-sequencel" + "\0" * 8), st.binary(max_size=9),
)  # fmt: skip
HEADERS = st.dictionaries(
    st.sampled_from(["x-fedq-publisher", "x-fedq-sequence", "a", "x-fedq-sequence2"]), VALUES
)
LISTS = st.builds(
    lambda headers, kind, mode: encode_properties(
        {"headers": headers, "delivery_mode": mode}
        | ({"content_type": kind} if kind is not None else {})
    ),
    HEADERS, st.none() | st.text(max_size=5), st.integers(1, 2),
)  # fmt: skip


@given(st.lists(LISTS | st.binary(min_size=2, max_size=60), max_size=12), st.data())
@example(
    [encode_properties({"headers": {"x-fedq-publisher": "p", "x-fedq-sequence": Long(1)}})] * 2,
    None,
)
def test_what_is_remembered_of_lists_is_what_a_look_at_each_says(
    lists: list[bytes], data: st.DataObject | None
) -> None:
    """Also of some that differ in a few bytes, wherever these are."""
    if data is not None:
        for each in list(lists):
            at = data.draw(st.integers(0, len(each) - 1))
            lists.append(each[:at] + data.draw(st.binary(max_size=9)) + each[at + 8 :])
    checked: dict[KnownBy, int] = {}
    for each in lists:
        try:
            wanted = message_flags(each)
        except (ConnectionViolation, IndexError):
            wanted = -1
        try:
            found = checked_flags(each, checked)
        except (ConnectionViolation, IndexError):
            found = -1
        assert found == wanted
        if wanted >= 0 and likely_place(each) >= 0:
            place = likely_place(each)
            # Not even what somebody makes of it passes for what lists are known by.
            before, behind = without_sequence(each, place)
            width = len(each) - len(before) - len(behind)
            forged = b"\x00\x03" + before + bytes(width) + behind
            with pytest.raises(ConnectionViolation):
                checked_flags(forged, checked)
            assert place_of_sequence(each) in (place, -1) or wanted & FLAG_NAMED


@given(st.lists(LISTS, max_size=8), st.integers(0, 3))
def test_a_reader_reads_what_a_decoder_reads(lists: list[bytes], keys: int) -> None:
    reader = NamedReader()
    for number, properties in enumerate(lists):
        route = b"\x01e" + bytes([1, number % (keys + 1)])
        found = encode(0, route, properties, b"x-fedq-sequence")
        headers = decode_properties(split(found)[1])["headers"]
        assert isinstance(headers, dict)
        wanted = _plainly(headers)
        if wanted is None:
            try:
                reader.read(found)
            except ValueError:
                continue
            raise AssertionError(f"{headers} was taken")
        assert reader.read(found) == wanted


def _plainly(headers: FieldTable) -> tuple[str, int] | None:
    """Publisher and sequence; None: they are wrong."""
    publisher, sequence = headers.get("x-fedq-publisher"), headers.get("x-fedq-sequence")
    if "x-fedq-publisher" not in headers and "x-fedq-sequence" not in headers:
        return "", 0
    if not isinstance(publisher, str) or not 0 < len(publisher.encode()) <= 255:
        return None
    if not isinstance(sequence, int) or isinstance(sequence, bool) or sequence < 1:
        return None
    return publisher, int(sequence)


# --- nodes ---------------------------------------------------------------------------------------

HISTORIES = st.lists(
    st.tuples(st.just("publish"), st.sampled_from(["n1", "n2", "n3"]), st.integers(1, 12))
    | st.tuples(st.just("restart"), st.sampled_from(["n1", "n2", "n3"]), st.just(0))
    | st.tuples(st.just("kill"), st.sampled_from(["n1", "n2", "n3"]), st.just(0))
    | st.tuples(st.just("hang"), st.sampled_from(["n1", "n2", "n3"]), st.just(0)),
    min_size=3, max_size=10,
)  # fmt: skip


@settings(max_examples=examples(25))
@given(HISTORIES, st.sampled_from([2, 3]))
def test_nodes_die_and_the_client_goes_back(
    history: list[tuple[str, str, int]], replicas: int
) -> None:
    """It repeats from anywhere, through any node; at the end each sequence is there, once."""
    cluster = Cluster(3)
    client = queue_on(cluster, "n1", x_fedq_replicas=replicas)
    sent = 0
    for what, name, count in history:
        running = [host.name for host in cluster.hosts.values() if host.node is not None]
        if what == "publish":
            client = again(cluster, name if name in running else running[0])
            send(client, "q", range(max(1, sent - 2 * count), sent + count + 1))
            sent += count
        elif what == "hang":
            cluster.disk_waits(name, not cluster.hosts[NodeId(name)].disk_waits)
        elif name in running and len(running) == 3:
            cluster.kill(name)
        elif what == "restart":
            for each in [each for each in cluster.hosts if each not in running]:
                cluster.start(each)
            cluster.pass_ms(3_000)
    for host in cluster.hosts.values():
        cluster.disk_waits(host.name, False)
        if host.node is None:
            cluster.start(host.name)
    cluster.pass_ms(12_000)
    client = again(cluster, "n2")
    send(client, "q", range(1, sent + 2))
    cluster.pass_ms(3_000)
    primary = cluster.node(cluster.primary_of("q")).state.primaries[ONE].fragment
    found = [split(each)[2].decode() for _, each in primary.messages.pairs()]
    assert found == [f"p{number}" for number in range(1, sent + 2)]
