"""The end of a connection: by the client, by the node, and by each kind of violation."""

import tracemalloc
from collections.abc import Callable

import pytest

from fedq.amqp.commands import Closed, Publishes, Request
from fedq.amqp.connection import CLOSE_MS, Connection
from fedq.amqp.content import encode_properties
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicAck,
    BasicDeliver,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ClientRequest,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
    encode_method,
)
from fedq.core import limits
from fedq.core.errors import CONNECTION_FORCED, NOT_ALLOWED, ConnectionViolation
from tests.unit.amqp.wire import (
    frames_of,
    merged,
    methods,
    opened,
    publish,
    receive,
    settings,
    written,
)

PUBLISH = encode_method(1, BasicPublish("e", "k"))
HEADER = b"\x02\x00\x01\x00\x00\x00\x0e\x00\x3c\x00\x00\0\0\0\0\0\0\0\x04\0\0\xce"
BODY = b"\x03\x00\x01\x00\x00\x00\x04body\xce"
LONG_BODY = b"\x03\x00\x01\x00\x00\x00\x05body!\xce"
BAD_PROPERTIES = b"\x02\x00\x01\x00\x00\x00\x0e\x00\x3c\x00\x00\0\0\0\0\0\0\0\x04\x80\0\xce"
OTHER_CLASS = b"\x02\x00\x01\x00\x00\x00\x0e\x00\x32\x00\x00\0\0\0\0\0\0\0\x04\0\0\xce"


def test_the_client_closes() -> None:
    server = opened()
    (command,) = server.receive(
        encode_method(0, ConnectionClose(200, "Goodbye", 0, 0)) + PUBLISH, 0
    )
    assert command == Closed("the client closed it: 200 Goodbye")
    assert receive(server, 0, QueueDeclare("q")) == []
    server.send(1, QueueDeclareOk("before", 0, 0))
    server.agree_to_end()
    server.send(1, QueueDeclareOk("late", 0, 0))
    assert methods(server) == [(1, QueueDeclareOk("before", 0, 0)), (0, ConnectionCloseOk())]
    assert server.closed
    assert server.wake_ms is None


