"""What takers have on disk alone: how it is kept, comes back, and dies."""

import pytest

from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin, first_position
from fedq.core.policy import REJECTED, QueuePolicy
from fedq.core.ranges import from_ranges
from fedq.fragments.fragment import Fragment
from fedq.fragments.runs.in_flight import InFlight
from fedq.fragments.runs.runs import ON_DISK
from fedq.fragments.singly.holders import DEAD, DYING
from fedq.fragments.upkeep.alive import in_fragment
from fedq.fragments.upkeep.asides import set_aside
from fedq.fragments.upkeep.footprint import of_fragment
from fedq.fragments.upkeep.stowing import fill, let_go, lose, missing, stow
from tests.unit.journal.samples import message

ANN, BEN = NodeId("ann"), NodeId("ben")
START = first_position(1)
CLIENT = Origin(ANN, Incarnation(1))
LETTERS = QueuePolicy(dead_letter_exchange="dlx")


def text(number: int) -> bytes:
    return message(f"{number:04}{'x' * 60}", True)


def made(count: int, policy: QueuePolicy | None = None, persistent: bool = True) -> Fragment:
    """A fragment of so many messages, the first at `at(1)`."""
    fragment = Fragment(
        FragmentId(1), 1, durable=True, recording=True, policy=policy or QueuePolicy()
    )
    bodies = [message(f"{n:04}{'x' * 60}", persistent) for n in range(1, count + 1)]
    fragment.publish(CLIENT, 1, bodies)
    return fragment


def at(number: int) -> int:
    return START + number


def held_of(fragment: Fragment) -> InFlight:
    assert fragment.in_flight is not None
    return fragment.in_flight


def test_what_a_taker_has_goes_before_what_waits_and_little_of_it_stays() -> None:
    fragment = made(2_000)
    fragment.take(ANN, 1_000)
    before = of_fragment(fragment)
    assert stow(fragment, fragment.last, 0, 0, 1_000) == 1_000
    assert held_of(fragment).stowed_count == fragment.stowed_count == 1_000
    assert of_fragment(fragment) < before - 1_000 * 100
    assert fragment.messages[at(1)] == ON_DISK
    fragment.check()


def test_few_bytes_stay_since_their_upkeep_takes_as_much() -> None:
    fragment = made(5)
    fragment.take(ANN, 5)
    assert stow(fragment, fragment.last, 0, 0, 1_000) == 0


def test_acknowledging_every_other_one_cuts_nothing_in_pieces() -> None:
    fragment = made(1_000)
    fragment.take(ANN, 1_000)
    stow(fragment, fragment.last, 0, 0, 1_000)
    before, runs = fragment.bytes_held, held_of(fragment).run_count
    fragment.settle(ANN, range(at(1), at(1_000), 2))
    assert held_of(fragment).run_count == runs
    assert fragment.bytes_held == before // 2
    fragment.settle(ANN, range(at(2), at(1_001), 2))
    assert fragment.bytes_held == fragment.unacked_count == fragment.stowed_bytes == 0
    fragment.check()


def test_a_walk_finds_what_comes_back_behind_it() -> None:
    """It is with a taker when the line is looked at, and in the line when takers are."""
    fragment = made(1_500)
    fragment.take(ANN, 500)
    stow(fragment, fragment.last, 0, 0, 500)
    walk = in_fragment(fragment)
    found = set(from_ranges(next(walk).ranges))
    fragment.requeue(ANN, range(at(1), at(501)))
    assert fragment.ready_count == 1_500
    for piece in walk:
        found |= set(from_ranges(piece.ranges))
    assert found == set(fragment.messages)


def test_what_came_back_while_it_was_written_around_it_stays_where_it_is() -> None:
    """A piece of the line is on its way to a scratch file when others come back in between."""
    fragment = made(90, persistent=False)
    fragment.take(ANN, 90)
    held = held_of(fragment)
    written, _ = held.beyond(1 << 20, 1_000, False, 0)
    let_go(fragment, written, 0, 0, 0)
    fragment.requeue(ANN, [*range(at(1), at(31)), *range(at(61), at(91))])
    bodies = {at(n): message(f"{n:04}{'x' * 60}", False) for n in range(1, 91)}
    fill(fragment, bodies)
    piece, _ = fragment.fresh.beyond(0, 0, 1 << 20, 1_000, False)
    assert len(piece) == 60
    fragment.requeue(ANN, range(at(31), at(61)))
    fill(fragment, bodies)
    let_go(fragment, piece, 0, 0, 0)
    away = [p for p, body in fragment.messages.items() if not body]
    assert away == piece
    fragment.check()


