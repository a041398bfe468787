"""Clients of queues with `x-expires`: used, such a queue stays; unused, it goes.

A tenant declares its queue, uses it a few times at less than the time allowed, and leaves it alone.
What it was told counts from when it *asked*. Both are judged in calm phases: while the map cannot
decide, a queue whose end is proposed may be used, and still end when the map decides.
"""

from collections.abc import Sequence

from fedq.amqp.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import TableValue
from fedq.core.errors import NOT_FOUND
from tests.sim.actors import Actor, ClosedError, LostError, Script
from tests.sim.checkers import Ledger
from tests.sim.node_host import Host
from tests.sim.policies import TenantPlan
from tests.sim.world import MS, World, between

#: An unused queue is gone so long after its time: a tick, and a command of the map.
GONE_US = 3_500 * MS


class Tenant(Actor):
    """See the module's docstring."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        hosts: Sequence[Host],
        name: str,
        plan: TenantPlan,
        good_network: bool,
    ) -> None:
        super().__init__(world, ledger, hosts, name)
        self.plan = plan
        self.good_network = good_network
        self._rounds = 0
        self._queue = ""
        #: When the last use that was answered was asked for; None: not declared yet.
        self._used_us: int | None = None
        #: When it was asked to be declared; an answer that waits for all nodes may come too late.
        self._asked_us = 0

    def script(self) -> Script[None]:
        while self.goes_on():
            self._rounds += 1
            self._queue = f"{self.name}-queue-{self._rounds}"
            self._used_us = None
            try:
                yield from self.connect()
                yield from self._declare()
                for _ in range(self.plan.uses):
                    if not self.goes_on():
                        break
                    yield int(self.plan.expires_ms * MS * 0.8 * self.random.random())
                    if self.random.random() < 0.3:
                        yield from self.leave()
                        yield from self.connect()
                    yield from self._use()
                yield from self._leave_alone()
            except LostError:
                yield between(self.random, 1, 50) * MS
            except ClosedError as error:
                if error.refusal.code != NOT_FOUND:
                    yield from self.excuse(error)
                self._judge_loss()
        if self.connection is not None:
            yield from self.leave()

    def _declare(self) -> Script[None]:
        arguments: dict[str, TableValue] = {
            "x-expires": self.plan.expires_ms,
            "x-fedq-fragments": self.plan.fragments,
        }
        asked_us = self._asked_us = self.world.now_us
        declare = QueueDeclare(self._queue, durable=True, arguments=arguments)
        yield from self.call(declare, QueueDeclareOk)
        self._used_us = asked_us

    def _use(self) -> Script[None]:
        asked_us = self.world.now_us
        if self.plan.how == "get":
            yield from self.call(BasicGet(self._queue), BasicGetEmpty)
        elif self.plan.how == "consume":
            yield from self.call(BasicConsume(self._queue, "tenant"), BasicConsumeOk)
            yield int(self.plan.expires_ms * MS * 2 * self.random.random())
            asked_us = self.world.now_us
            yield from self.call(BasicCancel("tenant"), BasicCancelOk)
        else:
            yield from self.call(QueueDeclare(self._queue, passive=True), QueueDeclareOk)
        self._used_us = asked_us

    def _leave_alone(self) -> Script[None]:
        used_us = self._used_us
        until_us = self.world.now_us + self.plan.expires_ms * MS + GONE_US
        while self.world.now_us < until_us:
            if not self.goes_on():
                return
            yield until_us - self.world.now_us
        if self.connection is None:
            raise LostError("gone")
        try:
            yield from self.call(QueueDeclare(self._queue, passive=True), QueueDeclareOk)
        except ClosedError as error:
            if error.refusal.code != NOT_FOUND:
                raise
            return
        if used_us is not None and self._is_calm_since(used_us):
            self.ledger.broken(f"{self._queue} is there, unused since {used_us / MS:.3f} ms")

    def _is_calm_since(self, since_us: int) -> bool:
        return self.good_network and not self.ledger.fault_between(since_us, self.world.now_us)

    def _judge_loss(self) -> None:
        """The queue is not there: its time must have been over."""
        used_us = self._asked_us if self._used_us is None else self._used_us
        unused_us = self.world.now_us - used_us
        if self._is_calm_since(used_us) and unused_us < self.plan.expires_ms * MS:
            self.ledger.broken(
                f"{self._queue} is gone {unused_us / MS:.3f} ms after its last use "
                f"({self.plan.how}), x-expires {self.plan.expires_ms}"
            )
