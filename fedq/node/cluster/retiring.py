"""Retiring fragments of this node that nobody publishes to any more (docs/adr/0100).

    empty, and no traffic for long -> everybody keeps quiet (`quiescing`), nobody has anything on
    its way to it                  -> `RetireIdle` -> it is gone; what was kept goes elsewhere

Inputs: ticks, what this node leads, others' words. Outputs: proposals, `Quiesce` to peers.

The map retires it only if since the beginning of that silence its copies are the same, and nobody
went down or came up: so at that moment nobody can have sent it anything. Until the map has decided
the silence lasts. A question of which nobody knows what became is asked again; if that is refused,
its copies as they are, at a new epoch, void the first one.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from fedq.core.errors import Refused
from fedq.core.ids import Epoch, FragmentId, MapVersion
from fedq.core.versions import RETIRING
from fedq.node.cluster.proposals import GAVE_UP, Proposals, Result
from fedq.node.cluster.quiescing import Quiescing
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.proxy.links import NO_SESSION
from fedq.wiring.cluster_map.copies import is_surplus, why_kept
from fedq.wiring.cluster_map.operations import SetCopies
from fedq.wiring.cluster_map.operations_copies import RetireIdle
from fedq.wiring.cluster_map.state import FragmentInfo

#: So many are retired at a time by one node.
RETIREMENTS_MAX: Final = 4
#: Fragments that are looked at in a tick; and what that costs, in units of work.
_LOOKED_AT_MAX: Final = 64
_LOOK_WORK: Final = 1
#: One that could not be retired is left alone for so long.
REST_MS: Final = 10_000


class Idle(NamedTuple):
    """Since when nothing has happened in a fragment: its last event in its reign, and the time."""

    reign: int
    last: int
    since_ms: int
    #: Since when this node leads it, as far as it has looked.
    led_since_ms: int


class _Asked:
    """What the map was asked for."""

    __slots__ = ("epoch", "gave_up", "is_refused", "under_way")

    def __init__(self, epoch: Epoch) -> None:
        self.epoch = epoch
        #: An answer is still to come.
        self.under_way = False
        #: Of an earlier question nobody knows what became; it was refused since.
        self.gave_up = False
        self.is_refused = False


class Retiring:
    """Retires fragments of this node that are empty and without traffic."""

    __slots__ = (
        "_asked", "_idle", "_left", "_proposals", "_quiescing", "_resting", "_since", "state",
    )  # fmt: skip

    def __init__(self, state: NodeState, proposals: Proposals, quiescing: Quiescing) -> None:
        self.state = state
        self._proposals = proposals
        self._quiescing = quiescing
        #: What was seen of fragments that are not the only ones of their queues.
        self._idle: dict[FragmentId, Idle] = {}
        #: What is led here and was not looked at lately.
        self._left: deque[FragmentId] = deque()
        #: Fragments about which everybody is to keep quiet, and the map as it was before.
        self._since: dict[FragmentId, MapVersion] = {}
        self._asked: dict[FragmentId, _Asked] = {}
        #: Until when fragments are left alone.
        self._resting: dict[FragmentId, int] = {}

    # --- what is seen --------------------------------------------------------------------------

    def idle_ms(self, fragment: FragmentId) -> int | None:
        """For how long nothing has happened in a fragment of this node; None: nobody looked."""
        idle = self._idle.get(fragment)
        return None if idle is None else self.state.now_ms - idle.since_ms

    def is_retiring(self, fragment: FragmentId) -> bool:
        """Whether the fragment is about to go."""
        return fragment in self._since

    def reasons(self, primary: Primary, info: FragmentInfo) -> Iterator[str]:
        """Why a fragment that this node leads stays, as sentences without a full stop."""
        state = self.state
        kept = why_kept(state.map, info)
        if kept:
            yield kept
            return
        # An operator does not wait for traffic to end that nobody has to have there.
        must_go = is_surplus(state.map, info)
        settings, messages = state.settings, len(primary.fragment.messages)
        if not settings.retire_idle_ms and not must_go:
            yield "this node retires none (timing.retire_idle_ms is 0)"
            return
        if messages:
            yield f"it has messages: {messages}"
        if primary.fragment.publishers is not None:
            yield "it knows publishers with names"
        if self._is_busy(primary):
            yield "publishes, dead letters or copies are under way"
        yield from self._of_time(info.id, must_go=must_go)
        yield from self._of_cluster(info)

    def _of_time(self, fragment: FragmentId, *, must_go: bool) -> Iterator[str]:
        """Why it is too early to retire a fragment."""
        now_ms, settings = self.state.now_ms, self.state.settings
        idle = self._idle.get(fragment)
        if idle is None:
            yield "it was not looked at yet"
            return
        quiet_ms, led_ms = now_ms - idle.since_ms, now_ms - idle.led_since_ms
        if quiet_ms < settings.retire_idle_ms and not must_go:
            yield (
                f"it had traffic {quiet_ms // 1_000} s ago, and stays without any for "
                f"{settings.retire_idle_ms // 1_000} s"
            )
        if led_ms < settings.retire_age_ms and not must_go:
            yield (
                f"it came to this node {led_ms // 1_000} s ago, and stays for "
                f"{settings.retire_age_ms // 1_000} s at least"
            )
        if now_ms < self._resting.get(fragment, 0):
            yield "a node had publishes on their way to it, or did not answer in time"

    def _of_cluster(self, info: FragmentInfo) -> Iterator[str]:
        """Why fragments are not retired as the cluster is."""
        state = self.state
        if not state.all_speak(RETIRING):
            yield f"not all members speak version {RETIRING} yet"
        for node, member in state.map.members.items():
            if not member.up:
                yield f"{node} is down"
            elif node != state.me and state.session_with(node) == NO_SESSION:
                yield f"{node} is only now coming up"
        if info.id in state.map.moves:
            yield f"it is to be led by {state.map.moves[info.id]}"
        if state.me in state.map.drained:
            yield "this node is drained: it goes to another one"
        if state.full:
            yield "a node is short of memory or disk"

    def _is_busy(self, primary: Primary) -> bool:
        """Whether the primary owes anything to anybody."""
        fragment, replication = primary.fragment, primary.replication
        publisher = self.state.publishers.get(fragment.fragment_id)
        is_quiet = self._quiescing.retires(fragment.fragment_id)
        return (
            bool(fragment.out.owed or fragment.out.records or fragment.out.dead or fragment.dying)
            or bool(primary.promised or primary.attaching or primary.damaged or fragment.shut)
            or primary.dying > 0
            or primary.seen_at > 0
            or replication.commit < fragment.last
            or (publisher is not None and not publisher.is_idle and not is_quiet)
        )

    # --- step by step --------------------------------------------------------------------------

    def tick(self) -> None:
        """Looks at some of what this node leads, and goes on with what is about to go."""
        state = self.state
        self.go_on()
        if not state.serving or state.stopping or state.disk_stalls:
            return
        if not self._left:
            self._left.extend(state.primaries)
            self._idle = {f: idle for f, idle in self._idle.items() if f in state.primaries}
            self._resting = {f: ms for f, ms in self._resting.items() if state.now_ms < ms}
        for _ in range(min(len(self._left), _LOOKED_AT_MAX)):
            if state.work.is_spent:
                return
            state.work.spend(_LOOK_WORK)
            fragment = self._left.popleft()
            primary, info = state.primaries.get(fragment), state.map.fragments.get(fragment)
            if primary is not None and info is not None:
                self._look_at(primary, info)

    def go_on(self) -> None:
        """Goes on with what is about to go: somebody may have answered."""
        for fragment in list(self._since):
            self._go_on_with(fragment)

    def _look_at(self, primary: Primary, info: FragmentInfo) -> None:
        """Notes whether anything has happened in a fragment, and has it go if it is to."""
        state, fragment = self.state, primary.fragment
        if len(state.map.queues[info.queue].fragments) == 1:
            self._idle.pop(info.id, None)
            return
        known = self._idle.get(info.id)
        if known is None or known.reign != fragment.reign:
            known = Idle(fragment.reign, fragment.last, state.now_ms, state.now_ms)
        if known.last != fragment.last or len(fragment.messages):
            known = known._replace(last=fragment.last, since_ms=state.now_ms)
        self._idle[info.id] = known
        if len(self._since) >= RETIREMENTS_MAX or self._quiescing.has_begun(info.id):
            return
        if info.reign == fragment.reign and not next(self.reasons(primary, info), ""):
            self._since[info.id] = state.map.version
            self._quiescing.begin(primary, retires=True)

    def _go_on_with(self, fragment: FragmentId) -> None:
        """Takes the next step with a fragment, if it is time for it."""
        state, quiescing = self.state, self._quiescing
        primary, info = state.primaries.get(fragment), state.map.fragments.get(fragment)
        asked = self._asked.get(fragment)
        if primary is None or info is None or primary.fragment.reign != info.reign:
            self._end(fragment)
        elif asked is not None:
            if info.epoch != asked.epoch:
                self._end(fragment)
            elif not asked.under_way:
                self._ask(info, asked)
        elif (
            quiescing.is_refused(fragment)
            or quiescing.is_void(fragment)
            or quiescing.is_late(fragment)
            or not state.serving
            or state.stopping
            or next(self.reasons(primary, info), "")
        ):
            self._resting[fragment] = state.now_ms + REST_MS
            self._end(fragment)
        elif quiescing.is_quiet(fragment):
            self._asked[fragment] = asked = _Asked(info.epoch)
            self._ask(info, asked)

    def _ask(self, info: FragmentInfo, asked: _Asked) -> None:
        """Asks the map to retire the fragment; or for its copies as they are, to void that."""
        fragment = info.id

        def on_result(result: Result) -> None:
            asked.under_way = False
            if result is GAVE_UP:
                asked.gave_up = True
            elif isinstance(result, Refused):
                asked.is_refused = True
                if not asked.gave_up and self._asked.get(fragment) is asked:
                    self._resting[fragment] = self.state.now_ms + REST_MS
                    self._end(fragment)

        asked.under_way = True
        operation: RetireIdle | SetCopies = RetireIdle(fragment, info.epoch, self._since[fragment])
        if asked.is_refused:
            copies = info.primary, info.backups, tuple(info.in_sync.items())
            operation = SetCopies(fragment, info.epoch, *copies, restart=False)
        self._proposals.ask(operation, on_result)

    def _end(self, fragment: FragmentId) -> None:
        """Ends the silence: whoever kept something sends it, or has sent it elsewhere."""
        self._since.pop(fragment, None)
        self._asked.pop(fragment, None)
        self._quiescing.end(fragment)
