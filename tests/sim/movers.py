"""An operator who drains nodes and moves fragments while a run goes on (docs/adr/0082, 0083, 0086).

Input: hosts. Output: wishes at random moments, on any node, in any order: what is drained is
undrained, what moves is moved elsewhere, or told to stay; queues get more fragments, and fewer. At
the end nothing is drained any more.

The judge is the ledger: without faults it excuses nothing, so a message that comes twice, or is
marked as redelivered, or out of order, or not at all, is a problem.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from fedq.core.errors import Refused
from fedq.core.ids import FragmentId, NodeId
from fedq.core.versions import PLANNED_MOVES
from fedq.node.cluster.proposals import GAVE_UP, Result
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_copies import ShapeQueue
from fedq.wiring.cluster_map.operations_moves import DrainNode, MoveFragment, UndrainNode
from tests.sim import inspect_node
from tests.sim.actors import Actor, Script
from tests.sim.checkers import Ledger
from tests.sim.node_host import Host
from tests.sim.world import MS, World, between

#: How long the operator waits for an answer before another node is asked.
_PATIENCE_US = 4_000 * MS


class Wisher(Actor):
    """Has the map changed, as an operator would: by any node."""

    def change(self, operation: Operation, once: bool = False) -> Script[Result | None]:
        """Asks one node after the other until one answers; or once."""
        while True:
            alive = [host for host in self.hosts if host.alive]
            heard: list[Result] = []
            if alive:
                self.note(f"wishes {operation}")
                self.random.choice(alive).submit(partial(ask_for, operation, heard))
            waited = 0
            while not heard and waited < _PATIENCE_US:
                yield 20 * MS
                waited += 20 * MS
            is_answered = bool(heard) and heard[0] is not GAVE_UP
            # A node that was never up has nothing to be undrained.
            if once or is_answered:
                if is_answered and isinstance(heard[0], Refused):
                    self.note(f"is refused: {heard[0].text}")
                return heard[0] if is_answered else None


class Mover(Wisher):
    """Wishes something of the map every now and then, until the run is to end."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], every_us: int,
        shapes: bool = False,
    ) -> None:  # fmt: skip
        """`shapes`: it sets in how many fragments queues are, too."""
        super().__init__(world, ledger, hosts, "mover")
        self._every_us = every_us
        self._shapes = shapes
        #: How often a fragment had another primary than before, as seen between two wishes.
        self.moved = 0
        self._led: dict[FragmentId, str] = {}

    def script(self) -> Script[None]:
        while self.goes_on():
            yield between(self.random, 10 * MS, self._every_us)
            self._look()
            operation = self._draw()
            if operation is not None:
                yield from self.change(operation, once=True)
        for host in self.hosts:
            yield from self.change(UndrainNode(NodeId(host.name)))
        self._look()

    def _look(self) -> None:
        alive = [host for host in self.hosts if host.alive]
        if alive:
            fragments = inspect_node.state_of(alive[0]).map.fragments
            led = {number: str(info.primary) for number, info in fragments.items()}
            self.moved += sum(self._led.get(number, node) != node for number, node in led.items())
            self._led = led

    def _draw(self) -> Operation | None:
        alive = [host for host in self.hosts if host.alive]
        if not alive:
            return None
        known = inspect_node.state_of(self.random.choice(alive)).map
        if known.cluster_version < PLANNED_MOVES:
            return None
        if self._shapes and known.queues and self.random.random() < 0.3:
            key = self.random.choice(list(known.queues))
            return ShapeQueue(key.vhost, key.name, self.random.choice((0, 1, 2, 3)))
        node = NodeId(self.random.choice(self.hosts).name)
        if known.drained and self.random.random() < 0.5:
            return UndrainNode(self.random.choice(list(known.drained)))
        if known.fragments and self.random.random() < 0.6:
            stays = self.random.random() < 0.1
            fragment = self.random.choice(list(known.fragments))
            return MoveFragment(fragment, NodeId("") if stays else node)
        return DrainNode(node, closing=self.random.random() < 0.2)


def ask_for(operation: Operation, heard: list[Result], machine: Any) -> None:
    """An operation that an operator wishes; `heard` gets the answer."""
    machine.on_change_asked(operation, heard.append)
