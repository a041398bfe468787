"""What the leader does about lost, returned and unevenly loaded nodes.

Input: the cluster map, the suspects and the unproven nodes (`fedq.wiring.failover.detector`), the
time, and the leader's own memory of shortages. Output: the operations of one command, in this
order:

1. members that are suspected go down;
2. a new era begins if no process of the old one is left; while one lives, the others join it;
3. each fragment is repaired by at most one `SetCopies`: primary, in-sync set and backups at once,
   taking for granted what 1 and 2 will have done;
   So is one that is to move (docs/adr/0082): a copy joins on the node that is to lead it, or in the
   place of one on a drained node, few at a time; its primary hands over by itself;
4. if there was nothing else to do, backups move from busy nodes to idle ones, few at a time.

Nothing here is trusted by the map: `fedq.wiring.cluster_map.copies` refuses what would lose
confirmed messages, and the epoch voids decisions that were made on an older map. A lost proposal is
made again.

*Hot* copies are in sync, and their process is up: they have everything in memory. *Cold* ones were
in sync, but their process is a newer one: they have on disk what was persistent. As long as a hot
copy remains, one of them leads. If none does, a cold one restarts the fragment from disk: the one
that holds most (`fedq.wiring.failover.worth`). For a durable queue this may wait as long as it must
for a copy in sync: no confirmed persistent message is given up. The messages of a queue that is not
durable were only ever in the memory of processes that are gone: it begins again, empty, on a cold
copy. If none of its nodes returns in time, or one that is not heard may have all of it in memory,
the queue gets another fragment and serves from that; the lost one waits, for a partition may hide
it. Only who refuses connections, or has a successor, is known to hide nothing. (If every process of
its era is gone, the queue itself is: that is the new era.)

A copy is given up, and a primary chosen, only with a *proven* hot copy at hand (its node was heard
lately). After a stop of the whole cluster the map still takes for up whoever has not returned yet;
a leader that chose one of those would throw away the good copies of those who have. While no hot
copy is proven, the fragment stays as it is: a new epoch would void what a node said at its stop.
"""

from collections.abc import Collection, Sequence
from typing import Final

from fedq.core.ids import FragmentId, Incarnation, NodeId
from fedq.core.work import Work
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import Operation, encode_operation, fitting
from fedq.wiring.failover.look import Look
from fedq.wiring.failover.repairs import Shortages
from fedq.wiring.failover.view import View
from fedq.wiring.failover.worth import Revivals, Worth

#: What was proposed is proposed again after this long, if the map still wants it.
PROPOSE_AGAIN_MS: Final = 500
#: New fragments alone are not worth looking at everything more often than this.
SCAN_PAUSE_MS: Final = 500


class FailoverMemory:
    """What a leader remembers between decisions; a new leader begins with a new one."""

    __slots__ = (
        "_is_awake",
        "_last_scan_ms",
        "_look",
        "_looking_at",
        "_proposed",
        "_seen",
        "_seen_fragments",
        "_wake_ms",
        "plan",
        "replace_backup_ms",
        "revivals",
        "shortages",
    )

    def __init__(self, replace_backup_ms: int, revive_wait_ms: int) -> None:
        """`replace_backup_ms`: how long a lost backup may take to return before it is replaced.

        `revive_wait_ms`: how long a fragment that is in nobody's memory waits for copies to be
        compared.
        """
        self.replace_backup_ms = replace_backup_ms
        self.revivals = Revivals(revive_wait_ms)
        #: The fragments that lack copies.
        self.shortages: Shortages = {}
        #: What was decided, but did not fit into the command of the last answer.
        self.plan: list[Operation] = []
        self._seen: tuple[object, ...] = ()
        self._seen_fragments = -1
        self._last_scan_ms = 0
        self._wake_ms = 0
        self._proposed = False
        #: The look under way, what it began with, and whether something is known since that it may
        #: have needed.
        self._look: Look | None = None
        self._looking_at: tuple[tuple[object, ...], int, int] = ((), -1, 0)
        self._is_awake = False

    def on_worth(
        self, node: NodeId, incarnation: Incarnation, fragment: FragmentId, epoch: int, worth: Worth
    ) -> None:
        """Takes a node's word on what its copy holds: everything is looked at again."""
        if self.revivals.on_answer(node, incarnation, fragment, epoch, worth):
            self._wake_ms = 0
            self._is_awake = True

    def goes_on(self, people: tuple[object, ...]) -> bool:
        """Whether there is still a plan, made for the same suspects and unproven nodes.

        The map may have moved on: it refuses what no longer fits, and the next look finds the rest.
        """
        return bool(self.plan) and people == self._seen[1:]

    @property
    def is_looking(self) -> bool:
        """Whether a look at all fragments is under way."""
        return self._look is not None

    def look_for(self, seen: tuple[object, ...]) -> Look | None:
        """The look under way, if what it began with is still so; any other one is void."""
        if self._looking_at[0] != seen:
            self._look = None
        return self._look

    def begin_look(
        self, seen: tuple[object, ...], fragments_version: int, now_ms: int, cluster: ClusterMap,
        view: View,
    ) -> Look:  # fmt: skip
        """Begins a look at all fragments as they are from now on."""
        self.plan = []
        self._looking_at = seen, fragments_version, now_ms
        self._is_awake = False
        self._look = Look(
            cluster, view, self.shortages, self.replace_backup_ms, now_ms, self.revivals
        )
        return self._look

    def end_look(self, look: Look) -> None:
        """Remembers what was looked at, and when to look again whatever happens."""
        self._look = None
        self._seen, self._seen_fragments, self._last_scan_ms = self._looking_at
        self.shortages, self.plan = look.shortages, look.operations
        self._proposed = bool(self.plan)
        self._wake_ms = self._last_scan_ms + PROPOSE_AGAIN_MS if self.plan else look.wake_ms
        if self._is_awake:
            self._wake_ms = 0

    def may_rest(self, seen: tuple[object, ...], fragments_version: int, now_ms: int) -> bool:
        """Whether a look at everything would find what the last one found, or can wait."""
        if seen != self._seen or now_ms >= self._wake_ms:
            return False
        if fragments_version == self._seen_fragments:
            return True
        return not self._proposed and now_ms - self._last_scan_ms < SCAN_PAUSE_MS


def decide(
    cluster: ClusterMap,
    suspects: Sequence[NodeId],
    now_ms: int,
    memory: FailoverMemory,
    unproven: Collection[NodeId] = (),
    unheard: Collection[NodeId] = (),
    gone: Collection[NodeId] = (),
    work: Work | None = None,
) -> list[Operation]:
    """The operations of one command, or none; see the module's docstring.

    `work`: the budget that a look at all fragments draws from; None: it has no end. If it ends
    first (`memory.is_looking`) it should be asked again in the next turn.

    Only for the leader. Cheap when nothing happened, so it may be asked at every tick; best also
    when the last answer was applied, because a big loss takes several commands.
    """
    people = tuple(suspects), tuple(unproven), tuple(unheard), tuple(gone)
    seen = (cluster.members_version, *people)
    fragments_version = cluster.fragments_version
    if not memory.goes_on(people):
        look = memory.look_for(seen)
        if look is None:
            if memory.may_rest(seen, fragments_version, now_ms):
                return []
            view = View(cluster, suspects, unproven, unheard, gone)
            look = memory.begin_look(seen, fragments_version, now_ms, cluster, view)
        if not look.go_on(work):
            return []
        memory.end_look(look)
    count = fitting(encode_operation(operation) for operation in memory.plan)
    operations, memory.plan = memory.plan[:count], memory.plan[count:]
    return operations
