"""The themes of scripts: parts of AMQP 0-9-1 and of RabbitMQ's extensions, each with its habits.

Output: `THEMES`, by name.
"""

from typing import Final

from hypothesis import strategies as st

from fedq.amqp.values import TableValue
from tests.differential import strategies as s
from tests.differential.script import BRIEF_MS, Script

_CONFIRM: Final = s.operation("confirm.select", st.just("a1"))
_BIND: Final = s.operation(
    "queue.bind", queue=s.QUEUES, exchange=s.EXCHANGES, routing_key=s.PATTERNS, no_wait=s.RARELY
)
_UNBIND: Final = s.operation(
    "queue.unbind", queue=s.QUEUES, exchange=s.EXCHANGES, routing_key=s.PATTERNS
)


def _queues() -> st.SearchStrategy[Script]:
    return s.script_of(
        [s.declare_one("q0")],
        [(4, s.declare()), (4, s.publish()), (2, s.PURGE), (3, s.DELETE), (1, s.END_CONNECTION),
         *s.COMMON],
    )  # fmt: skip


def _consuming() -> st.SearchStrategy[Script]:
    return s.script_of(
        [s.declare_one("q0"), s.publish(places=st.just("a2")), s.consume()],
        [(6, s.publish()), (4, s.SETTLE), (2, s.RECOVER), (2, s.QOS), (1, s.PURGE),
         (1, s.operation("channel.flow", active=s.OFTEN)), (1, s.DELETE),
         (1, s.END_CONNECTION), *s.COMMON],
    )  # fmt: skip


def _confirms() -> st.SearchStrategy[Script]:
    return s.script_of(
        [_CONFIRM, s.declare_one("q0")],
        [(8, s.publish()), (1, s.operation("confirm.select", no_wait=s.RARELY)),
         (1, s.operation("tx.select")), (1, s.DELETE), (1, s.publish_to()), *s.COMMON],
    )  # fmt: skip


def _exclusive() -> st.SearchStrategy[Script]:
    declare = s.operation(
        "queue.declare", queue=st.sampled_from(("q0", "q0", "q1", "")), durable=s.RARELY,
        exclusive=s.OFTEN, auto_delete=s.RARELY, passive=s.RARELY, no_wait=s.RARELY,
    )  # fmt: skip
    made = st.sampled_from(("n0", "q0", ""))
    return s.script_of(
        [declare],
        [(6, declare), (2, s.publish(queues=made)), (1, s.operation("queue.purge", queue=made)),
         (1, s.operation("queue.delete", queue=made)), (2, s.operation("basic.get", queue=made)),
         (1, s.operation("queue.bind", queue=made, exchange=st.just("amq.topic"),
                         routing_key=s.PATTERNS)),
         (1, s.publish_to(st.just("amq.topic"))),
         (1, s.operation("basic.consume", queue=made, consumer_tag=st.sampled_from(("", "c0")),
                         exclusive=s.RARELY)),
         (2, s.END_CONNECTION), *s.COMMON],
    )  # fmt: skip


_EXCHANGE_ARGUMENTS: Final = s.table(
    {"alternate-exchange": st.sampled_from(("x1", "x2", "amq.fanout", 5)), "x-other": st.just(1)},
    size_max=1,
)


def _declare_exchange(alternate: bool) -> s.Operations:
    return s.operation(
        "exchange.declare", exchange=s.EXCHANGES, type=s.TYPES, durable=s.RARELY,
        auto_delete=s.RARELY, internal=s.RARELY if alternate else st.just(False),
        passive=s.RARELY, no_wait=s.RARELY,
        arguments=_EXCHANGE_ARGUMENTS if alternate else s.NOTHING,
    )  # fmt: skip


_HEADERS: Final = s.table(
    {
        "x-match": st.sampled_from(("all", "any", "all-with-x", "any-with-x", "some", 1)),
        "h": st.sampled_from((1, "1", True, None)), "g": st.just("v"), "x-h": st.just(1),
    },
    size_max=3,
)  # fmt: skip
_WITH_HEADERS: Final = st.builds(lambda headers: {"headers": headers} if headers else {}, _HEADERS)


