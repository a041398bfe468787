"""What clients and operators hear while this node may not serve (P7).

Without its lease, or out of the map, a node confirms and delivers nothing. After a moment
(elections and short pauses are no news) its clients are told by connection.blocked; once others
must serve in its place they are asked to go there by connection.close 320, and so is whoever
comes. A node that has not joined since its start knows no users: it sends away who waits for it.
So does one whose cluster is new, and not complete yet (`fedq.node.cluster.cluster_size`).
The log says who is missing. All of it ends by itself when the lease is back.
"""

from functools import partial

from fedq.node.clients.client_flow import ClientFlow
from fedq.node.clients.evictions import END_WORK, end_all
from fedq.node.cluster.cluster_size import why_closed
from fedq.node.records.chores import Each
from fedq.node.records.state import NodeState

TELL_AFTER_MS = 1_000
#: In units of `suspect_ms`: by then those who have the majority have replaced this node.
CLOSE_AFTER = 2
#: A node that starts needs the others, who may be starting, too.
JOIN_PATIENCE_MS = 5_000
WARN_EVERY_MS = 60_000
REASON = "this node is cut off from the cluster's majority; it confirms and delivers nothing"
NOT_JOINED = "this node has not joined a majority of the cluster yet; try another one, or later"


class Fencing:
    """Tells clients and operator that this node may not serve."""

    __slots__ = (
        "_closed_ms", "_serves", "_since_ms", "_told", "_warned_ms", "clients", "state",
    )  # fmt: skip

    def __init__(self, state: NodeState, clients: ClientFlow) -> None:
        self.state = state
        self.clients = clients
        #: The last word of a turn's end. What a turn begins with is none: one that begins after
        #: the lease serves nobody until it has heard what waited, which may renew the lease.
        self._serves = False
        #: Since when this node does not serve.
        self._since_ms: int | None = None
        self._told = False
        self._warned_ms: int | None = None
        #: Since when a new cluster has kept clients waiting.
        self._closed_ms: int | None = None

    def on_serving(self) -> None:
        """Whether the node serves has changed: this turn's word on it."""
        state = self.state
        self._serves = state.serving
        if state.serving:
            state.out.story.append("serving")
            self.clients.on_serving()
            if self._told:
                self.clients.blocking.set_blocked("fence", None)
            self._since_ms = self._warned_ms = None
            self._told = False
        else:
            state.out.warnings.append("fenced: " + REASON)
            self._since_ms = state.now_ms

    def tick(self) -> None:
        """Tells the clients, and the operator, when it is time."""
        state = self.state
        state.closed = "" if state.joined else why_closed(state) or ""
        if self._serves and not state.closed:
            self._closed_ms = None
            return
        if self._serves:
            self._turn_away()
            return
        if self._since_ms is None:
            self._since_ms = state.now_ms
            return
        lasted = state.now_ms - self._since_ms
        patience_ms = TELL_AFTER_MS if state.joined else JOIN_PATIENCE_MS
        if lasted < patience_ms:
            return
        self._warn()
        if not state.joined:
            self._send_away()
            return
        if not self._told:
            self._told = True
            self.clients.blocking.set_blocked("fence", REASON)
        if lasted >= CLOSE_AFTER * state.settings.suspect_ms:
            self._send_away()

    def _turn_away(self) -> None:
        """Sends clients away that have waited for the cluster to be complete."""
        state = self.state
        if self._closed_ms is None:
            self._closed_ms = state.now_ms
            state.out.story.append(state.closed)
        if state.now_ms - self._closed_ms >= JOIN_PATIENCE_MS:
            self._send_away()

    def _send_away(self) -> None:
        """Sends all clients away, some in each turn; those who come meanwhile in the next round."""
        state, clients = self.state, self.clients
        if state.chores.are_under_way(self):
            return
        if state.joined:
            end_all(clients, self, [c for c in state.clients.values() if c.vhost], REASON)
        else:
            step = partial(clients.send_away, text=state.closed or NOT_JOINED)
            waiting = list(state.clients.values())
            state.chores.begin(self, Each(state.work, waiting, step, END_WORK))

    def _warn(self) -> None:
        state, now_ms = self.state, self.state.now_ms
        if self._warned_ms is not None and now_ms - self._warned_ms < WARN_EVERY_MS:
            return
        self._warned_ms = now_ms
        names = sorted(state.voters)
        missing = [name for name in names if name != state.me and not state.is_linked(name)]
        wanted, linked = len(names) // 2 + 1, len(names) - len(missing)
        if names and linked < wanted:
            text = (
                f"no majority: {linked} of {len(names)} nodes are here, {wanted} are needed; "
                f"missing: {', '.join(missing)}. Start them, or mend the network between"
            )
        else:
            text = "a majority is here, but has not agreed on a leader that lets this node serve"
            if missing:
                text = f"{text}; missing: {', '.join(missing)}"
        state.out.warnings.append(text)
