"""The cluster map: members, wiring and who holds which fragment, the same on every node.

Inputs: the commands of the Raft log, in order (`apply`), and snapshots (`restore`). Outputs: the
result of each operation, what changed, and snapshots. Decision D3 and D4 of the design.

Invariants, besides those of `fedq.wiring.cluster_map.state`:

* deterministic: two maps that were given the same commands are equal, and so are their snapshots;
* total: any bytes have a result, and a refused operation changes nothing. One thing is raised: a
  `NodeFailure` for a command of a newer release, before anything changes. Whoever counted on
  without it would have another map at the same version;
* bounded: in objects, and in the bytes of its snapshot by the bound that each command names
  (commands of earlier versions name none: who replays them comes to what others came to);
* idempotent: a command whose request id is remembered changes nothing and has the old results.

The operations of one command are applied one after the other, each for itself: it is no
transaction, but nothing comes in between. Of a command *in order* nothing is applied behind the
first operation that is refused (docs/adr/0110).
"""

from typing import NamedTuple, TypeAlias

import orjson

from fedq.core import limits
from fedq.core.errors import (
    COMMAND_INVALID,
    INTERNAL_ERROR,
    PRECONDITION_FAILED,
    NodeFailure,
    Refused,
)
from fedq.core.ids import MapVersion, NodeId
from fedq.wiring.cluster_map import (
    access,
    copies,
    declarations,
    digest,
    membership,
    moves,
    roster,
    snapshot,
    tracing,
    weighing,
)
from fedq.wiring.cluster_map.operations import (
    Command,
    CommandError,
    FragmentOperation,
    MemberOperation,
    Operation,
    UnknownCommand,
    decode_command,
)
from fedq.wiring.cluster_map.operations_access import AccessOperation
from fedq.wiring.cluster_map.operations_copies import ShapeChanged
from fedq.wiring.cluster_map.operations_members import AdmitNode
from fedq.wiring.cluster_map.operations_moves import DrainChanged, MoveChanged, MovingOperation
from fedq.wiring.cluster_map.operations_tracing import TracingOperation
from fedq.wiring.cluster_map.snapshot import Frozen
from fedq.wiring.cluster_map.state import (
    DEFAULT_VHOST,
    TABLES,
    AccessChange,
    Change,
    EraChanged,
    FragmentAdded,
    FragmentChanged,
    FragmentRemoved,
    MapState,
    MemberChanged,
    MemberSpeaks,
    Ok,
    RosterChanged,
)

Result: TypeAlias = Ok | Refused

#: What operations of a command in order hear that come behind a refused one.
NOT_REACHED = Refused(PRECONDITION_FAILED, "what was asked for before it was refused")
_UNREADABLE = "no node can read this command, for a reason that is in their logs"


class Applied(NamedTuple):
    """What became of one command."""

    #: The command's request id; "" if it could not be read.
    request: str
    #: One for each operation; a single refusal for bytes that are no command.
    results: tuple[Result, ...]
    #: In the order in which they happened.
    changes: list[Change]
    #: The request was applied before: the results are the old ones.
    duplicate: bool


class ReadMap:
    """A map that was read from a snapshot, and all that is derived from it: to be taken over."""

    __slots__ = ("remembered", "remembered_bytes", "state", "weights")

    def __init__(self, data: bytes, objects_max: int = limits.MAP_OBJECTS_MAX) -> None:
        """Reads a snapshot, in any thread. ValueError if `data` is no intact one."""
        self.state, self.remembered = snapshot.decode(data, objects_max)
        self.weights = weighing.Weights()
        self.weights.recount(self.state)
        self.remembered_bytes = _bytes_of(self.remembered)


