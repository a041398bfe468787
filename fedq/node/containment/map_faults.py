"""Steps of the map that failed here: told, and tried again, ever less often, until they go well.

All nodes are told the same, so what raises on one may raise on each: to stop at it would be to stop
them all, and each again at its start (docs/adr/0042). A step concerns one object (a fragment, a
member, a link, the router); all others go on without it.

Inputs: exceptions of steps, and how to do them again; ticks. Outputs: faults for the log, and
sentences for the status. Not contained is what left a section open (`fedq.node.risk`): something is
half changed there.
"""

from collections.abc import Callable
from typing import Final

from fedq.core.errors import NodeFailure
from fedq.core.limits import FAILED_STEP_MS_MAX, FAILED_STEP_MS_MIN
from fedq.node.records.state import NodeState
from fedq.node.risk import Fault

#: Each time a step fails again it is left alone for so many times as long.
_LONGER: Final = 4


class _Failed:
    """A step that is to be done again."""

    __slots__ = ("again", "due_ms", "wait_ms")

    def __init__(self, again: Callable[[], None], due_ms: int, wait_ms: int) -> None:
        self.again = again
        self.due_ms = due_ms
        self.wait_ms = wait_ms


class MapFaults:
    """Steps of the map that failed on this node, and when each is tried again."""

    __slots__ = ("_failed", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self._failed: dict[str, _Failed] = {}

    def contain(self, subject: str, again: Callable[[], None], error: Exception) -> None:
        """Contains a step for this object that raised; raises again where the node has to stop.

        What is to be done for the object the next time takes the place of what failed before.
        """
        state = self.state
        if state.risk.is_open or isinstance(error, NodeFailure | MemoryError):
            raise error
        known = self._failed.get(subject)
        wait_ms = FAILED_STEP_MS_MIN
        if known is not None:
            wait_ms = min(_LONGER * known.wait_ms, FAILED_STEP_MS_MAX)
        self._failed[subject] = _Failed(again, state.now_ms + wait_ms, wait_ms)
        text = f"what the cluster map says of {subject} failed here, and is tried again"
        state.out.faults.append(Fault(text, error))
        state.found[f"step {subject}"] = (f"{text}; its log says why", state.now_ms + wait_ms)

    def tick(self) -> None:
        """Tries again what is due."""
        if not self._failed:
            return
        state = self.state
        for subject, failed in list(self._failed.items()):
            if failed.due_ms > state.now_ms:
                continue
            # What was refused before has left nothing half done.
            state.risk.close()
            try:
                failed.again()
            except Exception as error:
                self.contain(subject, failed.again, error)
            else:
                del self._failed[subject]
                state.found.pop(f"step {subject}", None)
