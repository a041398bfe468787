"""What a run has of publishers with names: a plan with dice of its own."""

from dataclasses import dataclass

from fedq.amqp.values import FieldTable
from fedq.core.seeds import derive
from tests.sim.world import MS

EXCHANGE, KEPT, WORKED = "named", "named kept", "named worked"


@dataclass(frozen=True, slots=True)
class NamedPlan:
    """The queues, and how those with names publish to them."""

    replicas: int
    fragments: int
    #: The queue that is read at the end is a stream.
    is_stream: bool
    publishers: int
    messages: int
    burst: int
    gap_us: int
    #: The chance that it drops its connection after a burst; how far it goes back at most.
    vanish: float
    back: int
    #: The chance that a sequence is left out.
    gaps: float

    def arguments(self, queue: str) -> FieldTable:
        """A declaration's arguments."""
        table: FieldTable = {"x-fedq-replicas": self.replicas}
        if queue == KEPT and self.is_stream:
            table["x-queue-type"] = "stream"
        elif self.fragments:
            table["x-fedq-fragments"] = self.fragments
        return table


def draw_publishers(seed: int, nodes: int, safety_us: int, lite: bool) -> NamedPlan:
    """What those with names do in this seed."""
    dice = derive(seed, "named publishers")
    messages, burst = dice.randint(100, 300), dice.choice((1, 1, 5, 20))
    return NamedPlan(
        replicas=min(nodes, dice.choice((2, 2, 3))),
        fragments=dice.choice((0, 0, 3)),
        is_stream=dice.random() < 0.3,
        publishers=dice.choice((1, 2, 3)),
        messages=messages,
        burst=burst,
        # There is always something on its way when a process dies.
        gap_us=max(2 * MS, safety_us * burst // messages),
        vanish=0.0 if lite else dice.choice((0.0, 0.1, 0.3)),
        back=dice.choice((0, 3, 200)),
        gaps=dice.choice((0.0, 0.1)),
    )
