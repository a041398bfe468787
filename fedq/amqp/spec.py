"""The methods of AMQP 0-9-1 with RabbitMQ's additions, as one table.

Input to `fedq.amqp.methods`, which gives every row its type. A row's fields are written as
"kind name" pairs in wire order; the name `-` marks a field that the specification reserves: zero
when sent, ignored when received. Neighbouring bits share an octet (specification 4.2.5.2).
"""

from typing import Final, NamedTuple

CONNECTION: Final = 10
CHANNEL: Final = 20
ACCESS: Final = 30
EXCHANGE: Final = 40
QUEUE: Final = 50
BASIC: Final = 60
CONFIRM: Final = 85
TX: Final = 90

BASIC_PUBLISH: Final = 40
BASIC_RETURN: Final = 50
BASIC_DELIVER: Final = 60
BASIC_GET_OK: Final = 71
BASIC_ACK: Final = 80
BASIC_REJECT: Final = 90
BASIC_NACK: Final = 120

RESERVED: Final = "-"

_KINDS: Final = (
    "bit", "octet", "short", "long", "longlong", "shortstr", "longstr", "table",
)  # fmt: skip


class FieldSpec(NamedTuple):
    """One argument of a method: its domain in the specification's terms, and its name."""

    kind: str
    name: str


class MethodSpec(NamedTuple):
    """One method: `name` is `class.method` as in the specification."""

    name: str
    class_id: int
    method_id: int
    fields: tuple[FieldSpec, ...]


def _method(name: str, class_id: int, method_id: int, fields: str = "") -> MethodSpec:
    parsed = tuple(FieldSpec(*field.split()) for field in fields.split(",") if field)
    # internal: tables of this module.
    assert all(field.kind in _KINDS for field in parsed), name
    return MethodSpec(name, class_id, method_id, parsed)


_CLOSE = "short reply_code, shortstr reply_text, short class_id, short method_id"
_LIMITS = "short channel_max, long frame_max, short heartbeat"
_EXCHANGE_BIND = (
    "short -, shortstr destination, shortstr source, shortstr routing_key, bit no_wait, "
    "table arguments"
)

