"""Committed map changes, and what each of them means for the machines of this node.

    queue, exchange, binding, claim -> router, hubs
    fragment                        -> roles, then publishers, consumers and questions are re-aimed
    member                          -> links: what ends with a session, what begins with one

Inputs: committed commands and snapshots, in log order.
"""

from collections.abc import Iterable
from typing import Final, assert_never

from fedq.core.ids import FragmentId, MapVersion, NodeId, QueueKey
from fedq.core.peer_messages import MapApplied
from fedq.fragments.replica import forget_origins
from fedq.node.answers import applied_everywhere
from fedq.node.asking import Asking
from fedq.node.consume_flow import ConsumeFlow
from fedq.node.emptying import cancel_all
from fedq.node.evictions import Evictions
from fedq.node.fragment_flow import FragmentFlow
from fedq.node.fragment_roles import FragmentRoles
from fedq.node.getting import Getting
from fedq.node.map_digests import MapDigests
from fedq.node.outlets import Outlets
from fedq.node.private_flow import PrivateFlow
from fedq.node.proposals import Proposals
from fedq.node.relay_flow import RelayFlow
from fedq.node.risk import Fault
from fedq.node.state import NodeState
from fedq.proxy.links import NO_SESSION
from fedq.wiring.exchanges import ToExchange
from fedq.wiring.operations import arguments_of
from fedq.wiring.routes import Router
from fedq.wiring.state import (
    Binding,
    BindingAdded,
    BindingRemoved,
    Change,
    ClaimReleased,
    ClaimTaken,
    EraChanged,
    ExchangeAdded,
    ExchangeRemoved,
    FragmentAdded,
    FragmentChanged,
    FragmentInfo,
    FragmentRemoved,
    LimitsChanged,
    Member,
    MemberChanged,
    MemberSpeaks,
    PermissionsChanged,
    QueueAdded,
    QueueRemoved,
    UserChanged,
    VhostAdded,
    VhostRemoved,
)

#: How long a peer that counts as down may be back with its subscribers.
ABSENT_MS = 30_000

#: What a command costs, and each of its operations and of the changes that come of them.
_COMMAND_WORK: Final = 10
_STEP_WORK: Final = 8

NameChange = (
    QueueAdded | QueueRemoved | ExchangeRemoved | ClaimTaken | ClaimReleased
    | VhostAdded | VhostRemoved | UserChanged | PermissionsChanged | LimitsChanged
)  # fmt: skip


