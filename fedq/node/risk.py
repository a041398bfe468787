"""Whether an exception has left anything half changed: where it has not, it can be contained.

Whoever changes what others than one connection see does so between `begin` and `end`. An exception
on the way leaves the section open, for nothing closes it then. So an exception that finds no
section open has changed nothing but the connection's own, which goes with it. (What a flow has
decided to refuse, a violation, may leave a section, too: it does so with all in order, and whoever
catches it says so by `close`.)
"""

from typing import NamedTuple

from fedq.core.ids import FragmentId, QueueKey


class Risk:
    """The sections that are open. Sections may be within each other."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open = 0

    @property
    def is_open(self) -> bool:
        """Whether something may be half changed."""
        return self._open > 0

    @property
    def depth(self) -> int:
        """How many sections are open: for `leave_to`."""
        return self._open

    def leave_to(self, depth: int) -> None:
        """Leaves all but `depth` sections: what they half changed is in order, or harmless."""
        self._open = depth

    def begin(self) -> None:
        """Begins a section in which things change."""
        self._open += 1

    def end(self) -> None:
        """Ends a section: all of it has changed."""
        self._open -= 1

    def close(self) -> None:
        """Closes all sections: what left them left nothing half done."""
        self._open = 0


class Fault:
    """An exception that was contained, for the log."""

    # No tuple and no dataclass: mypyc looks for the type Exception among the module's own names.
    __slots__ = ("error", "may_tell", "text")

    def __init__(self, text: str, error: Exception, may_tell: bool = True) -> None:
        #: Whom it concerned, and what became of it.
        self.text = text
        self.error = error
        #: Its own words may be told: they can hold nothing of a client that has not logged in.
        self.may_tell = may_tell


class SetAside(NamedTuple):
    """A message that is in nobody's reach any more, because of what it does to this node."""

    queue: QueueKey
    fragment: FragmentId
    position: int
    message: bytes
