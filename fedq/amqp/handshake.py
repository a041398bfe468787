"""The opening of a connection: what the server says of itself, and what both agree on.

Pure functions for `fedq.amqp.connection`, with the settings of a node's AMQP side
(AMQP 0-9-1 clause 2.2.4).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fedq.amqp.frames import FRAME_BYTES_MIN
from fedq.amqp.methods import ConnectionStart, ConnectionTune, ConnectionTuneOk
from fedq.amqp.sasl import MECHANISMS
from fedq.amqp.values import FieldTable, TableValue
from fedq.core import limits
from fedq.core.errors import NOT_ALLOWED, ConnectionViolation

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"

_CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "authentication_failure_close",
    "per_consumer_qos",
)


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """What every connection of a node is told; one object for all of them."""

    node: str
    #: (mechanism, response, is_loopback) -> user name, or `None` to refuse.
    authenticate: Callable[[str, bytes, bool], str | None]
    #: Whether the virtual host exists.
    vhosts: Callable[[str], bool]
    product: str = "fedq"
    version: str = "0.1.0"
    cluster_name: str = "fedq"
    frame_bytes_max: int = limits.frame_bytes_max
    channels_max: int = limits.channels_max
    #: Proposed to clients; 0 proposes none.
    heartbeat_s: int = limits.heartbeat_s
    #: Added to what the server says of itself.
    server_properties: Mapping[str, TableValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert FRAME_BYTES_MIN <= self.frame_bytes_max <= limits.body_bytes_max
        assert 1 <= self.channels_max <= 0xFFFF
        assert 0 <= self.heartbeat_s <= 0xFFFF


class Tuned(NamedTuple):
    """The limits that both sides keep to from now on; no heartbeat is 0."""

    channels_max: int
    frame_bytes_max: int
    heartbeat_s: int


def start_of(settings: ConnectionSettings) -> ConnectionStart:
    """The server's first method."""
    properties: FieldTable = {
        "product": settings.product,
        "version": settings.version,
        "platform": "Python",
        "capabilities": dict.fromkeys(_CAPABILITIES, True),
        "cluster_name": settings.cluster_name,
        "node": settings.node,
        **settings.server_properties,
    }
    return ConnectionStart(0, 9, properties, " ".join(MECHANISMS).encode(), b"en_US")


def tune_of(settings: ConnectionSettings) -> ConnectionTune:
    """The limits that the server proposes."""
    return ConnectionTune(settings.channels_max, settings.frame_bytes_max, settings.heartbeat_s)


def negotiate(settings: ConnectionSettings, answer: ConnectionTuneOk) -> Tuned:
    """The smaller limit of both sides, where a client's 0 sets none.

    The heartbeat is the client's word: it will keep to it, 0 included. Raises 530 for a frame
    size below the specification's least.
    """
    if 0 < answer.frame_max < FRAME_BYTES_MIN:
        text = f"frame_max {answer.frame_max} is too small; ask for {FRAME_BYTES_MIN} or more"
        raise ConnectionViolation(NOT_ALLOWED, text, 10, 31)
    return Tuned(
        min(settings.channels_max, answer.channel_max or settings.channels_max),
        min(settings.frame_bytes_max, answer.frame_max or settings.frame_bytes_max),
        answer.heartbeat,
    )


def wants_failure_close(client_properties: FieldTable) -> bool:
    """Whether the client understands connection.close as the answer to a failed login."""
    capabilities = client_properties.get("capabilities")
    return (
        isinstance(capabilities, dict) and capabilities.get("authentication_failure_close") is True
    )