METHODS: Final = (
    _method(
        "connection.start", CONNECTION, 10,
        "octet version_major, octet version_minor, table server_properties, "
        "longstr mechanisms, longstr locales",
    ),
    _method(
        "connection.start-ok", CONNECTION, 11,
        "table client_properties, shortstr mechanism, longstr response, shortstr locale",
    ),
    _method("connection.secure", CONNECTION, 20, "longstr challenge"),
    _method("connection.secure-ok", CONNECTION, 21, "longstr response"),
    _method("connection.tune", CONNECTION, 30, _LIMITS),
    _method("connection.tune-ok", CONNECTION, 31, _LIMITS),
    _method("connection.open", CONNECTION, 40, "shortstr virtual_host, shortstr -, bit -"),
    _method("connection.open-ok", CONNECTION, 41, "shortstr -"),
    _method("connection.close", CONNECTION, 50, _CLOSE),
    _method("connection.close-ok", CONNECTION, 51),
    _method("connection.blocked", CONNECTION, 60, "shortstr reason"),
    _method("connection.unblocked", CONNECTION, 61),
    _method("connection.update-secret", CONNECTION, 70, "longstr new_secret, shortstr reason"),
    _method("connection.update-secret-ok", CONNECTION, 71),
    _method("channel.open", CHANNEL, 10, "shortstr -"),
    _method("channel.open-ok", CHANNEL, 11, "longstr -"),
    _method("channel.flow", CHANNEL, 20, "bit active"),
    _method("channel.flow-ok", CHANNEL, 21, "bit active"),
    _method("channel.close", CHANNEL, 40, _CLOSE),
    _method("channel.close-ok", CHANNEL, 41),
    _method(
        "access.request", ACCESS, 10,
        "shortstr realm, bit exclusive, bit passive, bit active, bit write, bit read",
    ),
    _method("access.request-ok", ACCESS, 11, "short ticket"),
    _method(
        "exchange.declare", EXCHANGE, 10,
        "short -, shortstr exchange, shortstr type, bit passive, bit durable, bit auto_delete, "
        "bit internal, bit no_wait, table arguments",
    ),
    _method("exchange.declare-ok", EXCHANGE, 11),
    _method(
        "exchange.delete", EXCHANGE, 20, "short -, shortstr exchange, bit if_unused, bit no_wait"
    ),
    _method("exchange.delete-ok", EXCHANGE, 21),
    _method("exchange.bind", EXCHANGE, 30, _EXCHANGE_BIND),
    _method("exchange.bind-ok", EXCHANGE, 31),
    _method("exchange.unbind", EXCHANGE, 40, _EXCHANGE_BIND),
    _method("exchange.unbind-ok", EXCHANGE, 51),
    _method(
        "queue.declare", QUEUE, 10,
        "short -, shortstr queue, bit passive, bit durable, bit exclusive, bit auto_delete, "
        "bit no_wait, table arguments",
    ),
    _method(
        "queue.declare-ok", QUEUE, 11, "shortstr queue, long message_count, long consumer_count"
    ),
    _method(
        "queue.bind", QUEUE, 20,
        "short -, shortstr queue, shortstr exchange, shortstr routing_key, bit no_wait, "
        "table arguments",
    ),
    _method("queue.bind-ok", QUEUE, 21),
    _method("queue.purge", QUEUE, 30, "short -, shortstr queue, bit no_wait"),
    _method("queue.purge-ok", QUEUE, 31, "long message_count"),
    _method(
        "queue.delete", QUEUE, 40,
        "short -, shortstr queue, bit if_unused, bit if_empty, bit no_wait",
    ),
    _method("queue.delete-ok", QUEUE, 41, "long message_count"),
    _method(
        "queue.unbind", QUEUE, 50,
        "short -, shortstr queue, shortstr exchange, shortstr routing_key, table arguments",
    ),
    _method("queue.unbind-ok", QUEUE, 51),
    _method("basic.qos", BASIC, 10, "long prefetch_size, short prefetch_count, bit global_"),
    _method("basic.qos-ok", BASIC, 11),
    _method(
        "basic.consume", BASIC, 20,
        "short -, shortstr queue, shortstr consumer_tag, bit no_local, bit no_ack, "
        "bit exclusive, bit no_wait, table arguments",
    ),
    _method("basic.consume-ok", BASIC, 21, "shortstr consumer_tag"),
    _method("basic.cancel", BASIC, 30, "shortstr consumer_tag, bit no_wait"),
    _method("basic.cancel-ok", BASIC, 31, "shortstr consumer_tag"),
    _method(
        "basic.publish", BASIC, BASIC_PUBLISH,
        "short -, shortstr exchange, shortstr routing_key, bit mandatory, bit immediate",
    ),
    _method(
        "basic.return", BASIC, BASIC_RETURN,
        "short reply_code, shortstr reply_text, shortstr exchange, shortstr routing_key",
    ),
    _method(
        "basic.deliver", BASIC, BASIC_DELIVER,
        "shortstr consumer_tag, longlong delivery_tag, bit redelivered, shortstr exchange, "
        "shortstr routing_key",
    ),
    _method("basic.get", BASIC, 70, "short -, shortstr queue, bit no_ack"),
    _method(
        "basic.get-ok", BASIC, BASIC_GET_OK,
        "longlong delivery_tag, bit redelivered, shortstr exchange, shortstr routing_key, "
        "long message_count",
    ),
    _method("basic.get-empty", BASIC, 72, "shortstr -"),
    _method("basic.ack", BASIC, BASIC_ACK, "longlong delivery_tag, bit multiple"),
    _method("basic.reject", BASIC, BASIC_REJECT, "longlong delivery_tag, bit requeue"),
    _method("basic.recover-async", BASIC, 100, "bit requeue"),
    _method("basic.recover", BASIC, 110, "bit requeue"),
    _method("basic.recover-ok", BASIC, 111),
    _method("basic.nack", BASIC, BASIC_NACK, "longlong delivery_tag, bit multiple, bit requeue"),
    _method("confirm.select", CONFIRM, 10, "bit no_wait"),
    _method("confirm.select-ok", CONFIRM, 11),
    _method("tx.select", TX, 10),
    _method("tx.select-ok", TX, 11),
    _method("tx.commit", TX, 20),
    _method("tx.commit-ok", TX, 21),
    _method("tx.rollback", TX, 30),
    _method("tx.rollback-ok", TX, 31),
)  # fmt: skip

assert len({(method.class_id, method.method_id) for method in METHODS}) == len(METHODS)
