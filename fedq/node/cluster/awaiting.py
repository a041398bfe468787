"""For whom this node waits, as its log says it: once, and again when it is for others.

Inputs: the map, links, the time. Output: lines for the log. Before it is in the cluster a node
waits for a majority; after that fragments may wait for nodes that have their copies in sync. What
`fedq cluster status` says of it is found anew for each question (`fedq.node.views.overview`).
"""

from typing import Final

from fedq.core.ids import MapVersion, NodeId
from fedq.node.records.chores import Each
from fedq.node.records.state import NodeState
from fedq.node.records.unserved import Awaited, AwaitedTally

#: How long others may take to start with this node before it says that it waits for them.
PATIENCE_MS: Final = 3_000
#: Fragments that wait are looked at again as they change, but not more often.
_LOOK_EVERY_MS: Final = 1_000
_NAMED_MAX: Final = 5
#: What it costs to look at a fragment, in units of work.
_LOOK_WORK: Final = 2


class Awaiting:
    """Tells for whom this node, and which fragments, wait."""

    __slots__ = (
        "_absent", "_began_ms", "_fragments_seen", "_looked_ms", "_members_seen", "_told", "state",
    )  # fmt: skip

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self._began_ms: int | None = None
        #: Who was not linked when the log said so last.
        self._absent: list[NodeId] = []
        self._looked_ms = 0
        #: The versions of members and of fragments that were looked at last.
        self._members_seen = self._fragments_seen = MapVersion(-1)
        #: What the log said last.
        self._told: tuple[Awaited, ...] = ()

    def tick(self) -> None:
        """Looks whether something is to be said."""
        state = self.state
        if state.joined:
            is_due = state.map.members_version != self._members_seen or self._told
            if is_due and self._is_due() and not state.chores.are_under_way(self):
                self._look_at_fragments()
            return
        if self._began_ms is None:
            self._began_ms = state.now_ms
        if state.now_ms - self._began_ms >= PATIENCE_MS:
            self._look_at_peers()

    # --- a majority --------------------------------------------------------------------------

    def _look_at_peers(self) -> None:
        state = self.state
        voters = state.voters
        absent = [node for node in voters if node != state.me and not state.is_linked(node)]
        # Of all voters fewer than half may be away.
        missing = len(absent) - (len(voters) - 1) // 2
        if missing <= 0:
            absent = []
        if absent == self._absent:
            return
        self._absent = absent
        if absent:
            state.out.warnings.append(
                f"this node waits for a majority of the cluster: start {_any_of(missing, absent)}"
            )

    # --- fragments ---------------------------------------------------------------------------

    def _is_due(self) -> bool:
        """Whether others may wait by now: members have changed; or fragments that waited have."""
        state = self.state
        if state.map.members_version != self._members_seen:
            return True
        changed = state.map.fragments_version != self._fragments_seen
        return changed and state.now_ms - self._looked_ms >= _LOOK_EVERY_MS

    def _look_at_fragments(self) -> None:
        state, tally = self.state, AwaitedTally(self.state)
        self._looked_ms = state.now_ms
        self._members_seen = state.map.members_version
        self._fragments_seen = state.map.fragments_version
        look = Each(state.work, list(state.map.fragments), tally.add, _LOOK_WORK)
        state.chores.add(self, look)
        state.chores.add(self, _Telling(self, tally))

    def tell(self, found: tuple[Awaited, ...]) -> None:
        """Tells what has changed since it was told last."""
        before, self._told = self._told, found
        if found == before:
            return
        out = self.state.out
        for awaited in found:
            if awaited not in before:
                out.warnings.append(sentence_of(awaited))
        if not found:
            out.story.append("no fragment waits for a node that is down any more")


class _Telling:
    """A chore: tells what a look at all fragments has found."""

    __slots__ = ("_awaiting", "_tally")

    def __init__(self, awaiting: Awaiting, tally: AwaitedTally) -> None:
        self._awaiting = awaiting
        self._tally = tally

    def go_on(self) -> bool:
        """Tells it."""
        self._awaiting.tell(self._tally.found())
        return True


def sentence_of(awaited: Awaited) -> str:
    """Which fragments wait, and for whom, for the log and the status."""
    names = [repr(key.name) for key in awaited.queues[:_NAMED_MAX]]
    more = ", …" if awaited.fragments > len(names) else ""
    return (
        f"{awaited.fragments} fragments wait for {' or '.join(awaited.nodes)}, which had all that "
        f"was confirmed: start {_any_of(1, awaited.nodes)}; queues {', '.join(names)}{more}"
    )


def _any_of(count: int, nodes: list[NodeId] | tuple[NodeId, ...]) -> str:
    """Some number of the nodes, in words."""
    if len(nodes) == count:
        return " and ".join(nodes)
    return f"{'one' if count == 1 else count} of {', '.join(nodes)}"
