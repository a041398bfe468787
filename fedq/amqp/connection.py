"""The server's side of one AMQP connection: bytes in, commands and bytes out; no I/O, no clock.

Inputs: `receive` takes bytes in pieces of any size; `tick` tells the time. Outputs: commands
for the node (`fedq.amqp.commands`), in the order of the client's frames, and bytes for the client
in `parts`. The handshake, heartbeats, the opening of channels and the end of the connection are
settled here; of everything else the node hears. When a client closes a channel or the connection,
the node agrees (`agree_to_close`, `agree_to_end`) once what came before has taken effect.

    HEADER -> OPENING (`fedq.amqp.opening`) -> OPEN -> CLOSING -> CLOSED
    OPENING --a password is verified--> VERIFYING --`conclude_login`--> OPENING
    OPENING, OPEN --the client's own connection.close--> LEFT -> CLOSED

A client's violation becomes channel.close or connection.close with the reply code of the
specification, in `_on_frame` and `receive` and nowhere else; then what the client sends is ignored
until it agrees, and not for longer than CLOSE_MS.

Invariants: nothing follows connection.close in what this machine writes; a `Closed` comes at most
once and last; input is held only up to one frame, and to `limits.HANDSHAKE_FRAME_BYTES_MAX`
before a user is known.
"""

from typing import Final

from fedq.amqp.channel import CLOSING as CHANNEL_CLOSING
from fedq.amqp.channel import IDLE, LEAVING, Channel
from fedq.amqp.channel_runs import PUBLISH, is_settling, take_publish_run, take_settle_run
from fedq.amqp.commands import (
    ChannelClosed,
    ChannelOpened,
    Closed,
    Command,
    Opened,
    append_publish,
)
from fedq.amqp.content import Body
from fedq.amqp.frames import HEARTBEAT, scan_frame, wanted_bytes
from fedq.amqp.handshake import PROTOCOL_HEADER, ConnectionSettings, LoginPending, Origin
from fedq.amqp.method_types import NO_TABLE
from fedq.amqp.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
    decode_method,
    encode_method,
    frame_ids,
    ids_of,
    name_of,
)
from fedq.amqp.named_publishes import KnownBy
from fedq.amqp.opening import Opening, OpeningMethod, SilentRefusalError, has_method
from fedq.amqp.pulse import Pulse
from fedq.amqp.spec import (
    CHANNEL,
    CHANNEL_CLOSE,
    CHANNEL_CLOSE_OK,
    CHANNEL_OPEN,
    CONNECTION,
    CONNECTION_CLOSE,
    CONNECTION_CLOSE_OK,
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_METHOD,
    ids_bytes,
)
from fedq.amqp.strings import cut_short_string, reason_of
from fedq.amqp.unfinished import Unfinished
from fedq.amqp.values import FieldTable
from fedq.core import limits
from fedq.core.errors import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    NOT_ALLOWED,
    ChannelViolation,
    ConnectionViolation,
)

__all__ = ["CLOSE_MS", "Connection", "ConnectionSettings"]

#: How long a closing connection waits for the client to agree, or the client for its close-ok.
CLOSE_MS: Final = 3_000

#: Nothing is read any more, until it is known who the client is.
_VERIFYING: Final = -1
_HEADER: Final = 0
_OPENING: Final = 1
_OPEN: Final = 2
_LEFT: Final = 3
_CLOSING: Final = 4
_CLOSED: Final = 5

#: The beginnings of methods' payloads.
_CHANNEL_OPEN: Final = ids_bytes(CHANNEL, CHANNEL_OPEN)
_CHANNEL_CLOSE: Final = ids_bytes(CHANNEL, CHANNEL_CLOSE)
_CHANNEL_CLOSE_OK: Final = ids_bytes(CHANNEL, CHANNEL_CLOSE_OK)
_CONNECTION_CLOSE: Final = ids_bytes(CONNECTION, CONNECTION_CLOSE)
_CONNECTION_CLOSE_OK: Final = ids_bytes(CONNECTION, CONNECTION_CLOSE_OK)


