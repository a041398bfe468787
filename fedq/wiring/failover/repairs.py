"""What a single fragment needs: a primary, an honest in-sync set, the right number of copies.

Inputs: the leader's view, a fragment with its queue, and since when it lacks copies. Output: its
operations, usually none or one `SetCopies`. The rules are told in `fedq.wiring.failover.decide`.
"""

from typing import Final, NamedTuple, TypeAlias

from fedq.core.ids import FragmentId, Incarnation, NodeId
from fedq.wiring.cluster_map.operations import AddFragment, Operation, SetCopies
from fedq.wiring.cluster_map.placement import choose, fragment_subject
from fedq.wiring.cluster_map.state import FragmentInfo, Queue
from fedq.wiring.failover.view import View
from fedq.wiring.failover.worth import ASK_AGAIN_MS, Revivals

#: Later than any time.
NEVER_MS: Final = 1 << 62
#: Copies that move at a time.
MOVES_IN_FLIGHT_MAX: Final = 4


class Shortage(NamedTuple):
    """A fragment has fewer copies than it should."""

    #: Since when, as far as this leader knows, or since the last node was lost.
    since_ms: int
    #: Nodes that held a copy and went: the first choice when they are back.
    lost: tuple[NodeId, ...]


Shortages: TypeAlias = dict[FragmentId, Shortage]