@pytest.mark.parametrize(
    ("data", "code", "ids"),
    [
        pytest.param(b"\x01\x00\x01\x00\x00\x00\x00\x00", 501, (0, 0), id="no frame end"),
        pytest.param(b"\x04\x00\x01\x00\x00\x00\x00\xce", 501, (0, 0), id="unknown frame type"),
        pytest.param(b"\x01\x00\x01\xff\xff\xff\xff", 501, (0, 0), id="huge frame"),
        pytest.param(PUBLISH + HEADER + LONG_BODY, 501, (60, 40), id="body too long"),
        pytest.param(PUBLISH + OTHER_CLASS, 505, (60, 40), id="header of another class"),
        pytest.param(b"\x01\x00\x01\x00\x00\x00\x02\x00\x3c\xce", 502, (0, 0), id="no method"),
        pytest.param(PUBLISH + BAD_PROPERTIES, 502, (60, 40), id="malformed properties"),
        pytest.param(PUBLISH + BAD_PROPERTIES + BODY, 502, (60, 40), id="the same, complete"),
        pytest.param(
            b"\x01\x00\x01\x00\x00\x00\x09\x00\x3c\x00\x28\0\0\x09e\0\xce", 502, (60, 40),
            id="malformed publish",
        ),
        pytest.param(
            b"\x01\x00\x01\x00\x00\x00\x04\x00\x3c\x00\x50\xce", 502, (60, 80), id="ack without tag"
        ),
        pytest.param(
            encode_method(1, QueueDeclareOk("q", 0, 0)), 503, (50, 11), id="method of a server"
        ),
        pytest.param(
            encode_method(1, BasicDeliver("t", 1, False, "", "")), 503, (60, 60), id="deliver"
        ),
        pytest.param(encode_method(1, ChannelCloseOk()), 503, (20, 41), id="stray close-ok"),
        pytest.param(
            encode_method(1, ConnectionClose(200, "", 0, 0)), 503, (10, 50), id="on a channel"
        ),
        pytest.param(encode_method(0, QueueDeclare("q")), 503, (50, 10), id="on channel 0"),
        pytest.param(encode_method(0, ConnectionBlocked("")), 503, (10, 60), id="blocked"),
        pytest.param(encode_method(2, QueueDeclare("q")), 504, (50, 10), id="channel not open"),
        pytest.param(b"\x03\x00\x02\x00\x00\x00\x01x\xce", 504, (0, 0), id="body not open"),
        pytest.param(encode_method(1, ChannelOpen()), 504, (20, 10), id="open twice"),
        pytest.param(PUBLISH + PUBLISH, 505, (60, 40), id="publish in a content"),
        pytest.param(
            PUBLISH + encode_method(1, BasicAck(1, False)), 505, (60, 40), id="ack in a content"
        ),
        pytest.param(PUBLISH + BODY, 505, (60, 40), id="body before header"),
        pytest.param(PUBLISH + HEADER + HEADER, 505, (60, 40), id="two headers"),
        pytest.param(HEADER, 505, (60, 40), id="header without publish"),
        pytest.param(BODY, 505, (60, 40), id="body without publish"),
        pytest.param(b"\x03\x00\x00\x00\x00\x00\x01x\xce", 505, (0, 0), id="body on channel 0"),
        pytest.param(encode_method(3, ChannelClose(200, "", 0, 0)), 504, (20, 40), id="not open"),
        pytest.param(
            b"\x01\x00\x01\x00\x00\x00\x04\x00\x3c\x00\x63\xce", 540, (60, 99), id="unknown method"
        ),
        pytest.param(
            b"\x01\x00\x00\x00\x00\x00\x04\x00\x63\x00\x01\xce", 540, (99, 1), id="unknown class"
        ),
    ],
)  # fmt: skip
def test_violations_close_with_their_reply_code(
    data: bytes, code: int, ids: tuple[int, int]
) -> None:
    whole, bytewise = opened(), opened()
    commands = whole.receive(data, 0)
    single = [c for byte in data for c in bytewise.receive(bytes((byte,)), 0)]
    assert commands == merged(single)
    (closed,) = commands
    assert isinstance(closed, Closed)
    ((channel, close),) = methods(whole)
    assert channel == 0
    assert isinstance(close, ConnectionClose)
    assert (close.reply_code, (close.class_id, close.method_id)) == (code, ids)
    assert close.reply_text == closed.reason
    assert methods(bytewise) == [(0, close)]
    assert not whole.closed


def test_old_clients_get_their_ticket() -> None:
    server = opened()
    assert receive(server, 1, AccessRequest("/data", read=True)) == []
    assert methods(server) == [(1, AccessRequestOk(1))]


def test_transactions_are_for_the_node() -> None:
    server = opened()
    asked: list[ClientRequest] = [TxSelect(), TxCommit(), TxRollback()]
    commands = [command for method in asked for command in receive(server, 1, method)]
    assert commands == [Request(1, method) for method in asked]
    for answer in (TxSelectOk(), TxCommitOk(), TxRollbackOk()):
        server.send(1, answer)
    assert methods(server) == [(1, TxSelectOk()), (1, TxCommitOk()), (1, TxRollbackOk())]


def test_after_a_violation_only_the_end_is_heard() -> None:
    server = opened()
    server.receive(encode_method(0, QueueDeclare("q")) + publish(1, "e", "k", b"x"), 100)
    written(server)
    assert server.receive(publish(1, "e", "k", b"x") + encode_method(9, ChannelOpen()), 100) == []
    server.send(0, ConnectionBlocked("late"))
    assert written(server) == b""
    assert server.wake_ms == 100 + CLOSE_MS
    assert receive(server, 0, ConnectionCloseOk()) == []
    assert server.closed


def test_a_client_that_does_not_agree_is_dropped_in_time() -> None:
    server = opened()
    server.receive(b"\x01\x00\x01\x00\x00\x00\x00\x00", 500)
    written(server)
    assert receive(server, 0, ConnectionCloseOk()) == [], "the stream is out of step"
    assert server.tick(500 + CLOSE_MS - 1) == []
    assert not server.closed
    assert server.tick(500 + CLOSE_MS) == []
    assert server.closed


