"""Peer frames as bytes: `fedq.core.peer_messages` in the form of `protos/peer.proto`.

In: a `PeerFrame`, or bytes from another node. Out: the other one.

Each message kind is a row of a table: its field of the protobuf `oneof` and how each of its own
fields is put and got. Most have the same name and shape on both sides; the few that do not
(ranges, origins, interests) name a converter.

Invariants: `decode_frame(encode_frame(frame)) == frame`; whatever the bytes are, decoding gives a
frame whose fields are within what they may say, and fit together, or raises `MalformedFrameError`.
Journal records stay opaque here. What only the receiver can judge is a `PeerViolation` there.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from fedq.amqp.stored import fault_of
from fedq.core import limits, versions
from fedq.core import peer_messages as peer
from fedq.core.ids import Incarnation, MapVersion, NodeId, Origin, QueueKey
from fedq.core.ranges import Range
from fedq.shell.pb import peer_pb2 as pb
from fedq.shell.peers.fitting import CHECKS
from fedq.shell.peers.heartbeats import get_heartbeat, put_heartbeat
from fedq.shell.peers.last_words import get_last_words, put_last_words
from fedq.shell.peers.longs import Filled, Long, by_message
from fedq.shell.peers.malformed import MalformedFrameError
from fedq.shell.peers.named_runs import get_runs, put_runs
from fedq.shell.peers.repeats import Repeat, put_back
from fedq.wiring.cluster_map.operation_fields import canonical_arguments

#: One message of the largest allowed body must pass, with everything around it.
FRAME_BYTES_MAX: Final = limits.RECORD_BYTES_MAX + limits.PEER_FRAME_BYTES_MAX
MESSAGES_PER_FRAME_MAX: Final = 65_536
#: Certificates of a node and its proof are in it. What callers say travels in the metadata of their
#: calls, of which gRPC takes some KiB.


# --- fields ---------------------------------------------------------------------------------------


class _Field(NamedTuple):
    name: str
    put: Callable[[Any, Any], None]
    get: Callable[[Any], Any]


#: Positions and event numbers: so that those that follow on them fit into 64 bits, too.
_EVENT_MAX: Final = (1 << 64) - (1 << 40)
#: What is counted: publishes, tickets, requests.
_NUMBER_MAX: Final = 1 << 60
#: How many consumers, or messages, somebody has.
_COUNT_MAX: Final = (1 << 32) - 1
#: The priority of a consumer, either way.
_LEVEL_MAX: Final = (1 << 31) - 1


def _scalar(name: str) -> _Field:
    """A flag, or bytes that others judge."""
    return _Field(
        name, lambda part, value: setattr(part, name, value), lambda part: getattr(part, name)
    )


def _number(name: str, least: int, most: int) -> _Field:
    def get(part: Any) -> int:
        value: int = getattr(part, name)
        if not least <= value <= most:
            raise MalformedFrameError(f"{name}: {value} is not from {least} to {most}")
        return value

    return _scalar(name)._replace(get=get)


def _event(name: str) -> _Field:
    return _number(name, 0, _EVENT_MAX)


def _counted(name: str) -> _Field:
    return _number(name, 0, _NUMBER_MAX)


def _ordinal(name: str) -> _Field:
    return _number(name, 1, _NUMBER_MAX)


def _count(name: str) -> _Field:
    return _number(name, 0, _COUNT_MAX)


def _level(name: str) -> _Field:
    return _number(name, -_LEVEL_MAX, _LEVEL_MAX)


def _fragment(name: str) -> _Field:
    return _number(name, 1, _NUMBER_MAX)


def _list(name: str) -> _Field:
    """Positions or numbers."""

    def get(part: Any) -> list[int]:
        numbers: list[int] = list(getattr(part, name))
        if numbers and max(numbers) > _EVENT_MAX:
            raise MalformedFrameError(f"{name}: a number is too high")
        return numbers

    return _Field(name, lambda part, value: getattr(part, name).extend(value), get)


def _values(name: str) -> _Field:
    """Values of a filter, of which `check` judges."""
    return _list(name)._replace(get=lambda part: tuple(getattr(part, name)))


def _contents(name: str) -> _Field:
    """A list of encoded messages."""

    def get(part: Any) -> list[bytes]:
        contents: list[bytes] = list(getattr(part, name))
        fault = fault_of(contents)
        if fault is not None:
            raise MalformedFrameError(fault)
        return contents

    return _Field(name, lambda part, value: getattr(part, name).extend(value), get)


def _ranges(name: str) -> _Field:
    def put(part: Any, value: list[Range]) -> None:
        ranges = getattr(part, name)
        ranges.first.extend([first for first, _ in value])
        ranges.last.extend([last for _, last in value])

    def get(part: Any) -> list[Range]:
        ranges = getattr(part, name)
        if len(ranges.first) != len(ranges.last):
            raise MalformedFrameError(f"{name}: the ends of some ranges are missing")
        pairs = list(zip(ranges.first, ranges.last, strict=True))
        if any(first > last for first, last in pairs):
            raise MalformedFrameError(f"{name}: a range ends before it begins")
        if any(one[1] >= other[0] for one, other in pairwise(pairs)):
            raise MalformedFrameError(f"{name}: the ranges do not ascend")
        if pairs and pairs[-1][1] > _EVENT_MAX:
            raise MalformedFrameError(f"{name}: a position is too high")
        return pairs

    return _Field(name, put, get)


def _origin(name: str) -> _Field:
    def put(part: Any, value: Origin) -> None:
        target = getattr(part, name)
        target.node, target.incarnation = value

    def get(part: Any) -> Origin:
        target = getattr(part, name)
        node = NodeId(node_name(target.node))
        if target.incarnation > _NUMBER_MAX:
            raise MalformedFrameError(f"{name}: {target.incarnation} is no incarnation")
        return Origin(node, Incarnation(target.incarnation))

    return _Field(name, put, get)


def _keys(name: str) -> _Field:
    def put(part: Any, value: list[QueueKey]) -> None:
        target = getattr(part, name)
        for vhost, queue in value:
            target.add(vhost=vhost, name=queue)

    def get(part: Any) -> list[QueueKey]:
        return [_key(key) for key in getattr(part, name)]

    return _Field(name, put, get)


def _items(name: str) -> _Field:
    def put(part: Any, value: list[peer.InterestItem]) -> None:
        target = getattr(part, name)
        for (vhost, exchange), routing_key, arguments in value:
            item = target.add(
                routing_key=routing_key.encode("utf-8", "surrogateescape"), arguments=arguments
            )
            item.exchange.vhost, item.exchange.name = vhost, exchange

    def get(part: Any) -> list[peer.InterestItem]:
        return [
            peer.InterestItem(
                _key(item.exchange),
                _short(item.routing_key).decode("utf-8", "surrogateescape"),
                _arguments(item.arguments),
            )
            for item in getattr(part, name)
        ]

    return _Field(name, put, get)


def _name(name: str) -> _Field:
    return _scalar(name)._replace(get=lambda part: _text(getattr(part, name)))


def _key(key: Any) -> QueueKey:
    return QueueKey(_text(key.vhost), _text(key.name))


def _text(text: str) -> str:
    _short(text.encode())
    return text


def _short(data: bytes) -> bytes:
    if len(data) > limits.NAME_BYTES_MAX:
        raise MalformedFrameError(f"a name is longer than {limits.NAME_BYTES_MAX} bytes")
    return data


def _arguments(text: str) -> str:
    """The arguments of a binding, as JSON."""
    try:
        return canonical_arguments(text)
    except ValueError as error:
        raise MalformedFrameError(f"arguments: {error}") from error


def node_name(name: str) -> str:
    """A node's name off the wire; `MalformedFrameError` if it is none."""
    if not name or len(name.encode()) > limits.NAME_BYTES_MAX:
        raise MalformedFrameError("a node's name is empty or longer than 255 bytes")
    return name


