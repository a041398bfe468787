from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JoinRequest(_message.Message):
    __slots__ = ("peer_address", "directory")
    PEER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    peer_address: str
    directory: str
    def __init__(self, peer_address: _Optional[str] = ..., directory: _Optional[str] = ...) -> None: ...

class JoinAnswer(_message.Message):
    __slots__ = ("cluster", "roster")
    class RosterEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    roster: _containers.ScalarMap[str, str]
    def __init__(self, cluster: _Optional[str] = ..., roster: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("version", "node", "incarnation", "start", "started_ms", "agreed", "known", "known_start", "nonce", "certificate", "signature", "oldest", "cluster", "belongs_to", "reached_at", "directory")
    class AgreedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    AGREED_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    KNOWN_START_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    BELONGS_TO_FIELD_NUMBER: _ClassVar[int]
    REACHED_AT_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    version: int
    node: str
    incarnation: int
    start: str
    started_ms: int
    agreed: _containers.ScalarMap[str, str]
    known: int
    known_start: str
    nonce: bytes
    certificate: bytes
    signature: bytes
    oldest: int
    cluster: int
    belongs_to: str
    reached_at: str
    directory: str
    def __init__(self, version: _Optional[int] = ..., node: _Optional[str] = ..., incarnation: _Optional[int] = ..., start: _Optional[str] = ..., started_ms: _Optional[int] = ..., agreed: _Optional[_Mapping[str, str]] = ..., known: _Optional[int] = ..., known_start: _Optional[str] = ..., nonce: _Optional[bytes] = ..., certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., oldest: _Optional[int] = ..., cluster: _Optional[int] = ..., belongs_to: _Optional[str] = ..., reached_at: _Optional[str] = ..., directory: _Optional[str] = ...) -> None: ...

class RaftFrame(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class PeerFrame(_message.Message):
    __slots__ = ("version", "sender", "incarnation", "session_sender", "session_receiver", "first", "acknowledged", "map_version", "messages", "heartbeat", "asks", "last_words", "longs", "repeats")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SESSION_SENDER_FIELD_NUMBER: _ClassVar[int]
    SESSION_RECEIVER_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    MAP_VERSION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    ASKS_FIELD_NUMBER: _ClassVar[int]
    LAST_WORDS_FIELD_NUMBER: _ClassVar[int]
    LONGS_FIELD_NUMBER: _ClassVar[int]
    REPEATS_FIELD_NUMBER: _ClassVar[int]
    version: int
    sender: str
    incarnation: int
    session_sender: int
    session_receiver: int
    first: int
    acknowledged: int
    map_version: int
    messages: _containers.RepeatedCompositeFieldContainer[PeerMessage]
    heartbeat: Heartbeat
    asks: bool
    last_words: LastWords
    longs: _containers.RepeatedCompositeFieldContainer[LongContent]
    repeats: _containers.RepeatedCompositeFieldContainer[RepeatedContents]
    def __init__(self, version: _Optional[int] = ..., sender: _Optional[str] = ..., incarnation: _Optional[int] = ..., session_sender: _Optional[int] = ..., session_receiver: _Optional[int] = ..., first: _Optional[int] = ..., acknowledged: _Optional[int] = ..., map_version: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[PeerMessage, _Mapping]]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., asks: _Optional[bool] = ..., last_words: _Optional[_Union[LastWords, _Mapping]] = ..., longs: _Optional[_Iterable[_Union[LongContent, _Mapping]]] = ..., repeats: _Optional[_Iterable[_Union[RepeatedContents, _Mapping]]] = ...) -> None: ...

class LongContent(_message.Message):
    __slots__ = ("message", "place", "size")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    message: int
    place: int
    size: int
    def __init__(self, message: _Optional[int] = ..., place: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class RepeatedContents(_message.Message):
    __slots__ = ("message", "place", "size", "of_message", "of_place")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    OF_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    OF_PLACE_FIELD_NUMBER: _ClassVar[int]
    message: int
    place: int
    size: int
    of_message: int
    of_place: int
    def __init__(self, message: _Optional[int] = ..., place: _Optional[int] = ..., size: _Optional[int] = ..., of_message: _Optional[int] = ..., of_place: _Optional[int] = ...) -> None: ...

class LastWords(_message.Message):
    __slots__ = ("step", "suspects")
    STEP_FIELD_NUMBER: _ClassVar[int]
    SUSPECTS_FIELD_NUMBER: _ClassVar[int]
    step: str
    suspects: _containers.RepeatedCompositeFieldContainer[Suspect]
    def __init__(self, step: _Optional[str] = ..., suspects: _Optional[_Iterable[_Union[Suspect, _Mapping]]] = ...) -> None: ...

class Suspect(_message.Message):
    __slots__ = ("fragment", "position", "size", "digest", "proven")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PROVEN_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    position: int
    size: int
    digest: bytes
    proven: bool
    def __init__(self, fragment: _Optional[int] = ..., position: _Optional[int] = ..., size: _Optional[int] = ..., digest: _Optional[bytes] = ..., proven: _Optional[bool] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("sent_ms", "echo_ms", "leads", "leaving", "start", "stalls", "full", "memory_full", "disk_low")
    SENT_MS_FIELD_NUMBER: _ClassVar[int]
    ECHO_MS_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STALLS_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FULL_FIELD_NUMBER: _ClassVar[int]
    DISK_LOW_FIELD_NUMBER: _ClassVar[int]
    sent_ms: int
    echo_ms: int
    leads: bool
    leaving: bool
    start: str
    stalls: bool
    full: bool
    memory_full: bool
    disk_low: bool
    def __init__(self, sent_ms: _Optional[int] = ..., echo_ms: _Optional[int] = ..., leads: _Optional[bool] = ..., leaving: _Optional[bool] = ..., start: _Optional[str] = ..., stalls: _Optional[bool] = ..., full: _Optional[bool] = ..., memory_full: _Optional[bool] = ..., disk_low: _Optional[bool] = ...) -> None: ...

class PeerMessage(_message.Message):
    __slots__ = ("publish_batch", "publish_done", "watch", "offer", "credit", "credit_back", "get", "deliver", "settle", "attach", "replica_offer", "copy_start", "copy_chunk", "replicate", "replica_ack", "map_applied", "interest", "interest_done", "relay", "relay_done", "call", "reply", "got", "replica_wanted", "publish_atomic", "copy_query", "copy_worth", "tally", "read_stream", "stream_part", "bodies_wanted", "bodies", "read_as", "read_turn", "quiesce", "quiesced")
    PUBLISH_BATCH_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_DONE_FIELD_NUMBER: _ClassVar[int]
    WATCH_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BACK_FIELD_NUMBER: _ClassVar[int]
    GET_FIELD_NUMBER: _ClassVar[int]
    DELIVER_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    ATTACH_FIELD_NUMBER: _ClassVar[int]
    REPLICA_OFFER_FIELD_NUMBER: _ClassVar[int]
    COPY_START_FIELD_NUMBER: _ClassVar[int]
    COPY_CHUNK_FIELD_NUMBER: _ClassVar[int]
    REPLICATE_FIELD_NUMBER: _ClassVar[int]
    REPLICA_ACK_FIELD_NUMBER: _ClassVar[int]
    MAP_APPLIED_FIELD_NUMBER: _ClassVar[int]
    INTEREST_FIELD_NUMBER: _ClassVar[int]
    INTEREST_DONE_FIELD_NUMBER: _ClassVar[int]
    RELAY_FIELD_NUMBER: _ClassVar[int]
    RELAY_DONE_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    GOT_FIELD_NUMBER: _ClassVar[int]
    REPLICA_WANTED_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_ATOMIC_FIELD_NUMBER: _ClassVar[int]
    COPY_QUERY_FIELD_NUMBER: _ClassVar[int]
    COPY_WORTH_FIELD_NUMBER: _ClassVar[int]
    TALLY_FIELD_NUMBER: _ClassVar[int]
    READ_STREAM_FIELD_NUMBER: _ClassVar[int]
    STREAM_PART_FIELD_NUMBER: _ClassVar[int]
    BODIES_WANTED_FIELD_NUMBER: _ClassVar[int]
    BODIES_FIELD_NUMBER: _ClassVar[int]
    READ_AS_FIELD_NUMBER: _ClassVar[int]
    READ_TURN_FIELD_NUMBER: _ClassVar[int]
    QUIESCE_FIELD_NUMBER: _ClassVar[int]
    QUIESCED_FIELD_NUMBER: _ClassVar[int]
    publish_batch: PublishBatch
    publish_done: PublishDone
    watch: Watch
    offer: Offer
    credit: Credit
    credit_back: CreditBack
    get: Get
    deliver: Deliver
    settle: Settle
    attach: Attach
    replica_offer: ReplicaOffer
    copy_start: CopyStart
    copy_chunk: CopyChunk
    replicate: Replicate
    replica_ack: ReplicaAck
    map_applied: MapApplied
    interest: Interest
    interest_done: InterestDone
    relay: Relay
    relay_done: RelayDone
    call: Call
    reply: Reply
    got: Got
    replica_wanted: ReplicaWanted
    publish_atomic: PublishAtomic
    copy_query: CopyQuery
    copy_worth: CopyWorth
    tally: Tally
    read_stream: ReadStream
    stream_part: StreamPart
    bodies_wanted: BodiesWanted
    bodies: Bodies
    read_as: ReadAs
    read_turn: ReadTurn
    quiesce: Quiesce
    quiesced: Quiesced
    def __init__(self, publish_batch: _Optional[_Union[PublishBatch, _Mapping]] = ..., publish_done: _Optional[_Union[PublishDone, _Mapping]] = ..., watch: _Optional[_Union[Watch, _Mapping]] = ..., offer: _Optional[_Union[Offer, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., credit_back: _Optional[_Union[CreditBack, _Mapping]] = ..., get: _Optional[_Union[Get, _Mapping]] = ..., deliver: _Optional[_Union[Deliver, _Mapping]] = ..., settle: _Optional[_Union[Settle, _Mapping]] = ..., attach: _Optional[_Union[Attach, _Mapping]] = ..., replica_offer: _Optional[_Union[ReplicaOffer, _Mapping]] = ..., copy_start: _Optional[_Union[CopyStart, _Mapping]] = ..., copy_chunk: _Optional[_Union[CopyChunk, _Mapping]] = ..., replicate: _Optional[_Union[Replicate, _Mapping]] = ..., replica_ack: _Optional[_Union[ReplicaAck, _Mapping]] = ..., map_applied: _Optional[_Union[MapApplied, _Mapping]] = ..., interest: _Optional[_Union[Interest, _Mapping]] = ..., interest_done: _Optional[_Union[InterestDone, _Mapping]] = ..., relay: _Optional[_Union[Relay, _Mapping]] = ..., relay_done: _Optional[_Union[RelayDone, _Mapping]] = ..., call: _Optional[_Union[Call, _Mapping]] = ..., reply: _Optional[_Union[Reply, _Mapping]] = ..., got: _Optional[_Union[Got, _Mapping]] = ..., replica_wanted: _Optional[_Union[ReplicaWanted, _Mapping]] = ..., publish_atomic: _Optional[_Union[PublishAtomic, _Mapping]] = ..., copy_query: _Optional[_Union[CopyQuery, _Mapping]] = ..., copy_worth: _Optional[_Union[CopyWorth, _Mapping]] = ..., tally: _Optional[_Union[Tally, _Mapping]] = ..., read_stream: _Optional[_Union[ReadStream, _Mapping]] = ..., stream_part: _Optional[_Union[StreamPart, _Mapping]] = ..., bodies_wanted: _Optional[_Union[BodiesWanted, _Mapping]] = ..., bodies: _Optional[_Union[Bodies, _Mapping]] = ..., read_as: _Optional[_Union[ReadAs, _Mapping]] = ..., read_turn: _Optional[_Union[ReadTurn, _Mapping]] = ..., quiesce: _Optional[_Union[Quiesce, _Mapping]] = ..., quiesced: _Optional[_Union[Quiesced, _Mapping]] = ...) -> None: ...

class Origin(_message.Message):
    __slots__ = ("node", "incarnation")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    node: str
    incarnation: int
    def __init__(self, node: _Optional[str] = ..., incarnation: _Optional[int] = ...) -> None: ...

class Ranges(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: _containers.RepeatedScalarFieldContainer[int]
    last: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, first: _Optional[_Iterable[int]] = ..., last: _Optional[_Iterable[int]] = ...) -> None: ...

class QueueKey(_message.Message):
    __slots__ = ("vhost", "name")
    VHOST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    vhost: str
    name: str
    def __init__(self, vhost: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class PublishBatch(_message.Message):
    __slots__ = ("fragment", "reign", "origin", "first", "resent", "messages", "named")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    RESENT_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NAMED_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    origin: Origin
    first: int
    resent: bool
    messages: _containers.RepeatedScalarFieldContainer[bytes]
    named: _containers.RepeatedCompositeFieldContainer[NamedRun]
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., origin: _Optional[_Union[Origin, _Mapping]] = ..., first: _Optional[int] = ..., resent: _Optional[bool] = ..., messages: _Optional[_Iterable[bytes]] = ..., named: _Optional[_Iterable[_Union[NamedRun, _Mapping]]] = ...) -> None: ...

class NamedRun(_message.Message):
    __slots__ = ("place", "size", "publisher", "first")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    PUBLISHER_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    place: int
    size: int
    publisher: str
    first: int
    def __init__(self, place: _Optional[int] = ..., size: _Optional[int] = ..., publisher: _Optional[str] = ..., first: _Optional[int] = ...) -> None: ...

class PublishDone(_message.Message):
    __slots__ = ("fragment", "reign", "through", "refused")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    through: int
    refused: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., through: _Optional[int] = ..., refused: _Optional[_Iterable[int]] = ...) -> None: ...

class PublishAtomic(_message.Message):
    __slots__ = ("fragment", "reign", "origin", "first", "resent", "messages", "acknowledged", "requeued", "rejected", "named")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    RESENT_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    REQUEUED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    NAMED_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    origin: Origin
    first: int
    resent: bool
    messages: _containers.RepeatedScalarFieldContainer[bytes]
    acknowledged: _containers.RepeatedScalarFieldContainer[int]
    requeued: _containers.RepeatedScalarFieldContainer[int]
    rejected: _containers.RepeatedScalarFieldContainer[int]
    named: _containers.RepeatedCompositeFieldContainer[NamedRun]
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., origin: _Optional[_Union[Origin, _Mapping]] = ..., first: _Optional[int] = ..., resent: _Optional[bool] = ..., messages: _Optional[_Iterable[bytes]] = ..., acknowledged: _Optional[_Iterable[int]] = ..., requeued: _Optional[_Iterable[int]] = ..., rejected: _Optional[_Iterable[int]] = ..., named: _Optional[_Iterable[_Union[NamedRun, _Mapping]]] = ...) -> None: ...

class Watch(_message.Message):
    __slots__ = ("fragment", "reign", "consumers", "exclusive", "ticket", "idle")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    consumers: int
    exclusive: bool
    ticket: int
    idle: int
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., consumers: _Optional[int] = ..., exclusive: _Optional[bool] = ..., ticket: _Optional[int] = ..., idle: _Optional[int] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ("fragment", "reign")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("fragment", "reign", "through", "once", "level")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    ONCE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    through: int
    once: bool
    level: int
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., through: _Optional[int] = ..., once: _Optional[bool] = ..., level: _Optional[int] = ...) -> None: ...

class CreditBack(_message.Message):
    __slots__ = ("fragment", "reign", "amount")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    amount: int
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., amount: _Optional[int] = ...) -> None: ...

class Get(_message.Message):
    __slots__ = ("request", "fragment", "reign")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    request: int
    fragment: int
    reign: int
    def __init__(self, request: _Optional[int] = ..., fragment: _Optional[int] = ..., reign: _Optional[int] = ...) -> None: ...

class Deliver(_message.Message):
    __slots__ = ("fragment", "reign", "positions", "redelivered", "messages")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    positions: _containers.RepeatedScalarFieldContainer[int]
    redelivered: _containers.RepeatedScalarFieldContainer[int]
    messages: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., positions: _Optional[_Iterable[int]] = ..., redelivered: _Optional[_Iterable[int]] = ..., messages: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Settle(_message.Message):
    __slots__ = ("fragment", "reign", "acknowledged", "requeued", "rejected", "unseen", "idle")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    REQUEUED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    UNSEEN_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    acknowledged: _containers.RepeatedScalarFieldContainer[int]
    requeued: _containers.RepeatedScalarFieldContainer[int]
    rejected: _containers.RepeatedScalarFieldContainer[int]
    unseen: _containers.RepeatedScalarFieldContainer[int]
    idle: int
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., acknowledged: _Optional[_Iterable[int]] = ..., requeued: _Optional[_Iterable[int]] = ..., rejected: _Optional[_Iterable[int]] = ..., unseen: _Optional[_Iterable[int]] = ..., idle: _Optional[int] = ...) -> None: ...

