"""Wrong requests get the reply code of the specification and hurt nobody else.

RabbitMQ passes all of it, apart from what a test says.
"""

from collections.abc import Callable
from functools import partial

import pytest

from tests.integration.conftest import OTHER_BROKER, Connect
from tests.integration.harness import eventually
from tests.integration.stock import Address, BlockingChannel, pika
from tests.integration.test_plain_queues import put
from tests.integration.wire import HEADER, Wire

pytestmark = pytest.mark.slow

ChannelClosed = pika.exceptions.ChannelClosedByBroker
ConnectionClosed = pika.exceptions.ConnectionClosedByBroker

Attempt = Callable[[BlockingChannel], object]

CHANNEL_OPEN = pika.frame.Method(1, pika.spec.Channel.Open()).marshal()


def frame(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    """One frame as given, right or wrong."""
    return bytes([kind]) + channel.to_bytes(2) + len(payload).to_bytes(4) + payload + end


def test_what_is_not_there_is_404(
    brokers: list[Address], open_connection: Connect, name: str
) -> None:
    connection = open_connection(brokers[-1])
    attempts: list[Attempt] = [
        lambda channel: channel.queue_declare(name, passive=True),
        lambda channel: channel.basic_get(name),
        lambda channel: channel.basic_consume(name, lambda *_: None),
        lambda channel: channel.queue_bind(name, "amq.direct", "a"),
        lambda channel: channel.queue_purge(name),
        lambda channel: channel.exchange_declare(name, passive=True),
    ]
    for attempt in attempts:
        with pytest.raises(ChannelClosed, match=name) as closed:
            attempt(connection.channel())
        assert closed.value.reply_code == 404
    # Deleting what is not there is no error.
    assert connection.channel().queue_delete(name).method.message_count == 0
    connection.channel().exchange_delete(name)


def test_publishing_to_no_exchange_closes_the_channel(
    brokers: list[Address], open_connection: Connect, name: str
) -> None:
    connection = open_connection(brokers[-1])
    channel = connection.channel()
    channel.confirm_delivery()
    with pytest.raises(ChannelClosed) as closed:
        channel.basic_publish(name, "a", b"x")
    assert closed.value.reply_code == 404
    connection.channel().queue_declare("", exclusive=True)


def test_a_wrong_password_is_403(brokers: list[Address], open_connection: Connect) -> None:
    for user, password in (("guest", "wrong"), ("nobody", "guest"), ("", "")):
        with pytest.raises(
            (
                pika.exceptions.ProbableAuthenticationError,
                pika.exceptions.AuthenticationError,
            )
        ) as refused:
            open_connection(brokers[0], credentials=pika.PlainCredentials(user, password))
        assert "403" in str(refused.value)


def test_an_unknown_virtual_host_is_530(brokers: list[Address], open_connection: Connect) -> None:
    with pytest.raises((ConnectionClosed, pika.exceptions.ProbableAccessDeniedError)) as refused:
        open_connection(brokers[-1], virtual_host="nowhere")
    assert "530" in str(refused.value)


def test_reserved_names_are_403(
    brokers: list[Address], open_connection: Connect, name: str
) -> None:
    connection = open_connection(brokers[-1])
    attempts: list[Attempt] = [
        lambda channel: channel.queue_declare(f"amq.{name}"),
        lambda channel: channel.exchange_declare(f"amq.{name}", "direct"),
        lambda channel: channel.exchange_delete("amq.topic"),
        lambda channel: channel.queue_bind(
            channel.queue_declare("", exclusive=True).method.queue, "", "key"
        ),
    ]
    for attempt in attempts:
        with pytest.raises(ChannelClosed) as closed:
            attempt(connection.channel())
        assert closed.value.reply_code == 403


def test_anothers_exclusive_queue_is_405(
    here: BlockingChannel, brokers: list[Address], open_connection: Connect, name: str
) -> None:
    here.queue_declare(name, exclusive=True)
    other = open_connection(brokers[-1])
    attempts: list[Attempt] = [
        lambda channel: channel.queue_declare(name, passive=True),
        lambda channel: channel.queue_declare(name, exclusive=True),
        lambda channel: channel.basic_consume(name, lambda *_: None),
        lambda channel: channel.basic_get(name),
        lambda channel: channel.queue_purge(name),
        lambda channel: channel.queue_delete(name),
        lambda channel: channel.queue_bind(name, "amq.direct", "a"),
    ]
    for attempt in attempts:
        with pytest.raises(ChannelClosed) as closed:
            attempt(other.channel())
        assert closed.value.reply_code == 405
    here.connection.close()

    def is_gone() -> bool:
        try:
            other.channel().queue_declare(name, passive=True)
        except ChannelClosed as error:
            return bool(error.reply_code == 404)
        return False

    eventually("the queue went with its connection", is_gone)


def test_another_shape_of_what_exists_is_406(
    brokers: list[Address], open_connection: Connect, queue: str, name: str
) -> None:
    connection = open_connection(brokers[-1])
    connection.channel().exchange_declare(name, "fanout", auto_delete=True)
    attempts: list[Attempt] = [
        lambda channel: channel.queue_declare(queue, durable=True),
        lambda channel: channel.queue_declare(queue, auto_delete=True),
        lambda channel: channel.queue_declare(queue, arguments={"x-max-length": 5}),
        lambda channel: channel.exchange_declare(name, "direct", auto_delete=True),
        lambda channel: channel.exchange_declare(name, "fanout", durable=True, auto_delete=True),
    ]
    for attempt in attempts:
        with pytest.raises(ChannelClosed) as closed:
            attempt(connection.channel())
        assert closed.value.reply_code == 406
    connection.channel().exchange_delete(name)


def refusal(channel: BlockingChannel, queue: str, act: Callable[[], object]) -> int:
    """The reply code with which an act that has no answer of its own is refused."""
    try:
        act()
        channel.queue_declare(queue, passive=True)
    except (ChannelClosed, ConnectionClosed) as error:
        return int(error.reply_code)
    raise AssertionError("the broker accepted it")


def test_an_unknown_delivery_tag_is_406(
    here: BlockingChannel, brokers: list[Address], open_connection: Connect, queue: str
) -> None:
    put(here, queue, b"one")
    connection = open_connection(brokers[-1])
    for settle in ("basic_ack", "basic_nack", "basic_reject"):
        channel = connection.channel()
        assert refusal(channel, queue, partial(getattr(channel, settle), 77)) == 406
    channel = connection.channel()
    method, _, _ = channel.basic_get(queue)
    channel.basic_ack(method.delivery_tag)
    again = partial(channel.basic_ack, method.delivery_tag)
    assert refusal(channel, queue, again) == 406


def test_an_unknown_exchange_type_is_503(
    brokers: list[Address], open_connection: Connect, name: str
) -> None:
    connection = open_connection(brokers[-1])
    with pytest.raises((ChannelClosed, ConnectionClosed)) as closed:
        connection.channel().exchange_declare(name, "sideways")
    assert closed.value.reply_code == 503


def test_using_a_consumer_tag_twice_is_530(here: BlockingChannel, queue: str) -> None:
    here.basic_consume(queue, lambda *_: None, consumer_tag="mine")
    # pika refuses the second use itself; say it as another client would.
    consume = pika.spec.Basic.Consume(queue=queue, consumer_tag="mine")
    assert refusal(here, queue, lambda: here._impl._send_method(consume)) == 530


def test_a_foreign_protocol_header_is_answered_with_ours(brokers: list[Address]) -> None:
    for greeting in (b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x01\x00\x00", b"AMQP\x01\x01\x00\x0a"):
        with Wire(brokers[-1], shake=False) as wire:
            wire.send_bytes(greeting)
            assert wire.rest() == HEADER


def closing_code(address: Address, data: bytes) -> int:
    """The reply code with which the broker closes the connection after these bytes."""
    with Wire(address) as wire:
        wire.send_bytes(data)
        while True:
            answer = wire.read()
            assert answer is not None, "the broker hung up without a reason"
            if isinstance(answer.method, pika.spec.Connection.Close):
                break
        wire.send(0, pika.spec.Connection.CloseOk())
        assert wire.rest() == b"", "the broker went on after connection.close-ok"
        return int(answer.method.reply_code)


@pytest.mark.parametrize(
    ("code", "data"),
    [
        pytest.param(501, frame(1, 0, b"\0\x0a\0\x33", end=b"\0"), id="wrong frame end"),
        pytest.param(501, b"\x01\x00\x00\x7f\xff\xff\xff" + b"x" * 64, id="larger than agreed"),
        pytest.param(504, pika.frame.Method(9, pika.spec.Basic.Qos()).marshal(), id="not open"),
        pytest.param(504, CHANNEL_OPEN * 2, id="opened twice"),
        pytest.param(505, CHANNEL_OPEN + frame(3, 1, b"body"), id="body without a publish"),
    ],
)
def test_protocol_errors_close_the_connection(
    brokers: list[Address], code: int, data: bytes
) -> None:
    assert closing_code(brokers[-1], data) == code


@pytest.mark.skipif(bool(OTHER_BROKER), reason="RabbitMQ says 541, or nothing, to these")
@pytest.mark.parametrize(
    ("codes", "data"),
    [
        pytest.param((501, 502), frame(1, 0, b"\0\x0a\0\x28"), id="no arguments"),
        pytest.param((503,), frame(1, 0, b"\0\x0a\0\x29\0"), id="a broker's method"),
        pytest.param((502, 503, 540), frame(1, 0, b"\0\x63\0\x63"), id="unknown method"),
        pytest.param((501, 505), frame(77, 0, b""), id="unknown frame type"),
    ],
)
def test_senseless_frames_are_named_as_such(
    brokers: list[Address], codes: tuple[int, ...], data: bytes
) -> None:
    assert closing_code(brokers[-1], data) in codes


def test_immediate_is_540(brokers: list[Address], open_connection: Connect, queue: str) -> None:
    """The flag that RabbitMQ dropped is refused, not ignored."""
    channel = open_connection(brokers[-1]).channel()
    publish = pika.spec.Basic.Publish(exchange="", routing_key=queue, immediate=True)
    content = (pika.BasicProperties(), b"x")
    assert refusal(channel, queue, lambda: channel._impl._send_method(publish, content)) == 540


def test_an_error_on_one_channel_spares_the_others(
    brokers: list[Address], open_connection: Connect, here: BlockingChannel, queue: str, name: str
) -> None:
    connection = open_connection(brokers[-1])
    good, bad = connection.channel(), connection.channel()
    put(good, queue, b"before")
    with pytest.raises(ChannelClosed):
        bad.queue_declare(f"{name}-nothing", passive=True)
    put(good, queue, b"after")
    assert [here.basic_get(queue, auto_ack=True)[2] for _ in range(2)] == [b"before", b"after"]


def test_too_long_names_are_refused_by_the_broker_not_lost(brokers: list[Address]) -> None:
    """A string that runs past its frame is a syntax error, not a read beyond it."""
    with Wire(brokers[-1]) as wire:
        wire.open_channel(1)
        wire.send_bytes(frame(1, 1, b"\0\x32\0\x0a\0\0\xffshort"))
        answer = wire.read()
        assert isinstance(answer.method, pika.spec.Connection.Close)
        assert answer.method.reply_code in (501, 502)
