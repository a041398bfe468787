"""Clients with transactions, and the book that knows what is whole.

The queue holds *tokens*, published before. A transactor takes some of them, acknowledges or rejects
them and publishes *marks*, all in one transaction. Nobody acknowledges a mark before the last
drain; so at the end a transaction took effect if its marks are there, and then its tokens must be
gone; if it did not, they must all be there. That must hold through every fault.

One fault undoes what was committed: damage to the only copy of the queue, and only of what was
written before it. Then, too, a transaction is there or undone as a whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    BasicReject,
    Method,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from tests.sim.actors import Actor, LostError, Script
from tests.sim.checkers import Ledger
from tests.sim.client_connection import Content
from tests.sim.closing import Drainer
from tests.sim.confirming import ConfirmingActor, Numbers
from tests.sim.letters import number_of
from tests.sim.node_host import Host
from tests.sim.policies import PolicyPlan, TransactorPlan
from tests.sim.world import MS, World, between


@dataclass(slots=True)
class Unit:
    """One transaction."""

    owner: str
    #: Tokens that it takes away, and the marks that it leaves.
    tokens: list[int] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    #: commit was sent, and answered; otherwise it was rolled back, or never ended.
    asked_us: int | None = None
    committed_us: int | None = None


@dataclass(slots=True)
class Token:
    """One token."""

    sent_us: int
    confirmed_us: int | None = None


class TransactionBook:
    """What transactions were to do, and what became of it."""

    def __init__(self, ledger: Ledger, plan: PolicyPlan, nodes: int, strict: bool) -> None:
        """`strict`: no living node can be taken for dead, so nothing is with two clients."""
        assert plan.ledger_queue is not None
        self.ledger = ledger
        self.strict = strict
        self.queue = plan.ledger_queue.name
        self.copies = plan.ledger_queue.copies(nodes)
        self.tokens: dict[int, Token] = {}
        self.units: list[Unit] = []
        #: How often the last drain found each number.
        self.drained: dict[int, int] = {}
        #: When each number was seen last, and by whom.
        self.seen: dict[int, tuple[int, str]] = {}

    def sees(self, number: int, who: str, redelivered: bool) -> None:
        """A client received it."""
        if number in self.seen and not redelivered:
            self.ledger.broken(f"P3: {who} got a repeat of {number} that is not marked")
        self.seen[number] = (self.ledger.world.now_us, who)
        for unit in self.units:
            if unit.asked_us is None and number in unit.marks:
                self.ledger.broken(f"{who} got mark {number} of a transaction not committed")
            mine = self.strict and number in unit.tokens and not self._may_be_doubled(number)
            if mine and self._is_kept(unit):
                self.ledger.broken(f"{who} got token {number}, which {unit} took away")

    def finish(self) -> None:
        """All was drained."""
        takers: dict[int, list[Unit]] = {}
        for unit in self.units:
            if self._took_effect(unit):
                for number in unit.tokens:
                    takers.setdefault(number, []).append(unit)
        for number, token in self.tokens.items():
            units, there = takers.get(number, []), self.drained.get(number, 0)
            sure = self._is_sure(token.sent_us, token.confirmed_us)
            if sure and not units and not there:
                self.ledger.broken(f"token {number} is gone, and no transaction took it "
                                   f"(seen {self.seen.get(number)})")  # fmt: skip
            once = self.strict and not self._may_be_doubled(number)
            if once and (units and there):
                self.ledger.broken(f"token {number} is still there, taken away by {units}")
            if once and len(units) > 1:
                self.ledger.broken(f"token {number} was taken away twice, by {units}")
        from_disk = self.ledger.memory_lost or self.ledger.copies_lost or self.copies < 2
        twice = [number for number, count in self.drained.items() if count > 1]
        if twice and not from_disk:
            self.ledger.broken(f"these were there more than once: {twice}")

    def _may_be_doubled(self, number: int) -> bool:
        """Whether that token may have been published again to a fragment that began anew.

        That is from its only disk, and it may be there twice (docs/PROMISES.md, Repeats).
        """
        sent_us, confirmed_us = self.tokens[number].sent_us, self.tokens[number].confirmed_us
        until_us = self.ledger.world.now_us if confirmed_us is None else confirmed_us
        crashes_us = self.ledger.crashes_us
        return self.copies < 2 and any(sent_us <= at_us <= until_us for at_us in crashes_us)

    def _is_sure(self, asked_us: int | None, done_us: int | None) -> bool:
        """Whether that was done, and no damage to the only copy may have undone it."""
        if asked_us is None or done_us is None:
            return False
        return not self.ledger.may_be_undone(self.queue, asked_us, done_us)

    def _is_kept(self, unit: Unit) -> bool:
        return self._is_sure(unit.asked_us, unit.committed_us)

    def _took_effect(self, unit: Unit) -> bool:
        there = [mark for mark in unit.marks if self.drained.get(mark)]
        if self._is_kept(unit) and len(there) < len(unit.marks):
            self.ledger.broken(f"of {unit} only the marks {there} are there")
        if unit.asked_us is None and there:
            self.ledger.broken(f"{unit} was not committed, and its marks {there} are there")
        if there and len(there) < len(unit.marks):
            self.ledger.broken(f"{unit} is not whole: only the marks {there} are there")
        return bool(there)


class Minter(ConfirmingActor[Token]):
    """Publishes the tokens."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        hosts: Sequence[Host],
        book: TransactionBook,
        queue: str,
        count: int,
        numbers: Numbers,
        setup: Actor,
    ) -> None:
        super().__init__(world, ledger, hosts, "minter", numbers)
        self.book = book
        self.queue = queue
        self.count = count
        self.setup = setup

    def script(self) -> Script[None]:
        yield from self.sessions(
            lambda: self.setup.done,
            lambda: len(self.book.tokens) < self.count and self.goes_on(),
            self._mint,
        )

    def _mint(self) -> Script[None]:
        yield from self.begin_confirms()
        assert self.connection is not None
        for _ in range(self.count - len(self.book.tokens)):
            number = self.numbers.take()
            token = self.book.tokens[number] = Token(self.world.now_us)
            properties = encode_properties({"delivery_mode": 2})
            body = b"%d:token" % number
            self.connection.write(self.message(token, "", self.queue, properties, body))
        while self.unanswered:
            yield 1_000 * MS
        yield from self.leave()

    def answered(self, sent: Token, is_confirmed: bool) -> None:
        if is_confirmed:
            sent.confirmed_us = self.world.now_us

    def returned(self, body: bytes) -> None:
        self.ledger.broken(f"{self.label}: {body!r} came back, and its queue is there")