class ClusterMap(MapState):
    """The replicated state machine; its tables are those of `MapState`."""

    __slots__ = (
        "_remembered", "_remembered_bytes", "_weights", "access_version", "failures",
        "fragments_version", "members_version",
    )  # fmt: skip

    def __init__(self, objects_max: int = limits.MAP_OBJECTS_MAX) -> None:
        """Begins empty; `objects_max` must be the same on every node."""
        super().__init__(objects_max)
        self.add_vhost(DEFAULT_VHOST)
        self._remembered: snapshot.Remembered = {}
        self._remembered_bytes = 0
        #: What operations failed with that were refused for it, for whoever writes the log.
        self.failures: list[Exception] = []
        self._weights = weighing.Weights()
        self._weigh_anew()
        #: The versions at which members, or fragments, last changed: hints for `failover`.
        self.members_version = MapVersion(0)
        self.fragments_version = MapVersion(0)
        #: The version at which virtual hosts, users or grants last changed: what was derived from
        #: them before is void.
        self.access_version = MapVersion(0)

    def apply(self, command: bytes) -> Applied:
        """Applies the next command of the log; see the module's docstring."""
        applied = self._apply_command(command)
        try:
            self.digest = digest.after(self.digest, command, applied.results)
        except Exception as error:
            # As on every other node, which keeps the digest that it had, too.
            self.failures.append(error)
        return applied

    def _apply_command(self, command: bytes) -> Applied:
        try:
            decoded = decode_command(command)
        except UnknownCommand as unknown:
            # Not the name below: compiled, one name has one type of exception.
            raise NodeFailure(
                f"the cluster map has a command at version {self.version + 1} that this release of "
                f"fedq does not know ({unknown}): start a newer release on this node"
            ) from unknown
        except CommandError as error:
            self.version = MapVersion(self.version + 1)
            refusal = Refused(COMMAND_INVALID, f"the cluster map was not changed: {error}")
            return Applied(error.request, (refusal,), [], False)
        except (MemoryError, RecursionError):
            raise
        except Exception as failure:
            # A bug that every node has: all refuse it. Whose command it was nobody knows.
            self.version = MapVersion(self.version + 1)
            self.failures.append(failure)
            return Applied("", (Refused(INTERNAL_ERROR, _UNREADABLE),), [], False)
        self.version = MapVersion(self.version + 1)
        request = decoded.request
        if request in self._remembered:
            return Applied(request, self._remembered[request], [], True)
        self.bytes_max = decoded.bytes_max
        results = self._apply_each(decoded)
        changes, self.changes = self.changes, []
        try:
            self._note_versions(changes)
            self._remember(request, results)
        except Exception as forgotten:
            # What is forgotten is forgotten everywhere.
            self.failures.append(forgotten)
        return Applied(request, results, changes, False)

    def _apply_each(self, command: Command) -> tuple[Result, ...]:
        results: list[Result] = []
        is_over = False
        for operation in command.operations:
            result: Result = NOT_REACHED if is_over else self._apply_weighed(operation)
            is_over = command.in_order and isinstance(result, Refused)
            results.append(result)
        return tuple(results)

    def take_voters(self, voters: tuple[NodeId, ...]) -> Applied:
        """Takes note who votes, by the next entry of the log; as `apply`."""
        self.version = MapVersion(self.version + 1)
        roster.take_voters(self, voters)
        changes, self.changes = self.changes, []
        self._note_versions(changes)
        said = b'{"voters":%b}' % orjson.dumps(voters)
        self.digest = digest.after(self.digest, said, ())
        return Applied("", (), changes, False)

    @property
    def wanted_voters(self) -> tuple[NodeId, ...] | None:
        """The nodes that should vote, in ascending order; None: nobody has said so."""
        return roster.wanted_voters(self)

    def why_not_admitted(self, operation: AdmitNode) -> Refused | None:
        """Why the operation would be refused now; None: it would not. Nothing changes."""
        return roster.why_not_admitted(self, operation)

    def snapshot(self) -> bytes:
        """The whole map, as `restore` takes it."""
        return snapshot.encode(self, self._remembered)

    def frozen(self) -> Frozen:
        """The whole map as it is now, to be written by another thread."""
        return Frozen(self, self._remembered)

    def restore(self, data: bytes) -> None:
        """Replaces the whole map. ValueError if `data` is no intact snapshot: nothing changes."""
        self.take(ReadMap(data, self.objects_max))

    def take(self, read: ReadMap) -> None:
        """Replaces the whole map by one that was read, and that nobody else keeps."""
        for name in TABLES:
            setattr(self, name, getattr(read.state, name))
        self._remembered, self._remembered_bytes = read.remembered, read.remembered_bytes
        self._weights = read.weights
        self.bytes_held = self._weights.total
        self.queues_of_vhost = self._weights.queues_of
        self.copies_of = self._weights.copies_of
        self.members_version = self.fragments_version = self.access_version = self.version

    def _weigh_anew(self) -> None:
        self._weights.recount(self)
        self.bytes_held = self._weights.total
        self.queues_of_vhost = self._weights.queues_of
        self.copies_of = self._weights.copies_of
        self._remembered_bytes = _bytes_of(self._remembered)

    def _apply_weighed(self, operation: Operation) -> Result:
        """Applies an operation; the next one finds what it weighs."""
        before = len(self.changes)
        try:
            self.bytes_adding = weighing.may_add(operation) if self.bytes_max else 0
            result = self._apply(operation)
            if len(self.changes) > before:
                self._weights.note(self, self.changes[before:])
                self.bytes_held = self._weights.total
        except (MemoryError, RecursionError):
            # Of this process alone: the others may come to another result.
            raise
        except Exception as error:
            result = self._refuse_failing(operation, error)
        return result

    def _refuse_failing(self, operation: Operation, error: Exception) -> Refused:
        """Refuses an operation that nobody can apply: it fails on every node alike.

        Nearly all that can fail is found out before anything changes. What has changed by then has
        changed everywhere, and is among the changes; what it weighs is counted anew.
        """
        self.failures.append(error)
        self._weigh_anew()
        name = type(operation).__name__
        return Refused(
            INTERNAL_ERROR, f"no node can do this ({name}), for a reason that is in their logs"
        )

    def _apply(self, operation: Operation) -> Result:
        if isinstance(operation, MemberOperation):
            return membership.apply(self, operation)
        if isinstance(operation, FragmentOperation):
            return copies.apply(self, operation)
        if isinstance(operation, AccessOperation):
            return access.apply(self, operation)
        if isinstance(operation, TracingOperation):
            return tracing.apply(self, operation)
        if isinstance(operation, MovingOperation):
            return moves.apply(self, operation)
        return declarations.apply(self, operation)

    def _remember(self, request: str, results: tuple[Result, ...]) -> None:
        if len(self._remembered) >= limits.REQUESTS_REMEMBERED_MAX:
            self._forget_oldest()
        self._remembered[request] = results
        self._remembered_bytes += weighing.request_bytes(request, results)
        # Commands without a bound are those of earlier versions, and have the results they had.
        while self.bytes_max and self._remembered_bytes > limits.REQUESTS_REMEMBERED_BYTES_MAX:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        oldest = next(iter(self._remembered))
        self._remembered_bytes -= weighing.request_bytes(oldest, self._remembered.pop(oldest))

    def _note_versions(self, changes: list[Change]) -> None:
        for change in changes:
            if isinstance(
                change, MemberChanged | MemberSpeaks | RosterChanged | EraChanged | DrainChanged
            ):
                self.members_version = self.version
            elif isinstance(
                change,
                FragmentAdded | FragmentChanged | FragmentRemoved | MoveChanged | ShapeChanged,
            ):
                self.fragments_version = self.version
            elif isinstance(change, AccessChange):
                self.access_version = self.version


def _bytes_of(remembered: snapshot.Remembered) -> int:
    """The bytes of the remembered requests in a snapshot, at most."""
    return sum([weighing.request_bytes(*item) for item in remembered.items()])
