"""A failure detector by heartbeats: which nodes count as gone for the leader.

Inputs: what was heard from whom and when (`now_ms`, monotonic), links that broke, hosts that
refused a connection. Output: `suspects`, and `unproven`: those of whom nothing is known either way.

A refused connection is proof that the process is gone; silence is none, and must last `suspect_ms`.
Silence counts from when this node began to watch at the earliest: before that it may
simply not have been the one that was told.
"""

from collections.abc import Iterable

from fedq.core.ids import NodeId


class Detector:
    """What one node knows about the processes of the others."""

    __slots__ = (
        "_fresh_ms",
        "_heard_ms",
        "_me",
        "_refused",
        "_suspect_ms",
        "_unheard",
        "_unlinked",
        "_watching_since",
    )

    def __init__(self, me: NodeId, peers: Iterable[NodeId], suspect_ms: int) -> None:
        """`peers`: the nodes to watch, with or without `me`; `add_peer` adds later ones."""
        self._me = me
        self._suspect_ms = suspect_ms
        #: How long having heard of a peer proves that it lives; several heartbeats.
        self._fresh_ms = suspect_ms // 3
        #: Peers whose process the map has named and that have not been heard since.
        self._unheard: dict[NodeId, None] = {}
        #: When each peer was heard last; None: never.
        self._heard_ms: dict[NodeId, int | None] = {}
        #: Peers whose link broke after they were heard.
        self._unlinked: dict[NodeId, None] = {}
        self._refused: dict[NodeId, None] = {}
        self._watching_since: int | None = None
        for peer in peers:
            self.add_peer(peer)

    def add_peer(self, peer: NodeId) -> None:
        """Watches this peer, too; nothing changes if it is known."""
        if peer != self._me:
            self._heard_ms.setdefault(peer, None)

    def heard(self, peer: NodeId, now_ms: int) -> None:
        """Takes note that a frame came from the process that the cluster map names.

        A frame of a newer process must not be reported here: it proves nothing about the old one.
        """
        self.named(peer, now_ms)
        self._unheard.pop(peer, None)

    def named(self, peer: NodeId, now_ms: int) -> None:
        """Forgets what was known of an earlier process: the map names another one of this peer.

        It counts as heard, for it has just asked to be in the map; but as `unheard`, too: this node
        may be reading an old log after a stop of all.
        """
        self._heard_ms[peer] = now_ms
        self._unheard[peer] = None
        self._refused.pop(peer, None)
        self._unlinked.pop(peer, None)

    def refused(self, peer: NodeId) -> None:
        """Takes proof that the process that the map names is gone.

        The peer's host answered that nobody listens there, or a newer process introduced itself.
        """
        self.add_peer(peer)
        self._refused[peer] = None

    def link_lost(self, peer: NodeId) -> None:
        """Takes note that the stream broke: the peer may live, but must be heard again.

        Its silence still counts from `watching_since` or the last word, whichever is later.
        """
        self.add_peer(peer)
        self._unlinked[peer] = None

    def start_watching(self, now_ms: int) -> None:
        """Begins to watch: this node became the leader."""
        self._watching_since = now_ms

    def stop_watching(self) -> None:
        """Stops watching: this node leads no more, and suspects nobody."""
        self._watching_since = None

    def suspects(self, now_ms: int) -> list[NodeId]:
        """The nodes whose processes count as gone, by name; none unless this node watches."""
        since = self._watching_since
        if since is None:
            return []
        return sorted(
            peer
            for peer, heard_ms in self._heard_ms.items()
            if peer in self._refused
            or now_ms - (since if heard_ms is None else max(since, heard_ms)) >= self._suspect_ms
        )

    @property
    def gone(self) -> list[NodeId]:
        """The nodes whose processes are known to be gone, by name: suspects may live unheard."""
        return sorted(self._refused)

    @property
    def unheard(self) -> list[NodeId]:
        """The nodes of whose processes nothing but their names in the map is known, by name."""
        return sorted(self._unheard)

    def unproven(self, now_ms: int) -> list[NodeId]:
        """The nodes that have not been heard lately, by name; suspects are among them."""
        return sorted(
            peer
            for peer, heard_ms in self._heard_ms.items()
            if peer in self._refused
            or peer in self._unlinked
            or heard_ms is None
            or now_ms - heard_ms >= self._fresh_ms
        )
