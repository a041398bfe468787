"""What the cluster map knows: the tables, and what an applied command changed of them.

Other floors read these records; only the `apply` functions of this package write them. Records
are replaced, not changed, so a reader may keep one, and a snapshot is written in another thread.

Their invariants are asserted by `fedq.wiring.cluster_map.invariants`.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from fedq.core import limits
from fedq.core.errors import RESOURCE_ERROR, Refused
from fedq.core.ids import FragmentId, Incarnation, MapVersion, NodeId, QueueKey
from fedq.core.versions import HOSTS, TRACING
from fedq.wiring.cluster_map.operations_copies import ShapeChanged
from fedq.wiring.cluster_map.operations_moves import DrainChanged, MoveChanged
from fedq.wiring.cluster_map.operations_parameters import ParameterChanged, ParameterKey
from fedq.wiring.cluster_map.operations_policies import Policy, PolicyChanged, RefusingNoted
from fedq.wiring.cluster_map.operations_topics import (
    TopicGrant,
    TopicKey,
    TopicPermissionsChanged,
)
from fedq.wiring.cluster_map.operations_tracing import Trace, TracingChanged
from fedq.wiring.cluster_map.placement import Site, host_of
from fedq.wiring.cluster_map.records import Binding as Binding
from fedq.wiring.cluster_map.records import Claim as Claim
from fedq.wiring.cluster_map.records import Exchange as Exchange
from fedq.wiring.cluster_map.records import FragmentInfo as FragmentInfo
from fedq.wiring.cluster_map.records import Grant as Grant
from fedq.wiring.cluster_map.records import GrantKey as GrantKey
from fedq.wiring.cluster_map.records import Limits as Limits
from fedq.wiring.cluster_map.records import Member as Member
from fedq.wiring.cluster_map.records import Place as Place
from fedq.wiring.cluster_map.records import Queue as Queue
from fedq.wiring.cluster_map.records import User as User

DEFAULT_VHOST: Final = "/"
#: Name -> type of the exchanges that every virtual host has (specification 3.1.3).
PREDECLARED: Final = {
    "": "direct",
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}
#: The internal topic exchange that every one has as well, since `versions.TRACING`.
TRACE_EXCHANGE: Final = "amq.rabbitmq.trace"


# --- what an applied command changed ----------------------------------------------------------


class MemberChanged(NamedTuple):
    """A member came, went, came back as another process, or moved."""

    node: NodeId


class MemberSpeaks(NamedTuple):
    """A member that is up said which versions it speaks; nothing else of it changed."""

    node: NodeId


class RosterChanged(NamedTuple):
    """A node was let in, moved, forgotten, or its vote changed: which table, and which node."""

    table: str
    node: NodeId


class EraChanged(NamedTuple):
    """A new era began; what the old one took with it is reported by changes of its own."""

    number: int


class QueueAdded(NamedTuple):
    """A queue was declared; its fragments follow."""

    key: QueueKey


class QueueRemoved(NamedTuple):
    """A queue went, with the fragments it had."""

    key: QueueKey
    fragments: tuple[FragmentId, ...]


class FragmentAdded(NamedTuple):
    """A fragment was created."""

    id: FragmentId


class FragmentChanged(NamedTuple):
    """A fragment's copies changed."""

    id: FragmentId
    before: FragmentInfo
    after: FragmentInfo


class FragmentRemoved(NamedTuple):
    """A fragment was retired, or its queue deleted."""

    id: FragmentId
    before: FragmentInfo


class ExchangeAdded(NamedTuple):
    """An exchange was declared."""

    key: QueueKey


class ExchangeRemoved(NamedTuple):
    """An exchange was deleted."""

    key: QueueKey


class BindingAdded(NamedTuple):
    """A binding was made."""

    binding: Binding


class BindingRemoved(NamedTuple):
    """A binding was undone, or went with one of its ends."""

    binding: Binding