class Attach(_message.Message):
    __slots__ = ("fragment", "reign", "consumers", "held", "exclusive", "ticket", "idle")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    consumers: int
    held: Ranges
    exclusive: bool
    ticket: int
    idle: int
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., consumers: _Optional[int] = ..., held: _Optional[_Union[Ranges, _Mapping]] = ..., exclusive: _Optional[bool] = ..., ticket: _Optional[int] = ..., idle: _Optional[int] = ...) -> None: ...

class ReplicaOffer(_message.Message):
    __slots__ = ("fragment", "reign", "held", "copy")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    COPY_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    held: Ranges
    copy: int
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., held: _Optional[_Union[Ranges, _Mapping]] = ..., copy: _Optional[int] = ...) -> None: ...

class ReplicaWanted(_message.Message):
    __slots__ = ("fragment", "reign")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ...) -> None: ...

class CopyQuery(_message.Message):
    __slots__ = ("fragment", "epoch")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    epoch: int
    def __init__(self, fragment: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class CopyWorth(_message.Message):
    __slots__ = ("fragment", "epoch", "whole", "last", "live", "digest")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    epoch: int
    whole: bool
    last: int
    live: int
    digest: int
    def __init__(self, fragment: _Optional[int] = ..., epoch: _Optional[int] = ..., whole: _Optional[bool] = ..., last: _Optional[int] = ..., live: _Optional[int] = ..., digest: _Optional[int] = ...) -> None: ...

class CopyStart(_message.Message):
    __slots__ = ("fragment", "reign", "base", "dropped", "origins", "copy")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    COPY_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    base: int
    dropped: Ranges
    origins: bytes
    copy: int
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., base: _Optional[int] = ..., dropped: _Optional[_Union[Ranges, _Mapping]] = ..., origins: _Optional[bytes] = ..., copy: _Optional[int] = ...) -> None: ...

