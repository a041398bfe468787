"""The opening of a connection: what the server says of itself, and what both agree on.

Pure functions for `fedq.amqp.connection`, with the settings of a node's AMQP side
(AMQP 0-9-1 clause 2.2.4).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from fedq.amqp.methods import (
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    decode_method,
    encode_method,
)
from fedq.amqp.sasl import EXTERNAL, MECHANISMS
from fedq.amqp.spec import FRAME_BYTES_MIN
from fedq.amqp.values import FieldTable, TableValue
from fedq.core import limits
from fedq.core.errors import NOT_ALLOWED, ConnectionViolation, Refused
from fedq.core.version import VERSION

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
#: An empty table.
_NO_PROPERTIES: Final = bytes(4)

#: Under RabbitMQ's names. Clients look them up before they use what the specification lacks.
_CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


class LoginPending(Exception):
    """Raised while it is not known yet whether the client may log in; the login goes on later."""


class Authenticate(Protocol):
    """Checks the answer of a SASL mechanism; the user's name, or `None` to refuse.

    Raises `LoginPending` if that takes a while.

    `certificate_name`: whom a verified TLS certificate names, for EXTERNAL.
    """

    def __call__(
        self, mechanism: str, response: bytes, is_loopback: bool,
        certificate_name: str | None = None, /,
    ) -> str | None:  # fmt: skip
        """The name of the user who has proven who it is; `None` to refuse the login."""


def _anyone(user: str, vhost: str) -> Refused | None:
    """Every user may open every virtual host."""
    return None


class Origin(NamedTuple):
    """Where a client comes from, as far as its login is concerned."""

    is_loopback: bool
    #: Whom its TLS certificate names; `None` without one that was verified.
    certificate_name: str | None = None


class KnownProperties:
    """What clients said of themselves: most say the same, so each text is decoded and kept once.

    Bounded: what is long is not kept, and when all places are taken all is forgotten. Some clients
    say something that no other will ever say (a name of the connection): they must not hold the
    places for good.
    """

    __slots__ = ("_by_bytes",)

    def __init__(self) -> None:
        self._by_bytes: dict[bytes, FieldTable] = {}

    def find(self, data: bytes) -> FieldTable | None:
        """The table that these bytes stand for, if a client that was let in has sent them."""
        return self._by_bytes.get(data)

    def keep(self, data: bytes, table: FieldTable) -> None:
        """Keeps what a client that was let in has said; nobody changes the table from now on."""
        if len(data) > limits.CLIENT_PROPERTIES_KNOWN_BYTES_MAX:
            return
        if len(self._by_bytes) >= limits.CLIENT_PROPERTIES_KNOWN_MAX:
            self._by_bytes.clear()
        self._by_bytes[data] = table


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """What every connection of a node is told; one object for all of them."""

    node: str
    authenticate: Authenticate
    #: Whether the virtual host exists.
    vhosts: Callable[[str], bool]
    #: (user, virtual host) -> why it may not be opened, or `None`.
    may_open: Callable[[str, str], Refused | None] = _anyone
    #: What clients switch on (kombu asks for both before it sets a global prefetch limit): the
    #: broker, and its release, whose behaviour they will meet.
    product: str = "RabbitMQ"
    version: str = "3.13.7"
    #: What it really is.
    information: str = f"fedq {VERSION}, an AMQP 0-9-1 broker federation"
    cluster_name: str = "fedq"
    frame_bytes_max: int = limits.FRAME_BYTES_MAX
    channels_max: int = limits.CHANNELS_MAX
    #: Of one message, and of all unfinished ones of a connection.
    body_bytes_max: int = limits.BODY_BYTES_MAX
    #: Proposed to clients; 0 proposes none.
    heartbeat_s: int = limits.HEARTBEAT_S
    #: Added to what the server says of itself.
    server_properties: Mapping[str, TableValue] = field(default_factory=dict)
    #: What is alike for many connections, made or decoded when the first of them needs it.
    known_properties: KnownProperties = field(default_factory=KnownProperties, compare=False)
    start_frames: dict[tuple[str, ...], bytes] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        # internal: the configuration was checked.
        assert FRAME_BYTES_MIN <= self.frame_bytes_max <= limits.BODY_BYTES_MAX
        # internal: the configuration was checked.
        assert 1 <= self.channels_max <= 0xFFFF
        # internal: the configuration was checked.
        assert 0 <= self.heartbeat_s <= 0xFFFF


class Tuned(NamedTuple):
    """The limits that both sides keep to from now on; no heartbeat is 0."""

    channels_max: int
    frame_bytes_max: int
    heartbeat_s: int


def mechanisms_for(origin: Origin) -> tuple[str, ...]:
    """The SASL mechanisms that are offered; EXTERNAL only to who has shown a certificate."""
    return MECHANISMS if origin.certificate_name is None else (*MECHANISMS, EXTERNAL)


def start_frame(settings: ConnectionSettings, origin: Origin) -> bytes:
    """The server's first method, as a frame; encoded once for all who are offered the same."""
    offered = mechanisms_for(origin)
    found = settings.start_frames.get(offered)
    if found is None:
        found = settings.start_frames[offered] = encode_method(0, _start_of(settings, offered))
    return found


