"""Keeping quiet about a fragment that is handed over or retired, as its primary asks (ADR 0083).

    Quiesce  --> what is prefetched goes back, what is settled goes, then Quiesced
    its end  --> what was published and settled meanwhile goes to whoever leads

If the fragment is to be retired (docs/adr/0100), a node that has anything on its way says so, and
does not keep quiet. When it is gone, what was published meanwhile goes to another one
(`Outlets.on_fragment_gone`).

The end is the primary's word, another reign, or another session with the primary. The primary's own
node keeps quiet as well; its words go by way of `NodeState.quiet` and a mark.

Changes `quiet`; sends to peers.
"""

from collections.abc import Sequence

from fedq.core.ids import FragmentId, NodeId
from fedq.core.quiet_messages import Quiesce, Quiesced
from fedq.node.consuming.room import Consuming
from fedq.node.publishing.outlets import Outlets
from fedq.node.records.quiet import Quiet
from fedq.node.records.settling import Settlements, positions_of
from fedq.node.records.state import NodeState


class Quieting:
    """Keeps publishes and settlements while a fragment changes hands."""

    __slots__ = ("_outlets", "_settling", "state")

    def __init__(self, state: NodeState, outlets: Outlets, consuming: Consuming) -> None:
        self.state = state
        self._outlets = outlets
        self._settling = consuming.settling

    def on_quiesce(self, sender: NodeId, message: Quiesce) -> None:
        """A primary is going to hand over, or goes on."""
        state, fragment = self.state, message.fragment
        info = state.map.fragments.get(fragment)
        if info is None or (info.primary, info.reign) != (sender, message.reign):
            return
        known = state.quiet.get(fragment)
        if not message.number:
            if known is not None:
                self.end(fragment)
            return
        if fragment in state.peers[sender].unsaid:
            # It hears first what is held of it: that it is quiet before is no news.
            return
        if message.retires and self._is_busy(fragment):
            state.send(sender, Quiesced(fragment, message.reign, message.number, busy=True))
            return
        if known is None:
            hub = state.hubs.get(info.queue)
            positions = hub.drop_prefetched(fragment) if hub is not None else []
            if positions:
                self._settling.return_unseen(fragment, positions)
            self._settling.flush_settlements()
            session = state.session_with(sender)
            state.quiet[fragment] = Quiet(
                sender, message.number, message.reign, session, message.retires
            )
        else:
            known.number, known.retires = message.number, message.retires
        state.send(sender, Quiesced(fragment, message.reign, message.number))

    def _is_busy(self, fragment: FragmentId) -> bool:
        """Whether this node has publishes to a fragment that are not confirmed."""
        publisher = self.state.publishers.get(fragment)
        return publisher is not None and not publisher.is_idle

    def stands(self, fragment: FragmentId) -> bool:
        """Whether a fragment is being retired, by the primary that has asked for quiet.

        Nothing is to be sent to it then, whatever begins anew here.
        """
        state = self.state
        quiet, info = state.quiet.get(fragment), state.map.fragments.get(fragment)
        if quiet is None or info is None or not quiet.retires:
            return False
        return (info.primary, info.reign, state.session_with(info.primary)) == (
            quiet.node, quiet.reign, quiet.session,
        )  # fmt: skip

    def end_marked(self) -> None:
        """Goes on with fragments that this node leads and does not hand over."""
        aloud, self.state.marks.aloud = self.state.marks.aloud, {}
        for fragment in aloud:
            self.end(fragment)

    def end(self, fragment: FragmentId) -> None:
        """Goes on: what was kept goes to whoever leads the fragment."""
        state = self.state
        quiet = state.quiet.pop(fragment, None)
        if quiet is None:
            return
        state.risk.begin()
        self._outlets.send_kept(fragment)
        if any(quiet.settled.lanes()):
            self._settling.settle(fragment, _ascending(quiet.settled))
        state.risk.end()

    def forget(self, fragment: FragmentId) -> None:
        """Forgets what was kept for a fragment that is gone."""
        self.state.quiet.pop(fragment, None)


def _ascending(settled: Settlements) -> Settlements:
    """Joins the runs of each lane into one that ascends."""
    lanes: list[list[Sequence[int]]] = [
        [positions_of(lane)] if lane else [] for lane in settled.lanes()
    ]
    return Settlements(*lanes)