class CopyChunk(_message.Message):
    __slots__ = ("fragment", "reign", "number", "done", "records")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    number: int
    done: bool
    records: bytes
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., number: _Optional[int] = ..., done: _Optional[bool] = ..., records: _Optional[bytes] = ...) -> None: ...

class Replicate(_message.Message):
    __slots__ = ("fragment", "reign", "previous", "last", "records")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    previous: int
    last: int
    records: bytes
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., previous: _Optional[int] = ..., last: _Optional[int] = ..., records: _Optional[bytes] = ...) -> None: ...

class ReplicaAck(_message.Message):
    __slots__ = ("fragment", "reign", "through", "copied")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    COPIED_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    through: int
    copied: int
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., through: _Optional[int] = ..., copied: _Optional[int] = ...) -> None: ...

class Quiesce(_message.Message):
    __slots__ = ("fragment", "reign", "number", "retires")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    RETIRES_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    number: int
    retires: bool
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., number: _Optional[int] = ..., retires: _Optional[bool] = ...) -> None: ...

class Quiesced(_message.Message):
    __slots__ = ("fragment", "reign", "number", "busy")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    number: int
    busy: bool
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., number: _Optional[int] = ..., busy: _Optional[bool] = ...) -> None: ...

class MapApplied(_message.Message):
    __slots__ = ("version", "digest")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    version: int
    digest: int
    def __init__(self, version: _Optional[int] = ..., digest: _Optional[int] = ...) -> None: ...