class MapFlow:
    """See the module's docstring."""

    __slots__ = (
        "_told", "asking", "consuming", "digests", "evictions", "fragments", "getting", "outlets",
        "private", "proposals", "relays", "roles", "state",
    )  # fmt: skip

    def __init__(
        self, state: NodeState, *, fragments: FragmentFlow, roles: FragmentRoles,
        outlets: Outlets, relays: RelayFlow, consuming: ConsumeFlow, getting: Getting,
        asking: Asking, private: PrivateFlow, proposals: Proposals, evictions: Evictions,
    ) -> None:  # fmt: skip
        self.state = state
        self.fragments = fragments
        self.roles = roles
        self.outlets = outlets
        self.relays = relays
        self.consuming = consuming
        self.getting = getting
        self.asking = asking
        self.private = private
        self.proposals = proposals
        self.evictions = evictions
        self.digests = MapDigests(state)
        #: The map version that the peers were told last.
        self._told = 0
        self._load(())

    # --- inputs ------------------------------------------------------------------------------

    def on_committed(self, command: bytes) -> None:
        """The next command of the log."""
        self.consuming.begin_map_change()
        self.state.at, self.state.at_what = None, command
        applied = self.state.map.apply(command)
        self.digests.note()
        if self.state.map.failures:
            self._tell_of_failures()
        for change in applied.changes:
            self._on_change(change)
        results, changed = len(applied.results), len(applied.changes)
        self.state.work.apply(_COMMAND_WORK + _STEP_WORK * (results + changed))
        self.proposals.on_committed(applied.request, list(applied.results))

    def on_snapshot(self, data: bytes) -> None:
        """The whole map is replaced: everything in memory is compared with it."""
        state = self.state
        self.consuming.begin_map_change()
        before = dict(state.map.fragments)
        queues = list(state.map.queues)
        state.map.restore(data)
        self.digests.note()
        self._load(queues)
        for node in [state.me, *state.peers]:
            self._on_member(node)
        for fragment, info in before.items():
            if fragment not in state.map.fragments:
                self._on_change(FragmentRemoved(fragment, info))
        for fragment, info in list(state.map.fragments.items()):
            known = before.get(fragment)
            self._on_fragment(fragment, known is None or known.reign != info.reign)
        self.evictions.on_snapshot()

    def _load(self, before: Iterable[QueueKey]) -> None:
        """A new router that says what the map says; `before`: the queues there were."""
        state = self.state
        for key in before:
            if key not in state.map.queues:
                self._on_change(QueueRemoved(key, ()))
        for bound in self.private.bound_exchanges():
            if bound not in state.map.exchanges:
                self.private.on_exchange_removed(bound)
        self._route_anew({})

    def _route_anew(self, without: dict[object, None]) -> None:
        """A new router, without exchanges and bindings that it fails at."""
        state = self.state
        while True:
            router = state.router = Router(state.me)
            at: object = None
            try:
                for key in state.map.exchanges:
                    at = key
                    if key.name and key not in without:
                        self._add_exchange(key)
                for key in state.map.queues:
                    router.add_queue(key, key)
                for key, claim in state.map.claims.items():
                    if claim.node != state.me:
                        router.add_queue(key, claim.node)
                for binding in state.map.bindings:
                    at = binding
                    if binding not in without and _source_of(binding) not in without:
                        self._bind(binding)
            except Exception as error:
                # A router that is half changed is thrown away; each time it is one less.
                if at is None or at in without:
                    raise
                without[at] = None
                state.out.faults.append(Fault(f"nothing is routed by {at}", error))
                continue
            break
        self.private.route_again()

    # --- changes -----------------------------------------------------------------------------

    def _on_change(self, change: Change) -> None:
        match change:
            case MemberChanged():
                self._on_member(change.node)
            case MemberSpeaks():
                # Asked for by `ComingUp`. It is the same process: nothing is sent to it again.
                pass
            case FragmentAdded():
                # Nobody holds anything of it yet; consumers of its queue may be here.
                info = self.state.map.fragments.get(change.id)
                self._on_fragment(change.id, info is not None and info.queue in self.state.hubs)
            case FragmentChanged():
                self._tell_story(change)
                self._on_fragment(change.id, change.before.reign != change.after.reign)
            case FragmentRemoved():
                self._on_fragment_removed(change.id, change.before)
            case EraChanged():
                self._tell(f"era {change.number} begins")
            case BindingAdded() | BindingRemoved() | ExchangeAdded():
                self._on_route_change(change)
            case _:
                self._on_name_change(change)

    def _on_route_change(self, change: BindingAdded | BindingRemoved | ExchangeAdded) -> None:
        """The map says so: to stop at it would be to stop every node, and again at each start."""
        try:
            if isinstance(change, BindingAdded):
                self._bind(change.binding)
            elif isinstance(change, BindingRemoved):
                self._unbind(change.binding)
            elif change.key in self.state.map.exchanges:
                self._add_exchange(change.key)
        except Exception as error:
            self.state.out.faults.append(Fault("a change of the map cannot be routed", error))
            self._route_anew({})

    def _tell_of_failures(self) -> None:
        """Operations that were refused because they fail on every node."""
        failures, self.state.map.failures = self.state.map.failures, []
        for error in failures:
            self.state.out.faults.append(Fault("an operation of the map fails: refused", error))

    def _on_name_change(self, change: NameChange) -> None:
        """A queue, an exchange or a claimed name comes or goes."""
        router, me = self.state.router, self.state.me
        match change:
            case QueueAdded():
                router.add_queue(change.key, change.key)
            case QueueRemoved():
                router.remove_queue(change.key)
                hub = self.state.hubs.pop(change.key, None)
                if hub is not None:
                    cancel_all(self.state, hub)
            case ExchangeRemoved():
                self.private.on_exchange_removed(change.key)
                router.remove_exchange(change.key)
            case ClaimTaken():
                if change.claim.node != me:
                    router.add_queue(change.key, change.claim.node)
            case ClaimReleased():
                if change.claim.node != me:
                    router.remove_queue(change.key)
            case VhostRemoved():
                self.evictions.on_vhost_removed(change.vhost)
            case UserChanged():
                self.evictions.on_user_changed(change.user)
            case VhostAdded() | PermissionsChanged() | LimitsChanged():
                # What is asked for at each login, or derived anew when the map has changed.
                pass
            case _:
                assert_never(change)

    def _add_exchange(self, key: QueueKey) -> None:
        exchange = self.state.map.exchanges[key]
        arguments = arguments_of(exchange.arguments)
        self.state.router.add_exchange(key, exchange.type, arguments, exchange.internal)

    def _bind(self, binding: Binding) -> None:
        if binding.destination_kind != "node":
            self.state.router.bind(*_ends(binding), arguments_of(binding.arguments))

    def _unbind(self, binding: Binding) -> None:
        if binding.destination_kind != "node":
            self.state.router.unbind(*_ends(binding), arguments_of(binding.arguments))

    # --- fragments ---------------------------------------------------------------------------

    def _on_fragment(self, fragment: FragmentId, new_reign: bool) -> None:
        state = self.state
        info = state.map.fragments.get(fragment)
        if info is None:
            return
        self.roles.reconcile(fragment)
        if new_reign:
            self._aim(info)

    def _aim(self, info: FragmentInfo) -> None:
        """A reign, or a link to its primary, begins: everyone here turns to it."""
        if info.queue in self.state.hubs or info.primary == self.state.me:
            self.consuming.aim(info.queue)
        self.consuming.introduce(info.id)
        self.outlets.resend(info.id)
        self.asking.on_fragment_moved(info.id)

    def _on_fragment_removed(self, fragment: FragmentId, before: FragmentInfo) -> None:
        self.roles.leave(fragment)
        self.outlets.on_fragment_gone(fragment)
        self.asking.on_fragment_gone(fragment)
        self.getting.on_fragment_gone(fragment)
        hub = self.state.hubs.get(before.queue)
        if hub is not None:
            hub.forget_source(fragment)
            hub.drop_parked(fragment)

    def _tell(self, line: str) -> None:
        """A line for the log; not while this process reads what happened before it began."""
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
            return
        if member.up:
            self._forget_origins(node)
        word = "up" if member.up else "down"
        self._tell(f"member {node} is {word} (incarnation {member.incarnation})")
        if node != state.me:
            if node in state.peers:
                self._refresh_link(node)
            if not member.up:
                self._give_up_on(node)
            return
        for fragment in list(state.map.fragments):
            self.roles.reconcile(fragment)
        self._forget_orphans()
        for peer in state.peers:
            self._refresh_link(peer)
        for info in state.map.fragments.values():
            if info.primary == state.me:
                self._aim(info)

    def _give_up_on(self, node: NodeId) -> None:
        """Whoever waits for an answer of this member's fragments gets none before it returns."""
        for info in self.state.map.fragments.values():
            if info.primary == node:
                self.asking.on_fragment_moved(info.id)
                self.getting.on_fragment_moved(info.id)

    def _forget_orphans(self) -> None:
        """Copies on disk of fragments that are no more."""
        state = self.state
        if state.map.is_up(state.me, state.settings.incarnation):
            for fragment in [f for f in state.recovered if f not in state.map.fragments]:
                self.roles.leave(fragment)

    def _refresh_link(self, node: NodeId) -> None:
        state = self.state
        peer = state.peers[node]
        before = peer.link.session
        mine = state.map.members.get(state.me)
        theirs = state.map.members.get(node)
        mine_up = mine.up_version if mine is not None and self._is_me(mine) else 0
        theirs_up = theirs.up_version if theirs is not None and theirs.up else 0
        begins = peer.link.set_session(mine_up, theirs_up)
        if peer.link.session == before:
            return
        peer.applied = state.map.version if not begins else MapVersion(0)
        peer.full = False
        peer.waiting = []
        if before != NO_SESSION:
            self.fragments.on_member_gone(node)
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
        if begins:
            self._introduce(node)

    def _forget_origins(self, node: NodeId) -> None:
        """A newer process of the node is in the map: those before it publish no more."""
        now = self.state.map.members[node].incarnation
        for primary in self.state.primaries.values():
            forget_origins(primary.fragment.origins, node, now)
        for backup in self.state.backups.values():
            backup.replica.forget_origins(node, now)

    def _forget_peer(self, node: NodeId) -> None:
        """The peer's process is gone for good, and its private queues with it."""
        self.relays.on_peer_gone(node)
        self.private.on_peer_gone(node)

    def give_up_absent(self) -> None:
        """Peers that have been down for too long, or are owed too much, are not waited for."""
        state = self.state
        lost, state.lost_peers = state.lost_peers, {}
        for node, peer in state.peers.items():
            absent = peer.introduced and peer.link.session == NO_SESSION
            late = state.now_ms - peer.down_ms >= ABSENT_MS
            member = state.map.members.get(node)
            if absent and member is not None and not member.up and (late or node in lost):
                self._forget_peer(node)

    def _is_me(self, member: Member) -> bool:
        """Whether this member of this node's name is this very process, and up."""
        settings = self.state.settings
        mine = (settings.incarnation, settings.start)
        return member.up and (member.incarnation, member.start) == mine

    def _introduce(self, node: NodeId) -> None:
        """A session with a peer begins: it hears all that it should know of us."""
        state = self.state
        self.private.introduce(node)
        self.relays.resend(node)
        for info in state.map.fragments.values():
            if info.primary == node:
                self._aim(info)
        for fragment, backup in state.backups.items():
            # What the same command moved to another primary is told by a change of its own.
            known = state.map.fragments.get(fragment)
            if known is not None and known.primary == backup.replication.primary == node:
                self.roles.refollow(backup)
        state.send(node, MapApplied(state.map.version, state.map.digest))

    # --- the end of a turn -------------------------------------------------------------------

    def tell_version(self) -> None:
        """Tells the peers how far this node has applied the map."""
        version = self.state.map.version
        if version != self._told:
            self._told = version
            for node in self.state.live_peers():
                self.state.send(node, MapApplied(version, self.state.map.digest))

    def on_map_applied(self, sender: NodeId, message: MapApplied) -> None:
        """A peer has applied the map up to a version."""
        self.state.peers[sender].applied = message.version
        self.digests.compare(sender, message)
        self.fragments.on_peer_applied(sender, message.version)

    def release_waiting(self) -> None:
        """Runs what waited for every live member to have applied the map."""
        state = self.state
        if not state.after_applied:
            return
        everywhere = applied_everywhere(state)
        waiting, state.after_applied = state.after_applied, []
        for version, action in waiting:
            if version <= everywhere:
                action()
            else:
                state.after_applied.append((version, action))


def _ends(binding: Binding) -> tuple[QueueKey, QueueKey | ToExchange, str]:
    source = QueueKey(binding.vhost, binding.source)
    destination = QueueKey(binding.vhost, binding.destination)
    if binding.destination_kind == "exchange":
        return source, ToExchange(destination), binding.routing_key
    return source, destination, binding.routing_key


def _source_of(binding: Binding) -> QueueKey:
    return QueueKey(binding.vhost, binding.source)
