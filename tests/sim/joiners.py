"""An operator who lets nodes join while a run goes on, and takes dead ones out (docs/adr/0090).

Input: a cluster. Output: at random moments one more node, and, if the plan has it, now and then
one that is gone for good, in whose place another one comes.

The judge is the ledger: who joins changes nothing for clients, and who is taken out is one more
node that died. At the end all nodes of the cluster are whole, with equal maps.
"""

from collections.abc import Callable

from fedq.core.errors import Refused
from fedq.core.ids import NodeId
from fedq.core.versions import JOINING
from fedq.wiring.cluster_map.operations_members import AdmitNode, ForgetNode
from tests.sim import inspect_node
from tests.sim.actors import Script
from tests.sim.cluster import Cluster
from tests.sim.disk import EMPTY
from tests.sim.faults import Faults
from tests.sim.movers import Wisher
from tests.sim.node_host import Host
from tests.sim.world import MS, between

_LOOK_US = 50 * MS


class Joiner(Wisher):
    """Lets nodes join, so many, and takes out some of those that die."""

    def __init__(self, cluster: Cluster, faults: Faults, is_whole: Callable[[], bool]) -> None:
        super().__init__(cluster.world, cluster.ledger, cluster.hosts, "joiner")
        self._cluster = cluster
        self._faults = faults
        self._is_whole = is_whole
        self._joins = cluster.plan.joins
        self._forgets = cluster.plan.replaced
        self.joined = self.forgotten = 0

    def script(self) -> Script[None]:
        while not self._speaks():
            yield _LOOK_US
        for _ in range(self._joins):
            yield between(self.random, 10 * MS, 2_000 * MS)
            yield from self._join()
        for _ in range(self._forgets):
            while self.goes_on() and not self._may_lose_one():
                yield _LOOK_US
            if not self.goes_on():
                return
            yield from self._replace()

    def _speaks(self) -> bool:
        alive = [host for host in self.hosts if host.alive]
        return bool(alive) and all(
            known.cluster_version >= JOINING and known.roster
            for known in (inspect_node.state_of(host).map for host in alive)
        )

    def _join(self) -> Script[None]:
        name = NodeId(f"n{len(self._cluster.names) + 1}")
        self._cluster.note_coming(name)
        result = yield from self.change(
            AdmitNode(name, self._cluster.address(name), f"disk of {name}")
        )
        assert not isinstance(result, Refused), result
        self.joined += 1
        host = self._cluster.join(name)
        self._faults.moments[host.name] = (0, 0, EMPTY)
        self._faults.copies[host.name] = []
        yield between(self.random, 0, 500 * MS)
        if not host.alive:
            host.start()

    def _may_lose_one(self) -> bool:
        """Whether a host may die now, for good, and nothing is lost by it."""
        faults = self._faults
        is_free = self.ledger.on_confirm is None and not any(host.paused for host in self.hosts)
        is_free = is_free and not faults.stops_one() and not faults.stopping
        # The others have to be a majority.
        is_free = is_free and len(self._cluster.raft.electing) > 2 and self._all_vote()
        return is_free and self._is_whole() and bool(self._expendable())

    def _expendable(self) -> list[Host]:
        """Hosts without which nothing is missing; with the others it would be for long."""
        return [host for host in self.hosts if not inspect_node.only_copies(host)]

    def _all_vote(self) -> bool:
        """Whether the log elects with those who should vote: half of two are no majority."""
        states = [inspect_node.state_of(host) for host in self.hosts if host.alive]
        return all(sorted(each.voters) == [*(each.map.wanted_voters or ())] for each in states)

    def _replace(self) -> Script[None]:
        """One dies for good; another one joins."""
        host = self.random.choice(self._expendable())
        incarnation = host.incarnation
        faults = self._faults
        faults.begin(f"down {host.name}")
        faults.kills += 1
        faults.gone[host.name] = None
        self.ledger.crashes_us.append(self.world.now_us)
        host.crash("gone for good")
        if (yield from self._forget(host, incarnation)):
            self.forgotten += 1
            self._cluster.forget(host)
            self._cluster.hosts.remove(host)
            faults.end(f"down {host.name}")
            yield from self._join()
        else:
            del faults.gone[host.name]
            faults.revive(host)

    def _forget(self, host: Host, incarnation: int) -> Script[bool]:
        """Whether it could be taken out: what it had alone keeps it in."""
        for _ in range(60):
            yield 200 * MS
            result = yield from self.change(ForgetNode(host.name, incarnation), once=True)
            if result is not None and not isinstance(result, Refused):
                return True
        return False