class InterestItem(_message.Message):
    __slots__ = ("exchange", "routing_key", "arguments")
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    ROUTING_KEY_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    exchange: QueueKey
    routing_key: bytes
    arguments: str
    def __init__(self, exchange: _Optional[_Union[QueueKey, _Mapping]] = ..., routing_key: _Optional[bytes] = ..., arguments: _Optional[str] = ...) -> None: ...

class Interest(_message.Message):
    __slots__ = ("number", "added", "removed", "everything", "selective", "whole", "more")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    EVERYTHING_FIELD_NUMBER: _ClassVar[int]
    SELECTIVE_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    number: int
    added: _containers.RepeatedCompositeFieldContainer[InterestItem]
    removed: _containers.RepeatedCompositeFieldContainer[InterestItem]
    everything: _containers.RepeatedCompositeFieldContainer[QueueKey]
    selective: _containers.RepeatedCompositeFieldContainer[QueueKey]
    whole: bool
    more: bool
    def __init__(self, number: _Optional[int] = ..., added: _Optional[_Iterable[_Union[InterestItem, _Mapping]]] = ..., removed: _Optional[_Iterable[_Union[InterestItem, _Mapping]]] = ..., everything: _Optional[_Iterable[_Union[QueueKey, _Mapping]]] = ..., selective: _Optional[_Iterable[_Union[QueueKey, _Mapping]]] = ..., whole: _Optional[bool] = ..., more: _Optional[bool] = ...) -> None: ...