def _start_of(settings: ConnectionSettings, offered: tuple[str, ...]) -> ConnectionStart:
    properties: FieldTable = {
        "capabilities": dict.fromkeys(_CAPABILITIES, True),
        "cluster_name": settings.cluster_name,
        "copyright": "The fedq authors",
        "information": settings.information,
        "platform": "Python",
        "product": settings.product,
        "version": settings.version,
        "node": settings.node,
        **settings.server_properties,
    }
    return ConnectionStart(0, 9, properties, " ".join(offered).encode(), b"en_US")


def decode_start_ok(payload: bytes, known: KnownProperties) -> tuple[ConnectionStartOk, bytes]:
    """connection.start-ok, and the bytes of the properties in it; raises as `decode_method` does.

    Properties that are known are not decoded again; then the bytes are empty.
    """
    end = 8 + int.from_bytes(payload[4:8])
    properties = payload[4:end]
    found = known.find(properties)
    if found is None:
        method = decode_method(payload)
        # internal: the caller has looked.
        assert isinstance(method, ConnectionStartOk), "the caller has looked at the ids"
        return method, properties
    method = decode_method(payload[:4] + _NO_PROPERTIES + payload[end:])
    # internal: the caller has looked.
    assert isinstance(method, ConnectionStartOk), "the caller has looked at the ids"
    return method._replace(client_properties=found), b""


def tune_of(settings: ConnectionSettings) -> ConnectionTune:
    """The limits that the server proposes."""
    return ConnectionTune(settings.channels_max, settings.frame_bytes_max, settings.heartbeat_s)


def negotiate(settings: ConnectionSettings, answer: ConnectionTuneOk) -> Tuned:
    """The limits of the client, which may lower the server's; its 0 sets none of its own.

    The heartbeat is the client's word: it will keep to it, 0 included. Raises 530 for a frame
    size below the specification's least, and for limits above the server's (clause 1.4.2.6).
    """
    if 0 < answer.frame_max < FRAME_BYTES_MIN:
        text = f"frame_max {answer.frame_max} is too small; ask for {FRAME_BYTES_MIN} or more"
        raise ConnectionViolation(NOT_ALLOWED, text, 10, 31)
    for name, asked, allowed in (
        ("frame_max", answer.frame_max, settings.frame_bytes_max),
        ("channel_max", answer.channel_max, settings.channels_max),
    ):
        if asked > allowed:
            text = (
                f"negotiated {name} = {asked} is higher than the maximum allowed value ({allowed})"
            )
            raise ConnectionViolation(NOT_ALLOWED, text, 10, 31)
    return Tuned(
        answer.channel_max or settings.channels_max,
        answer.frame_max or settings.frame_bytes_max,
        answer.heartbeat,
    )


def wants_failure_close(client_properties: FieldTable) -> bool:
    """Whether the client understands connection.close as the answer to a failed login."""
    capabilities = client_properties.get("capabilities")
    return (
        isinstance(capabilities, dict) and capabilities.get("authentication_failure_close") is True
    )
