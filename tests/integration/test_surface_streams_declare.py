"""Streams (`x-queue-type: stream`): what can be declared, and what is refused in which words."""

from typing import Any

import pytest

from tests.integration.stock import pika
from tests.integration.surface import Stage, only_fedq, refused

pytestmark = pytest.mark.slow

STREAM = {"x-queue-type": "stream"}

#: What other types of queue have and a stream has not, with a value that is right for them.
FOREIGN = {
    "x-max-length": 5,
    "x-message-ttl": 1_000,
    "x-expires": 60_000,
    "x-dead-letter-exchange": "amq.direct",
    "x-dead-letter-routing-key": "k",
    "x-dead-letter-strategy": "at-most-once",
    "x-max-priority": 5,
    "x-overflow": "drop-head",
    "x-single-active-consumer": True,
    "x-queue-mode": "lazy",
    "x-queue-version": 2,
    "x-quorum-initial-group-size": 1,
    "x-queue-master-locator": "min-masters",
    "x-delivery-limit": 3,
    "x-max-in-memory-length": 3,
    "x-max-in-memory-bytes": 3,
}


def stream(stage: Stage, **words: Any) -> str:
    """Declares a stream."""
    return stage.queue(durable=True, queue_type="stream", **words)


def again(stage: Stage, queue: str, durable: bool = True, **arguments: Any) -> None:
    """Declares that queue once more, elsewhere."""
    spelled = {word.replace("_", "-"): value for word, value in arguments.items()}
    stage.channel().queue_declare(queue, durable=durable, arguments=spelled)


def test_a_new_stream_is_empty(stage: Stage) -> None:
    queue = stream(stage)
    found = stage.consumer.queue_declare(queue, durable=True, passive=True).method
    assert (found.queue, found.message_count, found.consumer_count) == (queue, 0, 0)


@pytest.mark.parametrize(
    ("flags", "property_name"),
    [
        ({"durable": False}, "non-durable"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
        ({"durable": False, "exclusive": True}, "exclusive-owner"),
        ({"durable": False, "exclusive": True, "auto_delete": True}, "auto-delete"),
    ],
)
def test_a_stream_is_durable_and_shared(
    stage: Stage, flags: dict[str, bool], property_name: str
) -> None:
    name = stage.unused()
    with refused(406, f"invalid property '{property_name}' for queue '{name}' in vhost '/'"):
        stage.owner.queue_declare(name, arguments=STREAM, **flags)


def test_a_stream_has_a_name(stage: Stage) -> None:
    with refused(406, "Cannot declare a server-named queue for type rabbit_stream_queue"):
        stage.owner.queue_declare("", durable=True, arguments=STREAM)


@pytest.mark.parametrize("value", ["Stream", "streams", "", 5, True])
def test_types_that_are_none_are_refused(stage: Stage, value: object) -> None:
    name = stage.unused()
    with refused(406, f"invalid arg 'x-queue-type' for queue '{name}' in vhost '/'"):
        stage.owner.queue_declare(name, durable=True, arguments={"x-queue-type": value})


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-max-length-bytes", 0), ("x-max-length-bytes", 1),
        ("x-max-length-bytes", 2**40), ("x-max-length-bytes", 2**63 - 1),
        ("x-max-age", "1Y"), ("x-max-age", "12M"), ("x-max-age", "7D"), ("x-max-age", "1h"),
        ("x-max-age", "90m"), ("x-max-age", "1s"), ("x-max-age", "001s"),
        ("x-max-age", "99999999999999999999Y"),
        ("x-stream-max-segment-size-bytes", 100),
        ("x-stream-max-segment-size-bytes", 3_000_000_000),
        ("x-initial-cluster-size", 1), ("x-initial-cluster-size", 3),
        ("x-queue-leader-locator", "client-local"), ("x-queue-leader-locator", "balanced"),
        ("x-queue-leader-locator", "least-leaders"), ("x-queue-leader-locator", "random"),
        ("x-nobody-knows-it", "anything"),
    ],
)  # fmt: skip
def test_what_a_stream_may_be_declared_with(stage: Stage, argument: str, value: object) -> None:
    name = stage.unused()
    for _ in range(2):
        stage.owner.queue_declare(name, durable=True, arguments=STREAM | {argument: value})
    stage.put(name, b"works")


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-max-length-bytes", -1), ("x-max-length-bytes", "5"), ("x-max-length-bytes", True),
        ("x-max-length-bytes", None), ("x-max-length-bytes", [1]),
        ("x-max-age", "0s"), ("x-max-age", "1d"), ("x-max-age", "1H"), ("x-max-age", "1S"),
        ("x-max-age", "1y"), ("x-max-age", "1"), ("x-max-age", "1h30m"), ("x-max-age", "1 h"),
        ("x-max-age", "1ms"), ("x-max-age", "1.5h"), ("x-max-age", 5), ("x-max-age", True),
        ("x-max-age", b"1h"), ("x-max-age", [1]),
        ("x-stream-max-segment-size-bytes", -1), ("x-stream-max-segment-size-bytes", "5"),
        ("x-stream-max-segment-size-bytes", False),
        ("x-initial-cluster-size", 0), ("x-initial-cluster-size", -1),
        ("x-initial-cluster-size", "a"), ("x-initial-cluster-size", True),
        ("x-queue-leader-locator", "sideways"), ("x-queue-leader-locator", 5),
    ],
)  # fmt: skip
def test_bad_values_are_refused(stage: Stage, argument: str, value: object) -> None:
    name = stage.unused()
    with refused(406, f"invalid arg '{argument}' for queue '{name}' in vhost '/': "):
        stage.owner.queue_declare(name, durable=True, arguments=STREAM | {argument: value})