class InterestDone(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class Tally(_message.Message):
    __slots__ = ("user", "vhost", "connections", "channels")
    USER_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    user: str
    vhost: str
    connections: int
    channels: int
    def __init__(self, user: _Optional[str] = ..., vhost: _Optional[str] = ..., connections: _Optional[int] = ..., channels: _Optional[int] = ...) -> None: ...

class Relay(_message.Message):
    __slots__ = ("first", "vhost", "messages")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    VHOST_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    first: int
    vhost: str
    messages: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, first: _Optional[int] = ..., vhost: _Optional[str] = ..., messages: _Optional[_Iterable[bytes]] = ...) -> None: ...

class RelayDone(_message.Message):
    __slots__ = ("through", "unmatched", "refused")
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    UNMATCHED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    through: int
    unmatched: _containers.RepeatedScalarFieldContainer[int]
    refused: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, through: _Optional[int] = ..., unmatched: _Optional[_Iterable[int]] = ..., refused: _Optional[_Iterable[int]] = ...) -> None: ...

class Call(_message.Message):
    __slots__ = ("request", "fragment", "verb")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    request: int
    fragment: int
    verb: int
    def __init__(self, request: _Optional[int] = ..., fragment: _Optional[int] = ..., verb: _Optional[int] = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("request", "fragment", "ready", "consumers")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    request: int
    fragment: int
    ready: int
    consumers: int
    def __init__(self, request: _Optional[int] = ..., fragment: _Optional[int] = ..., ready: _Optional[int] = ..., consumers: _Optional[int] = ...) -> None: ...

class ReadStream(_message.Message):
    __slots__ = ("fragment", "reign", "kind", "value", "amount", "request", "values", "unfiltered")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    UNFILTERED_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    kind: int
    value: int
    amount: int
    request: int
    values: _containers.RepeatedScalarFieldContainer[bytes]
    unfiltered: bool
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., kind: _Optional[int] = ..., value: _Optional[int] = ..., amount: _Optional[int] = ..., request: _Optional[int] = ..., values: _Optional[_Iterable[bytes]] = ..., unfiltered: _Optional[bool] = ...) -> None: ...

