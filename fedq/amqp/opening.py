"""The handshake of one connection, after the protocol header: methods in, answers out.

    START --start-ok--> TUNE --tune-ok--> VHOST --open--> done

Where a password has to be verified first, start-ok is kept, and takes effect by `conclude`.
What a client may send at each step, and what it gets, is AMQP 0-9-1 clause 2.2.4. Of a client that
has not proven who it is nothing is kept but its step: what it said of itself only once it has.
When it is done, the connection keeps what was agreed on, and this object goes.
"""

from typing import Final, TypeAlias

from fedq.amqp.handshake import (
    ConnectionSettings,
    Origin,
    decode_start_ok,
    mechanisms_for,
    negotiate,
    start_frame,
    tune_of,
    wants_failure_close,
)
from fedq.amqp.method_types import NO_TABLE
from fedq.amqp.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
    decode_method,
    ids_of,
    name_of,
)
from fedq.amqp.spec import (
    CONNECTION,
    CONNECTION_START_OK,
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    ids_bytes,
)
from fedq.amqp.values import FieldTable
from fedq.core import limits
from fedq.core.errors import (
    ACCESS_REFUSED,
    COMMAND_INVALID,
    FRAME_ERROR,
    NOT_ALLOWED,
    UNEXPECTED_FRAME,
    ConnectionViolation,
)

#: The methods that are for this machine.
OpeningMethod: TypeAlias = ConnectionStartOk | ConnectionTuneOk | ConnectionOpen

_START_OK: Final = ids_bytes(CONNECTION, CONNECTION_START_OK)

_START: Final = 0
_TUNE: Final = 1
_VHOST: Final = 2
_DONE: Final = 3


class SilentRefusalError(ConnectionViolation):
    """A failed login of a client that takes a closed socket for it, and no connection.close."""


class Opening:
    """Where a connection stands in its handshake, and what was agreed on."""

    __slots__ = (
        "_is_concluded", "_new_properties", "_origin", "_settings", "_start_ok", "_step",
        "_verdict", "channels_max", "client_properties", "frame_bytes_max", "heartbeat_s", "user",
        "vhost",
    )  # fmt: skip

    def __init__(self, settings: ConnectionSettings, origin: Origin) -> None:
        self._settings = settings
        self._origin = origin
        self._step = _START
        #: The bytes of properties that nobody else has sent before.
        self._new_properties = b""
        #: start-ok of a client whose password is being verified, and then who it is.
        self._start_ok = b""
        self._is_concluded = False
        self._verdict: str | None = None
        #: Who the client is; "" until it has proven it.
        self.user = ""
        #: What the client said of itself in connection.start-ok.
        self.client_properties: FieldTable = NO_TABLE
        #: What both sides keep to; before a user is known, only small frames are read.
        self.frame_bytes_max = limits.HANDSHAKE_FRAME_BYTES_MAX
        self.channels_max = settings.channels_max
        self.heartbeat_s = 0
        self.vhost = ""

    @property
    def is_done(self) -> bool:
        """Whether the virtual host is open."""
        return self._step == _DONE

    def begin(self) -> bytes:
        """The server's first method, as a frame."""
        return start_frame(self._settings, self._origin)

    def decode(self, payload: bytes) -> Method:
        """A method of the connection; raises as `decode_method` does."""
        if self._step != _START or payload[:4] != _START_OK:
            return decode_method(payload)
        method, self._new_properties = decode_start_ok(payload, self._settings.known_properties)
        self._start_ok = payload
        return method

    def on_method(self, method: OpeningMethod) -> Method | None:
        """What the client hears next, if it is not to speak again first.

        Raises `ConnectionViolation`: 403 for a failed login, 503 for a method out of order and an
        unknown mechanism, 530 for limits and virtual hosts that cannot be; `LoginPending` for a
        login that `conclude` ends.
        """
        if isinstance(method, ConnectionStartOk) and self._step == _START:
            return self._on_start_ok(method)
        if isinstance(method, ConnectionTuneOk) and self._step == _TUNE:
            self._on_tune_ok(method)
            return None
        if isinstance(method, ConnectionOpen) and self._step == _VHOST:
            return self._on_open(method)
        text = f"{name_of(method)} is not expected on channel 0 at this point"
        raise ConnectionViolation(COMMAND_INVALID, text, *ids_of(method))

    def _on_start_ok(self, method: ConnectionStartOk) -> Method:
        properties, self._new_properties = self._new_properties, b""
        mechanism = method.mechanism
        offered = mechanisms_for(self._origin)
        if mechanism not in offered:
            text = f"mechanism {mechanism!r} is not offered; use one of {', '.join(offered)}"
            raise ConnectionViolation(COMMAND_INVALID, text, *ids_of(method))
        user = self._login(mechanism, method.response)
        self._start_ok = b""
        if user is None:
            # RabbitMQ's sentence, as far as it goes: clients show it, and some look for it.
            text = (
                f"Login was refused using authentication mechanism {mechanism}. "
                "Check user name, password and where you come from."
            )
            wants_close = wants_failure_close(method.client_properties)
            refusal = ConnectionViolation if wants_close else SilentRefusalError
            raise refusal(ACCESS_REFUSED, text, *ids_of(method))
        self.user = user
        self.client_properties = method.client_properties
        if properties:
            self._settings.known_properties.keep(properties, method.client_properties)
        self._step = _TUNE
        return tune_of(self._settings)

    def conclude(self, user: str | None) -> bytes:
        """Takes the verdict on a client whose login had to wait (None: it is refused).

        Returns the method that now takes effect, as it came.
        """
        self._is_concluded, self._verdict = True, user
        return self._start_ok

    def _login(self, mechanism: str, response: bytes) -> str | None:
        if self._is_concluded:
            return self._verdict
        origin = self._origin
        return self._settings.authenticate(
            mechanism, response, origin.is_loopback, origin.certificate_name
        )

    def _on_tune_ok(self, method: ConnectionTuneOk) -> None:
        self.channels_max, self.frame_bytes_max, self.heartbeat_s = negotiate(
            self._settings, method
        )
        self._step = _VHOST

    def _on_open(self, method: ConnectionOpen) -> Method:
        vhost = method.virtual_host
        if not self._settings.vhosts(vhost):
            raise ConnectionViolation(NOT_ALLOWED, f"vhost {vhost} not found", *ids_of(method))
        refused = self._settings.may_open(self.user, vhost)
        if refused is not None:
            raise ConnectionViolation(refused.reply_code, refused.text, *ids_of(method))
        self.vhost = vhost
        self._step = _DONE
        return ConnectionOpenOk()


def has_method(kind: int, channel: int, payload: bytes) -> bool:
    """Whether a frame of the connection has a method for it, and is no heartbeat.

    Raises `ConnectionViolation` (501, 505) for one that should not be.
    """
    if kind == FRAME_METHOD:
        return True
    if kind == FRAME_HEARTBEAT:
        if channel or payload:
            code = FRAME_ERROR if payload else UNEXPECTED_FRAME
            raise ConnectionViolation(code, "a heartbeat must be empty and on channel 0")
        return False
    if kind in (FRAME_HEADER, FRAME_BODY):
        text = "content on channel 0; open a channel and publish there"
        raise ConnectionViolation(UNEXPECTED_FRAME, text)
    raise ConnectionViolation(FRAME_ERROR, f"frame type {kind} is not AMQP 0-9-1")
