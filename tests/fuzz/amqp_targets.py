"""The AMQP floor under fuzz: frames, tables, methods, contents, SASL and whole connections.

Promises: nothing is raised but `ConnectionViolation` and `ChannelViolation`, with the reply codes
of that decoder; what was accepted is encoded and decoded to the same again; how a stream is cut
changes nothing; what a connection holds is bounded.
"""

import struct
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from sys import getsizeof
from typing import Final

from fedq.amqp import rewriting
from fedq.amqp.commands import Closed, Command, Request
from fedq.amqp.connection import CLOSE_MS, Connection
from fedq.amqp.content import (
    DIRECT_REPLY_TO,
    decode_header,
    decode_properties,
    encode_properties,
    expiration_of,
    headers_of,
    message_flags,
    priority_of,
)
from fedq.amqp.frames import scan_frame, wanted_bytes
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    TxSelect,
    decode_method,
    encode_method,
)
from fedq.amqp.sasl import credentials
from fedq.amqp.values import FieldTable, TableValue, Timestamp, decode_table, encode_table
from fedq.core import limits
from fedq.core.errors import ConnectionViolation
from fedq.core.message import FLAG_EXPIRES, FLAG_PRIORITY, encode, make_route
from tests.fuzz.mutation import AMQP
from tests.fuzz.target import Target, chooser, error_of, pieces
from tests.unit.amqp import wire

FRAME_MAX: Final = 4_096
CHANNELS: Final = (1, 2, 3)
#: What a connection may hold of a client that has not logged in, beside its unfinished frame.
ANONYMOUS_BYTES_MAX: Final = 4_096

#: After how many of its pieces a stream is looked at, since looking takes longer than the piece.
_LOOKS_MAX: Final = 3

_CLOSE_CODES: Final = (403, 501, 502, 503, 504, 505, 530, 540)


def refused(call: Callable[[], object], *codes: int) -> bool:
    """Whether the call raises a violation, which must have one of the codes."""
    error = error_of(call, ConnectionViolation)
    assert error is None or getattr(error, "reply_code", 0) in codes, error
    return error is not None


# --- frames ---------------------------------------------------------------------------------------


def run_frames(data: bytes) -> None:
    """Cutting frames comes to an end, and knows what it waits for."""
    at = 0
    while at < len(data):
        if refused(partial(scan_frame, data, at, FRAME_MAX), 501):
            return
        found = scan_frame(data, at, FRAME_MAX)
        if found is None:
            rest = data[at:]
            assert len(rest) < wanted_bytes(rest) <= FRAME_MAX + 8
            return
        _, _, start, end = found
        assert at + 7 == start <= end < len(data)
        at = end + 1


# --- values ---------------------------------------------------------------------------------------

_TABLE: Final[dict[str, TableValue]] = {
    "text": "é", "bytes": b"\xff", "small": -1, "large": 1 << 40, "yes": True, "none": None,
    "float": 1.5, "decimal": Decimal("-12.50"), "time": Timestamp(1 << 33),
    "list": [1, "a", [None, {"x": [True]}]], "table": {"a": {"b": {}}}, "": "",
}  # fmt: skip
#: Types that are read and never written.
_FOREIGN: Final = (
    b"\x01bb\xff\x01BB\xff\x01ss\xff\xff\x01uu\xff\xff\x01ii\xff\xff\xff\xff"
    b"\x01fff\x00\x00\x00\x01LL" + bytes(8) + b"\x01dd" + struct.pack(">d", 0.1)
)


def run_table(data: bytes) -> None:
    """A table is refused with 502, or can be written and read again."""
    if refused(lambda: decode_table(data), 502):
        return
    table, end = decode_table(data)
    assert 4 <= end <= len(data)
    again = encode_table(table)
    # As texts: a float that is not a number equals nothing.
    assert repr(decode_table(again)[0]) == repr(table)


def table_seeds() -> list[bytes]:
    foreign = _FOREIGN.replace(b"\x01fff", b"\x01ff")
    nested: dict[str, TableValue] = {}
    for _ in range(limits.TABLE_DEPTH_MAX - 1):
        nested = {"n": nested}
    return [
        encode_table({}), encode_table(_TABLE), encode_table(nested),
        len(foreign).to_bytes(4, "big") + foreign,
    ]  # fmt: skip