def _exchanges(alternate: bool = False) -> st.SearchStrategy[Script]:
    first = s.operation(
        "exchange.declare", st.just("a1"), exchange=st.just("x0"), type=s.TYPES,
        arguments=_EXCHANGE_ARGUMENTS if alternate else s.NOTHING,
    )  # fmt: skip
    ends = {"destination": s.EXCHANGES, "source": s.EXCHANGES, "routing_key": s.PATTERNS}
    gone = s.operation("exchange.delete", exchange=s.EXCHANGES, if_unused=s.RARELY)
    return s.script_of(
        [first, s.declare_one("q0"), s.declare_one("q1"), _BIND],
        [(4, _declare_exchange(alternate)), (6, _BIND), (2, _UNBIND), (6, s.publish_to()),
         (2, s.publish_to(properties=_WITH_HEADERS)), (2, gone),
         (2, s.operation("queue.bind", queue=s.QUEUES, exchange=s.EXCHANGES,
                         routing_key=s.KEYS, arguments=_HEADERS)),
         (2, s.operation("queue.unbind", queue=s.QUEUES, exchange=s.EXCHANGES,
                         routing_key=s.KEYS, arguments=_HEADERS)),
         (3, s.operation("exchange.bind", **ends)), (1, s.operation("exchange.unbind", **ends)),
         (1, s.DELETE), (2, s.GET)],
    )  # fmt: skip


def _errors() -> st.SearchStrategy[Script]:
    odd_names = st.sampled_from(("amq.q", "amq.direct", "", "q0", "x0", "q9"))
    odd_types = st.sampled_from(("direct", "", "x-nothing", "fanout"))
    return s.script_of(
        [s.declare_one("q0")],
        [(1, s.operation("queue.declare", queue=odd_names, passive=s.RARELY)),
         (1, s.operation("exchange.declare", exchange=odd_names, type=odd_types,
                         passive=s.RARELY)),
         (1, s.operation("exchange.delete", exchange=odd_names)),
         (1, s.operation("queue.bind", queue=odd_names, exchange=odd_names)),
         (1, s.operation("queue.unbind", queue=odd_names, exchange=odd_names)),
         (1, s.operation("exchange.bind", destination=odd_names, source=odd_names)),
         (1, s.operation("queue.delete", queue=odd_names)),
         (1, s.operation("queue.purge", queue=odd_names)),
         (1, s.operation("basic.get", queue=odd_names)),
         (1, s.operation("basic.consume", queue=odd_names, consumer_tag=s.TAGS)),
         (1, s.operation("publish", exchange=odd_names, routing_key=odd_names,
                         mandatory=st.booleans(), immediate=s.RARELY)),
         (1, s.operation("basic.qos", prefetch_size=st.sampled_from((0, 10)),
                         prefetch_count=st.just(1))),
         (1, s.operation("basic.recover", requeue=st.booleans())),
         (1, s.operation("basic.recover-async", requeue=st.just(True))),
         (1, s.operation("channel.open")), (1, s.operation("tx.commit")),
         (1, s.operation("tx.rollback")), (3, s.ODD_SETTLE), (2, s.publish()), *s.COMMON],
    )  # fmt: skip


_ODD: Final[tuple[TableValue, ...]] = (
    0, 1, 5, -1, "1", "q0", "x0", True, None, 1.5, 2**40, b"b"
)  # fmt: skip
_ODD_VALUES: Final = st.sampled_from(_ODD)
#: Without times so short that two brokers on a busy machine need not agree on what is over.
_ODD_TIMES: Final = st.sampled_from([value for value in _ODD if value not in (1, 5)] + [True])
_TIMES: Final = ("x-message-ttl", "x-expires")
_KNOWN_ARGUMENTS: Final = (
    "x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-overflow",
    "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-priority",
    "x-single-active-consumer", "x-queue-type", "x-queue-mode", "x-delivery-limit",
    "x-unknown", "unknown",
)  # fmt: skip
_WORDS: Final = {
    "x-overflow": ("drop-head", "reject-publish", "reject-publish-dlx", "wrong", 1),
    "x-queue-type": ("classic", "wrong", 1), "x-queue-mode": ("default", "lazy", "wrong"),
    "x-message-ttl": (60_000, 0, -1, 2**32, "1"), "x-expires": (60_000, 0, -1, 2**32),
}  # fmt: skip