@only_fedq
@pytest.mark.parametrize("value", ["", "s", "-1s", " 1h", "h1"])
def test_an_age_without_a_number_is_refused(stage: Stage, value: str) -> None:
    """RabbitMQ fails at these with 541 and closes the connection."""
    with refused(406, "invalid arg 'x-max-age' for queue"):
        stage.owner.queue_declare(
            stage.unused(), durable=True, arguments=STREAM | {"x-max-age": value}
        )


def test_segments_have_a_largest_size(stage: Stage) -> None:
    arguments = STREAM | {"x-stream-max-segment-size-bytes": 3_000_000_001}
    with refused(406, "Exceeded max value for x-stream-max-segment-size-bytes"):
        stage.owner.queue_declare(stage.unused(), durable=True, arguments=arguments)


@pytest.mark.parametrize("argument", FOREIGN)
def test_what_a_stream_has_not_is_refused(stage: Stage, argument: str) -> None:
    name = stage.unused()
    words = f"invalid arg '{argument}' for queue '{name}' in vhost '/' of queue type rabbit_stream"
    with refused(406, words):
        stage.owner.queue_declare(
            name, durable=True, arguments=STREAM | {argument: FOREIGN[argument]}
        )


def test_what_a_stream_has_not_is_refused_whatever_its_value(stage: Stage) -> None:
    with refused(406, "invalid arg 'x-max-priority' for queue .* of queue type rabbit_stream"):
        stage.owner.queue_declare(
            stage.unused(), durable=True, arguments=STREAM | {"x-max-priority": "five"}
        )


def test_arguments_are_looked_at_before_the_flags(stage: Stage) -> None:
    with refused(406, "invalid arg 'x-max-priority' for queue"):
        stage.owner.queue_declare(stage.unused(), arguments=STREAM | {"x-max-priority": 5})


@pytest.mark.parametrize(
    ("argument", "value"), [("x-max-age", "1h"), ("x-stream-max-segment-size-bytes", 1_000)]
)
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_what_only_streams_have(stage: Stage, kind: str, argument: str, value: object) -> None:
    name = stage.unused()
    words = f"invalid arg '{argument}' for queue '{name}' in vhost '/' of queue type rabbit_{kind}"
    with refused(406, words):
        stage.owner.queue_declare(
            name, durable=True, arguments={"x-queue-type": kind, argument: value}
        )


