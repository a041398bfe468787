"""What the judges excuse when the only copy of a queue is damaged, and what they never do."""

import pytest

from tests.sim.book import Book
from tests.sim.checkers import Ledger
from tests.sim.policies import PolicyPlan, PolicyQueue
from tests.sim.reckoning import Reckoning
from tests.sim.transactors import Token, TransactionBook, Unit
from tests.sim.world import MS, World

QUEUE = PolicyQueue("books", replicas=1)
OTHER = PolicyQueue("other", replicas=1)


def live(ledger: Ledger, duration_us: int) -> None:
    ledger.world.run(ledger.world.now_us + duration_us)


def transactions(committed_us: int | None = 2 * MS) -> TransactionBook:
    """Tokens 1 and 2, and a transaction that made marks 3 and 4 of them."""
    plan = PolicyPlan((QUEUE, OTHER), (), (), ledger_queue=QUEUE)
    book = TransactionBook(Ledger(World(1)), plan, 3, strict=True)
    book.tokens = {1: Token(0, 0), 2: Token(0, 0)}
    book.units.append(Unit("c#1", [1, 2], [3, 4], asked_us=1 * MS, committed_us=committed_us))
    live(book.ledger, 10 * MS)
    return book


@pytest.mark.parametrize(
    ("drained", "problem"),
    [
        ([3, 4], ""),
        ([1, 2], ""),
        ([2], ""),
        ([1, 3, 4], "token 1 is still there"),
        ([3], "is not whole"),
        ([1, 2, 3], "is not whole"),
    ],
)
def test_damage_undoes_a_transaction_as_a_whole(drained: list[int], problem: str) -> None:
    here = transactions()
    here.ledger.damaged(["books"])
    for number in drained:
        here.sees(number, "c#2", True)
    here.drained = dict.fromkeys(drained, 1)
    here.finish()
    assert problem in "".join(here.ledger.problems)
    assert bool(problem) == bool(here.ledger.problems)


@pytest.mark.parametrize("case", ["no damage", "another queue", "before", "kept"])
def test_what_was_not_damaged_is_not_excused(case: str) -> None:
    here = transactions()
    if case == "another queue":
        here.ledger.damaged(["other"])
    elif case == "before":
        here.ledger.damaged(["books"])
        here.units[0].asked_us = here.units[0].committed_us = here.ledger.world.now_us + 1
    elif case == "kept":
        # A directory was put back that held the transaction already.
        here.ledger.damaged(["books"], since_us=5 * MS)
    here.sees(1, "c#2", True)
    here.drained = {1: 1, 2: 1}
    here.finish()
    assert "got token 1, which" in here.ledger.problems[0]
    assert "only the marks []" in here.ledger.problems[1]


def test_a_token_is_gone_only_with_its_record() -> None:
    here = transactions(committed_us=None)
    here.ledger.damaged(["books"], since_us=5 * MS)
    here.drained = {2: 1}
    here.finish()
    assert "token 1 is gone" in here.ledger.problems[0]
    here = transactions(committed_us=None)
    here.ledger.damaged(["books"])
    here.drained = {2: 1}
    here.finish()
    assert here.ledger.problems == []


def test_a_repeat_is_marked_whatever_was_damaged() -> None:
    here = transactions()
    here.seen[2] = (0, "c#1")
    here.ledger.damaged(["books"])
    here.sees(2, "c#2", False)
    assert "not marked" in here.ledger.problems[0]


@pytest.mark.parametrize("crashes", [True, False])
def test_a_token_that_was_sent_again_to_its_only_disk_may_be_there_twice(crashes: bool) -> None:
    here = transactions()
    here.tokens[1] = here.tokens[2] = Token(0, 1 * MS)
    here.ledger.crashes_us += [500] if crashes else [2 * MS]
    here.sees(1, "c#2", True)
    here.drained = {1: 1, 3: 1, 4: 1}
    here.finish()
    assert bool(here.ledger.problems) is not crashes


@pytest.mark.parametrize("damaged", ["books", "other"])
def test_what_a_policy_queue_held_is_lost_with_its_only_copy(damaged: str) -> None:
    ledger = Ledger(World(1))
    book = Book(ledger, PolicyPlan((QUEUE, OTHER), (), ()), 3, good_network=True)
    book.confirmed(book.published(1, "books", "p#1", b"1:", {"delivery_mode": 2}))
    live(ledger, 1 * MS)
    ledger.damaged([damaged])
    Reckoning(book).finish()
    assert len(ledger.problems) == (damaged == "other")
    live(ledger, 1 * MS)
    book.confirmed(book.published(2, "books", "p#1", b"2:", {"delivery_mode": 2}))
    Reckoning(book).finish()
    assert "letter 2 " in ledger.problems[-1], "it came after the damage"
