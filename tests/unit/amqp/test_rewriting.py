"""Messages that a broker changes: what it adds is bounded, what it does not touch stays."""

from fedq.amqp import rewriting
from fedq.amqp.content import encode_properties, headers_of
from fedq.amqp.values import TableValue
from fedq.core.limits import (
    DEATHS_MAX,
    FRAME_BYTES_MAX,
    HEADER_OVERHEAD_BYTES,
    PROPERTIES_BYTES_MAX,
)
from fedq.core.message import FLAG_COPIES, FLAG_DELAYED, encode, make_route, split, with_flag


def message(**headers: TableValue) -> bytes:
    return encode(0, make_route("", "k"), encode_properties({"headers": headers}), b"body")


def died(message: bytes, queue: str) -> bytes:
    return rewriting.dead_letter(message, "expired", queue, "dlx", None, 5)


def deaths(message: bytes) -> list[str]:
    """The queues named in `x-death`."""
    found = headers_of(split(message)[1])["x-death"]
    assert isinstance(found, list)
    return [str(death["queue"]) for death in found if isinstance(death, dict)]


def test_deaths_keep_to_their_number_and_the_oldest_go() -> None:
    dead = message()
    for number in range(DEATHS_MAX + 10):
        dead = died(dead, f"q{number}")
    assert deaths(dead) == [f"q{number}" for number in range(DEATHS_MAX + 9, 9, -1)]


def test_deaths_keep_to_what_a_header_frame_holds() -> None:
    dead = message(large="x" * 100_000)
    for number in range(300):
        dead = died(dead, str(number) + "q" * 250)
        assert len(split(dead)[1]) + HEADER_OVERHEAD_BYTES <= FRAME_BYTES_MAX
    assert len(deaths(dead)) > 20
    assert deaths(dead)[0].startswith("299q")


def test_the_longest_list_of_a_publish_has_room_for_some_deaths() -> None:
    overhead = len(split(message(large=""))[1])
    dead = message(large="x" * (PROPERTIES_BYTES_MAX - overhead))
    for name in "abc":
        dead = died(dead, name * 255)
    assert deaths(dead) == ["c" * 255, "b" * 255, "a" * 255]
    assert len(split(dead)[1]) + HEADER_OVERHEAD_BYTES <= FRAME_BYTES_MAX


def test_many_copies_are_left_out_where_they_have_no_room() -> None:
    keys: list[TableValue] = ["k" * 1_000] * 100
    dead = died(message(CC=keys), "q")
    headers = headers_of(split(dead)[1])
    assert headers["CC"] == keys
    assert headers["x-death"][0]["routing-keys"] == []  # type: ignore[index, call-overload]


def test_a_list_that_is_full_goes_without_deaths() -> None:
    """Such lists are of releases that took longer ones."""
    full = FRAME_BYTES_MAX - HEADER_OVERHEAD_BYTES - len(split(message(large=""))[1])
    dead = died(message(large="x" * full), "q")
    assert list(headers_of(split(dead)[1])) == ["large"]
    assert len(split(dead)[1]) + HEADER_OVERHEAD_BYTES == FRAME_BYTES_MAX


def test_a_delayed_message_with_blind_copies_stays_delayed() -> None:
    stored = rewriting.as_stored(with_flag(message(BCC=["b"]), FLAG_COPIES | FLAG_DELAYED))
    assert stored[0] & FLAG_DELAYED
    assert headers_of(split(stored)[1]) == {}
