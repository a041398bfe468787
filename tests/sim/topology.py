"""What a run's clients declare: queues, exchanges and bindings, and a naive router over them."""

from dataclasses import dataclass

from fedq.amqp.values import TableValue
from tests.sim.checkers import Ledger


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """A shared queue."""

    name: str
    durable: bool
    #: x-fedq-replicas; 0: not given (the default of two).
    replicas: int
    #: x-fedq-fragments; 0: not given.
    fragments: int
    #: x-fedq-replicate; "": not given.
    mode: str = ""

    def arguments(self) -> dict[str, TableValue]:
        """The declaration's arguments."""
        found: dict[str, TableValue] = {}
        if self.replicas:
            found["x-fedq-replicas"] = self.replicas
        if self.fragments:
            found["x-fedq-fragments"] = self.fragments
        if self.mode:
            found["x-fedq-replicate"] = self.mode
        return found

    def copies(self, nodes: int) -> int:
        """Copies of each message in a whole cluster of so many nodes."""
        return 1 if self.mode == "none" else min(self.replicas or 2, nodes)


@dataclass(frozen=True, slots=True)
class ExchangePlan:
    """An exchange with the shared queues bound to it as (queue, key)."""

    name: str
    kind: str
    durable: bool
    bindings: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Subscription:
    """A private queue that hears an exchange; `since_us` is when bind-ok arrived."""

    queue: str
    exchange: str
    key: str
    since_us: int | None = None
    ended: bool = False


def matches(kind: str, pattern: str, key: str) -> bool:
    """Whether a binding with `pattern` takes a message with `key` (specification 3.1.3)."""
    if kind == "fanout":
        return True
    if kind == "direct":
        return pattern == key
    return _match_words(pattern.split("."), key.split("."))


def _match_words(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_match_words(pattern[1:], words[skip:]) for skip in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _match_words(pattern[1:], words[1:])


class Topology:
    """Everything declared in a run."""

    def __init__(self, queues: tuple[QueuePlan, ...], exchanges: tuple[ExchangePlan, ...]) -> None:
        self.queues = {queue.name: queue for queue in queues}
        self.exchanges = {exchange.name: exchange for exchange in exchanges}
        self.subscriptions: list[Subscription] = []
        #: Everything above was declared and answered.
        self.ready = False

    def declare_to(self, ledger: Ledger, nodes: int) -> None:
        """Tells the ledger what will be."""
        for queue in self.queues.values():
            known = ledger.declared(queue.name, queue.durable, queue.copies(nodes))
            known.spares = queue.mode == "persistent"
        ledger.durable_exchanges = all(each.durable for each in self.exchanges.values())

    def targets(self, exchange: str, key: str) -> tuple[list[str], list[str]]:
        """(queues that must get such a message, queues that may) at this moment."""
        if exchange == "":
            return ([key] if key in self.queues else []), []
        plan = self.exchanges[exchange]
        must = [queue for queue, pattern in plan.bindings if matches(plan.kind, pattern, key)]
        must = list(dict.fromkeys(must))
        may: list[str] = []
        for each in self.subscriptions:
            if each.exchange == exchange and not each.ended and matches(plan.kind, each.key, key):
                (must if each.since_us is not None else may).append(each.queue)
        return must, may
