"""The records of the cluster map's tables: replaced, never changed, so a reader may keep one."""

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from fedq.core.ids import Epoch, FragmentId, Incarnation, MapVersion, NodeId, QueueKey


@dataclass(frozen=True, slots=True)
class Member:
    """A node of the cluster: its newest process, and where it is reached ("host:port")."""

    incarnation: Incarnation
    up: bool
    #: The map version at which it last came up.
    up_version: MapVersion
    peer_address: str
    amqp_address: str
    zone: str
    #: The process's own random id ("": of a release that had none), and when it began (wall clock).
    start: str = ""
    started_ms: int = 0
    #: It came up on a data directory that did not go on from the process before it.
    behind: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A node that is of the cluster: where it is reached, its data directory, its vote."""

    peer_address: str
    #: The directory's random id; "": the node was in the first configurations.
    directory: str
    #: Whether it should vote; the others observe.
    votes: bool


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange; `arguments` in canonical text."""

    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: str


@dataclass(frozen=True, slots=True)
class Queue:
    """A shared queue; `arguments` in canonical text."""

    durable: bool
    auto_delete: bool
    arguments: str
    fragments: list[FragmentId]
    #: How many copies each fragment is to have, the primary included.
    replicas: int
    #: What is copied: "all", "persistent" or "none" of the messages.
    mode: str
    #: It has had a consumer: if it is auto-delete, it goes with the last one.
    consumed: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether its declaration fixes the number of fragments."""
        return '"x-fedq-fragments"' in self.arguments

    def with_fragments(self, fragments: list[FragmentId]) -> "Queue":
        """The queue in these fragments."""
        return replace(self, fragments=fragments)


class Binding(NamedTuple):
    """A binding; `destination_kind` is "queue", "exchange" or "node" (see `operations`)."""

    vhost: str
    source: str
    destination_kind: str
    destination: str
    routing_key: str
    arguments: str


@dataclass(frozen=True, slots=True)
class FragmentInfo:
    """The copies of a fragment, and which of them leads. Never changed in place."""

    id: FragmentId
    queue: QueueKey
    primary: NodeId
    backups: tuple[NodeId, ...]
    #: Copies that hold everything confirmed, each with the process whose memory holds it.
    in_sync: dict[NodeId, Incarnation]
    #: Grows by one with each change of this record.
    epoch: Epoch
    #: The epoch at which the primary last changed or restarted.
    reign: int
    #: The first reign: its primary starts from an empty fragment.
    created: int

    @property
    def copies(self) -> tuple[NodeId, ...]:
        """The primary and the backups, in sync or joining."""
        return (self.primary, *self.backups)


class Claim(NamedTuple):
    """The process that holds a client-named exclusive queue."""

    node: NodeId
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class User:
    """Someone who may log in; `password` is a record of `fedq.wiring.cluster_map.passwords`."""

    password: str
    #: What RabbitMQ's tools call it: "administrator", "monitoring", …; fedq asks for none.
    tags: tuple[str, ...]


class Grant(NamedTuple):
    """What a user may do in a virtual host: regular expressions of names."""

    configure: str
    write: str
    read: str


#: Names and numbers, in order of names (`fedq.wiring.cluster_map.operations_access`).
Limits: TypeAlias = tuple[tuple[str, int], ...]


class GrantKey(NamedTuple):
    """The key of a grant: its user, and its virtual host."""

    user: str
    vhost: str
