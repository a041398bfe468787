"""Committed map changes, and what each of them means for the machines of this node.

    queue, exchange, binding, claim -> router, hubs
    policy                          -> fragments, router (`fedq.node.map.policy_flow`)
    fragment                        -> roles, then publishers, consumers and questions are re-aimed
    member                          -> sessions with peers (`fedq.node.peers.peer_sessions`)

Inputs: committed commands and snapshots, in log order.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.core.peer_messages import MapApplied
from fedq.node.clients.evictions import Evictions
from fedq.node.cluster.cluster_flow import ClusterFlow
from fedq.node.cluster.map_digests import MapDigests
from fedq.node.cluster.proposals import asked
from fedq.node.consuming.room import Consuming
from fedq.node.containment.map_faults import MapFaults
from fedq.node.copies.emptying import cancel_all, cancel_readers
from fedq.node.copies.room import Copies
from fedq.node.map.map_routes import MapRoutes
from fedq.node.map.policy_flow import PolicyFlow
from fedq.node.peers.peer_sessions import PeerSessions
from fedq.node.private.room import Private
from fedq.node.publishing.room import Publishing
from fedq.node.records.answers import applied_everywhere
from fedq.node.records.state import NodeState
from fedq.node.risk import Fault
from fedq.node.streams.room import Streams
from fedq.node.tracing.room import Tracing
from fedq.wiring.cluster_map.map import Applied, ReadMap
from fedq.wiring.cluster_map.operations_copies import ShapeChanged
from fedq.wiring.cluster_map.operations_moves import DrainChanged, MoveChanged
from fedq.wiring.cluster_map.operations_parameters import ParameterChanged
from fedq.wiring.cluster_map.operations_policies import PolicyChanged, RefusingNoted
from fedq.wiring.cluster_map.operations_topics import TopicPermissionsChanged
from fedq.wiring.cluster_map.operations_tracing import TracingChanged
from fedq.wiring.cluster_map.state import (
    Change,
    EraChanged,
    ExchangeRemoved,
    FragmentAdded,
    FragmentChanged,
    FragmentInfo,
    FragmentRemoved,
    LimitsChanged,
    MemberChanged,
    MemberSpeaks,
    PermissionsChanged,
    QueueRemoved,
    RosterChanged,
    UserChanged,
    VhostAdded,
    VhostRemoved,
)

#: What a command costs, and each of its operations and of the changes that come of them.
_COMMAND_WORK: Final = 10
_STEP_WORK: Final = 8
#: So many peers hear at once how far this node has applied the map.
_TOLD_AT_ONCE_MAX: Final = 16


class MapFlow:
    """Carries committed map changes to the machines of this node."""

    __slots__ = (
        "_asking", "_is_up", "_late", "_told", "asking", "cluster", "consuming", "digests",
        "evictions", "faults", "fragments", "getting", "outlets", "policies", "private",
        "proposals", "relays", "roles", "routes", "sessions", "state", "tallies", "tracing",
    )  # fmt: skip

    def __init__(
        self, state: NodeState, cluster: ClusterFlow, publishing: Publishing,
        consuming: Consuming, private: Private, copies: Copies, streams: Streams,
        tracing: Tracing, evictions: Evictions,
    ) -> None:  # fmt: skip
        self.state = state
        self.cluster = cluster
        self.proposals = cluster.proposals
        self.tallies = cluster.tallies
        self.outlets = publishing.outlets
        self.relays = publishing.relays
        self.consuming = consuming.flow
        self.getting = consuming.getting
        self.private = private.flow
        self.fragments = copies.fragments
        self.roles = copies.roles
        self.asking = copies.asking
        self.evictions = evictions
        self.tracing = tracing
        self.digests = MapDigests(state)
        self.faults = MapFaults(state)
        self.routes = MapRoutes(state, self.private)
        self.policies = PolicyFlow(state, self.roles, self.private, self.routes)
        self.sessions = PeerSessions(
            state, self.faults, cluster, publishing, consuming, private, copies, streams
        )
        #: The map version that the peers were told last.
        self._told = 0
        #: Requests of which the changes came in this turn, and peers that hear later of them.
        self._asking: list[str] = []
        self._late: dict[NodeId, None] = {}
        #: Whether the map has this process as running.
        self._is_up = False
        self._load(())

    # --- inputs ------------------------------------------------------------------------------

    def on_committed(self, command: bytes) -> None:
        """Applies the next command of the log."""
        # Whatever was refused before has left nothing half done.
        self.state.risk.close()
        self.consuming.begin_map_change()
        self.state.at, self.state.at_what = None, command
        self._take(self.state.map.apply(command))

    def on_voters(self, voters: tuple[NodeId, ...]) -> None:
        """Takes note who votes, by the next entry of the log."""
        self.state.risk.close()
        self.consuming.begin_map_change()
        self.state.at, self.state.at_what = None, "voters"
        self._take(self.state.map.take_voters(voters))

    def _take(self, applied: Applied) -> None:
        self._try("digests", self.digests.note)
        if self.state.map.failures:
            self._tell_of_failures()
        for change in applied.changes:
            try:
                self._on_change(change)
            except Exception as error:
                self._on_failed(change, error)
        results, changed = len(applied.results), len(applied.changes)
        self.state.work.apply(_COMMAND_WORK + _STEP_WORK * (results + changed))
        if applied.request:
            self._asking.append(applied.request)
            self.proposals.on_committed(applied.request, list(applied.results))

    def on_snapshot(self, read: ReadMap) -> None:
        """Takes a whole new map: everything in memory is compared with it."""
        state = self.state
        state.risk.close()
        self.consuming.begin_map_change()
        before = dict(state.map.fragments)
        queues = list(state.map.queues)
        had_policies = not state.policies.is_empty
        state.map.take(read)
        self.policies.on_snapshot(had_policies)
        self.digests.note()
        self._load(queues)
        state.roster_changes += 1
        for node in (*state.map.roster, *state.map.members):
            self.cluster.know(node)
        for node in [state.me, *state.peers]:
            self._try(f"member {node}", partial(self._on_member, node))
        for fragment, info in before.items():
            if fragment not in state.map.fragments:
                gone = partial(self._on_fragment_removed, fragment, info)
                self._try(f"fragment {fragment}", gone)
        for fragment, info in list(state.map.fragments.items()):
            known = before.get(fragment)
            begins = known is None or known.reign != info.reign
            self._try(f"fragment {fragment}", partial(self._on_fragment, fragment, begins))
        self.evictions.on_snapshot()
        self.tracing.refresh()

    def _try(self, subject: str, step: Callable[[], None]) -> None:
        """Does a step for one object; one that fails is done again later, others at once."""
        try:
            step()
        except Exception as error:
            self.faults.contain(subject, step, error)

    def _on_failed(self, change: Change, error: Exception) -> None:
        """Notes that a change raised here: this object is compared with the map again later."""
        match change:
            case FragmentAdded() | FragmentChanged():
                again = partial(self._on_fragment, change.id, True)
                self.faults.contain(f"fragment {change.id}", again, error)
            case FragmentRemoved():
                self.roles.forget(change.id)
                gone = partial(self._on_fragment_removed, change.id, change.before)
                self.faults.contain(f"fragment {change.id}", gone, error)
            case RosterChanged():
                again_roster = partial(self._on_roster, change.node)
                self.faults.contain(f"roster {change.node}", again_roster, error)
            case MemberChanged():
                again_up = partial(self._on_member, change.node)
                self.faults.contain(f"member {change.node}", again_up, error)
            case TracingChanged():
                self.faults.contain("traces", self.tracing.refresh, error)
            case PolicyChanged():
                again_policies = partial(self.policies.on_change, change.key.vhost)
                self.faults.contain(f"policies of {change.key.vhost!r}", again_policies, error)
            case _:
                self.faults.contain("names", self.routes.anew, error)

    def _load(self, before: Iterable[QueueKey]) -> None:
        """Makes a new router that says what the map says; `before`: the queues there were."""
        state = self.state
        for key in before:
            if key not in state.map.queues:
                self._try(f"queue {key.name!r}", partial(self._on_queue_removed, key))
        for bound in self.private.bound_exchanges():
            if bound not in state.map.exchanges:
                gone = partial(self.private.on_exchange_removed, bound)
                self._try(f"exchange {bound.name!r}", gone)
        self.routes.anew()
        self._is_up = state.map.is_up(state.me, state.settings.incarnation)

    # --- changes -----------------------------------------------------------------------------

    def _on_change(self, change: Change) -> None:
        match change:
            case MemberChanged():
                self._on_member(change.node)
            case RosterChanged():
                self._on_roster(change.node)
            case FragmentAdded():
                self._on_fragment_added(change.id)
            case FragmentChanged():
                self._tell_story(change)
                self._on_fragment(change.id, change.before.reign != change.after.reign)
            case FragmentRemoved():
                self._on_fragment_removed(change.id, change.before)
            case EraChanged():
                self._tell(f"era {change.number} begins")
            case QueueRemoved():
                self._on_queue_removed(change.key)
            case ExchangeRemoved():
                self.private.on_exchange_removed(change.key)
                self.routes.on_change(change)
            case VhostRemoved():
                self.evictions.on_vhost_removed(change.vhost)
            case UserChanged():
                self.evictions.on_user_changed(change.user)
            case TracingChanged() | PolicyChanged():
                self._on_setting(change)
            case DrainChanged():
                self._on_drained(change.node)
            case (
                MemberSpeaks()
                | VhostAdded()
                | PermissionsChanged()
                | TopicPermissionsChanged()
                | LimitsChanged()
                | MoveChanged()
                | ShapeChanged()
                | RefusingNoted()
                | ParameterChanged()
            ):
                # What is asked for at each login or tick, or derived anew when the map has changed.
                pass
            case _:
                self.routes.on_change(change)

    def _on_setting(self, change: TracingChanged | PolicyChanged) -> None:
        if isinstance(change, TracingChanged):
            self.tracing.refresh()
        else:
            self.policies.on_change(change.key.vhost)

    def _on_drained(self, node: NodeId) -> None:
        word = "is to be drained" if node in self.state.map.drained else "is not drained any more"
        self._tell(f"member {node} {word}")

    def _on_queue_removed(self, key: QueueKey) -> None:
        hub = self.state.hubs.pop(key, None)
        self.routes.on_change(QueueRemoved(key, ()))
        if hub is not None:
            cancel_all(self.state, hub)
        self.state.parted.pop(key, None)
        parts = self.state.streams.pop(key, None)
        if parts is not None:
            cancel_readers(self.state, parts)

    def _tell_of_failures(self) -> None:
        """Tells of operations that were refused because they fail on every node."""
        failures, self.state.map.failures = self.state.map.failures, []
        for error in failures:
            self.state.out.faults.append(Fault("an operation of the map fails: refused", error))

    # --- fragments ---------------------------------------------------------------------------

    def _on_fragment_added(self, fragment: FragmentId) -> None:
        info = self.state.map.fragments.get(fragment)
        if info is not None:
            # Nobody holds anything of it yet; consumers of its queue may be here.
            self._on_fragment(fragment, info.queue in self.state.hubs)
            self.policies.on_parts(info.queue)

    def _on_fragment(self, fragment: FragmentId, new_reign: bool) -> None:
        state = self.state
        info = state.map.fragments.get(fragment)
        if info is None:
            return
        self.roles.reconcile(fragment)
        if new_reign and not self.sessions.is_unsaid(info):
            self.sessions.aim(info)

    def _on_fragment_removed(self, fragment: FragmentId, before: FragmentInfo) -> None:
        is_retired = self.outlets.is_retired(fragment, before.queue)
        if self.state.tracer is not None and fragment in self.state.primaries and not is_retired:
            self.state.tracer.on_deleted(before.queue, fragment)
        if is_retired:
            self._tell(f"fragment {fragment} of {before.queue.name!r} is retired")
        self.roles.leave(fragment)
        self.outlets.on_fragment_gone(fragment, before.queue)
        self.sessions.quieting.forget(fragment)
        self.asking.on_fragment_gone(fragment)
        self.getting.on_fragment_gone(fragment, is_retired)
        self.policies.on_parts(before.queue)
        hub = self.state.hubs.get(before.queue)
        if hub is not None:
            hub.forget_source(fragment)
            hub.drop_prefetched(fragment)
        if is_retired:
            self.consuming.aim(before.queue)

    def _tell(self, line: str) -> None:
        """Tells the log; not while this process reads what happened before it began."""
        if self.state.joined:
            self.state.out.story.append(line)

    def _tell_story(self, change: FragmentChanged) -> None:
        before, after = change.before, change.after
        what = f"fragment {after.id} of {after.queue.name!r} at epoch {after.epoch}"
        if before.reign != after.reign:
            self._tell(
                f"{what}: primary {after.primary} (was {before.primary}), in sync "
                f"{', '.join(after.in_sync)}"
            )
        elif before.in_sync != after.in_sync:
            self._tell(f"{what}: in sync {', '.join(after.in_sync)}")

    # --- members and links -------------------------------------------------------------------

    def _on_member(self, node: NodeId) -> None:
        state = self.state
        member = state.map.members.get(node)
        if member is None:
            if node != state.me and node in state.map.forgotten:
                self.sessions.dismiss(node)
            return
        if member.up:
            self.sessions.forget_origins(node)
        word = "up" if member.up else "down"
        self._tell(f"member {node} is {word} (incarnation {member.incarnation})")
        if node != state.me:
            # Who joined reads of nodes that its roster has not, or not yet.
            self.cluster.know(node)
            self.sessions.refresh(node)
            self._give_up_on(node)
            return
        # Until this process is up the map may be an old one: from now on it says who is there.
        state.roster_changes += 1
        for fragment in list(state.map.fragments):
            self._try(f"fragment {fragment}", partial(self._take_part, fragment))
        self._forget_orphans()
        for peer in state.peers:
            self._try(f"link to {peer}", partial(self.sessions.refresh, peer))
        was_up, self._is_up = self._is_up, state.map.is_up(state.me, state.settings.incarnation)
        if was_up:
            # It has joined the era. What was sent to fragments here is not sent again: a queue that
            # refuses cannot tell what it took from what it refused, and would refuse it all.
            return
        for info in list(state.map.fragments.values()):
            if info.primary == state.me:
                self._try(f"fragment {info.id}", partial(self._aim_at, info.id))

    def _on_roster(self, node: NodeId) -> None:
        """Takes note that a node is of the cluster, or is no more: then its peer has no session."""
        state = self.state
        state.roster_changes += 1
        if node not in state.map.roster or node == state.me:
            return
        if node not in state.peers or node not in state.map.members:
            self.cluster.know(node)
            self.sessions.refresh(node)

    def _take_part(self, fragment: FragmentId) -> None:
        self.roles.reconcile(fragment)

    def _aim_at(self, fragment: FragmentId) -> None:
        info = self.state.map.fragments.get(fragment)
        if info is not None:
            self.sessions.aim(info)

    def _give_up_on(self, node: NodeId) -> None:
        """Stops waiting for fragments that a process which is gone was the last to have.

        Whoever waits for an answer of these gets none before somebody returns.
        """
        for info in list(self.state.map.fragments.values()):
            if node in info.in_sync and not self.state.is_in_memory(info.id):
                self._try(f"fragment {info.id}", partial(self._ask_again, info.id))

    def _ask_again(self, fragment: FragmentId) -> None:
        self.asking.on_fragment_moved(fragment)
        self.getting.on_fragment_moved(fragment)

    def _forget_orphans(self) -> None:
        """Forgets copies on disk of fragments that are no more."""
        state = self.state
        if state.map.is_up(state.me, state.settings.incarnation):
            for fragment in [f for f in state.recovered if f not in state.map.fragments]:
                self.roles.leave(fragment)

    # --- the end of a turn -------------------------------------------------------------------

    def tell_version(self) -> None:
        """Tells the peers how far this node has applied the map: many of them, not all at once.

        Each tells each other one, so a change costs as many frames as there are pairs. Of many
        nodes those hear at once that asked for the change, and wait for all to have it; the others
        with the next heartbeat, in its frame.
        """
        version = self.state.map.version
        if version != self._told or self._late or self._asking:
            self._tell_version(version)

    def _tell_version(self, version: int) -> None:
        late = self._late
        if version != self._told:
            self._told = version
            peers = self.state.live_peers()
            if len(peers) > _TOLD_AT_ONCE_MAX:
                late.update(dict.fromkeys(peers))
                peers = [node for node in peers if asked(node, self._asking)]
            for node in peers:
                late.pop(node, None)
                self.sessions.tell_version(node)
        self._asking.clear()
        if late and self.cluster.beat_due:
            for node in self.state.live_peers():
                if node in late:
                    self.sessions.tell_version(node)
            late.clear()

    def on_map_applied(self, sender: NodeId, message: MapApplied) -> None:
        """Takes note that a peer has applied the map up to a version."""
        self.state.peers[sender].applied = message.version
        self.digests.compare(sender, message)
        self.fragments.on_peer_applied(sender, message.version)

    def release_waiting(self) -> None:
        """Runs what waited for every live member to have applied the map."""
        state = self.state
        if not state.marks.after_applied:
            return
        everywhere = applied_everywhere(state)
        waiting, state.marks.after_applied = state.marks.after_applied, []
        for version, until_ms, action in waiting:
            if version <= everywhere or 0 < until_ms <= state.now_ms:
                action()
            else:
                state.marks.after_applied.append((version, until_ms, action))
