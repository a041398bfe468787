"""A client's bytes, and what a client makes of the server's: helpers of the AMQP tests."""

from dataclasses import replace
from typing import NamedTuple

from fedq.amqp.commands import Begun, Command, Publishes, Settles
from fedq.amqp.connection import Connection, ConnectionSettings
from fedq.amqp.content import NO_PROPERTIES, content_frames, decode_header
from fedq.amqp.frames import scan_frame
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import (
    BasicPublish,
    ChannelOpen,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
    decode_method,
    encode_method,
)
from fedq.amqp.sasl import credentials
from fedq.amqp.values import FieldTable
from fedq.core import limits
from fedq.core.errors import NOT_ALLOWED, Refused

FRAME_MAX = 131_072
GUEST = b"\0guest\0guest"


def login(
    mechanism: str, response: bytes, is_loopback: bool, certificate_name: str | None = None
) -> str | None:
    """Lets "guest" come from loopback, Zoë and who has a certificate from anywhere."""
    if mechanism == "EXTERNAL":
        return certificate_name
    found = credentials(mechanism, response)
    if found == ("guest", "guest") and is_loopback:
        return "guest"
    return "Zoë" if found == ("Zoë", "pässword") else None


def may_open(user: str, vhost: str) -> Refused | None:
    """Refuses the virtual host "closed" to "guest", who has no permissions for it."""
    if (user, vhost) != ("guest", "closed"):
        return None
    return Refused(NOT_ALLOWED, f"access to vhost '{vhost}' refused for user '{user}'")


def settings(heartbeat_s: int = 60, frame_bytes_max: int = FRAME_MAX) -> ConnectionSettings:
    return ConnectionSettings(
        node="n1",
        authenticate=login,
        vhosts=lambda name: name in ("/", "tenant", "closed"),
        may_open=may_open,
        heartbeat_s=heartbeat_s,
        frame_bytes_max=frame_bytes_max,
        server_properties={"failover": ["host:5672"]},
    )


class Frame(NamedTuple):
    """A frame as a client sees it; `method` for method frames."""

    kind: int
    channel: int
    payload: bytes
    method: Method | None


def frames_of(data: bytes, frame_bytes_max: int = FRAME_MAX) -> list[Frame]:
    """All frames in what the server wrote; it must consist of whole frames."""
    frames: list[Frame] = []
    at = 0
    while at < len(data):
        found = scan_frame(data, at, frame_bytes_max)
        assert found is not None, "the server wrote an incomplete frame"
        kind, channel, start, end = found
        payload = data[start:end]
        frames.append(Frame(kind, channel, payload, decode_method(payload) if kind == 1 else None))
        at = end + 1
    return frames


class Content(NamedTuple):
    """A method with its content, put together again."""

    channel: int
    method: Method
    properties: bytes
    body: bytes


def contents_of(data: bytes, frame_bytes_max: int = FRAME_MAX) -> list[Content]:
    """The contents in frames that hold nothing else."""
    contents: list[Content] = []
    frames = iter(frames_of(data, frame_bytes_max))
    for opening in frames:
        assert opening.method is not None
        header = next(frames)
        assert (header.kind, header.channel) == (2, opening.channel)
        size, properties = decode_header(header.payload)
        body = b""
        while len(body) < size:
            part = next(frames)
            assert (part.kind, part.channel) == (3, opening.channel)
            assert part.payload
            body += part.payload
        assert len(body) == size
        contents.append(Content(opening.channel, opening.method, properties, body))
    return contents


def written(connection: Connection) -> bytes:
    """What the server wrote since the last call."""
    data = b"".join(connection.parts)
    connection.parts.clear()
    return data


def methods(connection: Connection) -> list[tuple[int, Method]]:
    """The methods the server wrote since the last call, with their channels."""
    return [
        (each.channel, each.method)
        for each in frames_of(written(connection))
        if each.method is not None
    ]


def publish(
    channel: int, exchange: str, key: str, body: bytes, properties: bytes = NO_PROPERTIES,
    bits: int = 0, frame_bytes_max: int = FRAME_MAX,
) -> bytes:  # fmt: skip
    """The frames of a publish."""
    method = BasicPublish(exchange, key, bits & 1 != 0, bits & 2 != 0)
    content = content_frames(channel, properties, body, frame_bytes_max)
    return encode_method(channel, method) + content


def start_ok(
    client_properties: FieldTable | None = None, mechanism: str = "PLAIN", response: bytes = GUEST
) -> bytes:
    return encode_method(
        0, ConnectionStartOk(client_properties or {}, mechanism, response, "en_US")
    )


def handshake(frame_max: int = 0, channel_max: int = 0, heartbeat: int = 0) -> bytes:
    """All that a client sends until its virtual host is open."""
    tune_ok = encode_method(0, ConnectionTuneOk(channel_max, frame_max, heartbeat))
    return PROTOCOL_HEADER + start_ok() + tune_ok + encode_method(0, ConnectionOpen("/"))


def opened(
    channels: int = 1, frame_max: int = 0, heartbeat: int = 0,
    body_bytes_max: int = limits.BODY_BYTES_MAX,
) -> Connection:  # fmt: skip
    """An open connection with the channels 1 to `channels`; nothing is left in its parts."""
    made = replace(settings(), body_bytes_max=body_bytes_max)
    connection = Connection(made, now_ms=0, is_loopback=True)
    connection.receive(handshake(frame_max=frame_max, heartbeat=heartbeat), 0)
    for channel in range(1, channels + 1):
        connection.receive(encode_method(channel, ChannelOpen()), 0)
    connection.parts.clear()
    return connection


def receive(connection: Connection, channel: int, method: Method) -> list[Command]:
    """Gives the connection one method."""
    return connection.receive(encode_method(channel, method), 0)


def _singly(command: Command) -> Command:
    """A command whose runs are as short as can be: a cut stream has shorter ones."""
    if isinstance(command, Publishes):
        runs = command.batch
        return Publishes(command.channel, [(r, b, [one]) for r, b, many in runs for one in many])
    if isinstance(command, Settles):
        return Settles(
            command.channel,
            [
                (kind, tag, tag, multiple, requeue)
                for kind, first, last, multiple, requeue in command.batch
                for tag in range(first, last + 1)
            ],
        )
    return command


def merged(commands: list[Command]) -> list[Command]:
    """The commands with neighbouring runs of one kind and channel as one.

    Without `Begun`, which depends on how the bytes came.
    """
    whole: list[Command] = []
    for command in commands:
        if isinstance(command, Begun):
            continue
        last = whole[-1] if whole else None
        if isinstance(command, Publishes | Settles) and type(command) is type(last):
            assert isinstance(last, Publishes | Settles)
            if command.channel == last.channel:
                whole[-1] = type(command)(last.channel, [*last.batch, *command.batch])
                continue
        whole.append(command)
    return [_singly(command) for command in whole]