# --- message kinds --------------------------------------------------------------------------------


class _Kind(NamedTuple):
    make: Callable[..., Any]
    slot: str  # The field of the `oneof`.
    fields: tuple[_Field, ...]
    check: Callable[[Any], None] | None  # Whether the fields fit together.


#: How each field is put and got, by its name; flags and bytes that others judge are not here.
_FIELDS: Final[dict[str, Callable[[str], _Field]]] = {
    "fragment": _fragment, "reign": _counted, "version": _counted, "epoch": _counted,
    "kind": _count, "value": _event, "next": _event,
    "base": _event, "previous": _event, "last": _event,
    "first": _ordinal, "through": _event, "number": _counted, "copied": _counted,
    "copy": _counted, "request": _counted, "ticket": _event, "verb": _count,
    "consumers": _count, "idle": _count, "amount": _counted, "ready": _count, "level": _level,
    "live": _counted, "connections": _count, "channels": _count,
    "user": _name, "vhost": _name, "name": _name, "origin": _origin, "messages": _contents,
    "values": _values, "held": _ranges, "dropped": _ranges,
    "added": _items, "removed": _items, "everything": _keys, "selective": _keys,
    "positions": _list, "redelivered": _list, "acknowledged": _list, "requeued": _list,
    "named": lambda name: _Field(name, put_runs, get_runs),
    "rejected": _list, "unseen": _list, "unmatched": _list, "refused": _list,
}  # fmt: skip
_SPECIAL: Final = {
    # A ticket, where it answers a consumer's question.
    (peer.Reply, "consumers"): _event("consumers"),
    # Of deliveries, not an event.
    (peer.Credit, "through"): _counted("through"),
}
_FLAGS: Final = frozenset(
    (
        "resent", "exclusive", "once", "done", "whole", "more", "unfiltered", "retires", "busy",
    )
)  # fmt: skip
_UNJUDGED: Final = _FLAGS | {"forgets", "records", "origins", "digest", "flags"}


