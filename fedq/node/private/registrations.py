"""What the cluster map holds on behalf of this node's private queues, kept true.

Two things: the names of exclusive queues that clients chose (unique in the cluster), and one *mark*
per exchange that some private queue of this node is bound to (so that nobody takes the exchange for
unused). Private queues come and go here; the map is compared with them whenever either may have
changed, and what differs is proposed, again and again until it is so. A lost proposal, an answer
that came too late, and a time during which the node counted as down are all healed in this way.

Changes nothing but what it proposes; a queue whose name has meanwhile gone to another is dropped.
"""

from collections.abc import Callable

from fedq.core.errors import Refused
from fedq.core.ids import MapVersion, QueueKey
from fedq.node.cluster.proposals import GAVE_UP, Proposals, Result
from fedq.node.records.private_queue import PrivateQueue
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map.operations import Bind, ClaimName, ReleaseName, Unbind
from fedq.wiring.cluster_map.state import Binding

COMPARE_EVERY_MS = 500


class Registrations:
    """The claims and marks in the cluster map for this node's private queues."""

    __slots__ = (
        "_agreed", "_compared_ms", "_exchanges", "_waiting", "proposals", "state",
    )  # fmt: skip

    def __init__(self, state: NodeState, proposals: Proposals) -> None:
        self.state = state
        self.proposals = proposals
        #: How many bindings of private queues each exchange has.
        self._exchanges: dict[QueueKey, int] = {}
        #: Names that are being claimed for a queue that does not exist yet.
        self._waiting: dict[QueueKey, int] = {}
        self._compared_ms = 0
        #: The version of the map that agrees with what is here; None since that has changed.
        self._agreed: MapVersion | None = None

    # --- names -------------------------------------------------------------------------------

    def claim(self, key: QueueKey, answer: Callable[[Result], None]) -> None:
        """Claims a name for a queue that will be made when the answer is yes."""

        def on_result(result: Result) -> None:
            answer(result)
            self._agreed = None
            left = self._waiting.pop(key) - 1
            if left:
                self._waiting[key] = left

        self.state.risk.begin()
        self._agreed = None
        self._waiting[key] = self._waiting.get(key, 0) + 1
        self.proposals.ask(self._claim(key), on_result)
        self.state.risk.end()

    def _claim(self, key: QueueKey) -> ClaimName:
        return ClaimName(key.vhost, key.name, self.state.me, self.state.settings.incarnation)

    def release(self, key: QueueKey) -> None:
        """Releases a claimed name whose queue is gone; should this get lost, it is repeated."""
        self._agreed = None
        self.proposals.ask(
            ReleaseName(key.vhost, key.name, self.state.me, self.state.settings.incarnation)
        )

    def when_released(self, key: QueueKey, action: Callable[[], None]) -> None:
        """Runs the action when the map holds the name no longer for this process."""
        if not self.is_ours(key) or key in self._waiting:
            action()
            return
        release = ReleaseName(key.vhost, key.name, self.state.me, self.state.settings.incarnation)
        self.proposals.ask(release, lambda _: action())

    def is_ours(self, key: QueueKey) -> bool:
        """Whether this very process holds the name in the map."""
        claim = self.state.map.claims.get(key)
        return claim == (self.state.me, self.state.settings.incarnation)

    # --- marks -------------------------------------------------------------------------------

    def on_bound(self, exchange: QueueKey) -> None:
        """Counts one more private binding to the exchange."""
        self._agreed = None
        self._exchanges[exchange] = self._exchanges.get(exchange, 0) + 1

    def on_unbound(self, exchange: QueueKey) -> None:
        """Counts one private binding less."""
        self._agreed = None
        left = self._exchanges[exchange] - 1
        if left:
            self._exchanges[exchange] = left
        else:
            del self._exchanges[exchange]

    def when_marked(self, exchange: QueueKey, action: Callable[[], None]) -> None:
        """Runs the action when the map knows that the exchange is in use here."""
        if self._mark(exchange) in self.state.map.bindings:
            action()
        else:
            self.proposals.ask(Bind(*self._mark(exchange)), lambda _: action())

    def when_unmarked(self, exchange: QueueKey, action: Callable[[], None]) -> None:
        """Runs the action when the map no longer takes the exchange for used here, if it is not."""
        if exchange in self._exchanges or self._mark(exchange) not in self.state.map.bindings:
            action()
        else:
            self.proposals.ask(Unbind(*self._mark(exchange)), lambda _: action())

    def _mark(self, exchange: QueueKey) -> Binding:
        return Binding(exchange.vhost, exchange.name, "node", self.state.me, "", "")

    # --- the comparison ----------------------------------------------------------------------

    def tick(self) -> None:
        """Compares what the map holds for this node with what is here."""
        state = self.state
        if state.now_ms - self._compared_ms < COMPARE_EVERY_MS or not state.serving:
            return
        self._compared_ms = state.now_ms
        if self._agreed == state.map.version:
            # A walk over ten thousand queues is not for every tick.
            return
        agrees = self._compare_names()
        agrees = self._compare_marks() and agrees
        self._agreed = state.map.version if agrees else None

    def _compare_names(self) -> bool:
        """Proposes what differs of the names; true if nothing does."""
        state, agrees = self.state, True
        claimed = {key: private for key, private in state.private.items() if private.claimed}
        for key, private in claimed.items():
            if key not in state.map.claims:
                agrees = False
                self.proposals.ask(self._claim(key), self._on_reclaimed(private))
        for key, claim in state.map.claims.items():
            if claim.node == state.me and key not in claimed and key not in self._waiting:
                agrees = False
                self.proposals.ask(ReleaseName(key.vhost, key.name, *claim))
        return agrees

    def _on_reclaimed(self, private: PrivateQueue) -> Callable[[Result], None]:
        def on_result(result: Result) -> None:
            refused = isinstance(result, Refused) and result is not GAVE_UP
            if refused and self.state.private.get(private.key) is private:
                self.state.marks.unwanted[private.fragment.fragment_id] = None

        return on_result

    def _compare_marks(self) -> bool:
        """Proposes what differs of the marks; true if nothing does."""
        state, agrees = self.state, True
        for exchange in self._exchanges:
            mark = self._mark(exchange)
            if mark not in state.map.bindings and exchange in state.map.exchanges:
                agrees = False
                self.proposals.ask(Bind(*mark))
        for vhost in state.map.vhosts:
            mine = ("node", QueueKey(vhost, state.me))
            for binding in state.map.bindings_of_destination.get(mine, ()):
                if QueueKey(vhost, binding.source) not in self._exchanges:
                    agrees = False
                    self.proposals.ask(Unbind(*binding))
        return agrees
