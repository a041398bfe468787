"""What RabbitMQ's API does as an AMQP client: declares, binds, deletes, publishes, gets.

Each function answers one path. The user's own permissions hold, and the broker's sentences are what
a refused request hears (`fedq.http.api.broker`).
"""

import base64
import binascii
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final
from urllib.parse import quote

from fedq.amqp import method_types as m
from fedq.amqp.values import TableValue
from fedq.core.ids import QueueKey
from fedq.http.api import gathering, reading, shapes
from fedq.http.api.broker import Broker, Message
from fedq.http.api.call import Call
from fedq.http.api.changing import CREATED, DONE, needed, text_of
from fedq.http.bounds import HTTP_MESSAGES_BYTES_MAX, HTTP_MESSAGES_MAX
from fedq.http.refusal import bad_request, not_there
from fedq.http.serving.exchange import Answer, Row, json_answer, table_of

_ACK_MODES: Final = (
    "ack_requeue_true", "reject_requeue_true", "ack_requeue_false", "reject_requeue_false",
)  # fmt: skip
_ALIVE: Final = "aliveness-test"


def _broker(call: Call) -> AbstractAsyncContextManager[Broker]:
    return call.brokers.open(call.user.name, call.user.password, call.vhost)


def _flag(body: Row, name: str) -> bool:
    value = body.get(name, False)
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise bad_request(f"{name} is neither true nor false")


def _arguments(body: Row) -> dict[str, TableValue]:
    found = body.get("arguments", {})
    if not isinstance(found, dict):
        raise bad_request("arguments is no table")
    return found


# --- queues ---------------------------------------------------------------------------------------


async def put_queue(call: Call) -> Answer:
    """Declares a queue."""
    body = await call.request.table()
    if not call.name:
        raise not_there()
    overview, key = call.served.overview, QueueKey(call.vhost, call.name)
    known = await call.node.look(lambda: overview.queue(key))
    request = m.QueueDeclare(
        call.name, durable=_flag(body, "durable"), auto_delete=_flag(body, "auto_delete"),
        arguments=_arguments(body),
    )  # fmt: skip
    async with _broker(call) as broker:
        await broker.call(request, m.QueueDeclareOk)
    return CREATED if known is None else DONE


async def delete_queue(call: Call) -> Answer:
    """Deletes a queue."""
    await reading.queue_row(call)
    request = m.QueueDelete(
        call.name, call.request.flag("if-unused"), call.request.flag("if-empty")
    )
    async with _broker(call) as broker:
        await broker.call(request, m.QueueDeleteOk)
    return DONE


async def purge_queue(call: Call) -> Answer:
    """Removes all messages that wait in a queue."""
    await reading.queue_row(call)
    async with _broker(call) as broker:
        await broker.call(m.QueuePurge(call.name), m.QueuePurgeOk)
    return DONE


# --- exchanges ------------------------------------------------------------------------------------


async def put_exchange(call: Call) -> Answer:
    """Declares an exchange."""
    body, name = await call.request.table(), reading.exchange_name(call.name)
    known = (await gathering.exchanges(call, call.vhost)).things
    request = m.ExchangeDeclare(
        name, text_of("type", body.get("type", "direct")), durable=_flag(body, "durable"),
        auto_delete=_flag(body, "auto_delete"), internal=_flag(body, "internal"),
        arguments=_arguments(body),
    )  # fmt: skip
    async with _broker(call) as broker:
        await broker.call(request, m.ExchangeDeclareOk)
    return DONE if any(each[1] == name for each in known) else CREATED


async def delete_exchange(call: Call) -> Answer:
    """Deletes an exchange."""
    name = reading.exchange_name(call.name)
    await reading.exchange(call)
    async with _broker(call) as broker:
        await broker.call(
            m.ExchangeDelete(name, call.request.flag("if-unused")), m.ExchangeDeleteOk
        )
    return DONE


# --- bindings -------------------------------------------------------------------------------------


async def post_binding(call: Call) -> Answer:
    """Binds a queue, or an exchange, to an exchange."""
    body = await call.request.table()
    key, arguments = text_of("routing_key", body.get("routing_key", "")), _arguments(body)
    source, destination = reading.exchange_name(call.places["source"]), call.places["destination"]
    async with _broker(call) as broker:
        if _is_queue(call):
            bind = m.QueueBind(destination, source, key, arguments=arguments)
            await broker.call(bind, m.QueueBindOk)
        else:
            bind_exchange = m.ExchangeBind(destination, source, key, arguments=arguments)
            await broker.call(bind_exchange, m.ExchangeBindOk)
    found = quote(shapes.properties_key(key, arguments), safe="~")
    return Answer(201, headers=(("location", f"{quote(destination, safe='')}/{found}"),))