class Repairs:
    """The repairs of one decision."""

    __slots__ = (
        "_in_flight", "_known", "_now_ms", "_patience_ms", "_revivals", "_view", "shortages",
        "wake_ms",
    )  # fmt: skip

    def __init__(
        self, view: View, known: Shortages, patience_ms: int, now_ms: int, revivals: Revivals
    ) -> None:
        """`known`: the shortages found last time; `patience_ms`: how long to wait for a node."""
        self._view = view
        self._revivals = revivals
        self._known = known
        self._patience_ms = patience_ms
        self._now_ms = now_ms
        #: Fragments that are copied, to have a copy too many until another one goes.
        self._in_flight = 0
        #: The shortages found this time.
        self.shortages: Shortages = {}
        #: When the first patience ends.
        self.wake_ms = NEVER_MS

    def count(self, info: FragmentInfo, queue: Queue) -> None:
        """Counts a move that is under way, before any is begun."""
        if len(self._view.hot(info)) < len(info.copies) > queue.replicas:
            # Those that have been copied, and wait for their primary, are in nobody's way.
            self._in_flight += 1

    def repair(self, info: FragmentInfo, queue: Queue) -> list[Operation]:
        """What the fragment needs; empty if it is well, or has to wait."""
        view = self._view
        hot = view.hot(info)
        copies = len(info.backups) + 1
        is_well = copies == len(info.in_sync) == len(hot) == queue.replicas
        if is_well and not view.is_to_move(info):
            return []
        proven = view.proven(hot)
        if not hot:
            return self._revive(info, queue)
        if not proven:
            # Whoever is left may be gone as well: wait until it is heard or suspected. Nobody can
            # copy from it before; and if it has stopped in order, a new epoch would void its word
            # on what was seen (docs/adr/0046).
            if info.id in self._known:
                self.shortages[info.id] = self._known[info.id]
            return []
        primary = info.primary if info.primary in hot else view.best_leader(info.id, proven)
        backups = [node for node in info.copies if node != primary and node in view.up]
        joining = self._joining(info, queue, [primary, *backups])
        if joining is not None:
            backups.append(joining)
        elif len(hot) > queue.replicas and not view.awaits_hand_over(info, proven):
            surplus = view.surplus(primary, [node for node in hot if node != primary])
            backups.remove(surplus)
            del hot[surplus]
        return self._set(info, primary, backups, hot, restart=False)

    def _set(
        self,
        info: FragmentInfo,
        primary: NodeId,
        backups: list[NodeId],
        in_sync: dict[NodeId, Incarnation],
        restart: bool,
    ) -> list[Operation]:
        wanted = (primary, *backups)
        if not restart and wanted == info.copies and in_sync == info.in_sync:
            return []
        self._view.note(info, primary, backups)
        return [
            SetCopies(info.id, info.epoch, primary, tuple(backups), tuple(in_sync.items()), restart)
        ]

    def _joining(self, info: FragmentInfo, queue: Queue, copies: list[NodeId]) -> NodeId | None:
        """The node that should begin to copy the fragment now, if it lacks copies."""
        view = self._view
        candidates = [n for n in view.proven(view.up) if n not in copies and view.is_open(n)]
        if len(copies) >= queue.replicas:
            return self._moving(info, queue, copies, candidates)
        shortage = self._note_shortage(info, copies)
        if not candidates:
            return None
        target = view.moves.get(info.id)
        if target in candidates:
            return target
        returned = [node for node in shortage.lost if node in candidates]
        if returned:
            return returned[0]
        awaited = any(node not in view.up for node in shortage.lost)
        if (awaited or (not shortage.lost and view.some_absent)) and self._wait(shortage):
            return None
        sites = {node: view.sites[node] for node in (*candidates, *copies)}
        return choose(fragment_subject(info.id), sites, copies, 1)[0]

    def _moving(
        self, info: FragmentInfo, queue: Queue, copies: list[NodeId], candidates: list[NodeId]
    ) -> NodeId | None:
        """The node that should begin to copy the fragment as it is to move; few at a time."""
        view = self._view
        if len(copies) > queue.replicas or self._in_flight >= MOVES_IN_FLIGHT_MAX:
            return None
        target = view.moves.get(info.id)
        stay = [node for node in copies if view.is_open(node)]
        if target is not None:
            chosen = [target] if target in candidates else []
        elif not view.is_open(info.primary) and any(node in stay for node in view.hot(info)):
            # It is led elsewhere first: then the copy that goes is no primary's.
            return None
        elif len(stay) < len(copies):
            sites = {node: view.sites[node] for node in (*candidates, *stay)}
            chosen = choose(fragment_subject(info.id), sites, stay, 1) if candidates else []
        else:
            return None
        self._in_flight += len(chosen)
        return chosen[0] if chosen else None

    def _note_shortage(self, info: FragmentInfo, copies: list[NodeId]) -> Shortage:
        known = self._known.get(info.id, Shortage(self._now_ms, ()))
        lost = [node for node in info.copies if node not in self._view.up]
        news = [node for node in lost if node not in known.lost]
        since_ms = self._now_ms if news else known.since_ms
        still = [node for node in known.lost if node not in copies]
        shortage = Shortage(since_ms, (*news, *still))
        self.shortages[info.id] = shortage
        return shortage

    def _wait(self, shortage: Shortage) -> bool:
        """Whether a lost node still has time to return."""
        until_ms = shortage.since_ms + self._patience_ms
        if self._now_ms >= until_ms:
            return False
        self.wake_ms = min(self.wake_ms, until_ms)
        return True

    # --- no hot copy is left ---

    def _revive(self, info: FragmentInfo, queue: Queue) -> list[Operation]:
        view = self._view
        cold = [node for node in info.in_sync if node in view.up]
        if cold and (queue.durable or not view.may_be_hidden(info)):
            proven = view.proven(cold)
            if not proven:
                return []
            best = proven
            if queue.durable and len(info.in_sync) > 1:
                here = {node: view.up[node] for node in proven}
                best = self._revivals.candidates(info, here, self._now_ms)
                if not best:
                    self.wake_ms = min(self.wake_ms, self._now_ms + ASK_AGAIN_MS)
                    return []
            primary = view.best_leader(info.id, best)
            backups = [node for node in info.copies if node != primary and node in view.up]
            return self._set(info, primary, backups, {primary: view.up[primary]}, restart=True)
        if queue.durable:
            return []  # the disks will return, or an operator decides
        shortage = self._note_shortage(info, [])
        if self._wait(shortage):
            return []
        return self._begin_again(info, queue)

    def _begin_again(self, info: FragmentInfo, queue: Queue) -> list[Operation]:
        """Another fragment for a queue that has none left that serves.

        The lost one stays: its processes may live behind a partition, with everything confirmed
        in their memory. If they come back as new processes, it restarts, empty, on one of them.
        """
        view = self._view
        if any(view.hot(view.fragments[other]) for other in queue.fragments if other != info.id):
            return []
        candidates = view.proven(view.up)
        if not candidates:
            return []
        node = view.best_leader(info.id, candidates)
        view.leads[node] += 1
        return [AddFragment(info.queue.vhost, info.queue.name, node)]
