"""Loss, repeats and disorder are found and counted, whatever order messages come in."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.bench.ledger import Ledger, Members, Sequence, SharedLedger
from tests.unit.bench.streams import number_of

EVERYTHING = Members(256)


def ledger(members: Members = EVERYTHING, producers: int = 1) -> Ledger:
    """A queue that gets these members of each producer."""
    return Ledger({producer: Sequence(members) for producer in range(producers)})


def outcome(of: Ledger, totals: list[int]) -> tuple[int, int, int]:
    """(lost, repeated, out of order)."""
    return of.lost(totals), of.repeated, of.out_of_order


def test_all_in_order_is_nothing_to_report() -> None:
    one = ledger()
    one.take(list(range(500)))
    one.take(list(range(500, 1_000)))
    assert outcome(one, [1_000]) == (0, 0, 0)
    assert one.count == 1_000


def test_a_loss_is_found() -> None:
    one = ledger()
    one.take([0, 1, 2, 4, 5])
    assert outcome(one, [6]) == (1, 0, 0)
    assert outcome(one, [9]) == (4, 0, 0)


def test_a_repeat_is_found() -> None:
    one = ledger()
    one.take([0, 1, 1, 2])
    one.take([0])
    assert outcome(one, [3]) == (0, 2, 0)


def test_a_swap_is_out_of_order_and_not_lost() -> None:
    one = ledger()
    one.take([0, 2, 1, 3])
    assert outcome(one, [4]) == (0, 0, 1)


def test_a_loss_beside_a_repeat_hides_neither() -> None:
    one = ledger()
    one.take([0, 1, 1, 3])
    assert outcome(one, [4]) == (1, 1, 0)


def test_a_producer_that_sends_nothing_here_is_a_stray() -> None:
    one = ledger()
    one.take([0, number_of(0, producer=7), 1])
    assert outcome(one, [2]) == (0, 1, 0)


def test_a_queue_may_get_some_messages_of_each_round() -> None:
    members = Members(256, [3, 10, 200])
    assert [members.owed(total) for total in (0, 3, 4, 11, 256, 260)] == [0, 0, 1, 2, 3, 4]
    one = ledger(members)
    one.take([3, 10, 200, 259])
    one.take([266])
    assert outcome(one, [267]) == (0, 0, 0)
    one.take([11])
    assert outcome(one, [267]) == (0, 1, 0)


def test_a_ledger_may_begin_later() -> None:
    one = Ledger({0: Sequence(EVERYTHING, 300)})
    one.take([300, 302])
    assert outcome(one, [304]) == (2, 0, 0)
    assert one.count == 302


def test_an_endless_jump_costs_no_endless_time() -> None:
    one = ledger()
    one.take([0, 2**47])
    assert one.lost([10]) == 8


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """(members, deliveries in any order with losses and repeats, total) of one producer."""
    size = 256
    indexes = sorted(draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=6)))
    total = draw(st.integers(0, 3 * size))
    owed = [number for number in range(total) if number % size in indexes]
    got = draw(st.lists(st.sampled_from(owed), max_size=30)) if owed else []
    return indexes, got, total


@given(histories(), st.integers(1, 5))
def test_the_counts_are_those_of_a_naive_count(
    history: tuple[list[int], list[int], int], cut: int
) -> None:
    indexes, got, total = history
    one = ledger(Members(256, indexes))
    for at in range(0, len(got), cut):
        one.take(got[at : at + cut])
    owed = sum(number % 256 in indexes for number in range(total))
    late = 0
    seen: dict[int, None] = {}
    for number in got:
        late += number not in seen and any(other > number for other in seen)
        seen[number] = None
    assert one.lost([total]) == owed - len(seen)
    assert one.repeated == len(got) - len(seen)
    assert one.out_of_order == late


@given(st.data())
def test_producers_are_told_apart(data: st.DataObject) -> None:
    totals = [data.draw(st.integers(0, 30)) for _ in range(3)]
    waiting = [
        [number_of(sequence, producer) for sequence in range(total)]
        for producer, total in enumerate(totals)
    ]
    one = ledger(producers=3)
    while any(waiting):
        run = data.draw(st.sampled_from([each for each in waiting if each]))
        one.take([run.pop(0)])
    assert outcome(one, totals) == (0, 0, 0)


@given(st.lists(st.integers(0, 2), max_size=60), st.integers(1, 7))
def test_consumers_that_share_a_queue_see_everything_together(hands: list[int], turn: int) -> None:
    shared = SharedLedger(ledger())
    last: list[dict[int, int]] = [{}, {}, {}]
    for at in range(0, len(hands), turn):
        for consumer in range(3):
            mine = [n for n in range(at, min(at + turn, len(hands))) if hands[n] == consumer]
            if mine:
                shared.gather(mine, last[consumer])
        shared.settle()
    assert shared.ledger.lost([len(hands)]) == 0
    assert (shared.ledger.repeated, shared.out_of_order) == (0, 0)


def test_disorder_at_one_of_several_consumers_is_found() -> None:
    shared = SharedLedger(ledger())
    last: dict[int, int] = {}
    shared.gather([0, 2], last)
    shared.gather([1, 5], last)
    shared.gather([3, 4], {})
    shared.settle()
    assert shared.out_of_order == 1
    assert shared.ledger.lost([6]) == 0


def test_what_came_back_may_be_behind_younger_ones() -> None:
    shared = SharedLedger(ledger())
    last: dict[int, int] = {}
    shared.gather([0, 2], last)
    shared.gather([1, 3, 4], last, {0: None})
    shared.settle()
    assert (shared.out_of_order, shared.ledger.lost([5]), shared.ledger.repeated) == (0, 0, 0)


def test_a_repeat_at_another_consumer_is_found() -> None:
    shared = SharedLedger(ledger())
    shared.gather([0, 1], {})
    shared.settle()
    shared.gather([1, 2], {})
    shared.settle()
    assert (shared.ledger.lost([3]), shared.ledger.repeated) == (0, 1)
