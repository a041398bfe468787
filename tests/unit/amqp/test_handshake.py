"""The opening of a connection, as a client sees it."""

import pytest

from fedq.amqp.commands import Closed, Opened
from fedq.amqp.connection import Connection
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import (
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    QueueDeclare,
    encode_method,
)
from fedq.amqp.values import FieldTable, encode_table
from fedq.core import limits
from tests.unit.amqp.wire import handshake, methods, opened, receive, settings, start_ok, written


def connection(is_loopback: bool = True) -> Connection:
    return Connection(settings(), now_ms=0, is_loopback=is_loopback)


def closing(server: Connection) -> ConnectionClose:
    """The connection.close that the server just wrote."""
    ((channel, method),) = methods(server)
    assert channel == 0
    assert isinstance(method, ConnectionClose)
    return method


def test_a_client_opens_a_virtual_host() -> None:
    server = connection()
    assert server.receive(PROTOCOL_HEADER, 0) == []
    ((_, start),) = methods(server)
    assert isinstance(start, ConnectionStart)
    assert (start.version_major, start.version_minor) == (0, 9)
    assert start.mechanisms.split() == [b"PLAIN", b"AMQPLAIN"]
    # kombu asks for both before it sets a global prefetch limit.
    assert start.server_properties["product"] == "RabbitMQ"
    assert start.server_properties["version"] == "3.13.7"
    assert str(start.server_properties["information"]).startswith("fedq ")
    assert start.server_properties["failover"] == ["host:5672"]
    capabilities = start.server_properties["capabilities"]
    assert isinstance(capabilities, dict)
    assert all(value is True for value in capabilities.values())
    assert sorted(capabilities) == [
        "authentication_failure_close", "basic.nack", "connection.blocked",
        "consumer_cancel_notify", "consumer_priorities", "direct_reply_to",
        "exchange_exchange_bindings", "per_consumer_qos", "publisher_confirms",
    ]  # fmt: skip

    assert server.receive(start_ok({"product": "pika"}), 0) == []
    assert server.client_properties == {"product": "pika"}
    assert methods(server) == [(0, ConnectionTune(2_047, 131_072, 60))]

    assert receive(server, 0, ConnectionTuneOk(10, 8_192, 30)) == []
    assert server.frame_bytes_max == 8_192
    assert methods(server) == []

    assert receive(server, 0, ConnectionOpen("tenant")) == [Opened("tenant", "guest")]
    assert methods(server) == [(0, ConnectionOpenOk())]
    assert not server.closed


def test_amqplain_and_texts_beyond_ascii() -> None:
    server = connection(is_loopback=False)
    response = encode_table({"LOGIN": "Zoë", "PASSWORD": "pässword"})[4:]
    server.receive(PROTOCOL_HEADER + start_ok(None, "AMQPLAIN", response), 0)
    receive(server, 0, ConnectionTuneOk(0, 0, 0))
    assert receive(server, 0, ConnectionOpen("/")) == [Opened("/", "Zoë")]


@pytest.mark.parametrize("data", [b"AMQP\x00\x01\x00\x00", b"GET / HTTP/1.1\r\n", b"\x16", b"AMQQ"])
def test_other_protocols_are_told_ours(data: bytes) -> None:
    server = connection()
    (command,) = server.receive(data, 0)
    assert isinstance(command, Closed)
    assert written(server) == b"AMQP\x00\x00\x09\x01"
    assert server.closed
    assert server.receive(data, 0) == []


def test_a_failed_login_closes_with_403_for_clients_that_understand_it() -> None:
    server = connection()
    properties = start_ok(
        {"capabilities": {"authentication_failure_close": True}}, "PLAIN", b"\0a\0b"
    )
    server.receive(PROTOCOL_HEADER, 0)
    written(server)
    (command,) = server.receive(properties, 0)
    assert isinstance(command, Closed)
    close = closing(server)
    assert close.reply_code == 403
    assert close.reply_text.startswith(
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
    )
    assert server.client_properties == {}, "nothing is kept of who is not known"
    assert not server.closed
    assert receive(server, 0, ConnectionCloseOk()) == []
    assert server.closed


def test_a_failed_login_just_closes_for_others() -> None:
    server = connection(is_loopback=False)
    server.receive(PROTOCOL_HEADER, 0)
    written(server)
    (command,) = server.receive(start_ok(), 0)
    assert isinstance(command, Closed)
    assert "ACCESS_REFUSED" in command.reason
    assert written(server) == b""
    assert server.closed


