"""The topology of a run: the shapes of each producer's messages, the members of each queue.

In: a plan and the name of the run. Out: for each producer the shapes of a round, for each queue and
producer the members, names, bindings, and which process and address has which client. All is drawn
from fixed seeds: the same plan means the same messages, in every process and in every run.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from fedq.bench.blocks import Shape
from fedq.bench.ledger import Ledger, Members
from fedq.bench.ledger import Sequence as Numbers
from fedq.bench.plan import Kind, Plan, Target
from fedq.bench.words import Words, matches, words_for

#: Messages in a round of a producer's block.
ROUND: Final = 256
#: With topics there are as many different keys, so that no cache of routes holds them for nothing.
ROUND_OF_KEYS: Final = 65_536
SEED: Final = 5_672


@dataclass(frozen=True)
class Topology:
    """The clients of one run."""

    plan: Plan
    #: The beginning of all names, different in each run.
    name: str

    @property
    def exchange(self) -> str:
        """The exchange that producers publish to; "" for the default one."""
        return "" if self.plan.kind is Kind.QUEUES else self.name

    @property
    def exchange_type(self) -> str:
        """The type of the exchange that producers publish to."""
        return "fanout" if self.plan.kind is Kind.FANOUT else "topic"

    @property
    def has_shared_queues(self) -> bool:
        """Whether there are queues that are no client's own."""
        return self.plan.kind is not Kind.FANOUT and not self.plan.is_exclusive

    @property
    def shared_queues(self) -> list[str]:
        """The names of the queues that are no client's own."""
        count = self.plan.queue_count if self.has_shared_queues else 0
        return [self.queue(index) for index in range(count)]

    def queue(self, index: int) -> str:
        """The name of a queue."""
        return f"{self.name}-{index}"

    def private_queue(self, subscriber: int) -> str:
        """The name of a subscriber's own queue."""
        return f"{self.name}-s{subscriber}"

    @cached_property
    def words(self) -> Words:
        """The bindings and keys of a run with topics."""
        return words_for(self.plan.bindings, ROUND_OF_KEYS, SEED)

    @cached_property
    def _matched(self) -> list[list[int]]:
        """The queues that each key reaches, ascending."""
        queues = self.plan.bound_queues
        return [
            sorted({binding % queues for binding in bindings}) for bindings in matches(self.words)
        ]

    @cached_property
    def _members(self) -> dict[int, list[int]]:
        """The messages of a round that reach each queue of a run with topics."""
        found: dict[int, list[int]] = {queue: [] for queue in range(self.plan.bound_queues)}
        for index, queues in enumerate(self._matched):
            for queue in queues:
                found[queue].append(index)
        return found

    def prepare(self) -> None:
        """Draws what takes a while and is the same for all processes, before they part."""
        if self.plan.kind is Kind.TOPICS:
            assert self._members, "a run with topics has queues"

    def shapes(self, producer: int) -> list[Shape]:
        """One round of a producer's messages."""
        chance = random.Random(SEED + producer)
        plan = self.plan
        low, high = plan.size_min, plan.size_max
        if plan.kind is Kind.TOPICS:
            return [Shape(self.exchange, key, chance.randint(low, high)) for key in self.words.keys]
        keys = [""] if plan.kind is Kind.FANOUT else [
            self.queue(queue) for queue in self.queues_of(producer)
        ]  # fmt: skip
        return [
            Shape(self.exchange, keys[index % len(keys)], chance.randint(low, high))
            for index in range(ROUND)
        ]

    def queues_of(self, producer: int) -> list[int]:
        """The queues that a producer sends to, one after the other."""
        plan = self.plan
        if plan.queues <= plan.producers:
            return [producer % plan.queues]
        return list(range(producer, plan.queues, plan.producers))

    def deliveries(self, producer: int) -> list[int]:
        """How often each message of a round is to be delivered."""
        plan = self.plan
        if plan.kind is Kind.TOPICS:
            return [len(queues) for queues in self._matched]
        if plan.kind is Kind.FANOUT:
            return [plan.subscribers] * ROUND
        if plan.is_stream:
            queues = self.queues_of(producer)
            readers = [len(range(queue, plan.consumers, plan.queues)) for queue in queues]
            return [readers[index % len(queues)] for index in range(ROUND)]
        return [1 if plan.consumers else 0] * ROUND

    def members(self, producer: int, queue: int) -> Members | None:
        """Which of a producer's messages go to a queue; None when none do."""
        plan = self.plan
        if plan.kind is Kind.TOPICS:
            indexes = self._members[queue]
            return Members(ROUND_OF_KEYS, indexes) if indexes else None
        queues = self.queues_of(producer)
        if queue not in queues:
            return None
        if len(queues) == 1:
            return Members(ROUND)
        return Members(ROUND, range(queues.index(queue), ROUND, len(queues)))

    def ledger(self, queue: int) -> Ledger:
        """What a queue is to get."""
        found = {producer: self.members(producer, queue) for producer in range(self.plan.producers)}
        return Ledger(
            {producer: Numbers(members) for producer, members in found.items() if members}
        )

    def subscriber_ledger(self) -> Ledger:
        """What each subscriber is to get: everything."""
        everything = Members(ROUND)
        return Ledger({producer: Numbers(everything) for producer in range(self.plan.producers)})

    def bindings_of(self, queue: int) -> list[str]:
        """The patterns by which a queue is bound."""
        return self.words.patterns[queue :: self.plan.bound_queues]

    # --- who is where -----------------------------------------------------------------------------

    def target(self, index: int) -> Target:
        """The address that the client with this number among its kind uses."""
        return self.plan.targets[index % len(self.plan.targets)]

    def producers_in(self, process: int) -> Sequence[int]:
        """The producers of a process: dealt from the last one on, away from the consumers."""
        last = self.plan.processes - 1
        return range(last - process, self.plan.producers, self.plan.processes)

    def consumers_in(self, process: int) -> list[int]:
        """The consumers of a process: all those of a queue are together."""
        plan = self.plan
        return [
            consumer for consumer in range(plan.consumer_count)
            if consumer % plan.queue_count % plan.processes == process
        ]  # fmt: skip

    def connections_in(self, process: int) -> Sequence[int]:
        """The connections of subscribers of a process."""
        return range(process, self.plan.subscriber_connections, self.plan.processes)

    def subscribers_of(self, connection: int) -> Sequence[int]:
        """The subscribers of a connection."""
        return range(connection, self.plan.subscribers, self.plan.subscriber_connections)

    def idle_in(self, process: int) -> Sequence[int]:
        """The idle connections of a process."""
        return range(process, self.plan.idle, self.plan.processes)
