"""What clients hear while this node may not serve (P7).

Without its lease, or out of the map, a node confirms and delivers nothing. After a moment
(elections and short pauses are no news) its clients are told by connection.blocked; if it lasts,
they are asked to go elsewhere by connection.close 320. Both end by themselves when the lease is
back.
"""

from fedq.node.client_flow import ClientFlow
from fedq.node.state import NodeState

TELL_AFTER_MS = 1_000
CLOSE_AFTER_MS = 10_000
REASON = "this node is cut off from the cluster's majority; it confirms and delivers nothing"


class Fencing:
    """See the module's docstring."""

    __slots__ = ("_closed", "_since_ms", "_told", "clients", "state")

    def __init__(self, state: NodeState, clients: ClientFlow) -> None:
        self.state = state
        self.clients = clients
        #: Since when this node does not serve.
        self._since_ms: int | None = None
        self._told = False
        self._closed = False

    def on_serving(self, changed: bool) -> None:
        """This turn's word on whether the node serves."""
        if not changed:
            return
        state = self.state
        if state.serving:
            state.out.story.append("serving")
            self.clients.on_serving()
            if self._told:
                self.clients.blocking.set_blocked("fence", None)
            self._since_ms = None
            self._told = self._closed = False
        else:
            state.out.warnings.append("fenced: " + REASON)
            self._since_ms = state.now_ms

    def tick(self) -> None:
        """Tells the clients when it is time."""
        if self._since_ms is None:
            return
        lasted = self.state.now_ms - self._since_ms
        if lasted >= TELL_AFTER_MS and not self._told:
            self._told = True
            self.clients.blocking.set_blocked("fence", REASON)
        if lasted >= CLOSE_AFTER_MS and not self._closed:
            self._closed = True
            self.clients.close_all(REASON)