def test_what_is_to_die_waits_and_is_called_up_in_pieces() -> None:
    fragment = made(100, LETTERS)
    fragment.take(ANN, 100)
    stow(fragment, fragment.last, 0, 0, 1_000)
    fragment.reject(ANN, range(at(1), at(101)))
    assert set(fragment.unacked.values()) == {DYING[REJECTED]}
    assert (fragment.shut, list(fragment.out.dead)) == (0, [])
    assert fragment.call_up(10, 1 << 20) == 10
    assert (fragment.shut, list(fragment.out.dead)) == (10, list(range(at(1), at(11))))
    fill(fragment, {at(n): text(n) for n in range(1, 101)})
    assert (fragment.shut, len(fragment.out.dead)) == (0, 10)
    assert fragment.messages[at(10)] == text(10)
    assert fragment.messages[at(11)] == ON_DISK
    assert fragment.call_up(1_000, 3 * len(text(1))) == 3
    fragment.settle(DEAD, range(at(1), at(11)))
    fragment.check()


def test_one_is_called_up_however_large_it_is() -> None:
    fragment = made(100, LETTERS)
    fragment.take(ANN, 100)
    stow(fragment, fragment.last, 0, 0, 1_000)
    fragment.reject(ANN, range(at(1), at(101)))
    assert fragment.call_up(10, 1) == 1


def test_another_takers_rejection_leaves_it_alone() -> None:
    fragment = made(100, LETTERS)
    fragment.take(ANN, 100)
    stow(fragment, fragment.last, 0, 0, 1_000)
    fragment.reject(BEN, range(at(1), at(101)))
    fragment.requeue(BEN, range(at(1), at(101)))
    fragment.settle(BEN, range(at(1), at(101)))
    assert set(fragment.unacked.values()) == {ANN}
    fragment.check()


@pytest.mark.parametrize("is_dying", [False, True])
def test_what_is_lost_on_the_disk_is_nobodys(is_dying: bool) -> None:
    fragment = made(100, LETTERS)
    fragment.take(ANN, 100)
    stow(fragment, fragment.last, 0, 0, 1_000)
    if is_dying:
        fragment.reject(ANN, range(at(1), at(101)))
    assert missing(fragment, 0, fragment.last) == (at(1), at(100))
    assert lose(fragment, at(1), at(40)) == [(at(1), at(40))]
    assert missing(fragment, 0, at(50)) == (at(41), at(50))
    assert fragment.unacked_count == 60
    fragment.check()
    if is_dying:
        assert fragment.call_up(100, 1 << 20) == 60


def test_what_is_set_aside_is_read_first() -> None:
    fragment = made(100)
    fragment.take(ANN, 100)
    stow(fragment, fragment.last, 0, 0, 1_000)
    assert set_aside(fragment, [at(7)], ANN) == [at(7)]
    before = fragment.shut
    fill(fragment, {at(7): text(7)})
    assert (before, fragment.shut) == (1, 0)
    assert fragment.unacked[at(7)] == DEAD
    fragment.check()


def test_a_run_that_comes_back_to_a_taker_stands_between_others() -> None:
    fragment = made(300)
    fragment.take(ANN, 100)
    fragment.take(BEN, 100)
    fragment.take(ANN, 100)
    stow(fragment, fragment.last, 0, 0, 1_000)
    fragment.requeue(BEN, range(at(101), at(201)))
    assert fragment.fresh.first == at(101)
    fill(fragment, {at(n): text(n) for n in range(101, 151)})
    taken = fragment.take(ANN, 100)
    assert taken.redelivered == taken.positions == list(range(at(101), at(151)))
    assert fragment.take(ANN, 1).positions == []
    fragment.check()
    fragment.settle(ANN, range(at(1), at(151)))
    assert list(fragment.messages) == list(range(at(151), at(301)))
    fragment.check()


def test_a_run_is_found_where_another_one_was_that_has_nothing_left() -> None:
    held = InFlight()
    held.add(ANN, 1, [text(n) for n in range(1, 6)], True)
    held.add(BEN, 6, [text(6)], True)
    held.add(ANN, 9, [text(9)], True)
    assert held.stow(9, 1_000, 1) == 7
    assert [run.first for run in held.take_stowed(BEN, 6, 6)] == [6]
    assert [run.first for run in held.take_stowed(ANN, 5, 5)] == [5]
    held.add(BEN, 5, [text(5), text(6)], True)
    gone: list[bytes] = []
    held.release(BEN, 5, 5, gone, [])
    assert gone == [text(5)]
    assert held.get(6) == text(6)
    held.check()
