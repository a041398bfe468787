"""Messages of peers, each field drawn from all that the codec lets pass, with its extremes."""

from itertools import pairwise
from typing import get_args

from hypothesis import strategies as st

from fedq.amqp.content import encode_properties, message_flags
from fedq.amqp.values import FieldTable
from fedq.core import peer_messages as peer
from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin, QueueKey
from fedq.core.message import encode
from fedq.core.ranges import Range
from fedq.core.suspects import LastWords, Suspect
from fedq.wiring.cluster_map.stream_arguments import LAST, NEXT, TIME

EVENT_MAX = 2**64 - 2**40
NUMBER_MAX = 2**60
COUNT_MAX = 2**32 - 1


def _numbers(least: int, most: int) -> st.SearchStrategy[int]:
    ends = st.sampled_from([least, least + 1, most - 1, most])
    return st.integers(least, most) | ends | st.integers(least, least + 20)


EVENTS = _numbers(0, EVENT_MAX)
COUNTED = _numbers(0, NUMBER_MAX)
COUNTS = _numbers(0, COUNT_MAX)
LISTS = st.lists(EVENTS, max_size=5, unique=True)
PROPERTIES: st.SearchStrategy[FieldTable] = st.fixed_dictionaries(
    {},
    optional={
        "headers": st.sampled_from([{}, {"x-death": []}, {"CC": ["k"]}, {"x-delay": 2**62}]),
        "delivery_mode": st.sampled_from([0, 1, 2, 255]),
        "priority": st.sampled_from([0, 255]),
        "expiration": st.sampled_from(["0", "1", "no time", "9" * 20]),
        "user_id": st.just("guest"),
    },
)


def _content(properties: FieldTable, route: tuple[str, str], body: bytes) -> bytes:
    data = encode_properties(properties)
    parts = b"".join(bytes([len(part.encode())]) + part.encode() for part in route)
    return encode(message_flags(data), parts, data, body)


CONTENTS = st.builds(
    _content,
    PROPERTIES,
    st.tuples(st.sampled_from(["", "x", "e" * 255]), st.sampled_from(["", "q", "k" * 255])),
    st.binary(max_size=50),
)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
KEYS = st.builds(QueueKey, NAMES, NAMES)
#: Routing keys as the wire gives them: any bytes, the undecodable ones as surrogates.
ROUTING_KEYS = st.binary(max_size=20).map(lambda key: key.decode("utf-8", "surrogateescape"))


def _ascending(ends: list[int]) -> list[Range]:
    ends = sorted(ends)
    return [(a, b) for place, (a, b) in enumerate(pairwise(ends)) if place % 2 == 0]


RANGES = st.lists(EVENTS, max_size=8, unique=True).map(_ascending)
FRAGMENTS = _numbers(1, NUMBER_MAX).map(FragmentId)
ARGUMENTS = st.sampled_from(["", '{"a":1}', '{"x-match":"any"}', '{"b":null,"x-match":[1]}'])
ITEMS = st.lists(st.builds(peer.InterestItem, KEYS, ROUTING_KEYS, ARGUMENTS), max_size=3)
FLAGS = st.booleans()

BY_FIELD: dict[str, st.SearchStrategy[object]] = {
    "kind": COUNTS, "value": EVENTS, "next": EVENTS,
    "fragment": FRAGMENTS, "reign": COUNTED, "version": COUNTED, "epoch": COUNTED, "live": COUNTED,
    "base": EVENTS, "previous": EVENTS, "last": EVENTS, "through": EVENTS,
    "first": _numbers(1, NUMBER_MAX), "number": COUNTED, "copied": COUNTED, "copy": COUNTED,
    "request": COUNTED, "ticket": EVENTS, "verb": COUNTS, "consumers": COUNTS, "idle": COUNTS,
    "connections": COUNTS, "channels": COUNTS, "user": NAMES,
    "amount": COUNTED, "ready": COUNTS, "level": _numbers(-(2**31) + 1, 2**31 - 1),
    "origin": st.builds(
        Origin, NAMES.map(NodeId), _numbers(0, NUMBER_MAX).map(Incarnation)
    ),
    "messages": st.lists(CONTENTS, max_size=4),
    "resent": FLAGS, "once": FLAGS, "exclusive": FLAGS, "whole": FLAGS, "more": FLAGS,
    "retires": FLAGS, "busy": FLAGS,
    "done": FLAGS,
    "positions": LISTS, "redelivered": LISTS, "acknowledged": LISTS, "requeued": LISTS,
    "rejected": LISTS, "unseen": LISTS, "unmatched": LISTS, "refused": LISTS,
    "held": RANGES, "dropped": RANGES,
    "flags": st.binary(max_size=4),
    "records": st.binary(max_size=100), "origins": st.binary(max_size=100),
    "added": ITEMS, "removed": ITEMS,
    "everything": st.lists(KEYS, max_size=3), "selective": st.lists(KEYS, max_size=3),
    "values": st.lists(st.binary(max_size=255), max_size=16, unique=True).map(tuple),
    "unfiltered": FLAGS, "forgets": FLAGS, "name": NAMES | st.just(""),
    "vhost": NAMES, "digest": _numbers(0, 2**56 - 1),
    "named": st.lists(
        st.builds(
            peer.NamedRun, st.integers(0, 2), st.integers(1, 2), NAMES, _numbers(1, 2**63 - 2)
        ),
        max_size=3,
    ).map(tuple),
}  # fmt: skip
KINDS = get_args(peer.PeerMessage)
_SOME = _content({}, ("", "q"), b"body")


