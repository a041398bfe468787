"""A cluster map with a voice: applies operations and checks the invariants after each command."""

from collections import Counter

from fedq.core.errors import Refused
from fedq.core.ids import Epoch, FragmentId, Incarnation, NodeId
from fedq.wiring.cluster_map import invariants
from fedq.wiring.cluster_map.map import Applied, ClusterMap, Result
from fedq.wiring.cluster_map.operations import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    JoinEra,
    MemberDown,
    MemberUp,
    Operation,
    SetCopies,
    Unbind,
    encode_command,
)
from fedq.wiring.cluster_map.state import FragmentInfo, Ok


class Wired:
    """Numbers the requests and keeps the log."""

    def __init__(self, *nodes: str, zones: dict[str, str] | None = None) -> None:
        self.map = ClusterMap()
        self.log: list[bytes] = []
        self.last = Applied("", (), [], False)
        for node in nodes:
            self.ok(up(node, zone=(zones or {}).get(node, "")))
            self.ok(JoinEra(NodeId(node), Incarnation(1)))

    def send(self, *operations: Operation) -> Applied:
        command = encode_command(f"request {len(self.log)}", operations)
        self.log.append(command)
        self.last = self.map.apply(command)
        invariants.check(self.map)
        held = Counter(node for info in self.map.fragments.values() for node in info.copies)
        assert self.map.copies_of == held
        return self.last

    def do(self, operation: Operation) -> Result:
        (result,) = self.send(operation).results
        return result

    def ok(self, operation: Operation) -> int:
        result = self.do(operation)
        assert isinstance(result, Ok), result
        return result.value

    def refused(self, operation: Operation) -> tuple[int, str]:
        before = self.map.snapshot().partition(b'"era"')[2].partition(b'"requests"')[0]
        result = self.do(operation)
        assert isinstance(result, Refused), result
        assert self.last.changes == []
        assert self.map.snapshot().partition(b'"era"')[2].partition(b'"requests"')[0] == before
        return result.reply_code, result.text

    def fragment(self, number: int = 1) -> FragmentInfo:
        return self.map.fragments[FragmentId(number)]


def up(node: str, incarnation: int = 1, zone: str = "") -> MemberUp:
    return MemberUp(NodeId(node), Incarnation(incarnation), f"{node}:1", f"{node}:2", zone)


def down(node: str, incarnation: int = 1) -> MemberDown:
    return MemberDown(NodeId(node), Incarnation(incarnation))


def queue(
    name: str,
    node: str = "a",
    *,
    durable: bool = True,
    auto_delete: bool = False,
    arguments: str = "",
    fragments: int = 1,
    replicas: int = 2,
) -> DeclareQueue:
    return DeclareQueue(
        "/", name, durable, auto_delete, arguments, NodeId(node), fragments, replicas
    )


def exchange(
    name: str,
    kind: str = "topic",
    *,
    durable: bool = True,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: str = "",
) -> DeclareExchange:
    return DeclareExchange("/", name, kind, durable, auto_delete, internal, arguments)


def bind(
    source: str, name: str, key: str = "", arguments: str = "", *, kind: str = "queue"
) -> Bind:
    return Bind("/", source, kind, name, key, arguments)


def unbind(source: str, name: str, key: str = "", *, kind: str = "queue") -> Unbind:
    return Unbind("/", source, kind, name, key, "")


def copies(
    info: FragmentInfo,
    primary: str,
    backups: list[str],
    in_sync: dict[str, int],
    *,
    restart: bool = False,
    epoch: int | None = None,
) -> SetCopies:
    return SetCopies(
        info.id,
        info.epoch if epoch is None else Epoch(epoch),
        NodeId(primary),
        tuple(NodeId(node) for node in backups),
        tuple((NodeId(node), Incarnation(number)) for node, number in in_sync.items()),
        restart,
    )