class ClaimTaken(NamedTuple):
    """A node holds this queue name from now on."""

    key: QueueKey
    claim: Claim


class ClaimReleased(NamedTuple):
    """A name is held by nobody any more; `claim` held it."""

    key: QueueKey
    claim: Claim


class VhostAdded(NamedTuple):
    """A virtual host was made; its predeclared exchanges follow."""

    vhost: str


class VhostRemoved(NamedTuple):
    """A virtual host went; what was in it went before, by changes of its own."""

    vhost: str


class UserChanged(NamedTuple):
    """A user came, changed, or went."""

    user: str


class PermissionsChanged(NamedTuple):
    """What a user may do in a virtual host changed."""

    key: GrantKey


class LimitsChanged(NamedTuple):
    """The limits of a virtual host, or of a user, changed: which table, and whose."""

    table: str
    name: str


AccessChange = (
    VhostAdded | VhostRemoved | UserChanged | PermissionsChanged | TopicPermissionsChanged
    | LimitsChanged
)  # fmt: skip
Change = (
    MemberChanged | MemberSpeaks | RosterChanged | EraChanged | QueueAdded | QueueRemoved
    | FragmentAdded | FragmentChanged | FragmentRemoved | ExchangeAdded | ExchangeRemoved
    | BindingAdded | BindingRemoved | ClaimTaken | ClaimReleased | AccessChange | TracingChanged
    | DrainChanged | MoveChanged | PolicyChanged | RefusingNoted | ShapeChanged
    | ParameterChanged
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ok:
    """An operation was carried out; `value` is the new fragment's id, or 1 for something new."""

    value: int = 0


#: The attributes that make up a map.
TABLES: Final = (
    "bindings", "bindings_of_destination", "bindings_of_source", "changes", "claims",
    "cluster_name", "cluster_version", "digest", "drained", "era", "era_number", "exchanges",
    "firehose", "forgotten", "fragments", "grants", "members", "moves", "next_fragment",
    "objects_max", "operator_policies", "parameters", "policies", "queues", "refusing", "roster",
    "seeded", "shapes", "speaks", "topic_permissions", "traces", "user_limits", "users",
    "version", "vhost_limits", "vhosts", "voters",
)  # fmt: skip


class MapState:
    """The tables of the cluster map. Read freely; only `ClusterMap.apply` and `restore` write."""

    __slots__ = (*TABLES, "bytes_adding", "bytes_held", "bytes_max", "copies_of", "queues_of_vhost")

    def __init__(self, objects_max: int = limits.MAP_OBJECTS_MAX) -> None:
        """`objects_max` must be the same on every node."""
        #: What all objects weigh (`fedq.wiring.cluster_map.weighing`), what the operation at hand
        #: may add to it, and the bound that its command names, 0 for none.
        self.bytes_held = self.bytes_adding = self.bytes_max = 0
        self.objects_max = objects_max
        self.version = MapVersion(0)
        self.members: dict[NodeId, Member] = {}
        #: The processes whose memory knows the non-durable objects.
        self.era: dict[NodeId, Incarnation] = {}
        self.era_number = 0
        self.vhosts: dict[str, None] = {}
        self.exchanges: dict[QueueKey, Exchange] = {}
        self.queues: dict[QueueKey, Queue] = {}
        #: In how many fragments operators have queues; 0: in as many as traffic asks for.
        self.shapes: dict[QueueKey, int] = {}
        self.bindings: dict[Binding, None] = {}
        self.bindings_of_source: dict[QueueKey, dict[Binding, None]] = {}
        #: Keyed by (kind of destination, its key; a node's virtual host is the exchange's).
        self.bindings_of_destination: dict[tuple[str, QueueKey], dict[Binding, None]] = {}
        self.fragments: dict[FragmentId, FragmentInfo] = {}
        #: What its members speak (`fedq.wiring.cluster_map.releases`), and the cluster; 0: nobody
        #: said so yet.
        self.speaks: dict[NodeId, tuple[int, int]] = {}
        self.cluster_version = 0
        #: A random name, which tells it from other clusters; "": it has none yet.
        self.cluster_name = ""
        #: Nodes that are to hold nothing, and whether their clients are to leave; fragments that
        #: are wished elsewhere (`fedq.wiring.cluster_map.moves`).
        self.drained: dict[NodeId, bool] = {}
        self.moves: dict[FragmentId, NodeId] = {}
        #: Who is of it, who votes by the log (none: as configured), and whose newest process was
        #: forgotten (`fedq.wiring.cluster_map.roster`).
        self.roster: dict[NodeId, Place] = {}
        self.voters: tuple[NodeId, ...] = ()
        self.forgotten: dict[NodeId, int] = {}
        self.next_fragment = 1
        self.claims: dict[QueueKey, Claim] = {}
        self._begin_access()
        #: Traces by name, and virtual hosts whose firehose is on.
        self.traces: dict[str, Trace] = {}
        self.firehose: dict[str, None] = {}
        #: By virtual host and name; and where a policy has ever made queues refuse publishes.
        self.policies: dict[QueueKey, Policy] = {}
        self.operator_policies: dict[QueueKey, Policy] = {}
        self.refusing: dict[str, None] = {}
        #: Values of runtime parameters, as JSON.
        self.parameters: dict[ParameterKey, str] = {}
        #: How many queues, and names of exclusive ones, each virtual host has.
        self.queues_of_vhost: dict[str, int] = {}
        #: How many copies of fragments each node has, as of the last operation.
        self.copies_of: dict[NodeId, int] = {}
        #: What went into this map so far: see `fedq.wiring.cluster_map.digest`.
        self.digest = 0
        #: What the command that is being applied changed so far.
        self.changes: list[Change] = []

    def _begin_access(self) -> None:
        #: Whether the cluster has had its first users; never again false.
        self.seeded = False
        self.users: dict[str, User] = {}
        self.grants: dict[GrantKey, Grant] = {}
        #: Whoever is not in it may use all topics of the exchange.
        self.topic_permissions: dict[TopicKey, TopicGrant] = {}
        #: By virtual host, or user: what is limited, and how.
        self.vhost_limits: dict[str, Limits] = {}
        self.user_limits: dict[str, Limits] = {}

    def add_vhost(self, vhost: str) -> None:
        """A virtual host with its predeclared exchanges."""
        self.vhosts[vhost] = None
        for name, kind in PREDECLARED.items():
            self.exchanges[QueueKey(vhost, name)] = Exchange(kind, True, False, False, "")
        if self.cluster_version >= TRACING:
            self.add_trace_exchange(vhost)

    def add_trace_exchange(self, vhost: str) -> str:
        """The exchange of a virtual host's firehose; returns its name."""
        self.exchanges[QueueKey(vhost, TRACE_EXCHANGE)] = Exchange("topic", True, False, True, "")
        return TRACE_EXCHANGE

    # --- questions ---

    def is_up(self, node: NodeId, incarnation: Incarnation) -> bool:
        """Whether this very process counts as running."""
        member = self.members.get(node)
        return member is not None and member.up and member.incarnation == incarnation

    def newest_process(self, node: NodeId) -> tuple[int, str]:
        """The newest process of a node that is known: its number and start; 0 and "": none."""
        member = self.members.get(node)
        return (0, "") if member is None else (member.incarnation, member.start)

    def era_is_alive(self) -> bool:
        """Whether a process of the era is up: non-durable objects then mean something."""
        return any(self.is_up(node, incarnation) for node, incarnation in self.era.items())

    def hot_copies(self, info: FragmentInfo) -> dict[NodeId, Incarnation]:
        """The in-sync copies whose processes are up: they still have it in memory."""
        return {
            node: incarnation
            for node, incarnation in info.in_sync.items()
            if self.is_up(node, incarnation)
        }

    def sites(self) -> dict[NodeId, Site]:
        """Where the members are; versions before `HOSTS` know of zones alone."""
        if self.cluster_version < HOSTS:
            return {node: Site(member.zone) for node, member in self.members.items()}
        return {
            node: Site(member.zone, host_of(member.peer_address))
            for node, member in self.members.items()
        }

    def members_up(self) -> list[NodeId]:
        """The members that are up."""
        return [node for node, member in self.members.items() if member.up]

    def open_sites(self) -> dict[NodeId, Site]:
        """The members that may get something new: up, not drained; if all are, whoever is up."""
        sites, up = self.sites(), self.members_up()
        return {node: sites[node] for node in up if node not in self.drained} or {
            node: sites[node] for node in up
        }

    def object_count(self) -> int:
        """What counts against `objects_max`."""
        return (
            len(self.members) + len(self.exchanges) + len(self.queues) + len(self.bindings)
            + len(self.fragments) + len(self.claims) + len(self.vhosts) + len(self.users)
            + len(self.grants)
        )  # fmt: skip

    def is_fixed(self, key: QueueKey) -> bool:
        """Whether an operator, or else the queue's declaration, fixes its number of fragments."""
        shape = self.shapes.get(key)
        return self.queues[key].is_fixed if shape is None else shape > 0

    def refuse_if_full(self, more: int = 1, by_operator: bool = False) -> Refused | None:
        """The refusal of `more` further objects; None if there is room for them.

        `by_operator`: not a client asks, so the reserve may be used. (Commands of versions that
        knew of none name no `bytes_max`.)
        """
        reserve = 0
        if self.bytes_max and not by_operator:
            reserve = self.objects_max * limits.MAP_RESERVE_PERCENT // 100
        if self.object_count() + more <= self.objects_max - reserve:
            return self.refuse_if_heavy()
        return Refused(
            RESOURCE_ERROR,
            f"the cluster map is full ({self.objects_max} objects): delete exchanges, queues or "
            "bindings that are no longer used",
        )

    def refuse_if_heavy(self) -> Refused | None:
        """The refusal of what the operation at hand would add; None if there is room for it."""
        if not self.bytes_max or self.bytes_held + self.bytes_adding <= self.bytes_max:
            return None
        return Refused(
            RESOURCE_ERROR,
            f"the cluster map is full ({self.bytes_held} of {self.bytes_max} bytes): delete "
            "exchanges, queues or bindings that are no longer used, or use shorter names and "
            "arguments",
        )

    def limit_of_vhost(self, vhost: str, name: str) -> int | None:
        """A limit of a virtual host; None: it has none of that name."""
        return dict(self.vhost_limits.get(vhost, ())).get(name)

    def limit_of_user(self, user: str, name: str) -> int | None:
        """A limit of a user; None: it has none of that name."""
        return dict(self.user_limits.get(user, ())).get(name)

    # --- bindings, kept in three tables at once ---

    def add_binding(self, binding: Binding) -> None:
        """Adds a binding that is not there yet."""
        source, destination = ends_of(binding)
        self.bindings[binding] = None
        self.bindings_of_source.setdefault(source, {})[binding] = None
        self.bindings_of_destination.setdefault(destination, {})[binding] = None

    def drop_binding(self, binding: Binding) -> None:
        """Removes a binding that is there."""
        source, destination = ends_of(binding)
        del self.bindings[binding]
        at_source = self.bindings_of_source[source]
        del at_source[binding]
        if not at_source:
            del self.bindings_of_source[source]
        at_destination = self.bindings_of_destination[destination]
        del at_destination[binding]
        if not at_destination:
            del self.bindings_of_destination[destination]


def ends_of(binding: Binding) -> tuple[QueueKey, tuple[str, QueueKey]]:
    """The source of a binding, and the kind and key of its destination."""
    vhost, source, kind, destination, _, _ = binding
    return QueueKey(vhost, source), (kind, QueueKey(vhost, destination))