def run_sasl(data: bytes) -> None:
    """No answer raises, and what it holds is text."""
    for mechanism in ("PLAIN", "AMQPLAIN", "EXTERNAL"):
        found = credentials(mechanism, data)
        assert found is None or all(isinstance(one, str) for one in found)


def sasl_seeds() -> list[bytes]:
    table = encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]
    return [b"\0guest\0guest", b"a\0b\0c", table]


# --- methods and contents -------------------------------------------------------------------------


def run_method(data: bytes) -> None:
    """A method is refused with 502 or 540, or can be written and read again."""
    if refused(lambda: decode_method(data), 502, 540):
        return
    method = decode_method(data)
    again = encode_method(1, method)
    assert repr(decode_method(again[7:-1])) == repr(method)


def method_seeds() -> list[bytes]:
    return [encode_method(1, method)[7:-1] for method in _METHODS]


def run_content(data: bytes) -> None:
    """What `message_flags` lets pass can be read, looked into and rewritten without a fault."""
    if refused(lambda: decode_header(data), 501, 505):
        return
    _, properties = decode_header(data)
    if refused(lambda: message_flags(properties), 502):
        return
    flags = message_flags(properties)
    found = decode_properties(properties)
    assert headers_of(properties) == found.get("headers", {}) or "nan" in repr(found)
    message = encode(flags, make_route("e", "k"), properties, b"body")
    if flags & FLAG_EXPIRES:
        assert expiration_of(message) >= 0
    if flags & FLAG_PRIORITY:
        assert 0 <= priority_of(message) <= 255
    _rewrite(message)


def _rewrite(message: bytes) -> None:
    rewriting.delay_of(message)
    rewriting.copies_of(message, "CC")
    rewriting.without_header(message, "BCC")
    dead = message
    for queue in ("one", "two", "one"):
        rewriting.cycled_queues(dead)
        dead = rewriting.dead_letter(dead, "rejected", queue, "dlx", None, 1)
    changed = rewriting.with_headers(dead, {"x-delivery-count": 1})
    assert changed.endswith(b"body")


def content_seeds() -> list[bytes]:
    lists: list[dict[str, TableValue]] = [
        {},
        {"headers": _TABLE, "delivery_mode": 2, "priority": 9, "expiration": "1000"},
        {"headers": {"CC": ["a", "b"], "BCC": ["c"], "x-delay": 5}, "user_id": "guest"},
        {"reply_to": DIRECT_REPLY_TO, "correlation_id": "1", "message_id": "2", "type": "t"},
        {"headers": {"x-death": [{"queue": "one", "reason": "expired", "count": 1}]}},
        {"content_type": "a", "content_encoding": "b", "timestamp": 1, "app_id": "c"},
    ]
    head = b"\x00\x3c\x00\x00" + (4).to_bytes(8, "big")
    return [head + encode_properties(one) for one in lists]


# --- connections ----------------------------------------------------------------------------------

_METHODS: Final[tuple[Method, ...]] = (
    QueueDeclare("q", arguments={"x-max-length": 5}), QueueBind("q", "amq.direct", "k"),
    ExchangeDeclare("e", "topic", arguments=_TABLE), BasicConsume("q", "tag"), BasicGet("q"),
    BasicQos(0, 10, True), BasicAck(1, True), BasicNack(2, False, True), BasicCancel("tag"),
    ConfirmSelect(), TxSelect(), ChannelFlow(False), ChannelOpen(), ChannelCloseOk(),
    ChannelClose(200, "bye", 0, 0), ConnectionClose(200, "bye", 0, 0), ConnectionCloseOk(),
    ConnectionTuneOk(10, 8_192, 5), ConnectionOpen("/"), ConnectionUpdateSecret(b"x", "y"),
)  # fmt: skip


def _outcome(opening: bytes, chunks: list[bytes]) -> tuple[str, bytes, bool]:
    """What a connection makes of its input; what it holds on the way is looked at."""
    server = Connection(wire.settings(frame_bytes_max=FRAME_MAX), now_ms=0, is_loopback=True)
    server.receive(opening, 0)
    server.parts.clear()
    commands: list[Command] = []
    for index, chunk in enumerate(chunks):
        commands += server.receive(chunk, 0)
        if not opening and index < _LOOKS_MAX:
            _check_anonymous(server, commands)
    for command in commands:
        if isinstance(command, Request) and isinstance(command.method, ChannelClose):
            server.agree_to_close(command.channel)
    server.agree_to_end()
    output = wire.written(server)
    _check_end(server, commands, output)
    return repr(wire.merged(commands)), output, server.closed


