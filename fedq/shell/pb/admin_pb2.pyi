from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MemberState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMBER_STATE_UNSPECIFIED: _ClassVar[MemberState]
    MEMBER_STATE_UP: _ClassVar[MemberState]
    MEMBER_STATE_DOWN: _ClassVar[MemberState]
    MEMBER_STATE_ABSENT: _ClassVar[MemberState]

class RaftRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RAFT_ROLE_UNSPECIFIED: _ClassVar[RaftRole]
    RAFT_ROLE_LEADER: _ClassVar[RaftRole]
    RAFT_ROLE_FOLLOWER: _ClassVar[RaftRole]
    RAFT_ROLE_LOOKING: _ClassVar[RaftRole]

class MemberRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMBER_ROLE_UNSPECIFIED: _ClassVar[MemberRole]
    MEMBER_ROLE_VOTER: _ClassVar[MemberRole]
    MEMBER_ROLE_OBSERVER: _ClassVar[MemberRole]
    MEMBER_ROLE_JOINING: _ClassVar[MemberRole]

class FragmentState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FRAGMENT_STATE_UNSPECIFIED: _ClassVar[FragmentState]
    FRAGMENT_STATE_SERVING: _ClassVar[FragmentState]
    FRAGMENT_STATE_CATCHING_UP: _ClassVar[FragmentState]
    FRAGMENT_STATE_UNAVAILABLE: _ClassVar[FragmentState]
    FRAGMENT_STATE_UNKNOWN: _ClassVar[FragmentState]

class FragmentCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FRAGMENT_CAUSE_UNSPECIFIED: _ClassVar[FragmentCause]
    FRAGMENT_CAUSE_DECLARED: _ClassVar[FragmentCause]
    FRAGMENT_CAUSE_FIXED: _ClassVar[FragmentCause]
    FRAGMENT_CAUSE_TRAFFIC: _ClassVar[FragmentCause]

class CopyRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COPY_ROLE_UNSPECIFIED: _ClassVar[CopyRole]
    COPY_ROLE_PRIMARY: _ClassVar[CopyRole]
    COPY_ROLE_BACKUP: _ClassVar[CopyRole]
    COPY_ROLE_KEPT: _ClassVar[CopyRole]

