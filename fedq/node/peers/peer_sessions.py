"""Sessions with peers: what ends with one, and what begins with one, piece by piece.

    session ends --> what the peer had of each fragment here returns       (`_Forgetting`)
    session begins --> each fragment that it leads hears what we hold of it  (`_Introducing`)

Both go through all fragments, so they are chores (docs/adr/0048). In between stand two rules. **The
next session begins when the last one is forgotten**, and not before: until then the peer is treated
as one that is down. **Of a fragment that the peer leads nothing is said before all that is held of
it** (`Peer.unsaid`, `NodeState.send`): until that is said, the session has not begun for that
fragment. What is dropped by either rule is said again then, as it is whenever a session begins.
`MapApplied` is the end of an introduction: it says that nothing more is held.

Inputs: the map's word on who is up. Changes links, primaries, hubs, copies.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from fedq.core.ids import FragmentId, Incarnation, MapVersion, NodeId
from fedq.core.peer_messages import MapApplied
from fedq.fragments.publishers.origins import forget_origins
from fedq.node.cluster.cluster_flow import ClusterFlow
from fedq.node.consuming.room import Consuming
from fedq.node.containment.map_faults import MapFaults
from fedq.node.copies.room import Copies
from fedq.node.private.room import Private
from fedq.node.publishing.room import Publishing
from fedq.node.records.chores import Each
from fedq.node.records.peer import Peer
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.node.streams.room import Streams
from fedq.proxy.links import NO_SESSION
from fedq.wiring.cluster_map.state import FragmentInfo, Member

#: How long a peer that counts as down may be back with its subscribers.
ABSENT_MS = 30_000
#: What it costs to forget what a peer had of a fragment, and to say what is held of one, with what
#: the end of the turn makes of it, in units of work.
_FORGET_WORK: Final = 12
_SAY_WORK: Final = 12
#: Later than any process of a node.
_NO_MORE: Final = Incarnation(1 << 62)
#: What it costs to look through the origins of a fragment.
_ORIGINS_WORK: Final = 1


class PeerSessions:
    """Begins and ends sessions with peers."""

    __slots__ = (
        "asking", "consuming", "faults", "fragments", "outlets", "private", "quieting", "reading",
        "relays", "roles", "state", "tallies",
    )  # fmt: skip

    def __init__(
        self, state: NodeState, faults: MapFaults, cluster: ClusterFlow, publishing: Publishing,
        consuming: Consuming, private: Private, copies: Copies, streams: Streams,
    ) -> None:  # fmt: skip
        self.state = state
        self.faults = faults
        self.tallies = cluster.tallies
        self.outlets = publishing.outlets
        self.relays = publishing.relays
        self.consuming = consuming.flow
        self.private = private.flow
        self.reading = streams.reading
        self.fragments = copies.fragments
        self.roles = copies.roles
        self.asking = copies.asking
        self.quieting = copies.quieting

    # --- the map's word ----------------------------------------------------------------------

    def refresh(self, node: NodeId) -> None:
        """Refreshes sessions as who is up has changed: one ends, or begins, if it is another."""
        state = self.state
        peer = state.peers[node]
        before = peer.link.session
        mine = state.map.members.get(state.me)
        theirs = state.map.members.get(node)
        mine_up = mine.up_version if mine is not None and self._is_me(mine) else 0
        theirs_up = theirs.up_version if theirs is not None and theirs.up else 0
        session = (mine_up, theirs_up) if mine_up and theirs_up else NO_SESSION
        if session == before:
            return
        peer.applied = MapVersion(0) if session != NO_SESSION else state.map.version
        peer.alarm = None
        if before != NO_SESSION:
            self._end(node, peer)
            if before[1] != theirs_up:
                peer.down_ms = state.now_ms
                self.relays.on_peer_down(node)
        # As long as its process may be the same, what the peer wants to hear stands, and what it
        # has not answered goes again.
        process = theirs.incarnation if theirs is not None else None
        if peer.process != process:
            if peer.process is not None:
                self._forget_peer(node)
            peer.process = process
        if session == NO_SESSION:
            state.unheard.pop(node, None)
            return
        if peer.met_at != mine_up:
            # While this node counted as down nobody waited for it to know of a binding.
            peer.met_at = MapVersion(mine_up)
            state.unheard[node] = False
        if not peer.forgetting:
            peer.link.set_session(*session)
            try:
                self._introduce(node)
            except Exception as error:
                self.faults.contain(
                    f"introduction to {node}", partial(self._introduce, node), error
                )

    def _is_me(self, member: Member) -> bool:
        """Whether this member of this node's name is this very process, and up."""
        settings = self.state.settings
        mine = (settings.incarnation, settings.start)
        return member.up and (member.incarnation, member.start) == mine

    # --- the end of a session ----------------------------------------------------------------

    def _end(self, node: NodeId, peer: Peer) -> None:
        """Ends a session: what has not arrived is void, and what the peer had returns in pieces."""
        peer.link.set_session(0, 0)
        peer.waiting = []
        peer.unsaid = {}
        peer.interest_told = 0
        peer.forgetting = True
        self.tallies.forget(node)
        self.state.chores.add(peer, _Forgetting(self, node))

    def forget(self, primary: Primary, node: NodeId) -> None:
        """Returns what the peer had of this fragment, if it is led here as it was then."""
        fragment = primary.fragment.fragment_id
        if self.state.primaries.get(fragment) is not primary:
            return
        if primary.fragment.log is not None:
            self.reading.serving.forget(primary, node)
            self.reading.naming.forget(primary, node)
        try:
            self.fragments.lose_taker(primary, node)
        except Exception as error:
            again = partial(self._lose_again, fragment, node)
            self.faults.contain(f"fragment {fragment} without {node}", again, error)

    def _try(self, subject: str, step: Callable[[], None]) -> None:
        """Does a step for one object; one that fails is done again later, others at once."""
        try:
            step()
        except Exception as error:
            self.faults.contain(subject, step, error)

    def _lose_again(self, fragment: FragmentId, node: NodeId) -> None:
        """Returns again what the peer had, unless it is back: then it has said what it holds."""
        primary = self.state.primaries.get(fragment)
        if primary is not None and self.state.peers[node].link.session == NO_SESSION:
            self.fragments.lose_taker(primary, node)

    def on_forgotten(self, node: NodeId) -> None:
        """Lets the next session begin: all that the peer had has returned."""
        self.state.peers[node].forgetting = False
        self._try(f"member {node}", partial(self.refresh, node))

    def _forget_peer(self, node: NodeId) -> None:
        """Forgets a peer whose process is gone for good, and its private queues with it."""
        self.relays.on_peer_gone(node)
        self.private.on_peer_gone(node)

    def dismiss(self, node: NodeId) -> None:
        """Forgets a node that was taken out of the cluster: nobody waits for it any more."""
        peer = self.state.peers.get(node)
        if peer is not None and peer.process is not None:
            self._forget_peer(node)
            peer.process = None
        self.forget_origins(node)

    def give_up_absent(self) -> None:
        """Gives up waiting for peers that have been down for too long, or are owed too much."""
        state = self.state
        lost, state.lost_peers = state.lost_peers, {}
        for node, peer in state.peers.items():
            absent = peer.introduced and peer.link.session == NO_SESSION
            late = state.now_ms - peer.down_ms >= ABSENT_MS
            member = state.map.members.get(node)
            if absent and member is not None and not member.up and (late or node in lost):
                self._forget_peer(node)

    def forget_origins(self, node: NodeId) -> None:
        """Forgets the origins of a node's processes before the one in the map, if one is."""
        state = self.state
        fragments = dict.fromkeys([*state.primaries, *state.backups])
        step = partial(self._try_origins, node)
        state.chores.add(self, Each(state.work, fragments, step, _ORIGINS_WORK))

    def _try_origins(self, node: NodeId, fragment: FragmentId) -> None:
        step = partial(self._forget_origins_of, node, fragment)
        self._try(f"origins of {node} in fragment {fragment}", step)

    def _forget_origins_of(self, node: NodeId, fragment: FragmentId) -> None:
        state = self.state
        member = state.map.members.get(node)
        oldest = _NO_MORE if member is None else member.incarnation
        primary, backup = state.primaries.get(fragment), state.backups.get(fragment)
        if primary is not None:
            forget_origins(primary.fragment.origins, node, oldest)
        if backup is not None:
            backup.replica.forget_origins(node, oldest)

    # --- the beginning of a session ----------------------------------------------------------

    def _introduce(self, node: NodeId) -> None:
        """Introduces this node as a session begins: the peer hears all that it should know."""
        state = self.state
        peer = state.peers[node]
        if peer.link.session == NO_SESSION:
            return
        fragments = state.map.fragments
        peer.unsaid = dict.fromkeys([f for f, info in fragments.items() if info.primary == node])
        self.private.introduce(node)
        self.tallies.introduce(node)
        self.relays.resend(node)
        state.chores.add(peer, _Introducing(self, node))

    def say(self, fragment: FragmentId, node: NodeId) -> None:
        """Says what is held of a fragment that the peer leads, and what of it is copied here."""
        peer = self.state.peers[node]
        peer.unsaid.pop(fragment, None)
        self._try(f"fragment {fragment}", partial(self._say, fragment, node))

    def _say(self, fragment: FragmentId, node: NodeId) -> None:
        state = self.state
        info = state.map.fragments.get(fragment)
        if info is None or info.primary != node:
            # Who leads it now has been told when it began to.
            return
        self.aim(info)
        backup = state.backups.get(fragment)
        if backup is not None and backup.replication.primary == node:
            self.roles.refollow(backup)

    def aim(self, info: FragmentInfo) -> None:
        """Turns everyone here to the fragment's primary, as a reign, or a link to it, begins."""
        if info.queue in self.state.hubs or info.primary == self.state.me:
            self.consuming.aim(info.queue)
        self.consuming.introduce(info.id)
        if not self.quieting.stands(info.id):
            self.outlets.resend(info.id)
            self.quieting.end(info.id)
        self.asking.on_fragment_moved(info.id)
        if info.queue in self.state.streams:
            self.reading.ask_again(info.id)

    def is_unsaid(self, info: FragmentInfo) -> bool:
        """Whether its primary is yet to be told of the fragment, by a chore."""
        peer = self.state.peers.get(info.primary)
        return peer is not None and info.id in peer.unsaid

    def tell_version(self, node: NodeId) -> None:
        """Tells how far this node has applied the map; a peer that is not told all yet, later."""
        state = self.state
        if not state.peers[node].unsaid:
            state.send(node, MapApplied(state.map.version, state.map.digest))