def _arguments() -> st.SearchStrategy[Script]:
    values: dict[str, st.SearchStrategy[TableValue]] = {
        name: _ODD_TIMES if name in _TIMES else _ODD_VALUES for name in _KNOWN_ARGUMENTS
    }
    for name, words in _WORDS.items():
        values[name] = st.one_of(st.sampled_from(words), values[name])
    return s.script_of(
        [], [(4, s.declare(s.table(values))), (1, s.DELETE),
             (1, s.consume(s.table({"x-priority": _ODD_VALUES, "x-other": _ODD_VALUES})))],
        length_max=6,
    )  # fmt: skip


def _transactions() -> st.SearchStrategy[Script]:
    return s.script_of(
        [s.operation("tx.select", st.just("a1")), s.declare_one("q0")],
        [(6, s.publish()), (4, s.operation("tx.commit", st.just("a1"))),
         (3, s.operation("tx.rollback", st.just("a1"))), (1, s.operation("tx.select")),
         (1, s.operation("confirm.select")), (2, s.RECOVER), (1, s.DELETE),
         (1, s.publish_to()), (1, s.ODD_SETTLE), *s.COMMON],
    )  # fmt: skip


#: Bodies of one byte only: a limit in bytes then means a number of messages.
_SHORT: Final = s.operation(
    "publish", routing_key=s.QUEUES, count=st.sampled_from((1, 1, 2, 5)),
    mandatory=s.RARELY, size=st.sampled_from((10, 10, 10, 40)),
    properties=st.sampled_from(({}, {"delivery_mode": 2})),
)  # fmt: skip
_DEAD_LETTER: Final[s.Tables] = st.sampled_from(
    ({}, {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q1"},
     {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q0"},
     {"x-dead-letter-exchange": "x0"}, {"x-dead-letter-exchange": "x1"},
     {"x-dead-letter-exchange": "x0", "x-dead-letter-routing-key": "k1"})
)  # fmt: skip


def _merged(*parts: s.Tables) -> s.Tables:
    return st.tuples(*parts).map(
        lambda tables: {name: value for each in tables for name, value in each.items()}
    )


def _limits() -> st.SearchStrategy[Script]:
    arguments = _merged(
        st.sampled_from(({"x-max-length": 2}, {"x-max-length": 0}, {"x-max-length": 3},
                         {"x-max-length-bytes": 35},
                         {"x-max-length": 2, "x-max-length-bytes": 45})),
        st.sampled_from(({}, {"x-overflow": "drop-head"}, {"x-overflow": "reject-publish"},
                         {"x-overflow": "reject-publish-dlx"})),
        _DEAD_LETTER,
    )  # fmt: skip
    return s.script_of(
        [_CONFIRM, s.declare_one("q0", arguments), s.declare_one("q1")],
        [(8, _SHORT), (1, s.RECOVER), (1, s.PURGE), *s.COMMON],
    )


def _fan_out(exchange: str) -> list[s.Operations]:
    return [
        s.exactly("a1", "exchange.declare", exchange=exchange, type="fanout"),
        s.exactly("a1", "queue.bind", queue="q1", exchange=exchange),
    ]


def _dead_letters() -> st.SearchStrategy[Script]:
    return s.script_of(
        [s.declare_one("q0", _DEAD_LETTER), s.declare_one("q1", _DEAD_LETTER), *_fan_out("x0")],
        [(6, s.publish()), (2, s.publish_to(properties=_WITH_HEADERS)), (6, s.SETTLE),
         (1, s.DELETE), (2, _BIND), *s.COMMON],
    )  # fmt: skip


def _times() -> st.SearchStrategy[Script]:
    arguments = _merged(
        st.sampled_from(({}, {"x-message-ttl": BRIEF_MS}, {"x-message-ttl": 0},
                         {"x-message-ttl": 60_000}, {"x-expires": BRIEF_MS})),
        _DEAD_LETTER,
        st.sampled_from(({}, {}, {"x-max-length": 2})),
    )  # fmt: skip
    properties: s.Tables = st.sampled_from(
        ({}, {"expiration": str(BRIEF_MS)}, {"expiration": "0"}, {"expiration": "60000"},
         {"expiration": str(BRIEF_MS), "headers": {"h": 1}, "delivery_mode": 2},
         {"expiration": "-1"}, {"expiration": "soon"}, {"expiration": ""},
         {"expiration": "4294967296"})
    )  # fmt: skip
    return s.script_of(
        [s.declare_one("q0", arguments), s.declare_one("q1", arguments), *_fan_out("x0")],
        [(8, s.publish(properties)), (1, s.PURGE), *s.COMMON],
        length_max=7,
    )


def _priorities() -> st.SearchStrategy[Script]:
    arguments = _merged(
        st.sampled_from(({"x-max-priority": 3}, {"x-max-priority": 1}, {"x-max-priority": 255},
                         {"x-max-priority": 0})),
        st.sampled_from(({}, {}, {"x-max-length": 3})), _DEAD_LETTER,
    )  # fmt: skip
    properties: s.Tables = st.sampled_from(
        ({}, {"priority": 0}, {"priority": 1}, {"priority": 2}, {"priority": 9})
    )
    return s.script_of(
        [s.declare_one("q0", arguments), s.declare_one("q1")],
        [(8, s.publish(properties)), (3, s.GET), (1, s.RECOVER), *s.COMMON],
    )


def _consumers() -> st.SearchStrategy[Script]:
    arguments: s.Tables = st.sampled_from(({}, {"x-single-active-consumer": True}))
    consume = s.consume(st.sampled_from(({}, {"x-priority": 5}, {"x-priority": -2})))
    return s.script_of(
        [s.declare_one("q0", arguments), consume],
        [(4, consume), (6, s.publish()), (2, s.QOS), (1, s.END_CONNECTION), (2, s.CANCEL),
         *s.COMMON],
    )  # fmt: skip


def _replies() -> st.SearchStrategy[Script]:
    pseudo = "amq.rabbitmq.reply-to"
    listen = s.operation(
        "basic.consume", queue=st.just(pseudo), consumer_tag=s.TAGS, no_ack=s.OFTEN
    )
    ask = s.publish(st.just({"reply_to": pseudo}))
    return s.script_of(
        [s.declare_one("q0"), listen],
        [(3, listen), (6, ask), (3, s.GET), (2, s.CANCEL),
         (1, s.operation("queue.declare", queue=st.just(pseudo), passive=st.booleans())),
         (1, s.operation("basic.get", queue=st.just(pseudo))),
         (1, s.operation("publish", routing_key=st.just(f"{pseudo}.nobody"),
                         mandatory=st.booleans())),
         (4, s.operation("publish", routing_key=st.sampled_from(("r0", "r0", "r1")),
                         mandatory=st.booleans())), *s.COMMON],
    )  # fmt: skip


def _copies() -> st.SearchStrategy[Script]:
    keys: list[TableValue] = ["q1", "q2"]
    headers: s.Tables = s.table(
        {
            "CC": st.sampled_from((["q1"], keys, "q1", ["k0", 5], [])),
            "BCC": st.sampled_from((["q2"], ["q0"], "q2", [])), "h": st.just(1),
        },
        size_max=3,
    )  # fmt: skip
    properties: s.Tables = st.one_of(
        headers.map(lambda table: {"headers": table}),
        st.sampled_from(({"user_id": "guest"}, {"user_id": "other"}, {"user_id": ""})),
    )
    return s.script_of(
        [s.declare_one("q0", _DEAD_LETTER), s.declare_one("q1"), *_fan_out("x0")],
        [(6, s.publish(properties)), (3, s.publish_to(properties=properties)), (4, s.GET),
         *s.COMMON],
    )  # fmt: skip


def _quorum() -> st.SearchStrategy[Script]:
    arguments = _merged(
        st.just({"x-queue-type": "quorum"}),
        st.sampled_from(({}, {"x-delivery-limit": 1}, {"x-delivery-limit": 2})), _DEAD_LETTER,
    )  # fmt: skip
    first = s.operation(
        "queue.declare", st.just("a1"), queue=st.just("q0"), durable=st.just(True),
        arguments=arguments,
    )  # fmt: skip
    return s.script_of(
        [first, s.declare_one("q1")],
        [(6, s.publish()), (6, s.SETTLE), (1, s.RECOVER), *s.COMMON],
        length_max=9,
        joins=False,
    )


_STREAM: Final[s.Tables] = st.just({"x-queue-type": "stream"})
_STREAM_LIMITS: Final = s.table(
    {
        "x-max-length-bytes": st.sampled_from((0, 10**6, -1, "5", True)),
        "x-max-age": st.sampled_from(("1h", "7D", "1Y", "0s", "1d", 5, "1h30m")),
        "x-stream-max-segment-size-bytes": st.sampled_from((10**6, -1, 3_000_000_001)),
        "x-queue-leader-locator": st.sampled_from(("client-local", "sideways")),
        "x-initial-cluster-size": st.sampled_from((1, 0)),
        "x-max-length": st.just(5), "x-expires": st.just(60_000), "x-unknown": st.just(1),
        "x-single-active-consumer": st.just(True), "x-max-priority": st.just(3),
    }
)  # fmt: skip
_BEGINNINGS: Final[tuple[TableValue, ...]] = (
    "first", "first", "last", "next", 0, 1, 3, 99, -1, 2**40, "1h", "7D", "T-3600", "T+3600",
    "T-4000000000",
)  # fmt: skip
#: RabbitMQ 3.10 keeps no tables and arrays of a stream's messages.
_PLAIN_IN_STREAMS: Final[s.Tables] = st.sampled_from(
    (
        {}, {}, {"delivery_mode": 2}, {"priority": 3, "message_id": "m", "type": "t"},
        {"headers": {"h": 1, "x-stream-offset": 7, "": "", "long": 2**40, "b": b"x", "none": None}},
        {"content_type": "text/plain", "content_encoding": "utf-8", "timestamp": 1_700_000_000,
         "correlation_id": "c", "reply_to": "k0", "user_id": "guest", "app_id": "a",
         "expiration": "60000"},
    )
)  # fmt: skip


def _streams() -> st.SearchStrategy[Script]:
    """Messages come one by one: RabbitMQ hands out whole chunks, whatever the prefetch."""
    arguments = st.one_of(_STREAM, _STREAM, _merged(_STREAM, _STREAM_LIMITS))
    first = s.operation(
        "queue.declare", st.just("a1"), queue=st.just("q0"), durable=st.just(True),
        arguments=arguments,
    )  # fmt: skip
    again = s.operation(
        "queue.declare", queue=st.sampled_from(("q0", "q0", "q1", "")), durable=s.OFTEN,
        exclusive=s.RARELY, auto_delete=s.RARELY, passive=s.RARELY, no_wait=s.RARELY,
        arguments=arguments,
    )  # fmt: skip
    queues = st.sampled_from(("q0", "q0", "q0", "q1"))
    publish = s.operation(
        "publish", routing_key=queues, mandatory=s.RARELY,
        size=st.sampled_from((1, 1, 0, 100, 9000)), properties=_PLAIN_IN_STREAMS,
    )  # fmt: skip
    beginnings = st.sampled_from(_BEGINNINGS).map(lambda value: {"x-stream-offset": value})
    consume = s.operation(
        "basic.consume", queue=queues, consumer_tag=s.TAGS, no_ack=s.RARELY, exclusive=s.RARELY,
        arguments=st.one_of(beginnings, beginnings, beginnings, s.NOTHING),
    )  # fmt: skip
    prefetch = s.operation(
        "basic.qos", prefetch_count=st.sampled_from((0, 1, 2, 50, 50, 50)), global_=s.RARELY
    )
    bind = s.operation(
        "queue.bind", queue=queues, exchange=st.just("amq.direct"), routing_key=s.KEYS
    )
    return s.script_of(
        [first, _CONFIRM, publish, s.exactly("a1", "basic.qos", prefetch_count=50), consume],
        [(6, publish), (4, consume), (2, prefetch), (4, s.SETTLE), (2, s.CANCEL), (2, again),
         (1, s.operation("basic.get", queue=queues)), (1, s.operation("queue.purge", queue=queues)),
         (1, s.operation("queue.delete", queue=queues, if_unused=s.RARELY, if_empty=s.RARELY)),
         (1, bind), (1, s.publish_to(st.just("amq.direct"))), (1, s.CLOSE_CHANNEL),
         (1, s.END_CONNECTION)],
        joins=False,
    )  # fmt: skip


THEMES: Final[dict[str, st.SearchStrategy[Script]]] = {
    "queues": _queues(), "consuming": _consuming(), "confirms": _confirms(),
    "exclusive": _exclusive(), "exchanges": _exchanges(), "errors": _errors(),
    "arguments": _arguments(), "alternates": _exchanges(alternate=True),
    "transactions": _transactions(), "limits": _limits(), "dead-letters": _dead_letters(),
    "times": _times(), "priorities": _priorities(), "consumers": _consumers(),
    "replies": _replies(), "copies": _copies(), "quorum": _quorum(),
    "streams": _streams(),
}  # fmt: skip
