"""All who use queues with policies in a run: they are made, told to stop, and judged together.

Input: a `PolicyPlan` and a run's surroundings. Output: actors for the run, checks at rest, and
drainers for the end.
"""

from collections.abc import Callable, Sequence

from fedq.core.seeds import Rng
from tests.sim import inspect_node
from tests.sim.actors import Actor
from tests.sim.book import SLOWLY_COMMITTED_US, Book
from tests.sim.checkers import Ledger
from tests.sim.closing import Drainer
from tests.sim.confirming import Numbers
from tests.sim.node_host import Host
from tests.sim.policies import SHORT_MS_MAX, PolicyPlan
from tests.sim.policy_clients import Looker, PolicyDrainer, PolicySetup, Sender, Worker
from tests.sim.reckoning import Reckoning
from tests.sim.tenants import Tenant
from tests.sim.transactors import BookDrainer, Minter, TransactionBook, Transactor
from tests.sim.world import MS, World


class Party:
    """See the module's docstring."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        hosts: Sequence[Host],
        plan: PolicyPlan,
        numbers: Numbers,
        strict: bool,
        good_network: bool,
        slow_disks: bool,
    ) -> None:
        """`strict`: no living node can be taken for dead in this run."""
        self.world = world
        self.ledger = ledger
        self.hosts = hosts
        self.plan = plan
        common = (world, ledger, hosts)
        self.book = Book(ledger, plan, len(hosts), good_network)
        ledger.on_gone.append(self.book.gone)
        self.book.only_kills = strict
        if slow_disks:
            self.book.committed_us = max(self.book.committed_us, SLOWLY_COMMITTED_US)
        self.setup = PolicySetup(*common, plan.queues)
        #: Those whose work the run waits for, and those who leave when all that came is seen.
        self.senders: list[Actor] = [
            Sender(*common, f"ps{number}", self.book, each, numbers, self.setup)
            for number, each in enumerate(plan.senders)
        ]
        self.workers: list[Actor] = [
            Worker(*common, f"pw{number}", self.book, each, self.setup)
            for number, each in enumerate(plan.workers)
        ]
        self.workers.append(Looker(*common, self.book, self.setup))
        self.workers += [
            Tenant(*common, f"tenant{number}", each, good_network)
            for number, each in enumerate(plan.tenants)
        ]
        self.transactions: TransactionBook | None = None
        if plan.ledger_queue is not None:
            name = plan.ledger_queue.name
            book = self.transactions = TransactionBook(ledger, plan, len(hosts), strict)
            minter = Minter(*common, book, name, plan.tokens, numbers, self.setup)
            self.senders.append(minter)
            self.workers += [
                Transactor(*common, f"tx{number}", book, name, each, numbers, minter)
                for number, each in enumerate(plan.transactors)
            ]

    @property
    def actors(self) -> list[Actor]:
        """Everybody."""
        return [self.setup, *self.senders, *self.workers]

    @property
    def queues(self) -> list[str]:
        """The queues to be counted and drained at the end, those that are still there."""
        state = inspect_node.state_of(self.hosts[0])
        there = {key.name: None for key in state.map.queues}
        for queue in self.plan.queues:
            if queue.name not in there and not self.ledger.may_be_gone(queue.durable):
                self.ledger.broken(f"P6: queue {queue.name} is gone from the map")
        return [queue.name for queue in self.plan.queues if queue.name in there]

    def check_served(self) -> None:
        """In calm: no message waits while a consumer that may have it is idle."""
        for queue in self.plan.queues:
            idle = self.book.registry.idle(queue.name, queue.single)
            waiting = sum(inspect_node.ready_in(host, queue.name) for host in self.hosts)
            if idle and waiting and self.book.calm_since(self.world.now_us - 1_000 * MS):
                self.ledger.broken(f"{waiting} messages wait in {queue.name}, and idle are "
                                   f"{[each.describe() for each in idle]}")  # fmt: skip

    def rest(self, done: Callable[[], bool]) -> None:
        """Lives until everything that has a time is over."""
        self.world.run(self.world.now_us + (SHORT_MS_MAX + 500) * MS, done)

    def drainers(self, names: Sequence[str], generator: Rng) -> list[Drainer]:
        """One for each of these queues."""
        world, ledger, book = self.world, self.ledger, self.transactions
        return [
            PolicyDrainer(
                world, ledger, generator.choice(self.hosts), name, f"drain-{name}", self.book
            )
            if book is None
            else BookDrainer(
                world, ledger, generator.choice(self.hosts), name, f"drain-{name}", book
            )
            for name in names
        ]

    def finish(self) -> None:
        """Everything was drained."""
        Reckoning(self.book).finish()
        if self.transactions is not None:
            self.transactions.finish()
