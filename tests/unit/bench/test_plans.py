"""Plans are checked with a sentence; who is where; which queue gets what."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.methods import BasicConsume
from fedq.bench.plan import BadPlan, Kind, Plan, Target, parse_sizes, parse_url
from fedq.bench.scripts import CONNECTIONS_PER_SOURCE, consumer_steps, source_of
from fedq.bench.topology import ROUND, Topology
from fedq.bench.words import matches, words_for


def is_match(pattern: list[str], key: list[str]) -> bool:
    """The definition: `*` is one word, `#` any number of words."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return any(is_match(pattern[1:], key[at:]) for at in range(len(key) + 1))
    return bool(key) and pattern[0] in ("*", key[0]) and is_match(pattern[1:], key[1:])


def topology(**options: object) -> Topology:
    """The clients of a plan."""
    return Topology(dataclasses.replace(Plan(), **options), "run")  # type: ignore[arg-type]


def test_a_url_may_lack_everything_but_the_host() -> None:
    assert parse_url("amqp://host") == Target("host", 5672)
    assert parse_url("amqp://u%40:p%2F@[::1]:7/v%2F") == Target("::1", 7, "u@", "p/", "v/")


@pytest.mark.parametrize("text", ["ftp://a", "amqps://a", "amqp://", "amqp://a:x", "a:5672"])
def test_a_wrong_url_is_told(text: str) -> None:
    with pytest.raises(BadPlan, match="--url"):
        parse_url(text)


def test_sizes() -> None:
    assert (parse_sizes("16"), parse_sizes("20-300")) == ((16, 16), (20, 300))
    for text in ("", "-", "1-", "x", "16-y", "-16"):
        with pytest.raises(BadPlan, match="--size"):
            parse_sizes(text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size_min": 15}, "--size"),
        ({"size_max": 131_065}, "--size"),
        ({"size_min": 99}, "--size"),
        ({"producers": -1}, "--producers"),
        ({"consumers": -1}, "--consumers"),
        ({"queues": 0}, "--queues"),
        ({"queues": 2}, "--consumers"),
        ({"subscribers": 1, "bindings": 1}, "two kinds"),
        ({"subscribers": 1, "prefetch": 1}, "--prefetch"),
        ({"connections": 1}, "--connections"),
        ({"subscribers": 1, "connections": 2}, "--connections"),
        ({"rate": 0.0}, "--rate"),
        ({"confirm_window": 0}, "--confirms"),
        ({"ack_every": 0}, "--ack-every"),
        ({"prefetch": 3, "ack_every": 4}, "--ack-every"),
        ({"idle": -9}, "connections"),
        ({"idle": 10**7}, "connections"),
        ({"producers": 0, "consumers": 0}, "nothing to do"),
        ({"seconds": 0.0}, "--seconds"),
        ({"warm_up_s": -1.0}, "--warm-up"),
        ({"patience_s": 0.0}, "--patience"),
        ({"processes": 0}, "--processes"),
        ({"bindings": 3, "bound_queues": 4}, "--bound-queues"),
        ({"consumers": 2, "is_exclusive": True}, "--exclusive"),
        ({"subscribers": 2, "is_exclusive": True}, "--exclusive"),
    ],
)
def test_a_plan_without_sense_is_refused_with_its_option(
    options: dict[str, object], words: str
) -> None:
    with pytest.raises(BadPlan, match=words):
        dataclasses.replace(Plan(), **options).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, Kind.QUEUES),
        ({"consumers": 0, "queues": 3}, Kind.QUEUES),
        ({"subscribers": 9, "connections": 2}, Kind.FANOUT),
        ({"bindings": 9, "bound_queues": 3, "is_exclusive": True, "consumers": 3}, Kind.TOPICS),
    ],
)
def test_kinds(options: dict[str, object], kind: Kind) -> None:
    plan = dataclasses.replace(Plan(), **options)  # type: ignore[arg-type]
    plan.check()
    assert plan.kind is kind


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4))
def test_every_client_is_in_one_process(producers: int, queues: int, processes: int) -> None:
    made = topology(
        producers=producers, queues=queues, consumers=queues * 2, processes=processes,
        subscribers=11, connections=7, idle=5,
    )  # fmt: skip
    for clients, count in (
        (made.producers_in, producers), (made.connections_in, 7), (made.idle_in, 5),
    ):  # fmt: skip
        found = [client for process in range(processes) for client in clients(process)]
        assert sorted(found) == list(range(count))
    subscribers = [each for connection in range(7) for each in made.subscribers_of(connection)]
    assert sorted(subscribers) == list(range(11))
    consuming = topology(queues=queues, consumers=queues * 2, processes=processes)
    found = [each for process in range(processes) for each in consuming.consumers_in(process)]
    assert sorted(found) == list(range(queues * 2))


