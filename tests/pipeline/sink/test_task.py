"""A task: its rows once, under a name that stands for them and nothing else."""

import random
from collections.abc import Iterator, Sequence

import pytest

from fedq.amqp import methods
from fedq.fragments.publishers.known_publishers import KnownPublishers
from fedq.pipeline import patience
from fedq.pipeline.failure import PipelineError
from fedq.pipeline.sink import task
from fedq.pipeline.sink.encoding import front_of
from fedq.pipeline.sink.options import WriteOptions, write_options
from fedq.pipeline.sink.ordering import Rows
from fedq.pipeline.sink.task import Part, publish_rows
from tests.pipeline.sink.broker import Broker, Message, Tell, broker, returned

COUNT = 3_000
PART = Part("job", 4, 2)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Routes are not known from another test, and nobody waits long."""
    monkeypatch.setattr(task, "_known", {})
    monkeypatch.setattr(patience, "_PAUSE_S", 0.001)


def options(*brokers: Broker, **given: str) -> WriteOptions:
    urls = ",".join(f"amqp://robot:secret@{each.url.address}" for each in brokers)
    return write_options({"url": urls, "routingKey": "a", **given}, is_streaming=False)


def rows(numbers: Sequence[int], keys: str = "ab") -> Iterator[Rows]:
    for number in numbers:
        front = front_of("", keys[number % len(keys)], {}, None)
        yield Rows(front, [b"%d" % number])


def mixed() -> list[int]:
    numbers = list(range(COUNT))
    random.Random(1).shuffle(numbers)
    return numbers


def bodies(each: Broker) -> list[int]:
    return sorted(int(message.body) for message in each.taken)


def names(each: Broker) -> set[object]:
    return {headers(message)["x-fedq-publisher"] for message in each.taken}


def headers(message: Message) -> dict[str, object]:
    found = message.properties["headers"]
    assert isinstance(found, dict)
    return found


def test_a_repeat_in_another_order_is_taken_once() -> None:
    with broker() as only:
        for numbers in (range(COUNT), mixed(), range(COUNT)):
            assert publish_rows(rows(numbers), options(only), PART) == COUNT
        assert only.came == 3 * COUNT
        assert bodies(only) == list(range(COUNT))
        [name] = names(only)
        assert str(name).startswith("job/4/2/")


def test_attempts_that_end_early_add_up() -> None:
    """As executors that are killed: at any row, once or twice."""

    def breaks(message: Message, tell: Tell) -> bool:
        if only.came in deaths:
            tell.close(methods.ConnectionClose(501, "the end of this attempt"), 0)
            return False
        return True

    for deaths in ((1,), (700,), (2, 1_500), (2_999, 5_000)):
        with broker(breaks) as only:
            for _ in deaths:
                with pytest.raises(PipelineError, match="the end of this attempt"):
                    publish_rows(rows(mixed()), options(only), PART)
            publish_rows(rows(range(COUNT)), options(only), PART)
            assert bodies(only) == list(range(COUNT))


def test_other_rows_are_never_taken_for_a_repeat() -> None:
    """As where a repeated batch is divided otherwise: doubled at worst."""
    with broker() as only:
        publish_rows(rows(range(10)), options(only), PART)
        publish_rows(rows(range(5, 20)), options(only), PART)
        assert bodies(only) == [*range(5), *sorted([*range(5, 10)] * 2), *range(10, 20)]


def test_the_same_rows_of_other_partitions_and_batches_are_others() -> None:
    with broker() as only:
        for part in (PART, Part("job", 4, 3), Part("job", 5, 2), Part("other", 4, 2)):
            publish_rows(rows(range(3)), options(only), part)
        assert bodies(only) == [0] * 4 + [1] * 4 + [2] * 4


def test_names_of_a_query_are_a_series_for_each_partition() -> None:
    """Of which queues remember the last few: before, a long query made them forget all others."""
    known = KnownPublishers()
    known.take("another publisher", 1, 1)
    for batch in range(2_000):
        parts = [Part("query", batch, n, is_streaming=True) for n in range(200)]
        for part in parts if batch > 1_990 else parts[:1]:
            known.take(part.name_of("hash"), 1, 9)
    assert "another publisher" in known.marks
    for part in parts:
        assert [each.is_new for each in known.parts(part.name_of("hash"), 1, 9)] == [False]
        assert [each.is_new for each in known.parts(part.name_of("other"), 1, 9)] == [True]
    before = Part("query", batch - 1, 7, is_streaming=True)
    assert [each.is_new for each in known.parts(before.name_of("hash"), 1, 9)] == [False]


def test_rows_in_a_promised_order_keep_it() -> None:
    with broker() as only:
        chosen = options(only, rowOrder="deterministic")
        for _ in range(2):
            publish_rows(rows(mixed()), chosen, PART)
        publish_rows(rows(range(3)), chosen, Part("job", 5, 2))
        assert [int(message.body) for message in only.taken] == [*mixed(), 0, 1, 2]
        assert names(only) == {"job/2"}
        sequences = [headers(message)["x-fedq-sequence"] for message in only.taken]
        assert sequences == [
            *range((4 << 32) + 1, (4 << 32) + 1 + COUNT), *range((5 << 32) + 1, (5 << 32) + 4),
        ]  # fmt: skip


def test_at_least_once_has_no_name() -> None:
    with broker() as only:
        publish_rows(rows(range(5)), options(only, exactlyOnce="false"), PART)
        assert bodies(only) == list(range(5))
        assert not any("headers" in message.properties for message in only.taken)


def test_nothing_is_behind_the_first_row_of_a_way_that_leads_nowhere() -> None:
    """Else it would count as taken once the way is there."""
    has_way = False

    def returns(message: Message, tell: Tell) -> bool:
        if message.key == "b" and not has_way:
            returned(message, tell)
            tell.tag += 1
            return False
        return True

    with broker(returns) as only:
        with pytest.raises(PipelineError, match="routing key 'b'"):
            publish_rows(rows(range(COUNT), "bca"), options(only), PART)
        assert {message.key for message in only.taken} == {"a"}
        has_way = True
        publish_rows(rows(mixed(), "bca"), options(only), PART)
        assert bodies(only) == list(range(COUNT))


def test_without_rows_nobody_is_asked() -> None:
    with broker() as only:
        assert publish_rows(iter(()), options(only), PART) == 0
        assert only.connections == 0


def test_numbers_of_batches_end() -> None:
    with broker() as only:
        chosen = options(only, rowOrder="deterministic")
        with pytest.raises(PipelineError, match="begin a new checkpoint"):
            publish_rows(rows(range(1)), chosen, Part("job", 1 << 30, 0))
