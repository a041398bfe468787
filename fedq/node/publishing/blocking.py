"""Publishers that wait: they are not read, and hear why (connection.blocked, RabbitMQ's extension).

Inputs: causes that concern everybody, and come and go; publishes that a full node would have to
take in (docs/adr/0069); connections that open. Output: methods for those clients that can hear
them. Invariant: a client hears blocked while there is a cause, or while it is held, and unblocked
if it has heard that and there is neither any more; so the two are always paired.

A publish waits for a full node that serves its fragment, or whose copy of it is in sync; for the
client's own node, if that is short of memory; for one with private queues that hear it, likewise.
What was read of a connection when it meets the first of these still goes its way.

Clients may be very many, so each change is a round of them, in pieces. A round that is overtaken by
the next change begins again: each client hears what is so when the round comes to it, and nothing
if that is what it knows. Who publishes meanwhile is stopped by that
(`fedq.node.publishing.publish_flow`).
"""

from collections import deque
from typing import Final

from fedq.amqp import method_types as m
from fedq.core.ids import FragmentId, NodeId
from fedq.node.records.client_state import Client, capability
from fedq.node.records.state import NodeState

#: Why connections are not read while a node that they publish to takes in no more.
ALARM: Final = "alarm"
#: What it costs to look at a client, and to tell it something, in units of work.
_LOOK_WORK: Final = 1
_TELL_WORK: Final = 10


class Blocking:
    """Tells publishers that they have to wait. Is the chore of its own rounds, too."""

    __slots__ = ("_causes", "_left", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        #: Why everybody is blocked, by cause.
        self._causes: dict[str, str] = {}
        #: Clients to which the round under way is still to come.
        self._left: deque[Client] = deque()

    # --- what waits --------------------------------------------------------------------------

    def waits(self, awaited: FragmentId | NodeId) -> str:
        """Why publishes to this wait, as clients hear it; empty: they do not.

        `awaited`: a shared fragment, or a node for what only its memory takes in.
        """
        state = self.state
        full = state.full
        if not full:
            return ""
        if isinstance(awaited, str):
            alarm = full.get(awaited)
            return self._reason(awaited) if alarm is not None and alarm.memory else ""
        info = state.map.fragments.get(awaited)
        if info is None:
            return ""
        if info.primary in full:
            return self._reason(info.primary)
        for node in info.in_sync:
            if node in full:
                return self._reason(node)
        return ""

    def _reason(self, node: NodeId) -> str:
        words = self.state.full[node].reason
        return words if node == self.state.me else f"{words}: {node}"

    def hold_for(self, client: Client, awaited: FragmentId | NodeId) -> None:
        """Holds a client that publishes to this, if that waits; the first thing it meets counts."""
        held = self.state.held
        if client in held or client.gone or not self.waits(awaited):
            return
        held[client] = awaited
        self.state.hold_reading(client, ALARM)
        self._tell(client)

    # --- rounds ------------------------------------------------------------------------------

    def set_blocked(self, cause: str, reason: str | None) -> None:
        """Sets a reason to block everybody, or (None) takes away the one of that cause.

        Those that can hear it get connection.blocked once, and unblocked when no cause is left.
        """
        before = bool(self._causes)
        if reason is None:
            self._causes.pop(cause, None)
        else:
            self._causes[cause] = reason
        if bool(self._causes) != before:
            self.look_at_all()

    def on_opened(self, client: Client) -> None:
        """Tells a new connection at once what the others were told."""
        if self._causes:
            self._tell(client)

    def look_at_all(self) -> None:
        """Begins a round of all clients."""
        self._left = deque(self.state.clients.values())
        self._begin_round()

    def look_at_held(self) -> None:
        """Looks whether those that are held still have to be, behind a round under way."""
        if self.state.held:
            self._left.extend(self.state.held)
            self._begin_round()

    @property
    def is_looking(self) -> bool:
        """Whether a round is under way."""
        return bool(self._left)

    def _begin_round(self) -> None:
        chores = self.state.chores
        if not chores.are_under_way(self):
            chores.begin(self, self)

    def go_on(self) -> bool:
        """Looks at the next clients, and tells them."""
        state, left = self.state, self._left
        clients, work = state.clients, state.work
        while left:
            client = left.popleft()
            if clients.get(client.connection) is client:
                self._hold(client)
                self._tell(client)
            work.spend(_LOOK_WORK)
            if work.is_spent:
                break
        return not left

    def _hold(self, client: Client) -> None:
        """Releases a client if what it waits for does not wait any more; holds it for its node."""
        state = self.state
        awaited = state.held.get(client)
        if awaited is not None and not self.waits(awaited):
            del state.held[client]
            state.release_reading(client, ALARM)
        if state.memory_full and (
            client.publishes or client.machine.contents_unfinished() or client.bytes_waiting
        ):
            self.hold_for(client, state.me)

    def _tell(self, client: Client) -> None:
        awaited = self.state.held.get(client)
        blocked = bool(self._causes) or awaited is not None
        if client.is_blocked == blocked or not client.vhost or client.gone:
            return
        if not capability(client, "connection.blocked"):
            return
        client.is_blocked = blocked
        method: m.Method = m.ConnectionUnblocked()
        if awaited is not None and not self._causes:
            method = m.ConnectionBlocked(self.waits(awaited))
        elif blocked:
            method = m.ConnectionBlocked(next(iter(self._causes.values())))
        client.machine.send(0, method)
        self.state.dirty_clients[client] = None
        self.state.work.spend(_TELL_WORK)
