"""The load generator counts right and notices a broker that does not deliver what it should.

A figure that looks too good must not come from the generator: it has to stop on a lost, a
repeated or a foreign message instead of counting it.
"""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtests.macro.generator import (
    BLOCK_MESSAGES,
    TAG,
    Block,
    Deliveries,
    body_of,
    delivery_sizes,
    measure,
)
from tests.integration.harness import Cluster
from tests.integration.stock import pika

QUEUE = "load"


def delivery(number: int, work: str) -> bytes:
    """What a correct broker sends for the message with this number."""
    body = body_of(number % BLOCK_MESSAGES, work)
    properties = pika.BasicProperties(delivery_mode=2 if work == "persistent" else None)
    deliver = pika.spec.Basic.Deliver(TAG, number + 1, False, "", QUEUE)
    frames = [
        pika.frame.Method(1, deliver),
        pika.frame.Header(1, len(body), properties),
        pika.frame.Body(1, body),
    ]
    return b"".join(frame.marshal() for frame in frames)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=9), st.integers(0, 400))
def test_a_block_knows_its_messages(sizes: list[int], messages: int) -> None:
    block = Block(sizes)
    naive = sum(sizes[number % len(sizes)] for number in range(messages))
    assert block.end_of(messages) == naive
    assert block.whole(naive) == messages
    if messages:
        assert block.whole(naive - 1) == messages - 1


@pytest.mark.parametrize("work", ["transient", "mixed", "persistent"])
def test_the_sizes_are_those_of_real_deliveries(work: str) -> None:
    expected = [len(delivery(number, work)) for number in range(BLOCK_MESSAGES)]
    assert delivery_sizes(QUEUE, work) == expected


@settings(max_examples=40)
@given(st.lists(st.integers(0, 2_500 * 110), max_size=20), st.sampled_from(["transient", "mixed"]))
def test_deliveries_are_counted_however_they_are_cut(cuts: list[int], work: str) -> None:
    stream = b"".join(delivery(number, work) for number in range(2_500))
    deliveries = Deliveries(QUEUE, work)
    ends = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    tags = [tag for start, end in pairwise(ends) for tag in deliveries.take(stream[start:end])]
    assert tags == list(range(1, 2_501))


@pytest.mark.parametrize("fault", ["lost", "repeated", "swapped", "foreign"])
def test_a_wrong_stream_ends_the_run(fault: str) -> None:
    numbers = {
        "lost": [0, 1, 3, 4, 5],
        "repeated": [0, 1, 1, 2, 3],
        "swapped": [0, 1, 3, 2, 4],
        "foreign": [0, 1],
    }[fault]
    stream = [delivery(number, "transient") for number in numbers]
    if fault == "foreign":
        stream.append(pika.frame.Heartbeat().marshal() + b"\0" * 200)
    deliveries = Deliveries(QUEUE, "transient")
    with pytest.raises(ConnectionError, match="expected"):
        list(map(deliveries.take, stream))


@pytest.mark.slow
@pytest.mark.parametrize("work", ["transient", "mixed", "persistent"])
def test_it_measures_a_real_node(lone_node: Cluster, work: str) -> None:
    process = lone_node.nodes["alone"].process
    assert process is not None
    outcome = measure(lone_node.nodes["alone"].amqp, process.pid, work, 0.3, 1.0)
    assert outcome.messages > 100
    assert outcome.seconds >= 1.0
    # Processor time has a grain of 10 ms; more than it could have used would be a wrong sum.
    assert 0 <= outcome.broker_cpu_s <= outcome.seconds * 2 + 0.05
