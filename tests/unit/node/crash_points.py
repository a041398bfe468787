"""A disk each of whose steps can be the last: a node's data directory as a crash there leaves it.

`Recorded` is a cluster of one node that writes down what its disk does: a chunk is written, what
was written is synced, a segment is dropped. Syncs end some ticks later, so there is something to
lose at most points. `directory_at` gives the segments as a crash after so many steps leaves them,
in each of the ways in `LOSSES`; `Recorded.restart` starts the node on such segments, with the map
that it had.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from fedq.core.ids import NodeId
from fedq.journal.decoding import decode_at
from fedq.journal.events import Group
from fedq.journal.marks import MARK_BYTES, mark_at
from fedq.node.node import Node
from tests.unit.node.harness import TICK_MS, Cluster, Host
from tests.unit.node.inputs import synced

Segments = dict[int, bytes]
#: What a crash takes: nothing (the process alone ends), all that was not synced, some of it, or
#: that and the newest deletion, whose directory was not synced.
LOSSES: Final = ("killed", "cut", "torn", "undeleted")

#: How long a sync takes: a node that does not wait for it has the time to go wrong.
SYNC_TICKS: Final = 3


class Written(NamedTuple):
    """A chunk was written; nobody has synced it yet."""

    number: int
    segment: int
    data: bytes


class Synced(NamedTuple):
    """All chunks up to this number are on disk, and the node is about to hear of it."""

    number: int


class Dropped(NamedTuple):
    """A segment was deleted."""

    segment: int


Step = Written | Synced | Dropped


def name_of(step: Step) -> str:
    """What kind of step it is, by the kinds of records that it writes."""
    if isinstance(step, Written):
        return " ".join(sorted(dict.fromkeys(_kinds(step.data))))
    return type(step).__name__


def _kinds(data: bytes) -> Iterator[str]:
    at = 0
    while at < len(data):
        if mark_at(data, at) is not None:
            at += MARK_BYTES
            yield "Mark"
            continue
        record, at = decode_at(data, at)
        parts = record.records if isinstance(record, Group) else [record]
        yield from (type(part).__name__ for part in parts)


class Recorded(Cluster):
    """See the module's docstring."""

    def __init__(self, **settings: int) -> None:
        #: All that was done to the data directory since the process began.
        self.steps: list[Step] = []
        #: The chunk up to which it is being synced, and in how many ticks; 0: nothing is.
        self._syncing = self._left = 0
        #: The newest chunk that wants to be.
        self._wanted = 0
        super().__init__(1, **settings)
        self.disk_waits("n1", True)

    @property
    def host(self) -> Host:
        """The one host."""
        return self.hosts[NodeId("n1")]

    def pass_ms(self, duration_ms: int) -> None:
        """Time goes on, and with it syncs."""
        self.settle()
        for _ in range(0, duration_ms, TICK_MS):
            super().pass_ms(TICK_MS)
            self._sync()
        self.settle()

    def _sync(self) -> None:
        """One sync at a time, if any is wanted; it serves all that was written when it began."""
        host = self.host
        self._left -= 1
        if self._syncing and not self._left:
            self.steps.append(Synced(self._syncing))
            host.inbox.append(partial(synced, number=self._syncing))
            self._syncing = 0
        elif not self._syncing and self.node("n1").state.synced < self._wanted:
            self._syncing, self._left = host.written, SYNC_TICKS

    def restart(self, segments: Segments) -> None:
        """The process ends; another one starts on these segments."""
        host = self.host
        if host.node is not None:
            self.kill("n1")
        self._syncing = self._wanted = 0
        host.segments = {number: bytearray(data) for number, data in segments.items()}
        self.steps = []
        self.start("n1")

    def _drain(self, host: Host, node: Node) -> None:
        out = node.out
        self.steps += [Written(chunk.number, chunk.segment, chunk.data) for chunk in out.journal]
        self._wanted = max([self._wanted, *(chunk.number for chunk in out.journal if chunk.sync)])
        self.steps += [Dropped(segment) for segment in out.drop_segments]
        super()._drain(host, node)


def directory_at(steps: Sequence[Step], loss: str) -> Segments:
    """The segments that a crash behind the last of these steps leaves."""
    known = max([step.number for step in steps if isinstance(step, Synced)], default=0)
    unsynced = sum(
        len(step.data) for step in steps if isinstance(step, Written) and step.number > known
    )
    lost = {"killed": 0, "cut": unsynced, "torn": unsynced // 2, "undeleted": unsynced}[loss]
    left = unsynced - lost
    newest = max([at for at, step in enumerate(steps) if isinstance(step, Dropped)], default=-1)
    found: Segments = {}
    for at, step in enumerate(steps):
        if isinstance(step, Dropped):
            if loss != "undeleted" or at != newest:
                found.pop(step.segment, None)
        elif isinstance(step, Written):
            kept = len(step.data)
            if step.number > known:
                kept = min(kept, left)
                left -= kept
            if kept:
                found[step.segment] = found.get(step.segment, b"") + step.data[:kept]
    return found
