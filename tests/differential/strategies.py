"""Scripts by Hypothesis: few names, so that operations meet; a theme, so that they belong together.

Output: `scripts(themes)`. A script is what its theme begins with and a list of operations drawn
one by one, so that Hypothesis can leave out any of them when it shrinks.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from hypothesis import strategies as st

from fedq.amqp.values import FieldTable, TableValue
from tests.differential.script import Operation, Script, has_timers

Operations = st.SearchStrategy[Operation]
#: Several weights of operations: (how often, strategy).
Weighted = Sequence[tuple[int, Operations]]

Tables = st.SearchStrategy[FieldTable]
NOTHING: Final[Tables] = st.just({})
PLACES: Final = st.sampled_from(("a1", "a1", "a1", "a2", "b1"))
QUEUES: Final = st.sampled_from(("q0", "q0", "q0", "q1", "q1", "q2"))
EXCHANGES: Final = st.sampled_from(("x0", "x0", "x1", "x2"))
KEYS: Final = st.sampled_from(("k0", "k0", "k1", "k0.k1", "k0.k1.k2", ""))
PATTERNS: Final = st.sampled_from(("k0", "k0", "k1", "#", "*", "k0.*", "k0.#", "*.k1.#", ""))
TAGS: Final = st.sampled_from(("c0", "c0", "c1"))
TYPES: Final = st.sampled_from(("direct", "fanout", "topic", "headers"))
RARELY: Final = st.sampled_from((False, False, False, False, False, True))
OFTEN: Final = st.sampled_from((True, True, False))


def operation(
    verb: str, places: st.SearchStrategy[str] = PLACES, **arguments: st.SearchStrategy[TableValue]
) -> Operations:
    """An operation whose arguments are drawn; those with empty values are left out."""

    def build(place: str, drawn: FieldTable) -> Operation:
        kept: FieldTable = {
            name: value
            for name, value in drawn.items()
            if value is not False and value is not None and value != {}
        }
        return Operation(place, verb, kept)

    return st.builds(build, places, st.fixed_dictionaries(dict(arguments)))


def exactly(place: str, verb: str, **arguments: TableValue) -> Operations:
    """One operation, always the same."""
    return st.just(Operation(place, verb, arguments))


def table(optional: Mapping[str, st.SearchStrategy[TableValue]], size_max: int = 2) -> Tables:
    """A table of a few of the given fields."""
    entries = [st.tuples(st.just(name), value) for name, value in optional.items()]
    return st.lists(st.one_of(entries), max_size=size_max).map(dict)


def weighted(choices: Weighted) -> Operations:
    """One of the operations."""
    return st.sampled_from(
        [strategy for weight, strategy in choices for _ in range(weight)]
    ).flatmap(lambda strategy: strategy)


#: For each operation of a script, whether it is to go in one write with the one before.
_JOINS: Final = st.one_of(
    st.just([False]), st.just([True]), st.lists(st.booleans(), min_size=2, max_size=8)
)


def script_of(
    beginning: Sequence[Operations], choices: Weighted, length_max: int = 15, joins: bool = True
) -> st.SearchStrategy[Script]:
    """A script that begins with some of `beginning`, mostly all.

    `joins`: some scripts send several operations in one write, where no clock has a say.
    """
    first = st.tuples(*[st.one_of(each, each, each, st.none()) for each in beginning])
    rest = st.lists(weighted(choices), min_size=length_max // 3, max_size=length_max)
    return st.builds(
        lambda head, tail, joined: _joined(
            (*(each for each in head if each is not None), *tail), joined
        ),
        first, rest, _JOINS if joins else st.just([False]),
    )  # fmt: skip


def _joined(script: Script, joined: list[bool]) -> Script:
    if has_timers(script):
        return script
    return tuple(
        operation._replace(joined=place > 0 and joined[place % len(joined)])
        for place, operation in enumerate(script)
    )


# --- the operations that most themes need ---------------------------------------------------------


def declare(
    arguments: Tables = NOTHING,
    queues: st.SearchStrategy[str] = QUEUES, places: st.SearchStrategy[str] = PLACES,
) -> Operations:  # fmt: skip
    """queue.declare of a queue that all may use."""
    return operation(
        "queue.declare", places, queue=queues, durable=st.booleans(), auto_delete=RARELY,
        passive=RARELY, no_wait=RARELY, arguments=arguments,
    )  # fmt: skip


def declare_one(queue: str, arguments: Tables = NOTHING) -> Operations:
    """The declaration that a script begins with."""
    return operation(
        "queue.declare", st.just("a1"), queue=st.just(queue), durable=st.booleans(),
        arguments=arguments,
    )  # fmt: skip


PLAIN: Final[Tables] = st.sampled_from(
    (
        {}, {}, {"delivery_mode": 2}, {"priority": 3, "message_id": "m", "type": "t"},
        {"content_type": "text/plain", "content_encoding": "utf-8", "timestamp": 1_700_000_000,
         "correlation_id": "c", "reply_to": "k0", "user_id": "guest", "app_id": "a",
         "headers": {"h": [1, 2**40, "t", None, True, 1.5, {"deep": b"b"}], "": ""}},
    )
)  # fmt: skip


def publish(
    properties: Tables = PLAIN,
    places: st.SearchStrategy[str] = PLACES, queues: st.SearchStrategy[str] = QUEUES,
) -> Operations:  # fmt: skip
    """Publishes to a queue by the default exchange."""
    return operation(
        "publish", places, routing_key=queues, mandatory=RARELY,
        count=st.sampled_from((1, 1, 1, 2, 5)),
        size=st.sampled_from((1, 1, 1, 0, 4088, 4089, 9000)), properties=properties,
    )  # fmt: skip


def publish_to(
    exchanges: st.SearchStrategy[str] = EXCHANGES,
    properties: Tables = NOTHING,
) -> Operations:
    """Publishes to an exchange."""
    return operation(
        "publish",
        exchange=exchanges,
        routing_key=KEYS,
        mandatory=st.booleans(),
        count=st.sampled_from((1, 1, 2)),
        properties=properties,
    )


def consume(arguments: Tables = NOTHING) -> Operations:
    """basic.consume."""
    return operation(
        "basic.consume",
        queue=QUEUES,
        consumer_tag=TAGS,
        no_ack=RARELY,
        exclusive=RARELY,
        no_wait=RARELY,
        arguments=arguments,
    )


GET: Final = operation("basic.get", queue=QUEUES, no_ack=RARELY)
CANCEL: Final = operation("basic.cancel", consumer_tag=TAGS, no_wait=RARELY)
QOS: Final = operation("basic.qos", prefetch_count=st.sampled_from((0, 1, 1, 2, 5)), global_=RARELY)
NTH: Final = st.sampled_from((0, 0, 0, 1, 2))
SETTLE: Final = st.one_of(
    operation("ack", nth=NTH, multiple=RARELY),
    operation("nack", nth=NTH, multiple=RARELY, requeue=RARELY),
    operation("reject", nth=NTH, requeue=st.booleans()),
    operation("nack", nth=NTH, multiple=RARELY, requeue=st.just(True)),
)
ODD_SETTLE: Final = st.one_of(
    operation("ack", tag=st.sampled_from((0, 1, 99)), multiple=st.booleans()),
    operation("nack", tag=st.sampled_from((0, 99)), multiple=st.booleans()),
    operation("reject", tag=st.sampled_from((0, 99))),
    operation("ack-again"),
)
RECOVER: Final = operation("basic.recover", requeue=st.just(True))
PURGE: Final = operation("queue.purge", queue=QUEUES, no_wait=RARELY)
DELETE: Final = operation(
    "queue.delete", queue=QUEUES, if_unused=RARELY, if_empty=RARELY, no_wait=RARELY
)
CLOSE_CHANNEL: Final = operation(
    "channel.close", reply_code=st.just(200), reply_text=st.just("bye")
)
END_CONNECTION: Final = st.one_of(
    operation("connection.close", st.sampled_from(("a0", "b0")), reply_code=st.just(200)),
    operation("hang-up", st.sampled_from(("a0", "b0"))),
)
COMMON: Final[Weighted] = (
    (4, GET), (4, SETTLE), (2, consume()), (1, CANCEL), (1, QOS), (1, CLOSE_CHANNEL),
)  # fmt: skip