# --- declaring again ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({}, {"x_max_length_bytes": 5_000}, "received the value '5000' .* but current is none"),
        ({"max_length_bytes": 5_000}, {}, "received none but current is the value '5000'"),
        (
            {"max_length_bytes": 5_000}, {"x_max_length_bytes": 5_001},
            "'x-max-length-bytes' .* received '5001' but current is '5000'",
        ),
        ({"max_age": "1h"}, {}, "received none but current is the value '1h'"),
        (
            {"max_age": "1h"}, {"x_max_age": "60m"},
            "'x-max-age' .* received '60m' but current is '1h'",
        ),
        (
            {"stream_max_segment_size_bytes": 1_000}, {"x_stream_max_segment_size_bytes": 1_001},
            "'x-stream-max-segment-size-bytes' .* received '1001' but current is '1000'",
        ),
    ],
    # The names of queues are made from these, and RabbitMQ cuts what it says at 255 bytes.
    ids=["bytes+", "bytes-", "bytes", "age-", "age", "segment"],
)  # fmt: skip
def test_other_arguments_are_another_stream(
    stage: Stage, first: dict[str, Any], second: dict[str, Any], words: str
) -> None:
    queue = stream(stage, **first)
    with refused(406, f"inequivalent arg .* for queue '{queue}' in vhost '/': received"):
        again(stage, queue, x_queue_type="stream", **second)
    with refused(406, words):
        again(stage, queue, x_queue_type="stream", **second)


def test_the_same_arguments_are_the_same_stream(stage: Stage) -> None:
    queue = stream(
        stage, max_age="1h", max_length_bytes=50_000, stream_max_segment_size_bytes=5_000
    )
    stage.put(queue, b"stays")
    again(
        stage, queue, x_queue_type="stream", x_max_age="1h", x_max_length_bytes=50_000,
        x_stream_max_segment_size_bytes=5_000,
    )  # fmt: skip
    stage.wait_depth(queue, 1)


def test_a_stream_is_no_other_type(stage: Stage) -> None:
    queue = stream(stage)
    words = f"inequivalent arg 'x-queue-type' for queue '{queue}' in vhost '/': received "
    with refused(406, words + "none but current is the value 'stream'"):
        again(stage, queue)
    for kind in ("classic", "quorum"):
        with refused(406, words + f"'{kind}' but current is 'stream'"):
            again(stage, queue, x_queue_type=kind)


def test_no_other_type_is_a_stream(stage: Stage) -> None:
    classic = stage.queue(durable=True)
    with refused(406, "inequivalent arg 'x-queue-type' .* received the value 'stream'"):
        again(stage, classic, x_queue_type="stream")
    quorum = stage.quorum()
    with refused(406, "'x-queue-type' .* received 'stream' but current is 'quorum'"):
        again(stage, quorum, x_queue_type="stream")


def test_other_flags_are_another_stream(stage: Stage) -> None:
    queue = stream(stage)
    with refused(406, "inequivalent arg 'durable' .* received 'false' but current is 'true'"):
        again(stage, queue, durable=False, x_queue_type="stream")
    with refused(406, "inequivalent arg 'auto_delete' .* received 'true' but current is 'false'"):
        stage.channel().queue_declare(queue, durable=True, auto_delete=True, arguments=STREAM)
    with refused(405, f"cannot obtain exclusive access to locked queue '{queue}'"):
        stage.channel().queue_declare(queue, durable=True, exclusive=True, arguments=STREAM)


def test_a_passive_declare_compares_nothing(stage: Stage) -> None:
    queue = stream(stage)
    found = stage.channel().queue_declare(queue, passive=True, arguments={"x-queue-type": "quorum"})
    assert isinstance(found.method, pika.spec.Queue.DeclareOk)


@only_fedq
@pytest.mark.parametrize("count", [0, -1, 65, "x", None])
def test_odd_numbers_of_fragments_are_refused(stage: Stage, count: object) -> None:
    with refused(406, "invalid arg 'x-fedq-fragments' for queue .*: "):
        stream(stage, fedq_fragments=count)
    stream(stage, fedq_fragments=1)


@only_fedq
def test_the_number_of_fragments_is_fixed(stage: Stage) -> None:
    queue = stream(stage, fedq_fragments=3)
    again(stage, queue, x_queue_type="stream", x_fedq_fragments=3)
    for count in (1, 2, 4, 64):
        with refused(406, "inequivalent arg 'x-fedq-fragments' for queue"):
            again(stage, queue, x_queue_type="stream", x_fedq_fragments=count)
    with refused(406, "inequivalent arg 'x-fedq-fragments' for queue"):
        again(stage, queue, x_queue_type="stream")
