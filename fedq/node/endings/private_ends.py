"""The end of exclusive queues, piece by piece; the map learns of it by `Registrations`.

It is a chore (`fedq.node.records.chores`): a queue that ends stays until its last binding is
undone, and nobody but its owner could use it meanwhile.

Changes private queues, their hubs, the router.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

from fedq.node.copies.emptying import Purging, cancel_all
from fedq.node.private.private_flow import PrivateFlow
from fedq.node.private.registrations import Registrations
from fedq.node.records.private_queue import PrivateQueue
from fedq.node.records.state import NodeState

#: What the end of a binding costs, in units of work.
_BINDING_WORK: Final = 10
#: So many messages of a queue that is gone are freed at once.
_FREED_AT_ONCE: Final = 1_000


class PrivateEnds:
    """Ends exclusive queues, piece by piece; the map learns of it by `Registrations`."""

    __slots__ = ("flow", "registrations", "state")

    def __init__(self, state: NodeState, flow: PrivateFlow, registrations: Registrations) -> None:
        self.state = state
        self.flow = flow
        self.registrations = registrations

    def end_unwanted(self) -> None:
        """Ends queues of this node alone that nobody uses, or whose name has gone to another."""
        unwanted, self.state.marks.unwanted = self.state.marks.unwanted, {}
        for fragment in unwanted:
            private = self.state.private_by_id.get(fragment)
            if private is not None:
                self.end(private)

    def end(self, private: PrivateQueue, then: Callable[[], None] | None = None) -> None:
        """Ends a queue; then something else is done."""
        if private.ending and then is None:
            return
        private.ending = True
        cancel_all(self.state, private.hub, private.owner)
        self.state.chores.begin(private.owner, Unbinding(self, private, then))

    def delete(self, private: PrivateQueue) -> None:
        """Deletes a queue that has no binding left, if it has not gone before."""
        state = self.state
        if state.private.get(private.key) is not private:
            return
        cancel_all(state, private.hub, private.owner)
        self.flow.delete(private)
        if private.claimed:
            self.registrations.release(private.key)
        if private.fragment.ready_count > _FREED_AT_ONCE:
            # To free all of its messages takes time, too.
            state.chores.begin(private.owner, Purging(state, private.fragment))


class Unbinding:
    """A chore: undoes the bindings of an exclusive queue; then it is gone."""

    __slots__ = ("_ends", "_private", "_then")

    def __init__(
        self, ends: PrivateEnds, private: PrivateQueue, then: Callable[[], None] | None
    ) -> None:
        self._ends = ends
        self._private = private
        self._then = then

    def go_on(self) -> bool:
        """Undoes the next bindings."""
        private, work = self._private, self._ends.state.work
        while private.bindings:
            most = max(1, work.room // _BINDING_WORK)
            for binding in list(islice(private.bindings, most)):
                self._ends.flow.unbind(private, binding)
                work.spend(_BINDING_WORK)
            if work.is_spent and private.bindings:
                return False
        work.spend(_BINDING_WORK)
        self._ends.delete(private)
        if self._then is not None:
            self._then()
        return True
