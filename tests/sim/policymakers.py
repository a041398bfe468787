"""An operator who sets and clears policies while a run goes on (docs/adr/0099).

Input: a plan's run. Output: limits that cost no message come and go on all queues, at random
moments, by any node: so fragments change what they count, and what they note, in the midst of
everything else. At the end every primary has to obey what the map says by then.

The judge is the ledger, which excuses nothing for it.
"""

from collections.abc import Sequence
from typing import Final

import orjson

from fedq.core.versions import POLICIES
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map.operations_policies import DropPolicy, PutPolicy
from tests.sim import inspect_node
from tests.sim.actors import Actor, Script
from tests.sim.checkers import Ledger
from tests.sim.movers import Wisher
from tests.sim.node_host import Host
from tests.sim.run import Run
from tests.sim.swarm import draw
from tests.sim.world import MS, Trace, World, between

#: What no run reaches. (A delivery limit would show: its queue's messages say how often they came.)
_SETTINGS: Final = {
    "max-length": 1 << 40, "max-length-bytes": 1 << 50, "message-ttl": 10**9, "expires": 10**10,
}  # fmt: skip


class Policymaker(Wisher):
    """Sets and clears policies every now and then, until the run is to end."""

    def __init__(self, world: World, ledger: Ledger, hosts: Sequence[Host]) -> None:
        super().__init__(world, ledger, hosts, "policymaker")
        #: How many policies were set.
        self.made = 0

    def script(self) -> Script[None]:
        while self.goes_on():
            yield between(self.random, 10 * MS, 400 * MS)
            alive = [host for host in self.hosts if host.alive]
            if alive and inspect_node.state_of(alive[0]).map.cluster_version >= POLICIES:
                yield from self.change(self._draw(), once=True)

    def _draw(self) -> PutPolicy | DropPolicy:
        name, operator = self.random.choice("ab"), self.random.random() < 0.3
        if self.random.random() < 0.4:
            return DropPolicy("/", name, operator)
        self.made += 1
        chosen = self.random.sample(sorted(_SETTINGS), self.random.randint(1, 3))
        definition = orjson.dumps({each: _SETTINGS[each] for each in chosen}).decode()
        priority, pattern = self.random.randint(0, 2), self.random.choice(["", "[0-4]", "a|e|q"])
        return PutPolicy("/", name, operator, pattern, "all", priority, definition)

    def check(self) -> None:
        """Whether all that is served obeys the map."""
        for host in self.hosts:
            state: NodeState = inspect_node.state_of(host)
            for primary in state.primaries.values():
                wanted, policy = state.policy_of(primary.queue), primary.fragment.policy
                count = len(state.map.queues[primary.queue].fragments)
                if count == 1 and wanted != policy:
                    self.ledger.broken(f"{primary.queue} obeys {policy}, and not {wanted}")


class PolicedRun(Run):
    """A run with a policymaker."""

    def __init__(self, seed: int, lite: bool) -> None:
        super().__init__(draw(seed, lite, no_changes=True), Trace(echo=False, digest=False))
        self.policymaker = Policymaker(self.world, self.ledger, self.cluster.hosts)

    def _actors(self) -> list[Actor]:
        return [*super()._actors(), self.policymaker]

    def _publishing(self) -> list[Actor]:
        return [*super()._publishing(), self.policymaker]

    def _come_to_rest(self) -> bool:
        rests = super()._come_to_rest()
        if rests:
            self.policymaker.check()
        return rests