class Connection:
    """One client connection; see the module for what goes in and out."""

    __slots__ = (
        "_channels", "_channels_max", "_checked", "_deadline_ms", "_deaf", "_now_ms", "_opening",
        "_pending", "_pulse", "_state", "_unfinished", "_wanted", "client_properties",
        "frame_bytes_max", "parts", "was_left",
    )  # fmt: skip

    def __init__(
        self, settings: ConnectionSettings, now_ms: int, is_loopback: bool,
        certificate_name: str | None = None,
    ) -> None:  # fmt: skip
        """`certificate_name`: whom the client's TLS certificate names, if one was verified."""
        #: The handshake, as long as it lasts.
        self._opening: Opening | None = Opening(settings, Origin(is_loopback, certificate_name))
        #: What the client said of itself in connection.start-ok; empty until it has logged in.
        self.client_properties: FieldTable = NO_TABLE
        #: Bytes for the client, in order; whoever writes them clears the list.
        self.parts: list[Body] = []
        #: The client closed it and has the answer: it is for the client to hang up. Some clients
        #: take an end that comes right behind close-ok for a failure.
        self.was_left = False
        #: The largest frame either side may send; before the handshake is over, a small one.
        self.frame_bytes_max = self._opening.frame_bytes_max
        self._state = _HEADER
        self._channels_max = 0
        self._channels: dict[int, Channel] = {}
        #: Property lists found well-formed (see `checked_flags`).
        self._checked: dict[KnownBy, int] | None = None
        #: The beginning of a frame, and how many bytes there must be to go on.
        self._pending: bytearray | None = None
        self._wanted = 0
        #: The stream is out of step: nothing in it can be understood any more.
        self._deaf = False
        self._now_ms = now_ms
        self._deadline_ms = now_ms + limits.HANDSHAKE_MS
        self._pulse = Pulse(now_ms)
        self._unfinished = Unfinished(settings.body_bytes_max)

    # --- what the node asks -----------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether nothing more is read or written: once `parts` are written, the socket can go."""
        return self._state == _CLOSED

    @property
    def wake_ms(self) -> int | None:
        """When `tick` will next have something to do; `None` for never."""
        if self._state != _OPEN:
            return None if self._state == _CLOSED else self._deadline_ms
        return self._pulse.wake_ms

    def contents_unfinished(self) -> int:
        """How many contents have begun and not ended."""
        return self._unfinished.count if self._state == _OPEN else 0

    def bytes_unfinished(self) -> int:
        """What is held of bodies and frames that have not come to their ends."""
        held = self._unfinished.bytes_held if self._state == _OPEN else 0
        return held + len(self._pending) if self._pending is not None else held

    def excuse_silence(self, now_ms: int) -> None:
        """Takes the silence so far as no proof of anything: the node has not been reading."""
        self._pulse.excuse(now_ms)

    def send(self, channel: int, method: Method) -> None:
        """Writes a method; nothing, when its channel or the connection is over or closing."""
        if self._state >= _CLOSING:
            return
        if channel:
            state = self._channels.get(channel)
            if state is None or state.state == CHANNEL_CLOSING:
                return
        self.parts.append(encode_method(channel, method))

    def close_channel(self, channel: int, violation: ChannelViolation) -> None:
        """Sends channel.close; what the client sends there is ignored until it agrees."""
        state = self._channels.get(channel)
        if self._state >= _CLOSING or state is None or state.state == CHANNEL_CLOSING:
            return
        self.send(channel, ChannelClose(*reason_of(violation)))
        if state.state == LEAVING:
            # Both sides began to close at once; the client's own close-ok is still to come.
            self.send(channel, ChannelCloseOk())
        state.begin_close()

    def agree_to_close(self, channel: int) -> None:
        """Sends channel.close-ok: what the client sent before channel.close has taken effect."""
        state = self._channels.get(channel)
        if state is not None and state.state == LEAVING:
            self.send(channel, ChannelCloseOk())
            del self._channels[channel]

    def agree_to_end(self) -> None:
        """Sends connection.close-ok, if the client has closed the connection; nothing follows."""
        if self._state == _LEFT:
            self.parts.append(encode_method(0, ConnectionCloseOk()))
            self._end()

    def close(self, violation: ConnectionViolation) -> None:
        """Sends connection.close; `closed` once the client agrees, or after CLOSE_MS.

        Does nothing when the connection is closing already.
        """
        if self._state >= _CLOSING:
            return
        if self._state == _HEADER:
            # The client has not begun to speak AMQP.
            self._end()
            return
        self.send(0, ConnectionClose(*reason_of(violation)))
        self._channels.clear()
        self._state = _CLOSING
        self._deadline_ms = self._now_ms + CLOSE_MS

    # --- time -------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[Command]:
        """Sends heartbeats, and ends what has been silent or undecided for too long."""
        self._now_ms = now_ms
        if self._state in (_LEFT, _CLOSING, _CLOSED):
            if self._state != _CLOSED and now_ms >= self._deadline_ms:
                self.agree_to_end()
                self._end()
            return []
        if self._state != _OPEN and now_ms >= self._deadline_ms:
            self._end()
            return [Closed(f"no connection.open within {limits.HANDSHAKE_MS} ms")]
        silence_ms = self._pulse.silence_ms(now_ms)
        if silence_ms:
            # No connection.close: nobody is there to agree (AMQP 0-9-1 clause 4.2.7).
            self._end()
            return [Closed(f"nothing heard for {silence_ms} ms, two heartbeats")]
        if self._pulse.take_beat(now_ms):
            self.parts.append(HEARTBEAT)
        return []

    # --- bytes ------------------------------------------------------------------------------------

    def receive(self, data: bytes, now_ms: int) -> list[Command]:
        """Takes bytes from the client and returns what they ask for."""
        commands: list[Command] = []
        self._now_ms = now_ms
        self._pulse.hear(now_ms)
        if self._deaf or self._state in (_LEFT, _CLOSED):
            return commands
        pending = self._pending
        if pending is not None:
            if len(pending) + len(data) < self._wanted:
                pending += data
                return commands
            data = b"".join((pending, data))
            self._pending = None
        at = 0
        if self._state == _HEADER:
            at = self._on_header(data, commands)
        try:
            at = self._read(data, at, commands)
        except ConnectionViolation as violation:
            # The frames themselves are damaged; where the next one begins is unknown.
            self._deaf = True
            self._fail(violation, commands)
        if at < len(data) and not self._deaf and self._state not in (_LEFT, _CLOSED):
            pending = self._pending = bytearray(data[at:] if at else data)
            # Before the protocol header is complete, every byte is looked at, and what comes before
            # it is known who the client is has not been looked at.
            self._wanted = 0 if self._state <= _HEADER else wanted_bytes(pending)
        if self._unfinished.count and self._state == _OPEN:
            self._unfinished.tell(commands)
        return commands

    def _on_header(self, data: bytes, commands: list[Command]) -> int:
        """The first eight bytes (AMQP 0-9-1 clause 4.2.2); returns how many were taken."""
        size = len(PROTOCOL_HEADER)
        if data[:size] == PROTOCOL_HEADER:
            self._state = _OPENING
            assert self._opening is not None  # internal: made with the connection
            self.parts.append(self._opening.begin())
            return size
        if not PROTOCOL_HEADER.startswith(data):
            self.parts.append(PROTOCOL_HEADER)
            self._end()
            commands.append(Closed("the client does not speak AMQP 0-9-1"))
        return 0

    def _read(self, data: bytes, at: int, commands: list[Command]) -> int:
        """Handles all complete frames; returns where the first incomplete one begins."""
        while _HEADER < self._state < _CLOSED and self._state != _LEFT:
            found = scan_frame(data, at, self.frame_bytes_max)
            if found is None:
                break
            kind, channel, start, end = found
            if kind == FRAME_METHOD and self._state == _OPEN:
                taken = self._take_run(data, at, channel, data[start : start + 4], commands)
                if taken > at:
                    at = taken
                    continue
            at = end + 1
            self._on_frame(kind, channel, data[start:end], commands)
        return at

    @property
    def _known(self) -> dict[KnownBy, int]:
        """The property lists known of this client; most connections of a broker never publish."""
        if self._checked is None:
            self._checked = {}
        return self._checked

    def _take_run(
        self, data: bytes, at: int, channel: int, ids: bytes, commands: list[Command]
    ) -> int:
        """Takes a run of publishes or settlements of an idle channel; returns where it ended."""
        state = self._channels.get(channel)
        if state is None or state.state != IDLE:
            return at
        if ids == PUBLISH:
            known = self._known
            return take_publish_run(data, at, channel, self.frame_bytes_max, known, commands)
        return take_settle_run(data, at, channel, commands) if is_settling(ids) else at

    def _on_frame(self, kind: int, channel: int, payload: bytes, commands: list[Command]) -> None:
        """Takes one frame that was not part of a run. Violations of its content end here."""
        if self._state == _CLOSING:
            self._on_frame_while_closing(kind, channel, payload)
            return
        try:
            if channel and FRAME_METHOD <= kind <= FRAME_BODY:
                self._on_channel_frame(kind, channel, payload, commands)
            else:
                self._on_connection_frame(kind, channel, payload, commands)
        except ChannelViolation as violation:
            self.close_channel(channel, violation)
            commands.append(ChannelClosed(channel))
        except ConnectionViolation as violation:
            self._fail(violation, commands)

    def _on_frame_while_closing(self, kind: int, channel: int, payload: bytes) -> None:
        if kind != FRAME_METHOD or channel:
            return
        if payload[:4] == _CONNECTION_CLOSE:
            # Both sides began to close at once; then both agree.
            self.parts.append(encode_method(0, ConnectionCloseOk()))
            self._end()
        elif payload[:4] == _CONNECTION_CLOSE_OK:
            self._end()

    def _fail(self, violation: ConnectionViolation, commands: list[Command]) -> None:
        if self._state < _CLOSING:
            self.close(violation)
            commands.append(Closed(violation.reply_text))

    def _end(self) -> None:
        self._state = _CLOSED
        self._channels.clear()
        self._pending = None

    # --- channel 0 --------------------------------------------------------------------------------

    def _on_connection_frame(
        self, kind: int, channel: int, payload: bytes, commands: list[Command]
    ) -> None:
        if not has_method(kind, channel, payload):
            return
        opening = self._opening
        method = decode_method(payload) if opening is None else opening.decode(payload)
        if isinstance(method, ConnectionClose):
            self._state, self._deadline_ms = _LEFT, self._now_ms + CLOSE_MS
            self.was_left = True
            text = cut_short_string(method.reply_text)
            commands.append(Closed(f"the client closed it: {method.reply_code} {text}"))
        elif isinstance(method, OpeningMethod) and opening is not None:
            self._open(opening, method, commands)
        elif isinstance(method, ConnectionUpdateSecret) and opening is None:
            # Neither passwords nor certificates expire with the connection: nothing is renewed.
            # RabbitMQ, too, asks only back ends whose secrets do.
            self.send(0, ConnectionUpdateSecretOk())
        else:
            text = f"{name_of(method)} is not expected on channel 0 at this point"
            raise ConnectionViolation(COMMAND_INVALID, text, *ids_of(method))

    def conclude_login(self, user: str | None, now_ms: int) -> list[Command]:
        """Takes the verdict on who the client is (None: nobody); reads what it sent meanwhile."""
        commands: list[Command] = []
        if self._state == _VERIFYING and self._opening is not None:
            self._state = _OPENING
            self._on_frame(FRAME_METHOD, 0, self._opening.conclude(user), commands)
            commands += self.receive(b"", now_ms)
        return commands

    def _open(self, opening: Opening, method: OpeningMethod, commands: list[Command]) -> None:
        try:
            answer = opening.on_method(method)
        except LoginPending:
            self._state = _VERIFYING
            return
        except SilentRefusalError as refusal:
            self._end()
            commands.append(Closed(refusal.reply_text))
            return
        if answer is not None:
            self.send(0, answer)
        self.frame_bytes_max = opening.frame_bytes_max
        self.client_properties = opening.client_properties
        if opening.is_done:
            self._opening = None
            self._state = _OPEN
            self._channels_max = opening.channels_max
            self._pulse.begin(opening.heartbeat_s, self._now_ms)
            commands.append(Opened(opening.vhost, opening.user))

    # --- channels ---------------------------------------------------------------------------------

    def _on_channel_frame(
        self, kind: int, channel: int, payload: bytes, commands: list[Command]
    ) -> None:
        if self._state != _OPEN:
            text = "channels can be used only after connection.open-ok"
            raise ConnectionViolation(COMMAND_INVALID, text)
        state = self._channels.get(channel)
        if state is None:
            if kind != FRAME_METHOD or payload[:4] != _CHANNEL_OPEN:
                ids = frame_ids(payload) if kind == FRAME_METHOD else (0, 0)
                text = f"expected 'channel.open': channel {channel} is not open"
                raise ConnectionViolation(CHANNEL_ERROR, text, *ids)
            self._open_channel(channel, payload, commands)
        elif state.state >= CHANNEL_CLOSING:
            self._on_late_frame(kind, channel, state, payload)
        elif kind == FRAME_BODY:
            append_publish(commands, channel, state.on_body(payload))
        elif kind == FRAME_HEADER:
            append_publish(commands, channel, state.on_header(payload, self._known))
        elif payload[:4] == PUBLISH:
            state.on_publish(payload)
        else:
            answer = state.on_method(payload, commands)
            if answer is not None:
                self.send(channel, answer)

    def _open_channel(self, channel: int, payload: bytes, commands: list[Command]) -> None:
        method = decode_method(payload)
        if len(self._channels) >= self._channels_max:
            # Their number counts, as in RabbitMQ, not the numbers they have.
            text = (
                f"number of channels opened ({len(self._channels)}) has reached the negotiated "
                f"channel_max ({self._channels_max})"
            )
            raise ConnectionViolation(NOT_ALLOWED, text, *ids_of(method))
        self._channels[channel] = Channel(channel, self._unfinished)
        self.send(channel, ChannelOpenOk())
        commands.append(ChannelOpened(channel))

    def _on_late_frame(self, kind: int, channel: int, state: Channel, payload: bytes) -> None:
        ids = payload[:4] if kind == FRAME_METHOD else b""
        if state.state == LEAVING:
            if ids == _CHANNEL_OPEN:
                text = "second 'channel.open' seen: wait for channel.close-ok"
                raise ConnectionViolation(CHANNEL_ERROR, text, *frame_ids(payload))
        elif ids == _CHANNEL_CLOSE_OK:
            del self._channels[channel]
        elif ids == _CHANNEL_CLOSE:
            # Both sides began to close at once; the client's own close-ok is still to come.
            self.parts.append(encode_method(channel, ChannelCloseOk()))