class _Forgetting:
    """A chore: returns all that a peer had, in the session that has just ended."""

    __slots__ = ("_left", "_node", "_sessions")

    def __init__(self, sessions: PeerSessions, node: NodeId) -> None:
        self._sessions = sessions
        self._node = node
        #: Those that are led here from now on have never heard of it.
        self._left: deque[Primary] = deque(sessions.state.primaries.values())

    def go_on(self) -> bool:
        """Returns what the peer had of the next fragments."""
        sessions, left = self._sessions, self._left
        work = sessions.state.work
        while left:
            sessions.forget(left.popleft(), self._node)
            work.spend(_FORGET_WORK)
            if left and work.is_spent:
                return False
        sessions.on_forgotten(self._node)
        return True


class _Introducing:
    """A chore: tells a peer what is held of each fragment that it leads."""

    __slots__ = ("_node", "_session", "_sessions")

    def __init__(self, sessions: PeerSessions, node: NodeId) -> None:
        self._sessions = sessions
        self._node = node
        self._session = sessions.state.peers[node].link.session

    def go_on(self) -> bool:
        """Tells of the next fragments."""
        sessions, node = self._sessions, self._node
        state = sessions.state
        peer = state.peers[node]
        if peer.link.session != self._session:
            return True
        # Clients have settled since.
        sessions.consuming.begin_map_change()
        while peer.unsaid:
            sessions.say(next(iter(peer.unsaid)), node)
            state.work.spend(_SAY_WORK)
            if peer.unsaid and state.work.is_spent:
                return False
        sessions.tell_version(node)
        return True