class QuarantineAct(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUARANTINE_ACT_UNSPECIFIED: _ClassVar[QuarantineAct]
    QUARANTINE_ACT_LIST: _ClassVar[QuarantineAct]
    QUARANTINE_ACT_REQUEUE: _ClassVar[QuarantineAct]
    QUARANTINE_ACT_DISCARD: _ClassVar[QuarantineAct]
MEMBER_STATE_UNSPECIFIED: MemberState
MEMBER_STATE_UP: MemberState
MEMBER_STATE_DOWN: MemberState
MEMBER_STATE_ABSENT: MemberState
RAFT_ROLE_UNSPECIFIED: RaftRole
RAFT_ROLE_LEADER: RaftRole
RAFT_ROLE_FOLLOWER: RaftRole
RAFT_ROLE_LOOKING: RaftRole
MEMBER_ROLE_UNSPECIFIED: MemberRole
MEMBER_ROLE_VOTER: MemberRole
MEMBER_ROLE_OBSERVER: MemberRole
MEMBER_ROLE_JOINING: MemberRole
FRAGMENT_STATE_UNSPECIFIED: FragmentState
FRAGMENT_STATE_SERVING: FragmentState
FRAGMENT_STATE_CATCHING_UP: FragmentState
FRAGMENT_STATE_UNAVAILABLE: FragmentState
FRAGMENT_STATE_UNKNOWN: FragmentState
FRAGMENT_CAUSE_UNSPECIFIED: FragmentCause
FRAGMENT_CAUSE_DECLARED: FragmentCause
FRAGMENT_CAUSE_FIXED: FragmentCause
FRAGMENT_CAUSE_TRAFFIC: FragmentCause
COPY_ROLE_UNSPECIFIED: CopyRole
COPY_ROLE_PRIMARY: CopyRole
COPY_ROLE_BACKUP: CopyRole
COPY_ROLE_KEPT: CopyRole
QUARANTINE_ACT_UNSPECIFIED: QuarantineAct
QUARANTINE_ACT_LIST: QuarantineAct
QUARANTINE_ACT_REQUEUE: QuarantineAct
QUARANTINE_ACT_DISCARD: QuarantineAct

class NodeFigures(_message.Message):
    __slots__ = ("node", "incarnation", "zone", "version", "raft_role", "leader", "map_version", "lease_held", "stopping", "uptime_ms", "connections", "channels", "consumers", "private_queues", "memory_bytes", "journal_bytes", "journal_segments", "troubles", "failed_logins", "scrub", "journal_dead_bytes", "alarms", "turns", "traffic", "notes", "admin_address", "closed")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RAFT_ROLE_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    MAP_VERSION_FIELD_NUMBER: _ClassVar[int]
    LEASE_HELD_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    UPTIME_MS_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_QUEUES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    TROUBLES_FIELD_NUMBER: _ClassVar[int]
    FAILED_LOGINS_FIELD_NUMBER: _ClassVar[int]
    SCRUB_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_DEAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    ALARMS_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    ADMIN_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    node: str
    incarnation: int
    zone: str
    version: str
    raft_role: RaftRole
    leader: str
    map_version: int
    lease_held: bool
    stopping: bool
    uptime_ms: int
    connections: int
    channels: int
    consumers: int
    private_queues: int
    memory_bytes: int
    journal_bytes: int
    journal_segments: int
    troubles: _containers.RepeatedScalarFieldContainer[str]
    failed_logins: int
    scrub: Scrub
    journal_dead_bytes: int
    alarms: Alarms
    turns: Turns
    traffic: ClientTraffic
    notes: _containers.RepeatedScalarFieldContainer[str]
    admin_address: str
    closed: str
    def __init__(self, node: _Optional[str] = ..., incarnation: _Optional[int] = ..., zone: _Optional[str] = ..., version: _Optional[str] = ..., raft_role: _Optional[_Union[RaftRole, str]] = ..., leader: _Optional[str] = ..., map_version: _Optional[int] = ..., lease_held: _Optional[bool] = ..., stopping: _Optional[bool] = ..., uptime_ms: _Optional[int] = ..., connections: _Optional[int] = ..., channels: _Optional[int] = ..., consumers: _Optional[int] = ..., private_queues: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., journal_bytes: _Optional[int] = ..., journal_segments: _Optional[int] = ..., troubles: _Optional[_Iterable[str]] = ..., failed_logins: _Optional[int] = ..., scrub: _Optional[_Union[Scrub, _Mapping]] = ..., journal_dead_bytes: _Optional[int] = ..., alarms: _Optional[_Union[Alarms, _Mapping]] = ..., turns: _Optional[_Union[Turns, _Mapping]] = ..., traffic: _Optional[_Union[ClientTraffic, _Mapping]] = ..., notes: _Optional[_Iterable[str]] = ..., admin_address: _Optional[str] = ..., closed: _Optional[str] = ...) -> None: ...

class ClientTraffic(_message.Message):
    __slots__ = ("received", "confirmed", "returned", "unroutable", "delivered", "delivered_without_ack", "got", "got_nothing", "redelivered", "acknowledged")
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    UNROUTABLE_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_WITHOUT_ACK_FIELD_NUMBER: _ClassVar[int]
    GOT_FIELD_NUMBER: _ClassVar[int]
    GOT_NOTHING_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    received: int
    confirmed: int
    returned: int
    unroutable: int
    delivered: int
    delivered_without_ack: int
    got: int
    got_nothing: int
    redelivered: int
    acknowledged: int
    def __init__(self, received: _Optional[int] = ..., confirmed: _Optional[int] = ..., returned: _Optional[int] = ..., unroutable: _Optional[int] = ..., delivered: _Optional[int] = ..., delivered_without_ack: _Optional[int] = ..., got: _Optional[int] = ..., got_nothing: _Optional[int] = ..., redelivered: _Optional[int] = ..., acknowledged: _Optional[int] = ...) -> None: ...

class FragmentTraffic(_message.Message):
    __slots__ = ("published", "handed_out", "handed_out_again", "acknowledged")
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    HANDED_OUT_FIELD_NUMBER: _ClassVar[int]
    HANDED_OUT_AGAIN_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    published: int
    handed_out: int
    handed_out_again: int
    acknowledged: int
    def __init__(self, published: _Optional[int] = ..., handed_out: _Optional[int] = ..., handed_out_again: _Optional[int] = ..., acknowledged: _Optional[int] = ...) -> None: ...

class Turns(_message.Message):
    __slots__ = ("bounds_us", "counts", "total_us", "longest_us")
    BOUNDS_US_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_US_FIELD_NUMBER: _ClassVar[int]
    LONGEST_US_FIELD_NUMBER: _ClassVar[int]
    bounds_us: _containers.RepeatedScalarFieldContainer[int]
    counts: _containers.RepeatedScalarFieldContainer[int]
    total_us: int
    longest_us: int
    def __init__(self, bounds_us: _Optional[_Iterable[int]] = ..., counts: _Optional[_Iterable[int]] = ..., total_us: _Optional[int] = ..., longest_us: _Optional[int] = ...) -> None: ...

class Alarms(_message.Message):
    __slots__ = ("memory", "disk", "memory_bytes_max", "resident_bytes", "disk_free_bytes", "disk_free_bytes_min", "connections", "waits")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    DISK_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_MIN_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    memory: bool
    disk: bool
    memory_bytes_max: int
    resident_bytes: int
    disk_free_bytes: int
    disk_free_bytes_min: int
    connections: int
    waits: _containers.RepeatedCompositeFieldContainer[PublishersWait]
    def __init__(self, memory: _Optional[bool] = ..., disk: _Optional[bool] = ..., memory_bytes_max: _Optional[int] = ..., resident_bytes: _Optional[int] = ..., disk_free_bytes: _Optional[int] = ..., disk_free_bytes_min: _Optional[int] = ..., connections: _Optional[int] = ..., waits: _Optional[_Iterable[_Union[PublishersWait, _Mapping]]] = ...) -> None: ...

class PublishersWait(_message.Message):
    __slots__ = ("node", "queue", "connections")
    NODE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    node: str
    queue: QueueName
    connections: int
    def __init__(self, node: _Optional[str] = ..., queue: _Optional[_Union[QueueName, _Mapping]] = ..., connections: _Optional[int] = ...) -> None: ...

class Scrub(_message.Message):
    __slots__ = ("passes", "last_pass_unix_ms", "segment", "pass_bytes", "segments_with_rot", "messages_mended", "messages_lost")
    PASSES_FIELD_NUMBER: _ClassVar[int]
    LAST_PASS_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    PASS_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_WITH_ROT_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_MENDED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_LOST_FIELD_NUMBER: _ClassVar[int]
    passes: int
    last_pass_unix_ms: int
    segment: int
    pass_bytes: int
    segments_with_rot: int
    messages_mended: int
    messages_lost: int
    def __init__(self, passes: _Optional[int] = ..., last_pass_unix_ms: _Optional[int] = ..., segment: _Optional[int] = ..., pass_bytes: _Optional[int] = ..., segments_with_rot: _Optional[int] = ..., messages_mended: _Optional[int] = ..., messages_lost: _Optional[int] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("node", "state", "incarnation", "zone", "peer_address", "amqp_address", "figures", "drain", "leads", "copies", "role", "copies_that_stay", "speaks_oldest", "speaks_newest", "only_copies", "single_copies")
    NODE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    PEER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    AMQP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    COPIES_THAT_STAY_FIELD_NUMBER: _ClassVar[int]
    SPEAKS_OLDEST_FIELD_NUMBER: _ClassVar[int]
    SPEAKS_NEWEST_FIELD_NUMBER: _ClassVar[int]
    ONLY_COPIES_FIELD_NUMBER: _ClassVar[int]
    SINGLE_COPIES_FIELD_NUMBER: _ClassVar[int]
    node: str
    state: MemberState
    incarnation: int
    zone: str
    peer_address: str
    amqp_address: str
    figures: NodeFigures
    drain: Drain
    leads: int
    copies: int
    role: MemberRole
    copies_that_stay: int
    speaks_oldest: int
    speaks_newest: int
    only_copies: int
    single_copies: int
    def __init__(self, node: _Optional[str] = ..., state: _Optional[_Union[MemberState, str]] = ..., incarnation: _Optional[int] = ..., zone: _Optional[str] = ..., peer_address: _Optional[str] = ..., amqp_address: _Optional[str] = ..., figures: _Optional[_Union[NodeFigures, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., leads: _Optional[int] = ..., copies: _Optional[int] = ..., role: _Optional[_Union[MemberRole, str]] = ..., copies_that_stay: _Optional[int] = ..., speaks_oldest: _Optional[int] = ..., speaks_newest: _Optional[int] = ..., only_copies: _Optional[int] = ..., single_copies: _Optional[int] = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ("closes_clients",)
    CLOSES_CLIENTS_FIELD_NUMBER: _ClassVar[int]
    closes_clients: bool
    def __init__(self, closes_clients: _Optional[bool] = ...) -> None: ...

class ClusterStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClusterStatusReply(_message.Message):
    __slots__ = ("node", "leader", "era", "map_version", "members", "queues", "fragments", "fragments_unavailable", "fragments_short", "problems", "awaited", "moves", "notes", "cluster_version")
    NODE_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    ERA_FIELD_NUMBER: _ClassVar[int]
    MAP_VERSION_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTS_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTS_SHORT_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    AWAITED_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    node: str
    leader: str
    era: int
    map_version: int
    members: _containers.RepeatedCompositeFieldContainer[Member]
    queues: int
    fragments: int
    fragments_unavailable: int
    fragments_short: int
    problems: _containers.RepeatedScalarFieldContainer[str]
    awaited: _containers.RepeatedCompositeFieldContainer[Awaited]
    moves: int
    notes: _containers.RepeatedScalarFieldContainer[str]
    cluster_version: int
    def __init__(self, node: _Optional[str] = ..., leader: _Optional[str] = ..., era: _Optional[int] = ..., map_version: _Optional[int] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., queues: _Optional[int] = ..., fragments: _Optional[int] = ..., fragments_unavailable: _Optional[int] = ..., fragments_short: _Optional[int] = ..., problems: _Optional[_Iterable[str]] = ..., awaited: _Optional[_Iterable[_Union[Awaited, _Mapping]]] = ..., moves: _Optional[int] = ..., notes: _Optional[_Iterable[str]] = ..., cluster_version: _Optional[int] = ...) -> None: ...

class DrainNodeRequest(_message.Message):
    __slots__ = ("node", "close_clients")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CLOSE_CLIENTS_FIELD_NUMBER: _ClassVar[int]
    node: str
    close_clients: bool
    def __init__(self, node: _Optional[str] = ..., close_clients: _Optional[bool] = ...) -> None: ...

class DrainNodeReply(_message.Message):
    __slots__ = ("changed",)
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    def __init__(self, changed: _Optional[bool] = ...) -> None: ...

class StopNodeRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class StopNodeReply(_message.Message):
    __slots__ = ("changed",)
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    def __init__(self, changed: _Optional[bool] = ...) -> None: ...

class ForgetNodeRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class ForgetNodeReply(_message.Message):
    __slots__ = ("changed",)
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    def __init__(self, changed: _Optional[bool] = ...) -> None: ...

class UndrainNodeRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class UndrainNodeReply(_message.Message):
    __slots__ = ("changed",)
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    def __init__(self, changed: _Optional[bool] = ...) -> None: ...

class MoveFragmentRequest(_message.Message):
    __slots__ = ("queue", "fragment", "node")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    queue: QueueName
    fragment: int
    node: str
    def __init__(self, queue: _Optional[_Union[QueueName, _Mapping]] = ..., fragment: _Optional[int] = ..., node: _Optional[str] = ...) -> None: ...

class MoveFragmentReply(_message.Message):
    __slots__ = ("changed", "fragment")
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    fragment: int
    def __init__(self, changed: _Optional[bool] = ..., fragment: _Optional[int] = ...) -> None: ...

class ShapeQueueRequest(_message.Message):
    __slots__ = ("queue", "fragments")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    queue: QueueName
    fragments: int
    def __init__(self, queue: _Optional[_Union[QueueName, _Mapping]] = ..., fragments: _Optional[int] = ...) -> None: ...

class ShapeQueueReply(_message.Message):
    __slots__ = ("changed", "fragments")
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    fragments: int
    def __init__(self, changed: _Optional[bool] = ..., fragments: _Optional[int] = ...) -> None: ...

class RebalanceRequest(_message.Message):
    __slots__ = ("dry_run",)
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    dry_run: bool
    def __init__(self, dry_run: _Optional[bool] = ...) -> None: ...

class PlannedMove(_message.Message):
    __slots__ = ("queue", "fragment", "to")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    queue: QueueName
    fragment: int
    to: str
    def __init__(self, queue: _Optional[_Union[QueueName, _Mapping]] = ..., fragment: _Optional[int] = ..., to: _Optional[str] = ..., **kwargs) -> None: ...

class RebalanceReply(_message.Message):
    __slots__ = ("moves", "more")
    MOVES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    moves: _containers.RepeatedCompositeFieldContainer[PlannedMove]
    more: bool
    def __init__(self, moves: _Optional[_Iterable[_Union[PlannedMove, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class Awaited(_message.Message):
    __slots__ = ("nodes", "fragments", "queues")
    NODES_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    fragments: int
    queues: _containers.RepeatedCompositeFieldContainer[QueueName]
    def __init__(self, nodes: _Optional[_Iterable[str]] = ..., fragments: _Optional[int] = ..., queues: _Optional[_Iterable[_Union[QueueName, _Mapping]]] = ...) -> None: ...

class MembersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MembersReply(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[Member]
    def __init__(self, members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class Fragment(_message.Message):
    __slots__ = ("fragment", "primary", "backups", "in_sync", "epoch", "reign", "state", "ready", "unacknowledged", "bytes", "readers", "copies", "traffic", "moves_to", "cause")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    PRIMARY_FIELD_NUMBER: _ClassVar[int]
    BACKUPS_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    UNACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_FIELD_NUMBER: _ClassVar[int]
    MOVES_TO_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    primary: str
    backups: _containers.RepeatedScalarFieldContainer[str]
    in_sync: _containers.RepeatedScalarFieldContainer[str]
    epoch: int
    reign: int
    state: FragmentState
    ready: int
    unacknowledged: int
    bytes: int
    readers: _containers.RepeatedCompositeFieldContainer[NamedReader]
    copies: _containers.RepeatedCompositeFieldContainer[Copy]
    traffic: FragmentTraffic
    moves_to: str
    cause: FragmentCause
    def __init__(self, fragment: _Optional[int] = ..., primary: _Optional[str] = ..., backups: _Optional[_Iterable[str]] = ..., in_sync: _Optional[_Iterable[str]] = ..., epoch: _Optional[int] = ..., reign: _Optional[int] = ..., state: _Optional[_Union[FragmentState, str]] = ..., ready: _Optional[int] = ..., unacknowledged: _Optional[int] = ..., bytes: _Optional[int] = ..., readers: _Optional[_Iterable[_Union[NamedReader, _Mapping]]] = ..., copies: _Optional[_Iterable[_Union[Copy, _Mapping]]] = ..., traffic: _Optional[_Union[FragmentTraffic, _Mapping]] = ..., moves_to: _Optional[str] = ..., cause: _Optional[_Union[FragmentCause, str]] = ...) -> None: ...

class FragmentShape(_message.Message):
    __slots__ = ("idle_ms", "retiring", "stays", "waits")
    IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    RETIRING_FIELD_NUMBER: _ClassVar[int]
    STAYS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    idle_ms: int
    retiring: bool
    stays: _containers.RepeatedScalarFieldContainer[str]
    waits: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, idle_ms: _Optional[int] = ..., retiring: _Optional[bool] = ..., stays: _Optional[_Iterable[str]] = ..., waits: _Optional[_Iterable[str]] = ...) -> None: ...

class Copy(_message.Message):
    __slots__ = ("node", "fragment", "role", "messages", "messages_on_disk_alone", "memory_bytes", "on_disk_alone_bytes", "journal_bytes", "journal_segments", "journal_dead_bytes", "scratch_bytes", "reading_bytes", "at_hand_bytes", "age_ms", "age_ms_max", "stream", "whole", "last", "last_reign", "shape")
    NODE_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_ON_DISK_ALONE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    ON_DISK_ALONE_BYTES_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_DEAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    READING_BYTES_FIELD_NUMBER: _ClassVar[int]
    AT_HAND_BYTES_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_MAX_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    LAST_REIGN_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    node: str
    fragment: int
    role: CopyRole
    messages: int
    messages_on_disk_alone: int
    memory_bytes: int
    on_disk_alone_bytes: int
    journal_bytes: int
    journal_segments: int
    journal_dead_bytes: int
    scratch_bytes: int
    reading_bytes: int
    at_hand_bytes: int
    age_ms: int
    age_ms_max: int
    stream: StreamFigures
    whole: bool
    last: int
    last_reign: int
    shape: FragmentShape
    def __init__(self, node: _Optional[str] = ..., fragment: _Optional[int] = ..., role: _Optional[_Union[CopyRole, str]] = ..., messages: _Optional[int] = ..., messages_on_disk_alone: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., on_disk_alone_bytes: _Optional[int] = ..., journal_bytes: _Optional[int] = ..., journal_segments: _Optional[int] = ..., journal_dead_bytes: _Optional[int] = ..., scratch_bytes: _Optional[int] = ..., reading_bytes: _Optional[int] = ..., at_hand_bytes: _Optional[int] = ..., age_ms: _Optional[int] = ..., age_ms_max: _Optional[int] = ..., stream: _Optional[_Union[StreamFigures, _Mapping]] = ..., whole: _Optional[bool] = ..., last: _Optional[int] = ..., last_reign: _Optional[int] = ..., shape: _Optional[_Union[FragmentShape, _Mapping]] = ...) -> None: ...

class CopyChoice(_message.Message):
    __slots__ = ("fragment", "epoch", "node", "empty")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    EMPTY_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    epoch: int
    node: str
    empty: bool
    def __init__(self, fragment: _Optional[int] = ..., epoch: _Optional[int] = ..., node: _Optional[str] = ..., empty: _Optional[bool] = ...) -> None: ...

class AdoptCopyRequest(_message.Message):
    __slots__ = ("vhost", "name", "choices")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    choices: _containers.RepeatedCompositeFieldContainer[CopyChoice]
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., choices: _Optional[_Iterable[_Union[CopyChoice, _Mapping]]] = ...) -> None: ...

class AdoptCopyReply(_message.Message):
    __slots__ = ("adopted",)
    ADOPTED_FIELD_NUMBER: _ClassVar[int]
    adopted: int
    def __init__(self, adopted: _Optional[int] = ...) -> None: ...

class StreamFigures(_message.Message):
    __slots__ = ("first_offset", "last_offset", "segments", "bytes", "readers")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    last_offset: int
    segments: int
    bytes: int
    readers: int
    def __init__(self, first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., segments: _Optional[int] = ..., bytes: _Optional[int] = ..., readers: _Optional[int] = ...) -> None: ...

class NamedReader(_message.Message):
    __slots__ = ("name", "offset", "lag", "node")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    name: str
    offset: int
    lag: int
    node: str
    def __init__(self, name: _Optional[str] = ..., offset: _Optional[int] = ..., lag: _Optional[int] = ..., node: _Optional[str] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("vhost", "name", "durable", "auto_delete", "arguments_json", "replicas", "fragments", "ready", "unacknowledged", "consumers", "silent_members", "policy", "operator_policy", "effective_policy_json")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    AUTO_DELETE_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    UNACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    SILENT_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_POLICY_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_POLICY_JSON_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    durable: bool
    auto_delete: bool
    arguments_json: str
    replicas: int
    fragments: _containers.RepeatedCompositeFieldContainer[Fragment]
    ready: int
    unacknowledged: int
    consumers: int
    silent_members: _containers.RepeatedScalarFieldContainer[str]
    policy: str
    operator_policy: str
    effective_policy_json: str
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., durable: _Optional[bool] = ..., auto_delete: _Optional[bool] = ..., arguments_json: _Optional[str] = ..., replicas: _Optional[int] = ..., fragments: _Optional[_Iterable[_Union[Fragment, _Mapping]]] = ..., ready: _Optional[int] = ..., unacknowledged: _Optional[int] = ..., consumers: _Optional[int] = ..., silent_members: _Optional[_Iterable[str]] = ..., policy: _Optional[str] = ..., operator_policy: _Optional[str] = ..., effective_policy_json: _Optional[str] = ...) -> None: ...

class ListQueuesRequest(_message.Message):
    __slots__ = ("vhost", "name_pattern", "page_size", "page_token")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_PATTERN_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name_pattern: str
    page_size: int
    page_token: str
    def __init__(self, vhost: _Optional[str] = ..., name_pattern: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListQueuesReply(_message.Message):
    __slots__ = ("queues", "next_page_token")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    next_page_token: str
    def __init__(self, queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ShowQueueRequest(_message.Message):
    __slots__ = ("vhost", "name")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ShowQueueReply(_message.Message):
    __slots__ = ("queue",)
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: Queue
    def __init__(self, queue: _Optional[_Union[Queue, _Mapping]] = ...) -> None: ...

class Connection(_message.Message):
    __slots__ = ("node", "connection", "client_address", "user", "vhost", "client_name", "channels", "consumers", "unacknowledged", "blocked", "name")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    UNACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    node: str
    connection: int
    client_address: str
    user: str
    vhost: str
    client_name: str
    channels: int
    consumers: int
    unacknowledged: int
    blocked: bool
    name: str
    def __init__(self, node: _Optional[str] = ..., connection: _Optional[int] = ..., client_address: _Optional[str] = ..., user: _Optional[str] = ..., vhost: _Optional[str] = ..., client_name: _Optional[str] = ..., channels: _Optional[int] = ..., consumers: _Optional[int] = ..., unacknowledged: _Optional[int] = ..., blocked: _Optional[bool] = ..., name: _Optional[str] = ...) -> None: ...

class ListConnectionsRequest(_message.Message):
    __slots__ = ("node", "limit")
    NODE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    node: str
    limit: int
    def __init__(self, node: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListConnectionsReply(_message.Message):
    __slots__ = ("connections", "total", "silent_members")
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    SILENT_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    connections: _containers.RepeatedCompositeFieldContainer[Connection]
    total: int
    silent_members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, connections: _Optional[_Iterable[_Union[Connection, _Mapping]]] = ..., total: _Optional[int] = ..., silent_members: _Optional[_Iterable[str]] = ...) -> None: ...

class Channel(_message.Message):
    __slots__ = ("node", "connection", "number", "user", "vhost", "consumers", "unacknowledged", "uncommitted", "acks_uncommitted", "unconfirmed", "prefetch_count", "global_prefetch_count", "confirm", "transactional", "flow")
    NODE_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    UNACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    UNCOMMITTED_FIELD_NUMBER: _ClassVar[int]
    ACKS_UNCOMMITTED_FIELD_NUMBER: _ClassVar[int]
    UNCONFIRMED_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_COUNT_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_PREFETCH_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    node: str
    connection: str
    number: int
    user: str
    vhost: str
    consumers: int
    unacknowledged: int
    uncommitted: int
    acks_uncommitted: int
    unconfirmed: int
    prefetch_count: int
    global_prefetch_count: int
    confirm: bool
    transactional: bool
    flow: bool
    def __init__(self, node: _Optional[str] = ..., connection: _Optional[str] = ..., number: _Optional[int] = ..., user: _Optional[str] = ..., vhost: _Optional[str] = ..., consumers: _Optional[int] = ..., unacknowledged: _Optional[int] = ..., uncommitted: _Optional[int] = ..., acks_uncommitted: _Optional[int] = ..., unconfirmed: _Optional[int] = ..., prefetch_count: _Optional[int] = ..., global_prefetch_count: _Optional[int] = ..., confirm: _Optional[bool] = ..., transactional: _Optional[bool] = ..., flow: _Optional[bool] = ...) -> None: ...

class Consumer(_message.Message):
    __slots__ = ("node", "queue", "connection", "channel", "tag", "ack_required", "prefetch_count", "active", "priority")
    NODE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    ACK_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_COUNT_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    node: str
    queue: QueueName
    connection: str
    channel: int
    tag: str
    ack_required: bool
    prefetch_count: int
    active: bool
    priority: int
    def __init__(self, node: _Optional[str] = ..., queue: _Optional[_Union[QueueName, _Mapping]] = ..., connection: _Optional[str] = ..., channel: _Optional[int] = ..., tag: _Optional[str] = ..., ack_required: _Optional[bool] = ..., prefetch_count: _Optional[int] = ..., active: _Optional[bool] = ..., priority: _Optional[int] = ...) -> None: ...

class BrowseRequest(_message.Message):
    __slots__ = ("vhost", "page_size", "page_token", "local", "slow")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    SLOW_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    page_size: int
    page_token: str
    local: bool
    slow: bool
    def __init__(self, vhost: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., local: _Optional[bool] = ..., slow: _Optional[bool] = ...) -> None: ...

class Subscriber(_message.Message):
    __slots__ = ("node", "queue", "connection", "user", "messages_ready", "bytes_held", "messages_dropped", "consumers", "stuck")
    NODE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_READY_FIELD_NUMBER: _ClassVar[int]
    BYTES_HELD_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_DROPPED_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    STUCK_FIELD_NUMBER: _ClassVar[int]
    node: str
    queue: QueueName
    connection: str
    user: str
    messages_ready: int
    bytes_held: int
    messages_dropped: int
    consumers: int
    stuck: bool
    def __init__(self, node: _Optional[str] = ..., queue: _Optional[_Union[QueueName, _Mapping]] = ..., connection: _Optional[str] = ..., user: _Optional[str] = ..., messages_ready: _Optional[int] = ..., bytes_held: _Optional[int] = ..., messages_dropped: _Optional[int] = ..., consumers: _Optional[int] = ..., stuck: _Optional[bool] = ...) -> None: ...

class BrowseSubscribersReply(_message.Message):
    __slots__ = ("subscribers", "next_page_token", "silent_members")
    SUBSCRIBERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SILENT_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    subscribers: _containers.RepeatedCompositeFieldContainer[Subscriber]
    next_page_token: str
    silent_members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, subscribers: _Optional[_Iterable[_Union[Subscriber, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., silent_members: _Optional[_Iterable[str]] = ...) -> None: ...

class BrowseConnectionsReply(_message.Message):
    __slots__ = ("connections", "next_page_token", "silent_members")
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SILENT_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    connections: _containers.RepeatedCompositeFieldContainer[Connection]
    next_page_token: str
    silent_members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, connections: _Optional[_Iterable[_Union[Connection, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., silent_members: _Optional[_Iterable[str]] = ...) -> None: ...

class BrowseChannelsReply(_message.Message):
    __slots__ = ("channels", "next_page_token", "silent_members")
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SILENT_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    channels: _containers.RepeatedCompositeFieldContainer[Channel]
    next_page_token: str
    silent_members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, channels: _Optional[_Iterable[_Union[Channel, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., silent_members: _Optional[_Iterable[str]] = ...) -> None: ...

class BrowseConsumersReply(_message.Message):
    __slots__ = ("consumers", "next_page_token", "silent_members")
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SILENT_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    consumers: _containers.RepeatedCompositeFieldContainer[Consumer]
    next_page_token: str
    silent_members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, consumers: _Optional[_Iterable[_Union[Consumer, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., silent_members: _Optional[_Iterable[str]] = ...) -> None: ...

class CloseConnectionsRequest(_message.Message):
    __slots__ = ("name", "user", "vhost", "reason", "local")
    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    user: str
    vhost: str
    reason: str
    local: bool
    def __init__(self, name: _Optional[str] = ..., user: _Optional[str] = ..., vhost: _Optional[str] = ..., reason: _Optional[str] = ..., local: _Optional[bool] = ...) -> None: ...

class CloseConnectionsReply(_message.Message):
    __slots__ = ("closed", "silent_members")
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    SILENT_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    closed: int
    silent_members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, closed: _Optional[int] = ..., silent_members: _Optional[_Iterable[str]] = ...) -> None: ...

class LocalNodeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LocalNodeReply(_message.Message):
    __slots__ = ("figures",)
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    figures: NodeFigures
    def __init__(self, figures: _Optional[_Union[NodeFigures, _Mapping]] = ...) -> None: ...

class QueueName(_message.Message):
    __slots__ = ("vhost", "name")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class QuarantineRequest(_message.Message):
    __slots__ = ("queue", "act", "positions")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ACT_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    queue: QueueName
    act: QuarantineAct
    positions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, queue: _Optional[_Union[QueueName, _Mapping]] = ..., act: _Optional[_Union[QuarantineAct, str]] = ..., positions: _Optional[_Iterable[int]] = ...) -> None: ...

class QuarantinedMessage(_message.Message):
    __slots__ = ("fragment", "position", "bytes", "node")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    position: int
    bytes: int
    node: str
    def __init__(self, fragment: _Optional[int] = ..., position: _Optional[int] = ..., bytes: _Optional[int] = ..., node: _Optional[str] = ...) -> None: ...

class QuarantineReply(_message.Message):
    __slots__ = ("messages", "silent_members")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SILENT_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[QuarantinedMessage]
    silent_members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, messages: _Optional[_Iterable[_Union[QuarantinedMessage, _Mapping]]] = ..., silent_members: _Optional[_Iterable[str]] = ...) -> None: ...

class ReleaseReaderRequest(_message.Message):
    __slots__ = ("queue", "reader")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    queue: QueueName
    reader: str
    def __init__(self, queue: _Optional[_Union[QueueName, _Mapping]] = ..., reader: _Optional[str] = ...) -> None: ...

class ReleaseReaderReply(_message.Message):
    __slots__ = ("messages", "silent_members")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SILENT_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    messages: int
    silent_members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, messages: _Optional[int] = ..., silent_members: _Optional[_Iterable[str]] = ...) -> None: ...

class LocalFragmentsRequest(_message.Message):
    __slots__ = ("queues",)
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[QueueName]
    def __init__(self, queues: _Optional[_Iterable[_Union[QueueName, _Mapping]]] = ...) -> None: ...

class LocalFragment(_message.Message):
    __slots__ = ("fragment", "reign", "serving", "ready", "unacknowledged", "bytes", "active_node", "readers", "traffic")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    UNACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_NODE_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    TRAFFIC_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    serving: bool
    ready: int
    unacknowledged: int
    bytes: int
    active_node: str
    readers: _containers.RepeatedCompositeFieldContainer[NamedReader]
    traffic: FragmentTraffic
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., serving: _Optional[bool] = ..., ready: _Optional[int] = ..., unacknowledged: _Optional[int] = ..., bytes: _Optional[int] = ..., active_node: _Optional[str] = ..., readers: _Optional[_Iterable[_Union[NamedReader, _Mapping]]] = ..., traffic: _Optional[_Union[FragmentTraffic, _Mapping]] = ...) -> None: ...

class LocalConsumers(_message.Message):
    __slots__ = ("queue", "consumers")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    queue: QueueName
    consumers: int
    def __init__(self, queue: _Optional[_Union[QueueName, _Mapping]] = ..., consumers: _Optional[int] = ...) -> None: ...

class LocalFragmentsReply(_message.Message):
    __slots__ = ("fragments", "consumers", "copies")
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    fragments: _containers.RepeatedCompositeFieldContainer[LocalFragment]
    consumers: _containers.RepeatedCompositeFieldContainer[LocalConsumers]
    copies: _containers.RepeatedCompositeFieldContainer[Copy]
    def __init__(self, fragments: _Optional[_Iterable[_Union[LocalFragment, _Mapping]]] = ..., consumers: _Optional[_Iterable[_Union[LocalConsumers, _Mapping]]] = ..., copies: _Optional[_Iterable[_Union[Copy, _Mapping]]] = ...) -> None: ...

class LocalConnectionsRequest(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class LocalConnectionsReply(_message.Message):
    __slots__ = ("connections", "total")
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    connections: _containers.RepeatedCompositeFieldContainer[Connection]
    total: int
    def __init__(self, connections: _Optional[_Iterable[_Union[Connection, _Mapping]]] = ..., total: _Optional[int] = ...) -> None: ...

class Vhost(_message.Message):
    __slots__ = ("name", "exchanges", "queues", "users")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXCHANGES_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    exchanges: int
    queues: int
    users: int
    def __init__(self, name: _Optional[str] = ..., exchanges: _Optional[int] = ..., queues: _Optional[int] = ..., users: _Optional[int] = ...) -> None: ...

class AddVhostRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class AddVhostReply(_message.Message):
    __slots__ = ("created",)
    CREATED_FIELD_NUMBER: _ClassVar[int]
    created: bool
    def __init__(self, created: _Optional[bool] = ...) -> None: ...

class DeleteVhostRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteVhostReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListVhostsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListVhostsReply(_message.Message):
    __slots__ = ("vhosts", "next_page_token")
    VHOSTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    vhosts: _containers.RepeatedCompositeFieldContainer[Vhost]
    next_page_token: str
    def __init__(self, vhosts: _Optional[_Iterable[_Union[Vhost, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Exchange(_message.Message):
    __slots__ = ("vhost", "name", "type", "durable", "auto_delete", "internal", "arguments_json", "policy")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    AUTO_DELETE_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments_json: str
    policy: str
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., type: _Optional[str] = ..., durable: _Optional[bool] = ..., auto_delete: _Optional[bool] = ..., internal: _Optional[bool] = ..., arguments_json: _Optional[str] = ..., policy: _Optional[str] = ...) -> None: ...

class ListExchangesRequest(_message.Message):
    __slots__ = ("vhost", "page_size", "page_token")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    page_size: int
    page_token: str
    def __init__(self, vhost: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListExchangesReply(_message.Message):
    __slots__ = ("exchanges", "next_page_token")
    EXCHANGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    exchanges: _containers.RepeatedCompositeFieldContainer[Exchange]
    next_page_token: str
    def __init__(self, exchanges: _Optional[_Iterable[_Union[Exchange, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Binding(_message.Message):
    __slots__ = ("vhost", "source_name", "source_kind", "destination_name", "destination_kind", "routing_key", "arguments_json")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    SOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_KIND_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_NAME_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_KIND_FIELD_NUMBER: _ClassVar[int]
    ROUTING_KEY_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    source_name: str
    source_kind: str
    destination_name: str
    destination_kind: str
    routing_key: str
    arguments_json: str
    def __init__(self, vhost: _Optional[str] = ..., source_name: _Optional[str] = ..., source_kind: _Optional[str] = ..., destination_name: _Optional[str] = ..., destination_kind: _Optional[str] = ..., routing_key: _Optional[str] = ..., arguments_json: _Optional[str] = ...) -> None: ...

class ListBindingsRequest(_message.Message):
    __slots__ = ("vhost", "page_size", "page_token")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    page_size: int
    page_token: str
    def __init__(self, vhost: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListBindingsReply(_message.Message):
    __slots__ = ("bindings", "next_page_token")
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    bindings: _containers.RepeatedCompositeFieldContainer[Binding]
    next_page_token: str
    def __init__(self, bindings: _Optional[_Iterable[_Union[Binding, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Limit(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: int
    def __init__(self, name: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("vhost", "user", "limits")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    user: str
    limits: _containers.RepeatedCompositeFieldContainer[Limit]
    def __init__(self, vhost: _Optional[str] = ..., user: _Optional[str] = ..., limits: _Optional[_Iterable[_Union[Limit, _Mapping]]] = ...) -> None: ...

class SetLimitsRequest(_message.Message):
    __slots__ = ("limits",)
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    limits: Limits
    def __init__(self, limits: _Optional[_Union[Limits, _Mapping]] = ...) -> None: ...

class SetLimitsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListLimitsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListLimitsReply(_message.Message):
    __slots__ = ("limits", "next_page_token")
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    limits: _containers.RepeatedCompositeFieldContainer[Limits]
    next_page_token: str
    def __init__(self, limits: _Optional[_Iterable[_Union[Limits, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class User(_message.Message):
    __slots__ = ("name", "tags", "has_password")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    HAS_PASSWORD_FIELD_NUMBER: _ClassVar[int]
    name: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    has_password: bool
    def __init__(self, name: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., has_password: _Optional[bool] = ...) -> None: ...

class PutUserRequest(_message.Message):
    __slots__ = ("name", "password", "tags", "replace", "password_hash", "hashing_algorithm")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_HASH_FIELD_NUMBER: _ClassVar[int]
    HASHING_ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    name: str
    password: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    replace: bool
    password_hash: str
    hashing_algorithm: str
    def __init__(self, name: _Optional[str] = ..., password: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., replace: _Optional[bool] = ..., password_hash: _Optional[str] = ..., hashing_algorithm: _Optional[str] = ...) -> None: ...

class PutUserReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteUserRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteUserReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListUsersRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListUsersReply(_message.Message):
    __slots__ = ("users", "next_page_token")
    USERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    users: _containers.RepeatedCompositeFieldContainer[User]
    next_page_token: str
    def __init__(self, users: _Optional[_Iterable[_Union[User, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ChangePasswordRequest(_message.Message):
    __slots__ = ("name", "password")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    name: str
    password: str
    def __init__(self, name: _Optional[str] = ..., password: _Optional[str] = ...) -> None: ...

class ChangePasswordReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetUserTagsRequest(_message.Message):
    __slots__ = ("name", "tags")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ...) -> None: ...

class SetUserTagsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AuthenticateUserRequest(_message.Message):
    __slots__ = ("name", "password")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    name: str
    password: str
    def __init__(self, name: _Optional[str] = ..., password: _Optional[str] = ...) -> None: ...

class AuthenticateUserReply(_message.Message):
    __slots__ = ("authenticated",)
    AUTHENTICATED_FIELD_NUMBER: _ClassVar[int]
    authenticated: bool
    def __init__(self, authenticated: _Optional[bool] = ...) -> None: ...

class SetLogLevelRequest(_message.Message):
    __slots__ = ("subsystem", "level")
    SUBSYSTEM_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    subsystem: str
    level: str
    def __init__(self, subsystem: _Optional[str] = ..., level: _Optional[str] = ...) -> None: ...

class SetLogLevelReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListLogLevelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LogLevel(_message.Message):
    __slots__ = ("subsystem", "level", "is_own")
    SUBSYSTEM_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    IS_OWN_FIELD_NUMBER: _ClassVar[int]
    subsystem: str
    level: str
    is_own: bool
    def __init__(self, subsystem: _Optional[str] = ..., level: _Optional[str] = ..., is_own: _Optional[bool] = ...) -> None: ...

class ListLogLevelsReply(_message.Message):
    __slots__ = ("levels",)
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    levels: _containers.RepeatedCompositeFieldContainer[LogLevel]
    def __init__(self, levels: _Optional[_Iterable[_Union[LogLevel, _Mapping]]] = ...) -> None: ...

class Permissions(_message.Message):
    __slots__ = ("user", "vhost", "configure", "write", "read")
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    CONFIGURE_FIELD_NUMBER: _ClassVar[int]
    WRITE_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    user: str
    vhost: str
    configure: str
    write: str
    read: str
    def __init__(self, user: _Optional[str] = ..., vhost: _Optional[str] = ..., configure: _Optional[str] = ..., write: _Optional[str] = ..., read: _Optional[str] = ...) -> None: ...

class SetPermissionsRequest(_message.Message):
    __slots__ = ("permissions",)
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    permissions: Permissions
    def __init__(self, permissions: _Optional[_Union[Permissions, _Mapping]] = ...) -> None: ...

class SetPermissionsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClearPermissionsRequest(_message.Message):
    __slots__ = ("user", "vhost")
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    user: str
    vhost: str
    def __init__(self, user: _Optional[str] = ..., vhost: _Optional[str] = ...) -> None: ...

class ClearPermissionsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListPermissionsRequest(_message.Message):
    __slots__ = ("user", "vhost", "page_size", "page_token")
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    user: str
    vhost: str
    page_size: int
    page_token: str
    def __init__(self, user: _Optional[str] = ..., vhost: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListPermissionsReply(_message.Message):
    __slots__ = ("permissions", "next_page_token")
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    permissions: _containers.RepeatedCompositeFieldContainer[Permissions]
    next_page_token: str
    def __init__(self, permissions: _Optional[_Iterable[_Union[Permissions, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class TopicPermissions(_message.Message):
    __slots__ = ("user", "vhost", "exchange", "write", "read")
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    WRITE_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    user: str
    vhost: str
    exchange: str
    write: str
    read: str
    def __init__(self, user: _Optional[str] = ..., vhost: _Optional[str] = ..., exchange: _Optional[str] = ..., write: _Optional[str] = ..., read: _Optional[str] = ...) -> None: ...

class SetTopicPermissionsRequest(_message.Message):
    __slots__ = ("permissions",)
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    permissions: TopicPermissions
    def __init__(self, permissions: _Optional[_Union[TopicPermissions, _Mapping]] = ...) -> None: ...

class SetTopicPermissionsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClearTopicPermissionsRequest(_message.Message):
    __slots__ = ("user", "vhost", "exchange")
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    user: str
    vhost: str
    exchange: str
    def __init__(self, user: _Optional[str] = ..., vhost: _Optional[str] = ..., exchange: _Optional[str] = ...) -> None: ...

class ClearTopicPermissionsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTopicPermissionsRequest(_message.Message):
    __slots__ = ("user", "vhost", "page_size", "page_token")
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    user: str
    vhost: str
    page_size: int
    page_token: str
    def __init__(self, user: _Optional[str] = ..., vhost: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListTopicPermissionsReply(_message.Message):
    __slots__ = ("permissions", "next_page_token")
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    permissions: _containers.RepeatedCompositeFieldContainer[TopicPermissions]
    next_page_token: str
    def __init__(self, permissions: _Optional[_Iterable[_Union[TopicPermissions, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("vhost", "name", "operator", "pattern", "apply_to", "priority", "definition_json")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    APPLY_TO_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_JSON_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    operator: bool
    pattern: str
    apply_to: str
    priority: int
    definition_json: str
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., operator: _Optional[bool] = ..., pattern: _Optional[str] = ..., apply_to: _Optional[str] = ..., priority: _Optional[int] = ..., definition_json: _Optional[str] = ...) -> None: ...

class PutPolicyRequest(_message.Message):
    __slots__ = ("policy",)
    POLICY_FIELD_NUMBER: _ClassVar[int]
    policy: Policy
    def __init__(self, policy: _Optional[_Union[Policy, _Mapping]] = ...) -> None: ...

class PutPolicyReply(_message.Message):
    __slots__ = ("changed",)
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    def __init__(self, changed: _Optional[bool] = ...) -> None: ...

class DropPolicyRequest(_message.Message):
    __slots__ = ("vhost", "name", "operator")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    operator: bool
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., operator: _Optional[bool] = ...) -> None: ...

class DropPolicyReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListPoliciesRequest(_message.Message):
    __slots__ = ("vhost", "operator", "page_size", "page_token")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    operator: bool
    page_size: int
    page_token: str
    def __init__(self, vhost: _Optional[str] = ..., operator: _Optional[bool] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListPoliciesReply(_message.Message):
    __slots__ = ("policies", "next_page_token")
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    policies: _containers.RepeatedCompositeFieldContainer[Policy]
    next_page_token: str
    def __init__(self, policies: _Optional[_Iterable[_Union[Policy, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Parameter(_message.Message):
    __slots__ = ("vhost", "component", "name", "value_json")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_JSON_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    component: str
    name: str
    value_json: str
    def __init__(self, vhost: _Optional[str] = ..., component: _Optional[str] = ..., name: _Optional[str] = ..., value_json: _Optional[str] = ...) -> None: ...

class PutParameterRequest(_message.Message):
    __slots__ = ("parameter",)
    PARAMETER_FIELD_NUMBER: _ClassVar[int]
    parameter: Parameter
    def __init__(self, parameter: _Optional[_Union[Parameter, _Mapping]] = ...) -> None: ...

class PutParameterReply(_message.Message):
    __slots__ = ("changed",)
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    def __init__(self, changed: _Optional[bool] = ...) -> None: ...

class DropParameterRequest(_message.Message):
    __slots__ = ("vhost", "component", "name")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    component: str
    name: str
    def __init__(self, vhost: _Optional[str] = ..., component: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class DropParameterReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListParametersRequest(_message.Message):
    __slots__ = ("vhost", "component", "globals", "page_size", "page_token")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    GLOBALS_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    component: str
    globals: bool
    page_size: int
    page_token: str
    def __init__(self, vhost: _Optional[str] = ..., component: _Optional[str] = ..., globals: _Optional[bool] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListParametersReply(_message.Message):
    __slots__ = ("parameters", "next_page_token")
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    parameters: _containers.RepeatedCompositeFieldContainer[Parameter]
    next_page_token: str
    def __init__(self, parameters: _Optional[_Iterable[_Union[Parameter, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Shovel(_message.Message):
    __slots__ = ("vhost", "name", "node", "state", "since_ms", "messages", "bytes", "unsettled", "error", "source", "destination", "source_uri", "destination_uri", "restarts")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_URI_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_URI_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    node: str
    state: str
    since_ms: int
    messages: int
    bytes: int
    unsettled: int
    error: str
    source: str
    destination: str
    source_uri: str
    destination_uri: str
    restarts: int
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ..., node: _Optional[str] = ..., state: _Optional[str] = ..., since_ms: _Optional[int] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., unsettled: _Optional[int] = ..., error: _Optional[str] = ..., source: _Optional[str] = ..., destination: _Optional[str] = ..., source_uri: _Optional[str] = ..., destination_uri: _Optional[str] = ..., restarts: _Optional[int] = ...) -> None: ...

class ListShovelsRequest(_message.Message):
    __slots__ = ("vhost",)
    VHOST_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    def __init__(self, vhost: _Optional[str] = ...) -> None: ...

class ListShovelsReply(_message.Message):
    __slots__ = ("shovels", "silent_members")
    SHOVELS_FIELD_NUMBER: _ClassVar[int]
    SILENT_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    shovels: _containers.RepeatedCompositeFieldContainer[Shovel]
    silent_members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, shovels: _Optional[_Iterable[_Union[Shovel, _Mapping]]] = ..., silent_members: _Optional[_Iterable[str]] = ...) -> None: ...

class Trace(_message.Message):
    __slots__ = ("name", "vhost", "exchange", "queue", "sample", "stream_vhost", "stream")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    STREAM_VHOST_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    name: str
    vhost: str
    exchange: str
    queue: str
    sample: int
    stream_vhost: str
    stream: str
    def __init__(self, name: _Optional[str] = ..., vhost: _Optional[str] = ..., exchange: _Optional[str] = ..., queue: _Optional[str] = ..., sample: _Optional[int] = ..., stream_vhost: _Optional[str] = ..., stream: _Optional[str] = ...) -> None: ...

class StartTraceRequest(_message.Message):
    __slots__ = ("trace", "max_bytes", "max_age")
    TRACE_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_FIELD_NUMBER: _ClassVar[int]
    trace: Trace
    max_bytes: int
    max_age: str
    def __init__(self, trace: _Optional[_Union[Trace, _Mapping]] = ..., max_bytes: _Optional[int] = ..., max_age: _Optional[str] = ...) -> None: ...

class StartTraceReply(_message.Message):
    __slots__ = ("created", "trace")
    CREATED_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    created: bool
    trace: Trace
    def __init__(self, created: _Optional[bool] = ..., trace: _Optional[_Union[Trace, _Mapping]] = ...) -> None: ...

class StopTraceRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class StopTraceReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTracesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTracesReply(_message.Message):
    __slots__ = ("traces", "firehose")
    TRACES_FIELD_NUMBER: _ClassVar[int]
    FIREHOSE_FIELD_NUMBER: _ClassVar[int]
    traces: _containers.RepeatedCompositeFieldContainer[Trace]
    firehose: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, traces: _Optional[_Iterable[_Union[Trace, _Mapping]]] = ..., firehose: _Optional[_Iterable[str]] = ...) -> None: ...

class SetFirehoseRequest(_message.Message):
    __slots__ = ("vhost", "on")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    ON_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    on: bool
    def __init__(self, vhost: _Optional[str] = ..., on: _Optional[bool] = ...) -> None: ...

class SetFirehoseReply(_message.Message):
    __slots__ = ("changed",)
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    def __init__(self, changed: _Optional[bool] = ...) -> None: ...
