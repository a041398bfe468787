"""The node as the machine behind the Raft log.

In: committed commands, snapshots and leaders from `fedq.shell.raft.log`. Out: the node's inputs
about them, through `Turn.input`. Invariant: the log never goes on without the node, because it
would then compact to a snapshot that lacks what the node did not hear.
"""

import logging
from collections.abc import Callable
from typing import Protocol

from fedq.core.errors import NodeFailure
from fedq.core.ids import NodeId
from fedq.shell.raft.compaction import Pieces
from fedq.shell.turn import Turn
from fedq.wiring.cluster_map.map import ReadMap
from fedq.wiring.cluster_map.operations import CommandError, UnknownCommand, decode_command
from fedq.wiring.cluster_map.snapshot import Frozen

logger = logging.getLogger("fedq.node")


class MapInputs(Protocol):
    """What the log calls of a node."""

    @property
    def takes_commands(self) -> bool:
        """Whether the turn has room for another command of the log."""

    @property
    def cluster_name(self) -> str:
        """The name of the cluster, if its map has one by now."""

    def on_committed(self, command: bytes) -> None:
        """Takes the next command of the log."""

    @property
    def wanted_voters(self) -> tuple[NodeId, ...] | None:
        """The nodes that should vote, in ascending order; None: the map has not said so."""

    def on_voters(self, voters: tuple[NodeId, ...]) -> None:
        """Takes note who votes, by the next entry of the log."""

    def on_leader(self, leader: NodeId | None) -> None:
        """Takes note whom this node now believes to be the Raft leader."""

    def frozen_map(self) -> Frozen:
        """The whole map as it is now, for another thread to write."""

    def on_snapshot(self, snapshot: ReadMap) -> None:
        """Replaces the whole cluster map."""


class MapMachine:
    """A `LogMachine` of the Raft log that leads into the node's turns."""

    __slots__ = (
        "_changes", "_changes_seen", "_named", "_node", "_on_named", "_on_roster", "_turn",
    )  # fmt: skip

    def __init__(self, node: MapInputs, turn: Turn, on_named: Callable[[str], None]) -> None:
        """`on_named` hears the name of the cluster once it has one; it may raise `NodeFailure`."""
        self._node = node
        self._turn = turn
        self._on_named = on_named
        self._named = ""
        self._changes: Callable[[], int] = lambda: 0
        self._changes_seen = 0
        self._on_roster: Callable[[], None] = lambda: None

    def follow_roster(self, changes: Callable[[], int], on_roster: Callable[[], None]) -> None:
        """Has `on_roster` called when `changes` is another number than it was.

        That is how often the map has changed who is of the cluster, and whether this process is up.
        """
        self._changes, self._on_roster = changes, on_roster

    def knows(self, command: bytes) -> bool:
        """Whether this release has all operations of the command; others are not for its log."""
        try:
            decode_command(command)
        except UnknownCommand:
            return False
        except CommandError:
            # Every node refuses it alike.
            return True
        except Exception as failure:
            # A bug: it is kept out of the log as long as that is in anybody's hands.
            logger.error("a command for the cluster map cannot be read", exc_info=failure)
            return False
        return True

    @property
    def takes_commands(self) -> bool:
        """Whether the turn at hand has room for another command; a turn that begins has."""
        return not self._turn.is_open or self._node.takes_commands

    def on_committed(self, command: bytes) -> None:
        """Takes the next command of the log."""
        self._input(self._node.on_committed, command)

    def freeze(self) -> Pieces:
        """The whole cluster map as it is now."""
        return self._node.frozen_map().pieces

    def read_snapshot(self, data: bytes) -> ReadMap:
        """The cluster map in a snapshot; for any thread."""
        return ReadMap(data)

    def on_snapshot(self, read: object) -> None:
        """Replaces the whole cluster map."""
        assert isinstance(read, ReadMap), "this is what `read_snapshot` makes"
        self._input(self._node.on_snapshot, read)

    @property
    def wanted_voters(self) -> tuple[NodeId, ...] | None:
        """The nodes that should vote, as the map has it; None: it has not said so."""
        return self._node.wanted_voters

    def on_voters(self, voters: tuple[NodeId, ...]) -> None:
        """Takes note who votes, by the next entry of the log."""
        self._input(self._node.on_voters, voters)

    def on_leader(self, leader: NodeId | None) -> None:
        """Takes note whom this voter believes to lead."""
        self._input(self._node.on_leader, leader)

    def _input(self, method: Callable[..., None], *args: object) -> None:
        self._turn.input(method, *args)
        if self._turn.is_stopped:
            raise NodeFailure("the node behind the log has stopped")
        if not self._named and self._node.cluster_name:
            self._named = self._node.cluster_name
            self._on_named(self._named)
        changes = self._changes()
        if changes != self._changes_seen:
            self._changes_seen = changes
            self._on_roster()
