"""What the leader does about lost, returned and unevenly loaded nodes.

Input: the cluster map, the suspects and the unproven nodes (`fedq.wiring.detector`), the time, and
the leader's own memory of shortages. Output: the operations of one command, in this order:

1. members that are suspected go down;
2. a new era begins if no process of the old one is left; while one lives, the others join it;
3. each fragment is repaired by at most one `SetCopies`: primary, in-sync set and backups at once,
   taking for granted what 1 and 2 will have done;
4. if there was nothing else to do, backups move from busy nodes to idle ones, few at a time.

Nothing here is trusted by the map: `fedq.wiring.copies` refuses what would lose confirmed messages,
and the epoch voids decisions that were made on an older map. A lost proposal is made again.

*Hot* copies are in sync, and their process is up: they have everything in memory. *Cold* ones were
in sync, but their process is a newer one: they have on disk what was persistent. As long as a hot
copy remains, one of them leads. If none does, a cold one restarts the fragment from disk: the one
that holds most (`fedq.wiring.worth`). For a durable queue this may wait as long as it must for a
copy in sync: no confirmed persistent message is given up. The messages of a queue that is not
durable were only ever in the memory of processes that are gone: it begins again, empty, on a cold
copy. If none of its nodes returns in time, or one that is not heard may have all of it in memory,
the queue gets another fragment and serves from that; the lost one waits, for a partition may hide
it. Only who refuses connections, or has a successor, is known to hide nothing. (If every process
of its era is gone, the queue itself is: that is the new era.)

A copy is given up, and a primary chosen, only with a *proven* hot copy at hand (its node was heard
lately). After a stop of the whole cluster the map still takes for up whoever has not returned yet;
a leader that chose one of those would throw away the good copies of those who have.
"""

from collections.abc import Collection, Sequence
from typing import Final

from fedq.core.ids import FragmentId, Incarnation, NodeId
from fedq.wiring.balance import balance
from fedq.wiring.cluster_map import ClusterMap
from fedq.wiring.operations import (
    JoinEra,
    MemberDown,
    NewEra,
    Operation,
    encode_operation,
    fitting,
)
from fedq.wiring.repairs import Repairs, Shortages
from fedq.wiring.view import View
from fedq.wiring.worth import Revivals, Worth

#: What was proposed is proposed again after this long, if the map still wants it.
PROPOSE_AGAIN_MS: Final = 500
#: New fragments alone are not worth looking at everything more often than this.
SCAN_PAUSE_MS: Final = 500


class FailoverMemory:
    """What a leader remembers between decisions; a new leader begins with a new one."""

    __slots__ = (
        "_last_scan_ms",
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
        """How long a lost backup may take to return before another node replaces it; and how long
        a fragment that is in nobody's memory waits for copies to be compared."""
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

    def on_worth(
        self, node: NodeId, incarnation: Incarnation, fragment: FragmentId, epoch: int, worth: Worth
    ) -> None:
        """A node says what its copy holds: everything is looked at again."""
        if self.revivals.on_answer(node, incarnation, fragment, epoch, worth):
            self._wake_ms = 0

    def goes_on(self, people: tuple[object, ...]) -> bool:
        """Whether there is still a plan, made for the same suspects and unproven nodes.

        The map may have moved on: it refuses what no longer fits, and the next look finds the rest.
        """
        return bool(self.plan) and people == self._seen[1:]

    def may_rest(self, seen: tuple[object, ...], fragments_version: int, now_ms: int) -> bool:
        """Whether a look at everything would find what the last one found, or can wait."""
        if seen != self._seen or now_ms >= self._wake_ms:
            return False
        if fragments_version == self._seen_fragments:
            return True
        return not self._proposed and now_ms - self._last_scan_ms < SCAN_PAUSE_MS

    def note_scan(
        self,
        seen: tuple[object, ...],
        fragments_version: int,
        now_ms: int,
        wake_ms: int,
    ) -> None:
        """Remembers what was looked at, and when to look again whatever happens."""
        self._seen = seen
        self._seen_fragments = fragments_version
        self._last_scan_ms = now_ms
        self._wake_ms = wake_ms
        self._proposed = bool(self.plan)


def decide(
    cluster: ClusterMap,
    suspects: Sequence[NodeId],
    now_ms: int,
    memory: FailoverMemory,
    unproven: Collection[NodeId] = (),
    unheard: Collection[NodeId] = (),
    gone: Collection[NodeId] = (),
) -> list[Operation]:
    """The operations of one command, or none; see the module's docstring.

    Only for the leader. Cheap when nothing happened, so it may be asked at every tick; best also
    when the last answer was applied, because a big loss takes several commands.
    """
    people = tuple(suspects), tuple(unproven), tuple(unheard), tuple(gone)
    seen = (cluster.members_version, *people)
    fragments_version = cluster.fragments_version
    if not memory.goes_on(people):
        if memory.may_rest(seen, fragments_version, now_ms):
            return []
        memory.plan, wake_ms = _plan(
            cluster, now_ms, memory, View(cluster, suspects, unproven, unheard, gone)
        )
        memory.note_scan(seen, fragments_version, now_ms, wake_ms)
    count = fitting(encode_operation(operation) for operation in memory.plan)
    operations, memory.plan = memory.plan[:count], memory.plan[count:]
    return operations


def _plan(
    cluster: ClusterMap, now_ms: int, memory: FailoverMemory, view: View
) -> tuple[list[Operation], int]:
    """All that is to be done, and when to look again even if nothing changes."""
    operations: list[Operation] = [
        MemberDown(node, member.incarnation)
        for node, member in cluster.members.items()
        if member.up and node not in view.up
    ]
    if view.era_ends:
        operations.append(NewEra())
    operations += [JoinEra(node, incarnation) for node, incarnation in view.era_joins]
    memory.revivals.begin()
    repairs = Repairs(view, memory.shortages, memory.replace_backup_ms, now_ms, memory.revivals)
    for info in cluster.fragments.values():
        queue = cluster.queues[info.queue]
        if queue.durable or not view.era_ends:
            operations += repairs.repair(info, queue)
    memory.shortages = repairs.shortages
    if not operations:
        operations += balance(view, cluster)
    return operations, now_ms + PROPOSE_AGAIN_MS if operations else repairs.wake_ms