class Transactor(Actor):
    """Turns tokens into marks, a few in each transaction."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        hosts: Sequence[Host],
        name: str,
        book: TransactionBook,
        queue: str,
        plan: TransactorPlan,
        numbers: Numbers,
        minter: Actor,
    ) -> None:
        super().__init__(world, ledger, hosts, name)
        self.book = book
        self.queue = queue
        self.plan = plan
        self.numbers = numbers
        self.minter = minter
        #: Tokens at hand, by tag.
        self._tokens: dict[int, int] = {}

    def script(self) -> Script[None]:
        # A token that is not confirmed may come twice, once from before a failover.
        yield from self.sessions(lambda: self.minter.done, self.goes_on, self._take_part)

    def _take_part(self) -> Script[None]:
        self._tokens = {}
        yield from self.call(TxSelect(), TxSelectOk)
        yield from self.call(BasicConsume(self.queue, "tx"), BasicConsumeOk)
        while self.goes_on():
            yield max(1, int(self.plan.pause_us * 2 * self.random.random()))
            if self._tokens:
                yield from self._transact()
        yield from self.leave()

    def _transact(self) -> Script[None]:
        unit = Unit(self.label)
        self.book.units.append(unit)
        chosen = list(self._tokens)[: between(self.random, 1, 3)]
        back: dict[int, int] = {}
        for tag in chosen:
            back[tag] = self._tokens.pop(tag)
            self._settle(unit, tag, back[tag])
            if self.random.random() < 0.5:
                self._mark(unit)
        self._mark(unit)
        if self.plan.vanish and self.random.random() < self.plan.vanish / 2:
            self.drop()
            raise LostError("vanished on purpose")
        if self.random.random() < self.plan.rollback:
            yield from self.call(TxRollback(), TxRollbackOk)
            # The deliveries are as before.
            self._tokens.update(back)
            return
        unit.asked_us = self.world.now_us
        self.note(f"commits {unit}")
        if self.connection is not None and self.random.random() < self.plan.vanish / 2:
            self.connection.send(1, TxCommit())
            yield between(self.random, 0, 2) * MS
            self.drop()
            raise LostError("vanished on purpose")
        yield from self.call(TxCommit(), TxCommitOk)
        unit.committed_us = self.world.now_us
        if self.ledger.on_confirm is not None:
            self.ledger.on_confirm()

    def _settle(self, unit: Unit, tag: int, token: int) -> None:
        """Most tokens are taken away; some are only given back."""
        chance = self.random.random()
        if chance < 0.1:
            self._send(BasicNack(tag, False, True))
            return
        unit.tokens.append(token)
        self._send(BasicReject(tag, False) if chance < 0.3 else BasicAck(tag, False))

    def _mark(self, unit: Unit) -> None:
        number = self.numbers.take()
        unit.marks.append(number)
        if self.connection is not None:
            properties = encode_properties({"delivery_mode": 2})
            body = b"%d:mark" % number
            data = self.connection.publish(1, "", self.queue, True, properties, body)
            self.connection.write(data)

    def _send(self, method: Method) -> None:
        if self.connection is not None:
            self.connection.send(1, method)

    def on_other(self, channel: int, method: Method) -> None:
        # It may be answered, in the moment before it is lost.
        if not isinstance(method, TxCommitOk):
            super().on_other(channel, method)

    def on_content(self, method: Content, properties: bytes, body: bytes) -> None:
        if not isinstance(method, BasicDeliver):
            super().on_content(method, properties, body)
            return
        if self.connection is None:
            # It has said goodbye: AMQP tells it to discard what was on its way, which may have been
            # given to another client by now, marked.
            return
        number = number_of(body)
        if self.world.trace.on:
            self.note(f"receives {body!r} {method}")
        self.book.sees(number, self.label, method.redelivered)
        if number in self.book.tokens:
            self._tokens[method.delivery_tag] = number


class BookDrainer(Drainer):
    """The last drain of the queue of tokens and marks."""

    def __init__(
        self, world: World, ledger: Ledger, host: Host, queue: str, name: str, book: TransactionBook
    ) -> None:
        super().__init__(world, ledger, host, queue, name)
        self.book = book

    def takes(self, properties: bytes, body: bytes, redelivered: bool) -> None:
        number = number_of(body)
        self.book.sees(number, self.label, redelivered)
        self.book.drained[number] = self.book.drained.get(number, 0) + 1
