"""A client that declares and deletes many queues in one write (docs/adr/0110).

Input: hosts. Output: problems. It knows what there has to be after each of its requests. Answers
come in the order of requests, up to the first that is refused; nothing behind that one takes
effect, and all before it has on every node (P6). What becomes of a train whose connection goes, or
that the cluster could not decide, nobody knows: it goes on with other names then.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from fedq.amqp.methods import (
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    encode_method,
)
from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED
from tests.sim.actors import PATIENCE_US, RETRYABLE, Actor, ClosedError, LostError, Script
from tests.sim.checkers import Ledger
from tests.sim.node_host import Host
from tests.sim.topology import Topology
from tests.sim.world import MS, World, between

_NAMES: Final = 6
#: A train takes 32 requests; what comes behind them is another one.
_LENGTHS: Final = (2, 3, 8, 40)
Step: TypeAlias = tuple[Method, Method | None]


class TrainClient(Actor):
    """See the module's docstring."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], topology: Topology, rounds: int
    ) -> None:
        super().__init__(world, ledger, hosts, "trains")
        self._topology = topology
        self._rounds = rounds
        self._names: list[str] = []
        self._there: dict[str, None] = {}
        self._answers: list[Method] = []
        #: Trains of which all was known at the end, and those that were refused as they should be.
        self.ended = self.refused = 0

    def script(self) -> Script[None]:
        while not self._topology.ready:
            yield 20 * MS
        for number in range(self._rounds):
            if self.stopping:
                return
            if not self._names:
                self._names = [f"{self.name}-{number}-{each}" for each in range(_NAMES)]
                self._there = {}
            known = dict(self._there)
            try:
                yield from self._round()
            except LostError:
                self._names = []
            except ClosedError as error:
                self._names = []
                yield from self.excuse(error)
            self.note(f"had {list(known)}, has {list(self._there)}")
            yield between(self.random, 20, 300) * MS

    def on_other(self, channel: int, method: Method) -> None:
        self._answers.append(method)
        self.wake()

    def is_refused_in_place(self, steps: list[Step], error: ClosedError) -> bool:
        """Whether what had to be refused is, behind the answers of all before it."""
        self._compare(steps)
        _, wanted = steps[len(self._answers)]
        return wanted is None and error.refusal.code == PRECONDITION_FAILED

    def _round(self) -> Script[None]:
        steps, there = self._draw()
        yield from self.connect()
        try:
            yield from self._ask(steps)
        except ClosedError as error:
            if error.refusal.code in RETRYABLE or not self.is_refused_in_place(steps, error):
                raise
            self.refused += 1
        else:
            yield from self.leave()
        self._there = there
        yield from self._look()
        self.ended += 1

    def _draw(self) -> tuple[list[Step], dict[str, None]]:
        """Requests with their answers (None: it is refused), and what there is then."""
        steps: list[Step] = []
        there = dict(self._there)
        length = self.random.choice(_LENGTHS)
        wrong = self.random.randint(0, length - 1) if self.random.random() < 0.3 else length
        # What there is when a request is refused.
        after: dict[str, None] | None = None
        for number in range(length):
            name = self.random.choice(self._names)
            if number >= wrong and name in there and after is None:
                steps.append((QueueDeclare(name, durable=False), None))
                after = dict(there)
            elif self.random.random() < 0.6:
                steps.append((QueueDeclare(name, durable=True), QueueDeclareOk(name, 0, 0)))
                there[name] = None
            else:
                steps.append((QueueDelete(name), QueueDeleteOk(0)))
                there.pop(name, None)
        return steps, there if after is None else after

    def _ask(self, steps: list[Step]) -> Script[None]:
        """All in one write; returns when all is answered."""
        assert self.connection is not None, "it has just been opened"
        self._answers = []
        self.connection.write(b"".join(encode_method(1, request) for request, _ in steps))
        deadline_us = self.world.now_us + PATIENCE_US
        while len(self._answers) < len(steps):
            if self.world.now_us >= deadline_us:
                self.ledger.unanswered(self.label, "a train of declarations")
                self.drop()
                raise LostError("no answers")
            yield deadline_us - self.world.now_us
        self._compare(steps)

    def _compare(self, steps: list[Step]) -> None:
        for (request, wanted), answer in zip(steps, self._answers, strict=False):
            if answer != wanted:
                self.ledger.broken(f"{self.label}: {answer} answers {request}")

    def _look(self) -> Script[None]:
        """P6: any node knows what there is now, and what there is not."""
        for name in self.random.sample(self._names, 2):
            yield from self.connect()
            try:
                yield from self.call(QueueDeclare(name, passive=True), QueueDeclareOk)
            except ClosedError as error:
                if name in self._there or error.refusal.code != NOT_FOUND:
                    raise
                continue
            if name not in self._there:
                self.ledger.broken(f"P6: {name} is there, and should not be")
            yield from self.leave()
