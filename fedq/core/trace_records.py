"""What traces say of messages: batches of events, as JSON lines (docs/adr/0079).

    {"fedq_trace":1,"trace":"all","node":"n1","incarnation":3,"batch":7,"ms":1790000000000}
    {"kind":"routed","ms":1790000000000,"queue":"q","fragment":4,"numbers":[[1,3]], …}

The first line is the batch, each further one an event, which leaves out what is 0, empty or false.
Inputs: events; outputs: the body of a message in a trace's stream, and back. Nothing but Python is
needed to read one.

Invariants: `decode(encode(head, map(fields_of, events)))` gives `head` and `events` again; decoding
raises nothing but ValueError, whatever the bytes. Fields that a later release added are passed
over, and kinds are taken as they are; a field is never renamed.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

#: The version of the form.
VERSION: Final = 1
#: No batch is larger; nor is one read that is.
BATCH_BYTES_MAX: Final = 8 << 20

#: Both ends are included.
Ranges: TypeAlias = tuple[tuple[int, int], ...]

# What happened. See the table in docs/adr/0079.
ACCEPTED: Final = "accepted"
ROUTED: Final = "routed"
ENQUEUED: Final = "enqueued"
REFUSED: Final = "refused"
CONFIRMED: Final = "confirmed"
NACKED: Final = "nacked"
RETURNED: Final = "returned"
DELIVERED: Final = "delivered"
FANNED: Final = "fanned"
ACKED: Final = "acked"
REJECTED: Final = "rejected"
REQUEUED: Final = "requeued"
SETTLED: Final = "settled"
RELEASED: Final = "released"
DEAD_LETTERED: Final = "dead_lettered"
DROPPED: Final = "dropped"
LEADS: Final = "leads"
STANDING: Final = "standing"
DELETED: Final = "deleted"
STARTED: Final = "started"
STOPPED: Final = "stopped"
GAP: Final = "gap"
#: Why a publish of a publisher with a name was refused, and is confirmed all the same.
DUPLICATE: Final = "duplicate"
#: And that it was sent to nobody yet, since its fragment was retired: it goes on to another one.
PASSED_ON: Final = "retired"
KINDS: Final = (
    ACCEPTED, ROUTED, ENQUEUED, REFUSED, CONFIRMED, NACKED, RETURNED, DELIVERED, FANNED, ACKED,
    REJECTED, REQUEUED, SETTLED, RELEASED, DEAD_LETTERED, DROPPED, LEADS, STANDING, DELETED,
    STARTED, STOPPED, GAP,
)  # fmt: skip


class Head(NamedTuple):
    """Which batch of which process of which trace."""

    trace: str
    node: str
    incarnation: int
    #: 1, 2, … of this process, for this trace.
    batch: int
    #: When it was closed, by the wall clock of the node.
    ms: int


class Event(NamedTuple):
    """What happened to a run of messages; what does not apply is 0, empty or false."""

    kind: str
    #: By the wall clock of the node, in milliseconds since 1970.
    ms: int
    vhost: str = ""
    queue: str = ""
    fragment: int = 0
    reign: int = 0
    positions: Ranges = ()
    redelivered: Ranges = ()
    origin: str = ""
    origin_incarnation: int = 0
    numbers: Ranges = ()
    connection: int = 0
    channel: int = 0
    user: str = ""
    sequences: Ranges = ()
    confirms: bool = False
    exchange: str = ""
    routing_key: str = ""
    consumer: str = ""
    tags: Ranges = ()
    no_ack: bool = False
    reason: str = ""
    amount: int = 0
    from_fragment: int = 0
    from_positions: Ranges = ()


class Batch(NamedTuple):
    """The body of one message of a trace's stream."""

    head: Head
    events: list[Event]


#: An event as it stands in a line.
Fields: TypeAlias = Mapping[str, object]

_EVENT: Final[dict[str, type]] = {
    name: tuple if kind is Ranges else kind for name, kind in Event.__annotations__.items()
}
_HEAD: Final[dict[str, type]] = dict(Head.__annotations__)


def fields_of(event: Event) -> dict[str, object]:
    """An event as it stands in a line: without what is 0, empty or false."""
    known = zip(Event._fields[2:], event[2:], strict=True)
    return {"kind": event.kind, "ms": event.ms, **{name: value for name, value in known if value}}


def encode(head: Head, lines: Iterable[bytes]) -> bytes:
    """The body of a batch; the lines are those of `line`."""
    first = line({"fedq_trace": VERSION, **head._asdict()})
    return b"\n".join([first, *lines])


def line(fields: Fields) -> bytes:
    """One line of a body."""
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(body: bytes) -> Batch:
    """The batch that the body of a message is; ValueError if it is none."""
    if len(body) > BATCH_BYTES_MAX:
        raise ValueError(f"this batch of a trace has {len(body)} bytes, of at most 8 MiB")
    lines = body.split(b"\n")
    first = _object(lines[0])
    if "fedq_trace" not in first:
        raise ValueError("this is no batch of a trace: its first line has no fedq_trace")
    if first["fedq_trace"] != VERSION:
        version = first["fedq_trace"]
        text = f"this batch of a trace is of version {version!r}: a later release of fedq reads it"
        raise ValueError(text)
    missing = [name for name in _HEAD if name not in first]
    if missing:
        raise ValueError(f"a batch of a trace lacks {missing[0]}")
    return Batch(Head(**_checked(first, _HEAD)), [_event(_object(each)) for each in lines[1:]])


def _event(found: dict[str, object]) -> Event:
    if "kind" not in found or "ms" not in found:
        raise ValueError("an event of a trace lacks its kind, or its time")
    return Event(**_checked(found, _EVENT))


def _object(data: bytes) -> dict[str, object]:
    try:
        found = json.loads(data)
    except RecursionError as error:
        raise ValueError("a line of a trace is nested too deep") from error
    if not isinstance(found, dict):
        raise ValueError("a line of a trace is no JSON object")
    return found


def _checked(found: Mapping[str, object], types: Mapping[str, type]) -> dict[str, Any]:
    """The fields that are known, each of its type."""
    kept: dict[str, Any] = {}
    for name, kind in types.items():
        if name not in found:
            continue
        value = found[name]
        if kind is tuple:
            kept[name] = _ranges(name, value)
        elif type(value) is kind:
            kept[name] = value
        else:
            raise ValueError(f"{name} of a trace is {value!r}, which is no {kind.__name__}")
    return kept


def _ranges(name: str, value: object) -> Ranges:
    if not isinstance(value, list):
        raise ValueError(f"{name} of a trace is {value!r}, which is no list of ranges")
    for each in value:
        if not isinstance(each, list) or len(each) != 2 or not all(type(n) is int for n in each):
            raise ValueError(f"{name} of a trace has {each!r}, which is no pair of numbers")
    return tuple([(first, last) for first, last in value])