def fitting(message: peer.PeerMessage) -> peer.PeerMessage:
    """The message with fields that fit together, as its decoder asks."""
    if isinstance(message, peer.Deliver | peer.Got):
        most = 1 if isinstance(message, peer.Got) else 5
        size = min(len(message.positions), len(message.messages), most)
        return message._replace(
            positions=message.positions[:size], messages=message.messages[:size]
        )
    if isinstance(message, peer.BodiesWanted):
        return message._replace(positions=sorted(set(message.positions)))
    if isinstance(message, peer.Bodies):
        positions = sorted(set(message.positions))
        size = min(len(positions), len(message.messages))
        return message._replace(
            positions=positions[:size], messages=message.messages[:size], flags=bytes(size)
        )
    if isinstance(message, peer.StreamPart):
        if message.kind != peer.READ_FROM:
            return message._replace(positions=[], messages=[])
        first, size = min(message.value, 1 << 60), len(message.messages)
        positions = [first + 2 * place for place in range(size)]
        return message._replace(value=first, positions=positions, next=first + 2 * size)
    if isinstance(message, peer.ReadStream):
        kind = (peer.READ_FROM, LAST, NEXT, TIME)[message.kind % 4]
        return message._replace(kind=kind, amount=message.amount or 1 - min(message.request, 1))
    if isinstance(message, peer.PublishBatch | peer.Relay) and not message.messages:
        message = message._replace(messages=[_SOME])
    if isinstance(message, peer.PublishBatch | peer.PublishAtomic):
        return message._replace(named=_within(message.named, len(message.messages)))
    if isinstance(message, peer.Replicate):
        ends = sorted((message.previous, message.last))
        return message._replace(previous=ends[0], last=ends[1])
    return message


def _within(runs: tuple[peer.NamedRun, ...], count: int) -> tuple[peer.NamedRun, ...]:
    """Runs of publishers with names that ascend in a batch, as far as it goes."""
    place, found = 0, list[peer.NamedRun]()
    for run in runs:
        place += run.place
        size = min(run.size, count - place)
        if size > 0:
            found.append(run._replace(place=place, size=size))
        place += max(size, 0)
    return tuple(found)


def messages_of(
    kind: type, **fields: st.SearchStrategy[object]
) -> st.SearchStrategy[peer.PeerMessage]:
    """Any message of one kind; `fields` replaces how some are drawn."""
    drawn = {**BY_FIELD, **fields}
    if kind is peer.Credit:
        drawn["through"] = drawn["number"]
    values = [drawn[name] for name in kind._fields]  # type: ignore[attr-defined]
    return st.tuples(*values).map(lambda values: fitting(kind(*values)))


def suspects_of(
    fragments: st.SearchStrategy[int], positions: st.SearchStrategy[int]
) -> st.SearchStrategy[Suspect]:
    """What last words name: a message with or without a place, or a whole fragment."""
    sizes, digests = st.integers(1, 2**28), st.binary(min_size=16, max_size=16)
    placed = st.builds(Suspect, fragments, positions, sizes, digests, FLAGS)
    unplaced = st.builds(Suspect, st.just(0), st.just(0), sizes, digests, FLAGS)
    whole = st.builds(Suspect, fragments, st.just(0), st.just(0), st.just(b""), FLAGS)
    return placed | unplaced | whole


LAST_WORDS = st.builds(LastWords, NAMES, st.lists(suspects_of(FRAGMENTS, EVENTS), max_size=4))
any_message = st.one_of([messages_of(kind) for kind in KINDS])