class ReadAs(_message.Message):
    __slots__ = ("fragment", "reign", "request", "verb", "name", "kind", "value", "forgets")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    FORGETS_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    request: int
    verb: int
    name: str
    kind: int
    value: int
    forgets: bool
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., request: _Optional[int] = ..., verb: _Optional[int] = ..., name: _Optional[str] = ..., kind: _Optional[int] = ..., value: _Optional[int] = ..., forgets: _Optional[bool] = ...) -> None: ...

class ReadTurn(_message.Message):
    __slots__ = ("fragment", "reign", "request", "verb", "value")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    request: int
    verb: int
    value: int
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., request: _Optional[int] = ..., verb: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...

class StreamPart(_message.Message):
    __slots__ = ("fragment", "reign", "kind", "value", "next", "positions", "messages", "request")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    kind: int
    value: int
    next: int
    positions: _containers.RepeatedScalarFieldContainer[int]
    messages: _containers.RepeatedScalarFieldContainer[bytes]
    request: int
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., kind: _Optional[int] = ..., value: _Optional[int] = ..., next: _Optional[int] = ..., positions: _Optional[_Iterable[int]] = ..., messages: _Optional[_Iterable[bytes]] = ..., request: _Optional[int] = ...) -> None: ...

class BodiesWanted(_message.Message):
    __slots__ = ("fragment", "reign", "request", "positions")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    request: int
    positions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., request: _Optional[int] = ..., positions: _Optional[_Iterable[int]] = ...) -> None: ...