async def delete_binding(call: Call) -> Answer:
    """Undoes one binding."""
    for row in await reading.bindings_between(call):
        if row["properties_key"] == call.places["key"]:
            break
    else:
        raise not_there()
    source, destination = row["source"], row["destination"]
    key, arguments = row["routing_key"], row["arguments"]
    async with _broker(call) as broker:
        if _is_queue(call):
            unbind = m.QueueUnbind(destination, source, key, arguments)
            await broker.call(unbind, m.QueueUnbindOk)
        else:
            unbind_exchange = m.ExchangeUnbind(destination, source, key, arguments=arguments)
            await broker.call(unbind_exchange, m.ExchangeUnbindOk)
    return DONE


def _is_queue(call: Call) -> bool:
    kind = call.places["kind"]
    if kind not in ("q", "e"):
        raise not_there()
    return kind == "q"


# --- messages -------------------------------------------------------------------------------------


async def publish(call: Call) -> Answer:
    """Publishes one message, and tells whether it reached a queue."""
    data = await call.request.body()
    async with call.brokers.long_tables:
        return await _publish(call, table_of(data))


async def _publish(call: Call, said: Row) -> Answer:
    names = ("properties", "routing_key", "payload", "payload_encoding")
    properties, key, payload, encoding = needed(said, names)
    if not isinstance(properties, dict):
        raise bad_request("properties is no table")
    body = text_of("payload", payload).encode()
    if encoding == "base64":
        try:
            body = base64.b64decode(body, validate=True)
        except binascii.Error:
            raise bad_request("payload is no base64") from None
    elif encoding != "string":
        raise bad_request(f"payload_encoding is neither string nor base64, but {encoding!r:.40}")
    exchange = reading.exchange_name(call.name)
    async with _broker(call) as broker:
        routed = await broker.publish(exchange, text_of("routing_key", key), properties, body)
    return json_answer({"routed": routed})


async def get(call: Call) -> Answer:
    """Takes some messages of a queue: for good, or to be put back."""
    body = await call.request.table()
    count, mode, encoding = needed(body, ("count", "ackmode", "encoding"))
    if mode not in _ACK_MODES:
        raise bad_request(f"ackmode is one of {', '.join(_ACK_MODES)}")
    if encoding not in ("auto", "base64"):
        raise bad_request("encoding is auto or base64")
    wanted = _number("count", count, HTTP_MESSAGES_MAX)
    most = HTTP_MESSAGES_BYTES_MAX
    if "truncate" in body:
        most = _number("truncate", body["truncate"], HTTP_MESSAGES_BYTES_MAX)
    await reading.queue_row(call)
    found: list[Message] = []
    async with _broker(call) as broker:
        held = 0
        while len(found) < wanted and held < HTTP_MESSAGES_BYTES_MAX:
            message = await broker.get(call.name, most)
            if message is None:
                break
            held += len(message.body)
            found.append(message)
        if found and mode == "ack_requeue_false":
            broker.tell(m.BasicAck(0, multiple=True))
        elif found:
            requeue = mode.endswith("requeue_true")
            broker.tell(m.BasicNack(0, multiple=True, requeue=requeue))
    return json_answer([_message(each, encoding) for each in found])


def _number(what: str, value: object, most: int) -> int:
    """A number from 0 to a bound, which tools also send as text."""
    text = str(value)
    if isinstance(value, bool) or not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise bad_request(f"{what} is no number from 0 on")
    return min(int(text), most)


def _message(each: Message, encoding: str) -> Row:
    body, kind = base64.b64encode(each.body).decode(), "base64"
    if encoding == "auto":
        with suppress(UnicodeDecodeError):
            body, kind = each.body.decode(), "string"
    return {
        "payload_bytes": each.size,
        "redelivered": each.method.redelivered,
        "exchange": plain(each.method.exchange),
        "routing_key": plain(each.method.routing_key),
        "message_count": each.method.message_count,
        # RabbitMQ says so when there are none.
        "properties": plain(each.properties) or [],
        "payload": body,
        "payload_encoding": kind,
    }


def plain(value: object) -> Any:
    """A field value as JSON can say it: odd bytes with backslashes, decimals as text."""
    match value:
        case dict():
            return {plain(key): plain(each) for key, each in value.items()}
        case list():
            return [plain(each) for each in value]
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case bool() | float() | None:
            return value
        case int():
            return int(value)
        case _:
            return str(value)


async def aliveness(call: Call) -> Answer:
    """Whether a message can be published and read in a virtual host."""
    async with _broker(call) as broker:
        await broker.call(m.QueueDeclare(_ALIVE, auto_delete=False), m.QueueDeclareOk)
        await broker.publish("", _ALIVE, {}, b"test_message")
        if await broker.get(_ALIVE, 0) is not None:
            broker.tell(m.BasicAck(0, multiple=True))
    return json_answer({"status": "ok"})


async def act(call: Call) -> Answer:
    """RabbitMQ's actions on mirrors of a queue: copies need no such thing here."""
    body = await call.request.table()
    await reading.queue_row(call)
    if body.get("action") not in ("sync", "cancel_sync"):
        raise bad_request(f"unknown action {str(body.get('action'))[:40]!r}")
    return DONE
