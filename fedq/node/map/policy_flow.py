"""Policies that came, changed or went: what queues and exchanges here are asked for from now on.

Inputs: virtual hosts whose policies have changed; queues that have other fragments. What this node
serves of them is looked through in pieces, as a chore (docs/adr/0048): fragments of shared queues,
exclusive queues, exchanges. What begins meanwhile begins with the new policies. A change while that
goes on is looked after when it is done. A node that only copies a fragment has nothing to do: its
primary enforces the limits.

Changes fragments, exclusive queues and the router of this node; marks them.
"""

from typing import Final

from fedq.core.ids import FragmentId, QueueKey
from fedq.core.policy import QueuePolicy
from fedq.node.copies.fragment_roles import FragmentRoles
from fedq.node.map.map_routes import MapRoutes
from fedq.node.private.private_flow import PrivateFlow
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map.operations import arguments_of

#: What it costs to look at something, besides its patterns; and, as a shift, to count messages.
_LOOK_WORK: Final = 4
_COUNT_SHIFT: Final = 3


class PolicyFlow:
    """Brings what is served here to what its policies ask."""

    __slots__ = (
        "_changed",
        "_exchanges",
        "_fragments",
        "_privates",
        "private",
        "roles",
        "routes",
        "state",
    )

    def __init__(
        self, state: NodeState, roles: FragmentRoles, private: PrivateFlow, routes: MapRoutes
    ) -> None:
        self.state = state
        self.roles = roles
        self.private = private
        self.routes = routes
        #: Virtual hosts that are still to be looked through.
        self._changed: dict[str, None] = {}
        #: What is left of the one that is.
        self._fragments: list[FragmentId] = []
        self._privates: list[QueueKey] = []
        self._exchanges: list[QueueKey] = []

    def on_change(self, vhost: str) -> None:
        """The policies of a virtual host have changed."""
        self.state.policies.forget(vhost)
        if vhost in self.state.map.vhosts:
            self._look_through(vhost)

    def on_snapshot(self, had_some: bool) -> None:
        """The whole map has changed, and its policies with it; `had_some`: there were some."""
        self.state.policies.forget_all()
        if not had_some and self.state.policies.is_empty:
            return
        for vhost in self.state.map.vhosts:
            self._look_through(vhost)

    def on_parts(self, queue: QueueKey) -> None:
        """A queue has other fragments than before: each has its part of a length."""
        info, primaries = self.state.map.queues.get(queue), self.state.primaries
        for fragment in info.fragments if info is not None else ():
            primary = primaries.get(fragment)
            if primary is not None and primary.fragment.policy.is_bounded:
                self._fragments.append(fragment)
                self._begin_chore()

    def _look_through(self, vhost: str) -> None:
        self._changed[vhost] = None
        self._begin_chore()

    def _begin_chore(self) -> None:
        if not self.state.chores.are_under_way(self):
            self.state.chores.add(self, self)

    def go_on(self) -> bool:
        """Does the next steps of this chore; true when nothing is left to do."""
        work = self.state.work
        while self._step():
            work.spend(_LOOK_WORK)
            if work.is_spent:
                return False
        return True

    def _step(self) -> bool:
        """Looks at one thing; false if nothing is left to look at."""
        if self._fragments:
            self._look_at(self._fragments.pop())
        elif self._privates:
            self._look_at_private(self._privates.pop())
        elif self._exchanges:
            self._look_at_exchange(self._exchanges.pop())
        elif self._changed:
            self._begin(next(iter(self._changed)))
        else:
            return False
        return True

    def _begin(self, vhost: str) -> None:
        """Begins to look a virtual host through."""
        state = self.state
        del self._changed[vhost]
        self._fragments = [each for each, p in state.primaries.items() if p.queue.vhost == vhost]
        self._privates = [key for key in state.private if key.vhost == vhost]
        self._exchanges = [key for key in state.map.exchanges if key.vhost == vhost and key.name]
        total = len(state.primaries) + len(state.private) + len(state.map.exchanges)
        state.work.spend(total >> _COUNT_SHIFT)

    def _look_at(self, fragment: FragmentId) -> None:
        state = self.state
        primary = state.primaries.get(fragment)
        if primary is None or primary.queue not in state.map.queues:
            return
        policy = self.roles.part_of_policy(primary.queue)
        if policy != primary.fragment.policy:
            self._change(primary, policy)

    def _change(self, primary: Primary, policy: QueuePolicy) -> None:
        state, fragment = self.state, primary.fragment
        state.risk.begin()
        state.work.spend(primary.change_policy(policy, state.now_ms) >> _COUNT_SHIFT)
        state.marks.primaries[fragment.fragment_id] = None
        state.looked_after[fragment.fragment_id] = None
        state.risk.end()

    def _look_at_private(self, key: QueueKey) -> None:
        private = self.state.private.get(key)
        if private is None or private.ending:
            return
        policy = self.state.policy_by(key, arguments_of(private.arguments))
        if policy != private.policy:
            self.state.risk.begin()
            counted = self.private.change_policy(private, policy)
            self.state.work.spend(counted >> _COUNT_SHIFT)
            self.state.risk.end()

    def _look_at_exchange(self, key: QueueKey) -> None:
        if key in self.state.map.exchanges:
            self.routes.look_at_alternate(key)