def _kind(make: Any, slot: str) -> _Kind:
    fields = tuple(
        _scalar(name) if name in _UNJUDGED else _FIELDS[name](name) for name in make._fields
    )
    fields = tuple(_SPECIAL.get((make, each.name), each) for each in fields)
    wire = pb.PeerMessage.DESCRIPTOR.fields_by_name[slot].message_type
    names = set(wire.fields_by_name if wire is not None else ())
    # internal: tables of this module.
    assert names == set(make._fields), f"peer.proto and {make.__name__} disagree"
    return _Kind(make, slot, fields, CHECKS.get(make))


_KINDS: tuple[_Kind, ...] = (
    _kind(peer.PublishBatch, "publish_batch"),
    _kind(peer.PublishAtomic, "publish_atomic"),
    _kind(peer.PublishDone, "publish_done"),
    _kind(peer.Watch, "watch"),
    _kind(peer.Offer, "offer"),
    _kind(peer.Credit, "credit"),
    _kind(peer.CreditBack, "credit_back"),
    _kind(peer.Get, "get"),
    _kind(peer.Deliver, "deliver"),
    _kind(peer.Settle, "settle"),
    _kind(peer.Attach, "attach"),
    _kind(peer.ReplicaOffer, "replica_offer"),
    _kind(peer.CopyStart, "copy_start"),
    _kind(peer.CopyChunk, "copy_chunk"),
    _kind(peer.Replicate, "replicate"),
    _kind(peer.ReplicaAck, "replica_ack"),
    _kind(peer.MapApplied, "map_applied"),
    _kind(peer.Interest, "interest"),
    _kind(peer.InterestDone, "interest_done"),
    _kind(peer.Relay, "relay"),
    _kind(peer.RelayDone, "relay_done"),
    _kind(peer.Call, "call"),
    _kind(peer.Reply, "reply"),
    _kind(peer.Got, "got"),
    _kind(peer.ReplicaWanted, "replica_wanted"),
    _kind(peer.CopyQuery, "copy_query"),
    _kind(peer.CopyWorth, "copy_worth"),
    _kind(peer.Tally, "tally"),
    _kind(peer.ReadStream, "read_stream"),
    _kind(peer.StreamPart, "stream_part"),
    _kind(peer.ReadAs, "read_as"),
    _kind(peer.ReadTurn, "read_turn"),
    _kind(peer.BodiesWanted, "bodies_wanted"),
    _kind(peer.Bodies, "bodies"),
    _kind(peer.Quiesce, "quiesce"),
    _kind(peer.Quiesced, "quiesced"),
)
_BY_TYPE = {kind.make: kind for kind in _KINDS}
_BY_SLOT = {kind.slot: kind for kind in _KINDS}

assert len(_BY_SLOT) == len(pb.PeerMessage.DESCRIPTOR.fields), "peer.proto has another kind"


# --- frames ---------------------------------------------------------------------------------------


