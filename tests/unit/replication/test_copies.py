"""How much of a copy is on its way at a time, and what a turn does for it."""

from fedq.core.ids import FragmentId, NodeId
from fedq.core.limits import COPY_CHUNKS_IN_FLIGHT_MAX, COPY_CHUNKS_IN_FLIGHT_MIN
from fedq.core.peer_messages import CopyChunk
from fedq.core.ranges import to_ranges
from fedq.core.work import Work
from fedq.fragments.runs.runs import ON_DISK
from fedq.journal.decoding import decode
from fedq.journal.events import Copy
from fedq.replication.primary import PrimaryReplication
from tests.unit.journal.samples import message
from tests.unit.replication.held import Held

ONE = FragmentId(1)
BEN = NodeId("ben")
BODY = message("x" * 100)
#: Chunks of two messages.
CHUNK_BYTES = len(BODY) + 1


def copying(messages: Held) -> PrimaryReplication:
    """A primary whose one backup has nothing yet, and lacks all of these."""
    made = PrimaryReplication(ONE, 1, 1_000, CHUNK_BYTES)
    made.set_copies([BEN], [], 1, 1_000, False, 0)
    made.on_offer(BEN, 1, [], to_ranges(messages), {}, {}, 1_000, 0)
    made.sends.clear()
    return made


def sent(made: PrimaryReplication) -> list[list[int]]:
    """The positions in each chunk that was sent since the last look."""
    chunks = [each for each in made.sends.pop(BEN, []) if isinstance(each, CopyChunk)]
    records = [record for each in chunks for record in decode(each.records)]
    return [record.positions for record in records if isinstance(record, Copy)]


def test_so_many_chunks_are_under_way_and_fewer_to_a_node_that_has_much_to_take() -> None:
    messages = Held(dict.fromkeys(range(1, 101), BODY))
    made = copying(messages)
    made.pump_copies(messages, {}, 0, Work(20_000))
    assert len(sent(made)) == COPY_CHUNKS_IN_FLIGHT_MAX
    made.on_ack(BEN, 1_000, 2, 0)
    made.pump_copies(messages, {}, 0, Work(20_000), [BEN])
    assert sent(made) == []
    made.on_ack(BEN, 1_000, COPY_CHUNKS_IN_FLIGHT_MAX, 0)
    made.pump_copies(messages, {}, 0, Work(20_000), [BEN])
    assert len(sent(made)) == COPY_CHUNKS_IN_FLIGHT_MIN


def test_a_turn_without_room_sends_a_chunk_and_leaves_the_rest_to_the_next() -> None:
    messages = Held(dict.fromkeys(range(1, 7), BODY))
    made = copying(messages)
    work = Work(1)
    for expected in ([5, 6], [3, 4]):
        work.begin_turn()
        assert not made.pump_copies(messages, {}, 0, work)
        assert sent(made) == [expected]
    work.begin_turn()
    assert made.pump_copies(messages, {}, 0, work)
    assert sent(made) == [[1, 2]]


def test_what_is_on_disk_alone_is_read_while_what_was_read_is_under_way() -> None:
    messages = Held(dict.fromkeys(range(1, 101), ON_DISK))
    made = copying(messages)
    progress = made.backups[BEN]
    made.pump_copies(messages, {}, 0, Work(20_000))
    assert (sent(made), progress.waits_for) == ([], 100)
    last = 101 - 2 * COPY_CHUNKS_IN_FLIGHT_MAX
    progress.put_read(dict.fromkeys(range(last, 101), BODY))
    made.pump_copies(messages, {}, 0, Work(20_000))
    assert sent(made)[-1] == [last, last + 1]
    # Nothing of it is acknowledged, and the next ones are asked for.
    assert progress.waits_for == last - 1
    assert progress.bytes_read == 0


def test_what_was_settled_after_it_was_read_is_not_sent() -> None:
    """Whoever leads next would have it again."""
    messages = Held(dict.fromkeys(range(1, 9), ON_DISK))
    made = copying(messages)
    made.pump_copies(messages, {}, 0, Work(20_000))
    made.backups[BEN].put_read(dict.fromkeys(range(1, 9), BODY))
    for gone in (2, 5, 6, 8):
        del messages[gone]
    made.pump_copies(messages, {}, 0, Work(20_000))
    assert sent(made) == [[4, 7], [1, 3]]
    assert made.backups[BEN].bytes_read == 0


def test_what_is_gone_meanwhile_is_walked_over_within_the_turns() -> None:
    """A purge may leave nothing of what a copy lacks: a turn looks at some of it, and pays."""
    messages = Held(dict.fromkeys(range(1, 200_001), BODY))
    made = copying(messages)
    messages.clear()
    work, turns = Work(2_000), 0
    while not made.backups[BEN].done_sent:
        work.begin_turn()
        made.pump_copies(messages, {}, 0, work)
        assert work.left > -2_000
        turns += 1
    assert turns > 10
    assert sent(made) == [[]]