def test_an_unknown_virtual_host_is_not_allowed() -> None:
    server = connection()
    server.receive(handshake()[: -len(encode_method(0, ConnectionOpen("/")))], 0)
    written(server)
    (command,) = receive(server, 0, ConnectionOpen("nowhere"))
    assert isinstance(command, Closed)
    close = closing(server)
    assert (close.reply_code, close.class_id, close.method_id) == (530, 10, 40)
    assert close.reply_text == "NOT_ALLOWED - vhost nowhere not found"


def test_a_virtual_host_without_permissions_is_not_allowed() -> None:
    server = connection()
    server.receive(handshake()[: -len(encode_method(0, ConnectionOpen("/")))], 0)
    written(server)
    (command,) = receive(server, 0, ConnectionOpen("closed"))
    assert isinstance(command, Closed)
    close = closing(server)
    assert (close.reply_code, close.class_id, close.method_id) == (530, 10, 40)
    assert close.reply_text == "NOT_ALLOWED - access to vhost 'closed' refused for user 'guest'"


def test_external_is_for_who_has_shown_a_certificate() -> None:
    server = Connection(settings(), now_ms=0, is_loopback=False, certificate_name="CN=robot")
    server.receive(PROTOCOL_HEADER, 0)
    ((_, start),) = methods(server)
    assert isinstance(start, ConnectionStart)
    assert start.mechanisms.split() == [b"PLAIN", b"AMQPLAIN", b"EXTERNAL"]
    server.receive(start_ok(None, "EXTERNAL", b"whatever"), 0)
    receive(server, 0, ConnectionTuneOk(0, 0, 0))
    assert receive(server, 0, ConnectionOpen("/")) == [Opened("/", "CN=robot")]


@pytest.mark.parametrize("secret", [b"guest", b"another", b"", b"\xff"])
def test_a_fresh_secret_renews_nothing_and_hurts_nobody(secret: bytes) -> None:
    server = opened()
    assert receive(server, 0, ConnectionUpdateSecret(secret, "the old one expires")) == []
    assert methods(server) == [(0, ConnectionUpdateSecretOk())]


@pytest.mark.parametrize(
    ("asked", "frame_max", "channel_max"),
    [((0, 0), 131_072, 2_047), ((5, 4_096), 4_096, 5), ((2_047, 131_072), 131_072, 2_047)],
)
def test_clients_may_lower_the_limits(
    asked: tuple[int, int], frame_max: int, channel_max: int
) -> None:
    server = connection()
    server.receive(handshake(frame_max=asked[1], channel_max=asked[0]), 0)
    assert server.frame_bytes_max == frame_max
    written(server)
    # How many there are counts, not what numbers they have (as in RabbitMQ).
    for number in range(65_535, 65_535 - channel_max, -1):
        receive(server, number, ChannelOpen())
    written(server)
    receive(server, 1, ChannelOpen())
    assert closing(server).reply_code == 530


@pytest.mark.parametrize(
    ("tune_ok", "name"),
    [
        (ConnectionTuneOk(2_048, 0, 0), "channel_max = 2048"),
        (ConnectionTuneOk(0, 131_073, 0), "frame_max = 131073"),
    ],
)
def test_clients_may_not_raise_the_limits(tune_ok: ConnectionTuneOk, name: str) -> None:
    server = connection()
    server.receive(PROTOCOL_HEADER + start_ok(), 0)
    written(server)
    receive(server, 0, tune_ok)
    close = closing(server)
    assert close.reply_code == 530
    assert f"negotiated {name} is higher" in close.reply_text


def test_frames_below_4096_bytes_are_not_allowed() -> None:
    server = connection()
    server.receive(PROTOCOL_HEADER + start_ok(), 0)
    written(server)
    receive(server, 0, ConnectionTuneOk(0, 4_095, 0))
    assert closing(server).reply_code == 530


def test_a_frame_above_the_agreed_size_is_a_frame_error() -> None:
    server = opened(frame_max=4_096)
    server.receive(b"\x01\x00\x01" + (4_096 + 1).to_bytes(4, "big"), 0)
    close = closing(server)
    assert close.reply_code == 501
    assert "at most 4096" in close.reply_text


def test_before_login_only_small_frames_are_read() -> None:
    server = connection()
    server.receive(PROTOCOL_HEADER, 0)
    written(server)
    size = limits.HANDSHAKE_FRAME_BYTES_MAX
    server.receive(b"\x01\x00\x00" + (size + 1).to_bytes(4, "big"), 0)
    assert closing(server).reply_code == 501