def encode_frame(
    frame: peer.PeerFrame,
    version: int = versions.NEWEST,
    longs: Sequence[Long] = (),
    repeats: Sequence[Repeat] = (),
) -> bytes:
    """The frame as bytes; `longs` follow it. A value that does not fit is a bug: `ValueError`."""
    wire = pb.PeerFrame(
        version=version,
        sender=frame.sender,
        incarnation=frame.incarnation,
        session_sender=frame.session[0],
        session_receiver=frame.session[1],
        first=frame.first,
        acknowledged=frame.acknowledged,
        map_version=frame.map_version,
        asks=frame.asks,
    )
    put_last_words(wire, frame.last_words)
    add = wire.messages.add
    for message in frame.messages:
        kind = _BY_TYPE[type(message)]
        part = getattr(add(), kind.slot)
        # A message whose fields are all zero must still be there.
        part.SetInParent()
        for field, value in zip(kind.fields, message, strict=True):
            field.put(part, value)
    if frame.heartbeat is not None:
        put_heartbeat(wire, frame.heartbeat)
    for number, place, content in longs:
        wire.longs.add(message=number, place=place, size=len(content))
    for each in repeats:
        wire.repeats.add(**each._asdict())
    return wire.SerializeToString()


def decode_frame(data: bytes) -> peer.PeerFrame:
    """The frame in `data`; raises `MalformedFrameError` when there is none."""
    wire = read_frame(data)
    if wire.longs:
        raise MalformedFrameError("the long contents of a frame do not follow it")
    return frame_of(wire)


def read_frame(data: bytes) -> pb.PeerFrame:
    """What `data` says, and what of it is to follow; raises `MalformedFrameError`."""
    if len(data) > FRAME_BYTES_MAX:
        raise MalformedFrameError(
            f"a frame of {len(data)} bytes; at most {FRAME_BYTES_MAX} are read"
        )
    wire = pb.PeerFrame()
    try:
        wire.ParseFromString(data)
    except DecodeError as error:
        raise MalformedFrameError(f"not a peer frame: {error}") from error
    if not versions.OLDEST <= wire.version <= versions.NEWEST:
        raise MalformedFrameError(
            f"a frame of version {wire.version}; this node speaks {versions.shown(versions.MINE)}"
        )
    if len(wire.messages) > MESSAGES_PER_FRAME_MAX:
        raise MalformedFrameError(f"{len(wire.messages)} messages in one frame")
    if wire.messages and wire.first == 0:
        raise MalformedFrameError("messages without a number")
    return wire


def frame_of(wire: pb.PeerFrame, longs: Sequence[Long] = ()) -> peer.PeerFrame:
    """The frame, with the long contents that came behind it; raises `MalformedFrameError`."""
    return peer.PeerFrame(
        sender=NodeId(node_name(wire.sender)),
        incarnation=Incarnation(wire.incarnation),
        session=(wire.session_sender, wire.session_receiver),
        first=wire.first,
        acknowledged=wire.acknowledged,
        map_version=MapVersion(wire.map_version),
        messages=(
            _filled(wire, longs)
            if longs or wire.repeats
            else list(map(_decode_message, wire.messages))
        ),
        heartbeat=get_heartbeat(wire) if wire.HasField("heartbeat") else None,
        asks=wire.asks,
        last_words=get_last_words(wire),
    )


def _filled(wire: pb.PeerFrame, longs: Sequence[Long]) -> list[peer.PeerMessage]:
    """The messages of a frame from which contents were left out."""
    found = by_message(longs, len(wire.messages))
    filled = {at: Filled(_part_of(wire.messages[at])[1], places) for at, places in found.items()}
    put_back(wire, filled, FRAME_BYTES_MAX)
    return [_decode_message(part, filled.get(at)) for at, part in enumerate(wire.messages)]


def _decode_message(wire: pb.PeerMessage, filled: Filled | None = None) -> peer.PeerMessage:
    kind, part = _part_of(wire)
    source = part if filled is None else filled
    message: peer.PeerMessage = kind.make(*[field.get(source) for field in kind.fields])
    if kind.check is not None:
        kind.check(message)
    return message


def _part_of(wire: pb.PeerMessage) -> tuple[_Kind, Any]:
    """The kind of a message, and the fields of it."""
    slot = wire.WhichOneof("kind")
    if slot is None:
        raise MalformedFrameError("a message of an unknown kind")
    return _BY_SLOT[slot], getattr(wire, slot)


# --- the small messages beside them ---------------------------------------------------------------


def encode_raft(data: bytes) -> bytes:
    """A frame of the consensus log, wrapped for its stream."""
    return pb.RaftFrame(data=data).SerializeToString()


def decode_raft(data: bytes) -> bytes:
    """What `encode_raft` wrapped; raises `MalformedFrameError`."""
    try:
        return pb.RaftFrame.FromString(data).data
    except DecodeError as error:
        raise MalformedFrameError(f"not a frame of the consensus log: {error}") from error