class Bodies(_message.Message):
    __slots__ = ("fragment", "reign", "request", "through", "positions", "messages", "flags")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    THROUGH_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    fragment: int
    reign: int
    request: int
    through: int
    positions: _containers.RepeatedScalarFieldContainer[int]
    messages: _containers.RepeatedScalarFieldContainer[bytes]
    flags: bytes
    def __init__(self, fragment: _Optional[int] = ..., reign: _Optional[int] = ..., request: _Optional[int] = ..., through: _Optional[int] = ..., positions: _Optional[_Iterable[int]] = ..., messages: _Optional[_Iterable[bytes]] = ..., flags: _Optional[bytes] = ...) -> None: ...

class Got(_message.Message):
    __slots__ = ("request", "fragment", "reign", "positions", "redelivered", "messages", "ready")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    REIGN_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    request: int
    fragment: int
    reign: int
    positions: _containers.RepeatedScalarFieldContainer[int]
    redelivered: _containers.RepeatedScalarFieldContainer[int]
    messages: _containers.RepeatedScalarFieldContainer[bytes]
    ready: int
    def __init__(self, request: _Optional[int] = ..., fragment: _Optional[int] = ..., reign: _Optional[int] = ..., positions: _Optional[_Iterable[int]] = ..., redelivered: _Optional[_Iterable[int]] = ..., messages: _Optional[_Iterable[bytes]] = ..., ready: _Optional[int] = ...) -> None: ...
