"""What a dynamic shovel may be, as RabbitMQ defines one (docs/adr/0114).

Inputs: values of parameters of the component `shovel`, fresh from a client or back from the cluster
map. Outputs: what is wrong with one, in RabbitMQ's words, without any password; a `Shovel`; or the
value as it may be shown.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from fedq.amqp.uris import AmqpUri, parse_uri
from fedq.core.limits import NAME_BYTES_MAX
from fedq.wiring.cluster_map.policy_definitions import erlang_text

Definition: TypeAlias = Mapping[str, Any]

#: The component of the parameters that are shovels.
SHOVEL: Final = "shovel"
ON_CONFIRM: Final = "on-confirm"
ON_PUBLISH: Final = "on-publish"
NO_ACK: Final = "no-ack"
_ACK_MODES: Final = (ON_CONFIRM, ON_PUBLISH, NO_ACK)
NEVER: Final = "never"
QUEUE_LENGTH: Final = "queue-length"
PREFETCH: Final = 1_000
PREFETCH_MAX: Final = 65_535
RECONNECT_S: Final = 5
_RECONNECT_MAX: Final = 86_400
_URIS_MAX: Final = 16
_COUNT_MAX: Final = 1 << 60
#: Names of earlier releases, which RabbitMQ still takes.
_OLD: Final = {
    "prefetch-count": "src-prefetch-count",
    "delete-after": "src-delete-after",
    "add-forward-headers": "dest-add-forward-headers",
    "add-timestamp-header": "dest-add-timestamp-header",
}
_URIS: Final = ("src-uri", "dest-uri")
_TEXTS: Final = (
    "src-queue", "src-exchange", "src-exchange-key", "dest-queue", "dest-exchange",
    "dest-exchange-key",
)  # fmt: skip
_TABLES: Final = ("src-queue-args", "dest-queue-args", "src-consumer-args")
_FLAGS: Final = ("dest-add-forward-headers", "dest-add-timestamp-header")
_PROTOCOLS: Final = ("src-protocol", "dest-protocol")
_KNOWN: Final = frozenset(
    [
        "ack-mode", "src-prefetch-count", "src-delete-after", "reconnect-delay", *_URIS, *_TEXTS,
        *_TABLES, *_FLAGS, *_PROTOCOLS,
    ]
)  # fmt: skip


class Shovel(NamedTuple):
    """A shovel: what is taken where, and where it goes."""

    src_uris: tuple[str, ...]
    #: "": messages come of an exchange, by an exclusive queue.
    src_queue: str
    src_exchange: str
    src_key: str
    src_queue_arguments: dict[str, Any]
    src_consumer_arguments: dict[str, Any]
    dest_uris: tuple[str, ...]
    #: None: no queue is named, and nothing is declared.
    dest_queue: str | None
    dest_queue_arguments: dict[str, Any]
    #: None: that with which a message was published.
    dest_exchange: str | None
    dest_key: str | None
    ack_mode: str
    prefetch: int
    #: After so many messages it is done; `NEVER`, or `QUEUE_LENGTH`: what was there as it began.
    delete_after: int | str
    #: Seconds; 0: it does not try again.
    reconnect_s: float
    adds_headers: bool
    adds_time: bool


def refuse_shovel(value: object) -> str | None:
    """What is wrong with a shovel; None: nothing."""
    return refuse_form(value) or _refuse_uris(value)


def refuse_form(value: object) -> str | None:
    """What is wrong with a shovel but for what its URIs say; None: nothing.

    All nodes have to judge alike what the map gets. URIs are read by Python's own libraries, of
    which releases differ (brackets in a password, say): whoever proposes a shovel looks at them.
    """
    if not isinstance(value, dict):
        return f"value should be a JSON object, actually was {erlang_text(value)}"
    said = _renamed(value)
    unknown = sorted([key for key in said if key not in _KNOWN])
    if unknown:
        # Not their values: a key that is mistyped may be that of a URI.
        return f"Unrecognised terms [{', '.join(unknown)[:200]}] in shovel"
    for end in _URIS:
        if end not in said:
            return f'Key "{end}" not found in shovel'
        if not 0 < len(_uris_of(said[end])) <= _URIS_MAX:
            return f"{end} should be a URI, or a list of 1 to {_URIS_MAX}"
    return _refuse_ends(said) or _refuse_values(said)


def _renamed(value: Definition) -> dict[str, Any]:
    return {_OLD.get(key, key): value[key] for key in value}


def _uris_of(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _refuse_uris(said: Any) -> str | None:
    """What is wrong with the URIs of a value whose form was checked."""
    for end in _URIS:
        for each in _uris_of(said[end]):
            parsed = parse_uri(each)
            if isinstance(parsed, str):
                return f"{end} is not a valid URI: {parsed}"
    return None


def _refuse_ends(said: Definition) -> str | None:
    if "src-queue" not in said and "src-exchange" not in said:
        return "Must specify 'src-exchange' or 'src-queue'"
    for end in ("src", "dest"):
        if f"{end}-queue" in said and f"{end}-exchange" in said:
            return f"Cannot specify '{end}-exchange' and '{end}-queue'"
    if said.get("src-queue") == "" or said.get("src-exchange") == "":
        return "'src-queue' or 'src-exchange' should be a name, actually was empty"
    if said.get("dest-queue") == "":
        # (Each time it begins it would declare another one.)
        return "'dest-queue' should be a name, actually was empty"
    for key in _TEXTS:
        if key in said and not isinstance(said[key], str):
            return f"{key} should be binary, actually was {erlang_text(said[key])}"
        if key in said and len(said[key].encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
            return f"{key} is longer than {NAME_BYTES_MAX} bytes"
    return None


def _refuse_values(said: Definition) -> str | None:
    for key in _PROTOCOLS:
        if said.get(key, "amqp091") != "amqp091":
            return f"{key} should be amqp091, actually was {erlang_text(said[key])}: no other here"
    mode = said.get("ack-mode", ON_CONFIRM)
    if mode not in _ACK_MODES:
        return (
            f"ack-mode should be one of {', '.join(_ACK_MODES)}, actually was {erlang_text(mode)}"
        )
    for key in _FLAGS:
        if not isinstance(said.get(key, False), bool):
            return f"{key} should be boolean, actually was {erlang_text(said[key])}"
    for key in _TABLES:
        if not isinstance(said.get(key, {}), dict):
            return f"{key} should be a JSON object, actually was {erlang_text(said[key])}"
    prefetch = said.get("src-prefetch-count", PREFETCH)
    if not _is_number(prefetch, 1, PREFETCH_MAX):
        shown = erlang_text(prefetch)
        return f"src-prefetch-count should be a number from 1 to {PREFETCH_MAX}, was {shown}"
    delay = said.get("reconnect-delay", RECONNECT_S)
    if isinstance(delay, bool) or not isinstance(delay, int | float):
        return f"reconnect-delay should be number, actually was {erlang_text(delay)}"
    if not 0 <= delay <= _RECONNECT_MAX:
        return f"reconnect-delay should be from 0 to {_RECONNECT_MAX} seconds"
    after = said.get("src-delete-after", NEVER)
    if after not in (NEVER, QUEUE_LENGTH) and not _is_number(after, 1, _COUNT_MAX):
        return f"src-delete-after should be never, queue-length or number, was {erlang_text(after)}"
    if isinstance(after, int) and mode == NO_ACK:
        return "Cannot specify 'no-ack' and numerical 'delete-after'"
    if after == QUEUE_LENGTH and "src-queue" not in said:
        return "src-delete-after should be never or number for an exchange, which has no length"
    return None


def _is_number(value: object, lowest: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= most


def shovel_of(value: Definition) -> Shovel:
    """The shovel that a value of the map defines, which was checked."""
    said = _renamed(value)
    dest_queue = said.get("dest-queue")
    return Shovel(
        tuple([str(each) for each in _uris_of(said["src-uri"])]),
        said.get("src-queue", ""), said.get("src-exchange", ""), said.get("src-exchange-key", ""),
        dict(said.get("src-queue-args", {})), dict(said.get("src-consumer-args", {})),
        tuple([str(each) for each in _uris_of(said["dest-uri"])]),
        dest_queue, dict(said.get("dest-queue-args", {})),
        said.get("dest-exchange"), said.get("dest-exchange-key"),
        said.get("ack-mode", ON_CONFIRM), said.get("src-prefetch-count", PREFETCH),
        said.get("src-delete-after", NEVER), said.get("reconnect-delay", RECONNECT_S),
        said.get("dest-add-forward-headers", False), said.get("dest-add-timestamp-header", False),
    )  # fmt: skip


def uris_of(value: object) -> list[AmqpUri]:
    """All URIs of a value that was checked."""
    if not isinstance(value, dict):
        return []
    said = [*_uris_of(value.get("src-uri")), *_uris_of(value.get("dest-uri"))]
    return [parsed for each in said if isinstance(parsed := parse_uri(each), AmqpUri)]


def masked(value: Definition) -> dict[str, Any]:
    """A value that was checked, as it may be shown: without its passwords."""
    return {key: _masked(said) if key in _URIS else said for key, said in value.items()}


def _masked(said: object) -> object:
    if isinstance(said, list):
        return [_masked(each) for each in said]
    parsed = parse_uri(said)
    return parsed.masked if isinstance(parsed, AmqpUri) else "?"


def ends_shown(shovel: Shovel) -> tuple[str, str]:
    """Where a shovel takes and where it puts, in words."""
    source = f"queue {shovel.src_queue}"
    if not shovel.src_queue:
        source = f"exchange {shovel.src_exchange}, key {shovel.src_key!r}"
    if shovel.dest_queue is not None:
        return source, f"queue {shovel.dest_queue}"
    exchange = "as published" if shovel.dest_exchange is None else shovel.dest_exchange
    key = "" if shovel.dest_key is None else f", key {shovel.dest_key!r}"
    return source, f"exchange {exchange}{key}"


def first_uris(shovel: Shovel) -> tuple[str, str]:
    """The first URI of each end, without user and password."""
    found = [parse_uri(uris[0]) for uris in (shovel.src_uris, shovel.dest_uris)]
    source, destination = [each.shown if isinstance(each, AmqpUri) else "" for each in found]
    return source, destination
