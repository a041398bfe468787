"""Channels: opening, closing, contents, and requests, as commands."""

import pytest

from fedq.amqp.commands import (
    ChannelClosed,
    ChannelOpened,
    Closed,
    Publishes,
    Request,
    Settles,
)
from fedq.amqp.connection import Connection
from fedq.amqp.content import NO_PROPERTIES, encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicCancelOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    QueueDeclare,
    QueueDeclareOk,
    encode_method,
)
from fedq.core import limits
from fedq.core.errors import FRAME_ERROR, NOT_FOUND, ChannelViolation
from fedq.core.message import encode, make_route
from tests.unit.amqp.wire import merged, methods, opened, publish, receive, written

ROUTE = make_route("amq.topic", "a.b")
PERSISTENT = encode_properties({"delivery_mode": 2})


def one(server: Connection, data: bytes) -> object:
    (command,) = server.receive(data, 0)
    return command


def test_channels_open_and_close() -> None:
    server = opened(channels=0)
    assert receive(server, 9, ChannelOpen()) == [ChannelOpened(9)]
    assert methods(server) == [(9, ChannelOpenOk())]
    close = ChannelClose(200, "bye", 0, 0)
    assert receive(server, 9, close) == [Request(9, close)]
    server.agree_to_close(9)
    assert methods(server) == [(9, ChannelCloseOk())]
    assert receive(server, 9, ChannelOpen()) == [ChannelOpened(9)]


@pytest.mark.parametrize("size", [4_089, 4_096])
def test_a_frame_may_exceed_the_agreed_size_by_its_own_head_and_end(size: int) -> None:
    # amqpstorm and rabbitpy cut bodies so; RabbitMQ lets them.
    server = opened(frame_max=4_096)
    message = encode(0, ROUTE, NO_PROPERTIES, bytes(size))
    data = publish(1, "amq.topic", "a.b", bytes(size), frame_bytes_max=size + 8)
    assert one(server, data) == Publishes(1, [(ROUTE, 0, [message])])
    # And in the way frame by frame, as one of several.
    head = len(publish(1, "amq.topic", "a.b", b""))
    assert merged(server.receive(data[:head], 0)) == []
    assert one(server, data[head:]) == Publishes(1, [(ROUTE, 0, [message])])


def test_what_came_before_the_clients_close_is_answered_before_close_ok() -> None:
    server = opened(channels=2)
    receive(server, 1, ChannelClose(200, "bye", 0, 0))
    assert server.receive(encode_method(1, QueueDeclare("q")) + publish(1, "e", "k", b"x"), 0) == []
    server.send(1, QueueDeclareOk("q", 0, 0))
    server.agree_to_close(1)
    server.agree_to_close(2)
    assert methods(server) == [(1, QueueDeclareOk("q", 0, 0)), (1, ChannelCloseOk())]


def test_a_violation_before_the_clients_close_is_told_before_close_ok() -> None:
    server = opened()
    receive(server, 1, ChannelClose(200, "bye", 0, 0))
    server.close_channel(1, ChannelViolation(NOT_FOUND, "no exchange 'e'", 60, 40))
    server.agree_to_close(1)
    close = ChannelClose(404, "NOT_FOUND - no exchange 'e'", 60, 40)
    assert methods(server) == [(1, close), (1, ChannelCloseOk())]
    assert receive(server, 1, ChannelCloseOk()) == []
    assert receive(server, 1, ChannelOpen()) == [ChannelOpened(1)]


def test_a_channel_is_not_opened_again_before_close_ok() -> None:
    server = opened()
    receive(server, 1, ChannelClose(200, "bye", 0, 0))
    (closed,) = receive(server, 1, ChannelOpen())
    assert closed == Closed("CHANNEL_ERROR - second 'channel.open' seen: wait for channel.close-ok")


def test_requests_come_as_they_are() -> None:
    server = opened()
    declare = QueueDeclare("q", durable=True, arguments={"x-fedq-replicas": 3})
    assert receive(server, 1, declare) == [Request(1, declare)]
    assert receive(server, 1, BasicQos(0, 10, True)) == [Request(1, BasicQos(0, 10, True))]


def test_a_publish_is_one_encoded_message() -> None:
    server = opened()
    message = encode(1, ROUTE, PERSISTENT, b"body")
    data = publish(1, "amq.topic", "a.b", b"body", PERSISTENT, bits=1)
    assert one(server, data) == Publishes(1, [(ROUTE, 1, [message])])


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_property_list_leaves_room_for_what_a_broker_adds(pieces: int) -> None:
    """As a whole publish, and frame by frame."""
    overhead = len(encode_properties({"headers": {"x": ""}}))
    room = limits.PROPERTIES_BYTES_MAX - overhead
    for size, is_taken in ((room, True), (room + 1, False)):
        properties = encode_properties({"headers": {"x": "x" * size}})
        data = publish(1, "amq.topic", "a.b", b"body", properties)
        server = opened()
        cut = len(data) // pieces
        commands = server.receive(data[:cut], 0) + server.receive(data[cut:], 0)
        assert any(isinstance(command, Publishes) for command in commands) == is_taken
        closes = [m for _, m in methods(server) if isinstance(m, ConnectionClose)]
        assert [close.reply_code for close in closes] == ([] if is_taken else [FRAME_ERROR])