@pytest.mark.parametrize(
    ("steps", "data", "code"),
    [
        (1, encode_method(0, ConnectionOpen("/")), 503),
        (1, encode_method(1, ChannelOpen()), 503),
        (1, start_ok(None, "EXTERNAL", b""), 503),
        (1, b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x63\xce", 540),
        (2, start_ok(), 503),
        (2, encode_method(1, QueueDeclare("q")), 503),
        (3, encode_method(0, ConnectionTuneOk(0, 0, 0)), 503),
        (4, encode_method(0, ConnectionOpen("/")), 503),
    ],
)
def test_steps_out_of_order_are_refused(steps: int, data: bytes, code: int) -> None:
    server = connection()
    for step in [
        PROTOCOL_HEADER,
        start_ok(),
        encode_method(0, ConnectionTuneOk(0, 0, 0)),
        encode_method(0, ConnectionOpen("/")),
    ][:steps]:
        server.receive(step, 0)
    written(server)
    (command,) = server.receive(data, 0)
    assert isinstance(command, Closed)
    assert closing(server).reply_code == code


def test_a_handshake_has_its_time() -> None:
    server = connection()
    server.receive(PROTOCOL_HEADER + start_ok(), 0)
    assert server.wake_ms == limits.HANDSHAKE_MS
    assert server.tick(limits.HANDSHAKE_MS - 1) == []
    (command,) = server.tick(limits.HANDSHAKE_MS)
    assert isinstance(command, Closed)
    assert server.closed
    assert server.tick(limits.HANDSHAKE_MS + 1) == []


def test_clients_that_say_the_same_share_one_table() -> None:
    shared = settings()
    said: FieldTable = {"product": "pika", "capabilities": {"basic.nack": True}}
    tables: list[FieldTable] = []
    for response in (b"\0guest\0guest", b"\0guest\0wrong", b"\0guest\0guest"):
        server = Connection(shared, now_ms=0, is_loopback=True)
        commands = server.receive(PROTOCOL_HEADER + start_ok(said, "PLAIN", response), 0)
        assert bool(commands) == (b"wrong" in response)
        tables.append(server.client_properties)
    assert tables == [said, {}, said]
    assert tables[0] is tables[2]


def test_what_is_said_before_a_login_is_right_is_shared_with_nobody() -> None:
    shared = settings()
    said: FieldTable = {"product": "unknown"}
    refused, welcome = (Connection(shared, now_ms=0, is_loopback=True) for _ in range(2))
    refused.receive(PROTOCOL_HEADER + start_ok(said, "PLAIN", b"\0guest\0wrong"), 0)
    assert shared.known_properties.find(encode_table(said)) is None
    welcome.receive(PROTOCOL_HEADER + start_ok(said), 0)
    assert shared.known_properties.find(encode_table(said)) is welcome.client_properties


def test_clients_that_say_what_nobody_else_says_hold_no_place_for_good() -> None:
    shared = settings()
    for number in range(limits.CLIENT_PROPERTIES_KNOWN_MAX + 1):
        server = Connection(shared, now_ms=0, is_loopback=True)
        server.receive(PROTOCOL_HEADER + start_ok({"number": number}), 0)
        assert server.client_properties == {"number": number}
        known = shared.known_properties.find(encode_table({"number": number}))
        assert known is server.client_properties
    assert shared.known_properties.find(encode_table({"number": 0})) is None


def test_a_long_table_is_not_kept_for_others() -> None:
    shared = settings()
    said: FieldTable = {"text": "x" * limits.CLIENT_PROPERTIES_KNOWN_BYTES_MAX}
    server = Connection(shared, now_ms=0, is_loopback=True)
    server.receive(PROTOCOL_HEADER + start_ok(said), 0)
    assert server.client_properties == said
    assert shared.known_properties.find(encode_table(said)) is None


@pytest.mark.parametrize("cut", [0, 1, 5, 9, 30])
def test_a_table_that_is_known_does_not_excuse_what_follows_it(cut: int) -> None:
    shared = settings()
    frame = start_ok({"product": "pika"})
    Connection(shared, now_ms=0, is_loopback=True).receive(PROTOCOL_HEADER + frame, 0)
    payload = frame[7:-1][: len(frame) - 8 - cut] + b"more"[: 4 if not cut else 0]
    damaged = b"\x01\x00\x00" + len(payload).to_bytes(4) + payload + b"\xce"
    server = Connection(shared, now_ms=0, is_loopback=True)
    (command,) = server.receive(PROTOCOL_HEADER + damaged, 0)
    assert isinstance(command, Closed)
    assert "connection.start-ok" in command.reason