def test_the_node_closes() -> None:
    server = opened()
    server.close(ConnectionViolation(CONNECTION_FORCED, "this node stops; connect to another"))
    server.close(ConnectionViolation(NOT_ALLOWED, "a second reason"))
    text = "CONNECTION_FORCED - this node stops; connect to another"
    assert methods(server) == [(0, ConnectionClose(320, text, 0, 0))]
    assert server.receive(publish(1, "e", "k", b"x"), 0) == []
    assert receive(server, 0, ConnectionCloseOk()) == []
    assert server.closed


def test_the_node_closes_who_has_not_said_a_word() -> None:
    server = Connection(settings(), 0, is_loopback=True)
    server.close(ConnectionViolation(CONNECTION_FORCED, "this node stops"))
    assert server.closed
    assert written(server) == b""


def test_both_sides_may_close_at_once() -> None:
    server = opened()
    server.close(ConnectionViolation(CONNECTION_FORCED, "this node stops"))
    written(server)
    assert receive(server, 0, ConnectionClose(200, "Goodbye", 0, 0)) == []
    assert methods(server) == [(0, ConnectionCloseOk())]
    assert server.closed


def test_long_reasons_are_cut() -> None:
    server = opened()
    server.close(ConnectionViolation(NOT_ALLOWED, "ü" * 500))
    ((_, close),) = methods(server)
    assert isinstance(close, ConnectionClose)
    assert close.reply_text == "NOT_ALLOWED - " + "ü" * 120


def test_input_is_held_only_up_to_one_frame() -> None:
    server = opened(frame_max=4_096)
    data = publish(1, "e", "k", bytes(100_000), frame_bytes_max=4_096)
    commands = [
        command
        for at in range(0, len(data), 1_000)
        for command in server.receive(data[at : at + 1_000], 0)
    ]
    (publishes,) = merged(commands)
    assert isinstance(publishes, Publishes)
    assert publishes.batch[0][2][0].endswith(bytes(100_000))


def test_more_property_lists_than_are_remembered() -> None:
    server = opened()
    data = b"".join(
        publish(
            1, "e", "k", b"x", encode_properties({"message_id": f"{n}", "delivery_mode": n % 3})
        )
        for n in range(200)
    )
    (command,) = server.receive(data, 0)
    assert isinstance(command, Publishes)
    ((_, _, messages),) = command.batch
    assert [message[0] for message in messages] == [int(n % 3 == 2) for n in range(200)]


def test_everything_written_is_whole_frames() -> None:
    server = opened()
    server.receive(encode_method(5, ChannelOpen()) + encode_method(0, QueueDeclare("q")), 0)
    assert [frame.kind for frame in frames_of(written(server))] == [1, 1]


def memory_held(action: Callable[[], object]) -> int:
    """Bytes that are held after the action and were not before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        action()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def test_a_body_in_tiny_frames_costs_little_more_than_its_bytes() -> None:
    server = opened()
    size = 40_000
    header = HEADER[:11] + size.to_bytes(8, "big") + b"\0\0\xce"
    server.receive(PUBLISH + header, 0)
    tiny = b"\x03\x00\x01\x00\x00\x00\x02ab\xce"
    run = tiny * 100

    def all_but_the_last() -> None:
        for _ in range(size // 200 - 1):
            assert server.receive(run, 0) == []

    assert memory_held(all_but_the_last) < 2 * size
    (command,) = server.receive(run, 0)
    assert isinstance(command, Publishes)
    assert command.batch[0][2][0].endswith(b"ab" * (size // 2))


def test_strangers_cannot_make_it_hold_more_than_a_small_frame() -> None:
    server = Connection(settings(), 0, is_loopback=True)
    size = limits.HANDSHAKE_FRAME_BYTES_MAX - 8
    server.receive(PROTOCOL_HEADER, 0)
    server.receive(b"\x01\x00\x00" + size.to_bytes(4, "big"), 0)

    def trickle() -> None:
        for _ in range(4 * size // 2):
            server.receive(b"ab", 0)

    assert memory_held(trickle) < 3 * limits.HANDSHAKE_FRAME_BYTES_MAX
    (close,) = (m for _, m in methods(server) if isinstance(m, ConnectionClose))
    assert close.reply_code == 501
