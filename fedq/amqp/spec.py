"""AMQP 0-9-1 in numbers: its frames, and its methods with RabbitMQ's additions as one table.

The only place where these numbers stand for Python code; `wire.pxd` has those that compiled code
reads, and `tests/twins/test_interface.py` holds both equal. A number is used under its name, bytes
are made by `ids_bytes`.

`METHODS` is input to `fedq.amqp.methods`, which gives every row its type. A row's fields are
written as "kind name" pairs in wire order; the name `-` marks a field that the specification
reserves: zero when sent, ignored when received. Neighbouring bits share an octet (specification
4.2.5.2).
"""

import struct
from typing import Final, NamedTuple

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE
#: The octet behind a frame's payload, as bytes to put there.
END: Final = bytes((FRAME_END,))
#: Bytes of a frame in front of its payload: type, channel, size.
FRAME_HEAD: Final = 7
#: Bytes of a frame around its payload.
FRAME_OVERHEAD: Final = FRAME_HEAD + 1
#: The smallest frame_max that any peer may ask for (AMQP 0-9-1 clause 4.2.3: frame-min-size).
FRAME_BYTES_MIN: Final = 4_096

CONNECTION: Final = 10
CHANNEL: Final = 20
ACCESS: Final = 30
EXCHANGE: Final = 40
QUEUE: Final = 50
BASIC: Final = 60
CONFIRM: Final = 85
TX: Final = 90

CONNECTION_START_OK: Final = 11
CONNECTION_CLOSE: Final = 50
CONNECTION_CLOSE_OK: Final = 51
CHANNEL_OPEN: Final = 10
CHANNEL_CLOSE: Final = 40
CHANNEL_CLOSE_OK: Final = 41
BASIC_QOS: Final = 10
BASIC_CONSUME: Final = 20
BASIC_PUBLISH: Final = 40
BASIC_RETURN: Final = 50
BASIC_DELIVER: Final = 60
BASIC_GET_OK: Final = 71
BASIC_ACK: Final = 80
BASIC_REJECT: Final = 90
BASIC_RECOVER: Final = 110
BASIC_NACK: Final = 120

#: How the payloads of frames of class basic begin: class and method, and of a content header class
#: and weight, which is 0, read as one long.
PUBLISH_IDS: Final = BASIC << 16 | BASIC_PUBLISH
RETURN_IDS: Final = BASIC << 16 | BASIC_RETURN
DELIVER_IDS: Final = BASIC << 16 | BASIC_DELIVER
GET_OK_IDS: Final = BASIC << 16 | BASIC_GET_OK
ACK_IDS: Final = BASIC << 16 | BASIC_ACK
REJECT_IDS: Final = BASIC << 16 | BASIC_REJECT
NACK_IDS: Final = BASIC << 16 | BASIC_NACK
HEADER_IDS: Final = BASIC << 16
#: The payload of an ack, a nack or a reject (class, method, tag, bits), and its whole frame.
SETTLING_PAYLOAD: Final = 13
SETTLING_FRAME: Final = FRAME_OVERHEAD + SETTLING_PAYLOAD
#: A header frame's payload up to its property list: class, weight, size of the body.
HEADER_PAYLOAD: Final = 12

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


def ids_bytes(class_id: int, method_id: int = 0) -> bytes:
    """What a method frame's payload begins with; without a method: a content header's."""
    return struct.pack(">HH", class_id, method_id)


def _method(name: str, class_id: int, method_id: int, fields: str = "") -> MethodSpec:
    parsed = tuple(FieldSpec(*field.split()) for field in fields.split(",") if field)
    # internal: tables of this module.
    assert all(field.kind in _KINDS for field in parsed), name
    return MethodSpec(name, class_id, method_id, parsed)


_CLOSE: Final = "short reply_code, shortstr reply_text, short class_id, short method_id"
_LIMITS: Final = "short channel_max, long frame_max, short heartbeat"
_EXCHANGE_BIND: Final = (
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
        "connection.start-ok", CONNECTION, CONNECTION_START_OK,
        "table client_properties, shortstr mechanism, longstr response, shortstr locale",
    ),
    _method("connection.secure", CONNECTION, 20, "longstr challenge"),
    _method("connection.secure-ok", CONNECTION, 21, "longstr response"),
    _method("connection.tune", CONNECTION, 30, _LIMITS),
    _method("connection.tune-ok", CONNECTION, 31, _LIMITS),
    _method("connection.open", CONNECTION, 40, "shortstr virtual_host, shortstr -, bit -"),
    _method("connection.open-ok", CONNECTION, 41, "shortstr -"),
    _method("connection.close", CONNECTION, CONNECTION_CLOSE, _CLOSE),
    _method("connection.close-ok", CONNECTION, CONNECTION_CLOSE_OK),
    _method("connection.blocked", CONNECTION, 60, "shortstr reason"),
    _method("connection.unblocked", CONNECTION, 61),
    _method("connection.update-secret", CONNECTION, 70, "longstr new_secret, shortstr reason"),
    _method("connection.update-secret-ok", CONNECTION, 71),
    _method("channel.open", CHANNEL, CHANNEL_OPEN, "shortstr -"),
    _method("channel.open-ok", CHANNEL, 11, "longstr -"),
    _method("channel.flow", CHANNEL, 20, "bit active"),
    _method("channel.flow-ok", CHANNEL, 21, "bit active"),
    _method("channel.close", CHANNEL, CHANNEL_CLOSE, _CLOSE),
    _method("channel.close-ok", CHANNEL, CHANNEL_CLOSE_OK),
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
    _method("basic.qos", BASIC, BASIC_QOS, "long prefetch_size, short prefetch_count, bit global_"),
    _method("basic.qos-ok", BASIC, 11),
    _method(
        "basic.consume", BASIC, BASIC_CONSUME,
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
    _method("basic.recover", BASIC, BASIC_RECOVER, "bit requeue"),
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