@pytest.mark.parametrize("size", [0, 1, 4_088, 4_089, 20_000])
def test_bodies_of_any_size_arrive(size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    body = body[:size]
    data = publish(1, "amq.topic", "a.b", body, frame_bytes_max=4_096)
    message = encode(0, ROUTE, b"\0\0", body)
    assert one(opened(frame_max=4_096), data) == Publishes(1, [(ROUTE, 0, [message])])


def test_runs_of_publishes_are_one_command_per_channel() -> None:
    server = opened(channels=2)
    data = b"".join(
        publish(channel, "e", key, b"%d" % number, bits=bits)
        for number, (channel, key, bits) in enumerate(
            [(1, "k", 0), (1, "k", 0), (1, "k", 1), (2, "k", 1), (2, "l", 1), (1, "k", 1)]
        )
    )
    commands = server.receive(data, 0)
    assert [
        (command.channel, [(r, b, [one[-1:] for one in many]) for r, b, many in command.batch])
        for command in commands
        if isinstance(command, Publishes)
    ] == [
        (1, [(b"\1e\1k", 0, [b"0", b"1"]), (b"\1e\1k", 1, [b"2"])]),
        (2, [(b"\1e\1k", 1, [b"3"]), (b"\1e\1l", 1, [b"4"])]),
        (1, [(b"\1e\1k", 1, [b"5"])]),
    ]
    assert len(commands) == 3


def test_contents_of_different_channels_may_interleave() -> None:
    server = opened(channels=2)
    first, second = publish(1, "e", "k", b"one"), publish(2, "e", "k", b"two")
    method = len(encode_method(1, BasicPublish("e", "k")))
    data = first[:method] + second[:method] + first[method:-11] + second[method:] + first[-11:]
    commands = server.receive(data, 0)
    assert [
        (command.channel, command.batch[0][2][0][-3:])
        for command in commands
        if isinstance(command, Publishes)
    ] == [(2, b"two"), (1, b"one")]


def test_settlements_are_one_command() -> None:
    server = opened()
    data = b"".join(
        encode_method(1, method)
        for method in (
            BasicAck(1, False), BasicAck(2, False), BasicAck(5, True), BasicNack(9, True, True),
            BasicNack(10, False, False), BasicReject(11, True), BasicReject(12, False),
        )
    )  # fmt: skip
    assert one(server, data) == Settles(
        1,
        [
            (80, 1, 2, False, False), (80, 5, 5, True, False), (120, 9, 9, True, True),
            (120, 10, 10, False, False), (90, 11, 11, False, True), (90, 12, 12, False, False),
        ],
    )  # fmt: skip


def test_the_order_between_kinds_is_kept() -> None:
    server = opened()
    data = (
        encode_method(1, BasicAck(1, False))
        + publish(1, "e", "k", b"x")
        + encode_method(1, QueueDeclare("q"))
        + publish(1, "e", "k", b"y")
    )
    kinds = [type(command) for command in server.receive(data, 0)]
    assert kinds == [Settles, Publishes, Request, Publishes]


def test_a_cancelled_consumer_needs_no_answer() -> None:
    assert receive(opened(), 1, BasicCancelOk("tag")) == []


def test_a_closing_channel_ignores_everything_until_the_client_agrees() -> None:
    server = opened(channels=2)
    server.close_channel(1, ChannelViolation(NOT_FOUND, "no queue 'q'; declare it", 50, 10))
    close = ChannelClose(404, "NOT_FOUND - no queue 'q'; declare it", 50, 10)
    assert methods(server) == [(1, close)]
    ignored = publish(1, "e", "k", b"x") + encode_method(1, QueueDeclare("q"))
    half = publish(1, "e", "k", b"x")[:30]
    assert server.receive(ignored + encode_method(1, BasicAck(1, False)) + half[:0], 0) == []
    assert len(server.receive(publish(2, "e", "k", b"x"), 0)) == 1
    server.send(1, QueueDeclareOk("q", 0, 0))
    assert written(server) == b""
    assert receive(server, 1, ChannelCloseOk()) == []
    assert receive(server, 1, ChannelOpen()) == [ChannelOpened(1)]


def test_both_sides_may_close_a_channel_at_once() -> None:
    server = opened()
    server.close_channel(1, ChannelViolation(NOT_FOUND, "no queue"))
    written(server)
    assert receive(server, 1, ChannelClose(200, "bye", 0, 0)) == []
    assert methods(server) == [(1, ChannelCloseOk())]
    assert receive(server, 1, ChannelCloseOk()) == []
    assert receive(server, 1, ChannelOpen()) == [ChannelOpened(1)]


def test_a_body_above_the_limit_closes_only_its_channel() -> None:
    server = opened(channels=2)
    size = limits.BODY_BYTES_MAX + 1
    header = b"\x02\x00\x01\x00\x00\x00\x0e\x00\x3c\x00\x00" + size.to_bytes(8, "big") + b"\0\0\xce"
    data = encode_method(1, BasicPublish("e", "k")) + header
    assert server.receive(data, 0) == [ChannelClosed(1)]
    ((channel, method),) = methods(server)
    assert channel == 1
    assert isinstance(method, ChannelClose)
    assert (method.reply_code, method.class_id, method.method_id) == (311, 60, 40)
    assert server.receive(b"\x03\x00\x01\x00\x00\x00\x04body\xce", 0) == []
    assert len(server.receive(publish(2, "e", "k", b"x"), 0)) == 1


def test_nothing_is_sent_on_channels_that_are_gone() -> None:
    server = opened()
    receive(server, 1, ChannelClose(200, "bye", 0, 0))
    server.agree_to_close(1)
    written(server)
    server.send(1, QueueDeclareOk("q", 0, 0))
    server.close_channel(1, ChannelViolation(NOT_FOUND, "late"))
    assert written(server) == b""


def test_what_came_before_a_violation_still_counts() -> None:
    server = opened()
    data = publish(1, "e", "k", b"x") + encode_method(1, QueueDeclareOk("q", 0, 0))
    publishes, closed = server.receive(data + publish(1, "e", "k", b"y"), 0)
    assert isinstance(publishes, Publishes)
    assert len(publishes.batch) == 1
    assert isinstance(closed, Closed)