def _check_anonymous(server: Connection, commands: list[Command]) -> None:
    """Little is held of who has not logged in."""
    if server.client_properties or any(not isinstance(one, Closed) for one in commands):
        return
    held = _held_bytes(server) - sum(map(len, server.parts))
    assert held <= limits.HANDSHAKE_FRAME_BYTES_MAX * 9 // 8 + ANONYMOUS_BYTES_MAX, held


def _held_bytes(server: Connection) -> int:
    """The size of the machine and all that only it refers to."""
    total = 0
    rest: list[object] = [server]
    while rest:
        one = rest.pop()
        total += getsizeof(one)
        if isinstance(one, dict):
            rest += [*one, *one.values()]
        elif isinstance(one, list | tuple):
            rest += one
        else:
            names = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
            rest += [getattr(one, name) for name in names if name != "_settings"]
    return total


def _check_end(server: Connection, commands: list[Command], output: bytes) -> None:
    closed = [command for command in commands if isinstance(command, Closed)]
    assert len(closed) <= 1
    assert not closed or commands[-1] is closed[0], "a connection went on after its end"
    if output == PROTOCOL_HEADER:
        assert server.closed
        return
    frames = wire.frames_of(output)
    if not closed:
        return
    ends = [f.method for f in frames if isinstance(f.method, ConnectionClose | ConnectionCloseOk)]
    for end in ends:
        assert isinstance(end, ConnectionCloseOk) or end.reply_code in _CLOSE_CODES, end
    assert ends or server.closed
    server.tick(CLOSE_MS)
    assert server.closed


def _run_connection(opening: bytes, data: bytes) -> None:
    whole = _outcome(opening, [data])
    assert _outcome(opening, pieces(data)) == whole
    if len(data) <= 600 and chooser(data).random() < 0.2:
        assert _outcome(opening, [data[at : at + 1] for at in range(len(data))]) == whole


def run_anonymous(data: bytes) -> None:
    """From the first byte."""
    _run_connection(b"", data)


OPENING: Final = wire.handshake(frame_max=FRAME_MAX) + b"".join(
    encode_method(channel, ChannelOpen()) for channel in CHANNELS
)


def run_open(data: bytes) -> None:
    """After login, with open channels."""
    _run_connection(OPENING, data)


def anonymous_seeds() -> list[bytes]:
    failing: FieldTable = {
        "capabilities": {"authentication_failure_close": True},
        "product": "x" * 100,
    }
    return [
        OPENING,
        PROTOCOL_HEADER + wire.start_ok(failing, "PLAIN", b"\0guest\0wrong"),
        PROTOCOL_HEADER + wire.start_ok({}, "AMQPLAIN", sasl_seeds()[-1]),
        PROTOCOL_HEADER + encode_method(0, ConnectionOpen("/")),
        b"AMQP\x00\x01\x00\x00", b"GET / HTTP/1.1\r\n\r\n",
    ]  # fmt: skip


def open_seeds() -> list[bytes]:
    persistent = encode_properties({"delivery_mode": 2, "headers": {"a": 1}})
    publishes = b"".join(
        wire.publish(channel, "", "k", body, persistent, bits, FRAME_MAX)
        for channel, body, bits in [(1, b"x", 0), (1, b"x", 0), (2, b"", 1), (3, bytes(9_000), 3)]
    )
    methods = [encode_method(1 + i % 3, method) for i, method in enumerate(_METHODS)]
    settles = b"".join(encode_method(1, BasicAck(n, False)) for n in range(1, 5))
    return [publishes, b"".join(methods[:12]), settles + publishes, *methods]


TARGETS: Final = (
    Target("frames", run_frames, lambda: [OPENING, *open_seeds()], AMQP),
    Target("tables", run_table, table_seeds),
    Target("sasl", run_sasl, sasl_seeds, bytes_max=512),
    Target("methods", run_method, method_seeds),
    Target("contents", run_content, content_seeds, calls_per_byte=200),
    Target("anonymous", run_anonymous, anonymous_seeds, AMQP, bytes_max=40_000, calls_per_byte=100),
    Target("connection", run_open, open_seeds, AMQP, bytes_max=20_000, calls_per_byte=100),
)
