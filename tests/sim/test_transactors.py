"""Clients with transactions do as AMQP tells a client to: the book judges what they really see."""

from fedq.amqp.methods import BasicDeliver
from tests.sim.actors import Actor
from tests.sim.checkers import Ledger
from tests.sim.client_connection import ClientConnection
from tests.sim.confirming import Numbers
from tests.sim.policies import PolicyPlan, PolicyQueue, TransactorPlan
from tests.sim.test_world import Small
from tests.sim.transactors import TransactionBook, Transactor
from tests.sim.world import MS


def test_who_has_said_goodbye_sees_nothing_of_what_was_on_its_way() -> None:
    """It was given to another client, marked, which may even receive it first."""
    small = Small()
    world, hosts = small.world, list(small.hosts.values())
    policies = PolicyPlan((), (), (), ledger_queue=PolicyQueue("q"))
    book = TransactionBook(Ledger(world), policies, 2, strict=True)
    numbers, plan = Numbers(), TransactorPlan(pause_us=1, rollback=0.0, vanish=0.0)
    minter = Actor(world, book.ledger, hosts, "minter")
    actor = Transactor(world, book.ledger, hosts, "tx0", book, "q", plan, numbers, minter)
    book.sees(221, "tx1#1", redelivered=True)
    late = BasicDeliver("tx", 1, False, "", "q")
    actor.on_content(late, b"", b"221:mark")
    assert book.ledger.problems == []
    small.live(300 * MS)
    actor.connection = ClientConnection(world, actor.random, hosts[0], actor)
    actor.on_content(late, b"", b"221:mark")
    assert "not marked" in book.ledger.problems[0]