@given(st.integers(1, 7), st.integers(1, 12))
def test_each_message_has_one_queue_and_its_ledger_knows(producers: int, queues: int) -> None:
    made = topology(producers=producers, queues=queues, consumers=queues)
    for producer in range(producers):
        shapes = made.shapes(producer)
        for queue in range(queues):
            members = made.members(producer, queue)
            mine = [at for at, shape in enumerate(shapes) if shape.key == made.queue(queue)]
            assert (members.owed(ROUND) if members else 0) == len(mine)
            if members and members.indexes is not None:
                assert list(members.indexes) == mine


def test_sizes_are_drawn_from_the_range_and_the_same_each_time() -> None:
    sizes = [shape.size for shape in topology(size_min=16, size_max=79).shapes(0)]
    assert min(sizes) < 20
    assert max(sizes) > 75
    assert sizes == [shape.size for shape in topology(size_min=16, size_max=79).shapes(0)]


@pytest.mark.parametrize("bindings", [1, 40, 700])
def test_matches_are_those_of_the_definition(bindings: int) -> None:
    words = words_for(bindings, 60, seed=3)
    assert len(dict.fromkeys(words.patterns)) == bindings
    for key, found in zip(words.keys, matches(words), strict=True):
        wanted = [
            at for at, pattern in enumerate(words.patterns)
            if is_match(pattern.split("."), key.split("."))
        ]  # fmt: skip
        assert sorted(found) == wanted


def test_a_key_matches_a_handful_of_many_bindings() -> None:
    found = [len(each) for each in matches(words_for(10_000, 500, seed=1))]
    assert 3 < sum(found) / len(found) < 8


def test_many_connections_to_one_loopback_address_come_from_several() -> None:
    made = topology(subscribers=100_000)
    assert source_of(made, 0) == ""
    assert source_of(made, CONNECTIONS_PER_SOURCE) == "127.0.0.2"
    assert source_of(made, 3 * CONNECTIONS_PER_SOURCE) == "127.0.0.4"
    spread = topology(targets=(Target("127.0.0.1", 1), Target("localhost", 2)))
    assert source_of(spread, 2 * CONNECTIONS_PER_SOURCE - 1) == ""
    assert source_of(spread, 2 * CONNECTIONS_PER_SOURCE) == "127.0.0.2"
    assert source_of(topology(targets=(Target("10.0.0.1", 1),)), 10**6) == ""


@given(st.integers(1, 20), st.integers(0, 1_000))
def test_producers_share_what_fills_a_queue(producers: int, more: int) -> None:
    plan = dataclasses.replace(Plan(), producers=producers, fill=producers + more)
    plan.check()
    shares = [plan.fill_of(producer) for producer in range(producers)]
    assert sum(shares) == plan.fill
    # A share of none would be one without end.
    assert 1 <= min(shares) <= max(shares) <= min(shares) + 1


@pytest.mark.parametrize(
    "options", [{"rate": 5.0}, {"is_exclusive": True}, {"subscribers": 3}, {"producers": 20}]
)
def test_what_cannot_be_filled_is_told(options: dict[str, object]) -> None:
    plan = dataclasses.replace(Plan(), fill=10, **options)  # type: ignore[arg-type]
    with pytest.raises(BadPlan, match="--fill"):
        plan.check()


def test_arguments_of_consumers_are_theirs() -> None:
    run = topology(consumer_arguments={"x-stream-offset": "first"}, prefetch=10)
    consume = consumer_steps(run, 0)[-1].request
    assert isinstance(consume, BasicConsume)
    assert consume.arguments == {"x-stream-offset": "first"}


@pytest.mark.parametrize(
    "url",
    [
        "amqp://u:s3cret@example.com:port",
        "http://u:s3cret@example.com",
        "amqp://u:s3cret/x@example.com",
        "amqp://u:s3@cret@",
    ],
)
def test_a_password_is_in_no_error(url: str) -> None:
    with pytest.raises(BadPlan, match="--url") as caught:
        parse_url(url)
    assert "s3" not in str(caught.value)
    assert "cret" not in str(caught.value)
