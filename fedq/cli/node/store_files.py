"""What commands know of a stopped node's data directory: its messages, and whose they are.

Inputs: a directory. Outputs: its journal, held; by fragment the queue, this copy and others. Where
the map's log cannot be read, fragments have numbers only.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from fedq.cli.terminal.failure import CommandError
from fedq.core.ids import FragmentId, NodeId
from fedq.core.ranges import Range, count
from fedq.journal.recovery import CorruptJournal
from fedq.shell.disk.stopped_store import StoreError, held, node_of
from fedq.shell.disk.store_messages import StoreMessages
from fedq.shell.disk.vouching import read_vouch
from fedq.shell.raft.journal import RaftStorageError
from fedq.shell.raft.reading import read_map
from fedq.wiring.cluster_map.map import ClusterMap

RAFT: Final = "raft"


class StoredFragment(NamedTuple):
    """What a store has of one fragment."""

    fragment: int
    #: Empty: the map's log does not say.
    vhost: str
    queue: str
    messages: int
    #: It is not a copy that was still being made, nor one with a record that cannot be read.
    whole: bool
    #: It was in sync, by the map; None: the map does not say, or the fragment is gone there.
    in_sync: bool | None
    #: Other nodes that were.
    others: tuple[str, ...]
    #: What is alive and cannot be read.
    damaged: tuple[Range, ...]

    @property
    def name(self) -> str:
        """How an operator names it."""
        return self.queue or f"fragment {self.fragment}"

    @property
    def why_less(self) -> str:
        """Why it may have less than the queue had; "" if it has all of it."""
        reasons = []
        if self.damaged:
            reasons.append(f"{count(self.damaged)} messages cannot be read")
        if not self.whole:
            reasons.append("it is not a whole copy")
        if self.in_sync is False:
            reasons.append("it was not in sync")
        elif self.in_sync is None:
            reasons.append("it is not known whether it was in sync")
        return ", ".join(reasons)


class Store:
    """A data directory whose node does not run."""

    def __init__(self, data: Path, journal: Path) -> None:
        self.node = node_of(data)
        self.messages = StoreMessages(journal)
        #: Why the map is not known; "" if it is.
        self.no_map = ""
        try:
            self._map: ClusterMap | None = read_map(data / RAFT)
        except RaftStorageError as error:
            self._map, self.no_map = None, str(error)
        vouch = read_vouch(journal)
        self._vouched_since = vouch.since if vouch is not None else 0

    def fragments(self) -> list[StoredFragment]:
        """All fragments of which the journal has something, or should have."""
        recovered = self.messages.recovered
        return [self._fragment(each) for each in sorted(recovered.fragments)]

    def _fragment(self, identity: FragmentId) -> StoredFragment:
        recovered = self.messages.recovered
        found = recovered.fragments[identity]
        info = self._map.fragments.get(identity) if self._map is not None else None
        in_sync: bool | None = None
        others: tuple[str, ...] = ()
        if info is not None:
            mine = info.in_sync.get(NodeId(self.node))
            # What was damaged before the last start is older than the map thinks.
            in_sync = mine is not None and mine >= self._vouched_since
            others = tuple(sorted(node for node in info.in_sync if node != self.node))
        return StoredFragment(
            int(identity), info.queue.vhost if info is not None else "",
            info.queue.name if info is not None else "", found.count, found.whole, in_sync, others,
            tuple(recovered.lost.get(identity, [])),
        )  # fmt: skip


@contextmanager
def opened(data: Path) -> Iterator[Store]:
    """The store of a node that does not run; raises `CommandError`."""
    try:
        with held(data) as journal:
            yield Store(data, journal)
    except (StoreError, CorruptJournal) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"the store cannot be read: {error}") from error
