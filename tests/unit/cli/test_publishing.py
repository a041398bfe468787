"""Parts of `fedq publish` and `fedq consume` that need no broker: sources, tallies, options."""

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from fedq.amqp import method_types as m
from fedq.amqp.client_side import CHANNEL
from fedq.amqp.content import content_frames, encode_properties
from fedq.cli.asking.amqp_client import Message
from fedq.cli.asking.message_forms import given_properties, message_form
from fedq.cli.messages.consume import given_arguments
from fedq.cli.messages.output import Output, body_line, terminal_line
from fedq.cli.messages.sending import Tally
from fedq.cli.messages.sources import Lines, Repeated
from fedq.cli.terminal.failure import CommandError
from fedq.cli.terminal.stopping import Stop
from tests.unit.cli.broker import broker, said
from tests.unit.cli.command import fedq


@pytest.fixture
def pipe() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Both ends: to read from, to write to."""
    read, write = os.pipe()
    with os.fdopen(read, "rb") as reader, os.fdopen(write, "wb", buffering=0) as writer:
        yield reader, writer


def test_a_body_comes_as_often_as_wanted() -> None:
    source = Repeated(b"x", 2)
    assert [source.is_over, source.next(), source.is_over, source.next(), source.is_over] == [
        False, b"x", False, b"x", True,
    ]  # fmt: skip


def test_a_line_is_there_once_its_end_is(pipe: tuple[BinaryIO, BinaryIO]) -> None:
    reader, writer = pipe
    lines = Lines(reader, 100)
    writer.write(b"one\ntw")
    lines.read()
    assert (lines.waits_for, lines.next(), lines.waits_for) == (None, b"one", reader)
    writer.write(b"o\r\nthree")
    lines.read()
    assert lines.next() == b"two"
    writer.close()
    lines.read()
    assert (lines.is_over, lines.next(), lines.is_over) == (False, b"three", True)


def test_no_more_lines_are_taken_than_wanted(pipe: tuple[BinaryIO, BinaryIO]) -> None:
    reader, writer = pipe
    lines = Lines(reader, 100, count=1)
    writer.write(b"one\ntwo\n")
    lines.read()
    assert (lines.next(), lines.is_over, lines.waits_for) == (b"one", True, None)


@pytest.mark.parametrize("text", [b"12345\n", b"12345"])
def test_a_line_that_is_too_long_is_refused(pipe: tuple[BinaryIO, BinaryIO], text: bytes) -> None:
    reader, writer = pipe
    lines = Lines(reader, 4)
    writer.write(text)
    with pytest.raises(CommandError, match="a line is longer than 4 bytes"):
        lines.read()


def a_return() -> Message:
    return Message(m.BasicReturn(312, "NO_ROUTE", "", "q"), {}, b"", 0)


def test_a_tally_knows_what_became_of_each_message() -> None:
    tally = Tally()
    for _ in range(6):
        tally.on_published(10)
    tally.on_answer(m.BasicAck(3, multiple=True))
    tally.on_answer(m.BasicNack(5))
    tally.on_answer(a_return())
    assert (tally.confirmed, tally.unconfirmed) == (2, 2)
    tally.on_answer(m.BasicAck(4))
    tally.on_answer(m.BasicAck(4))
    assert (tally.confirmed, tally.unroutable, tally.refused, tally.unconfirmed) == (3, 1, 1, 1)
    assert tally.has_failed
    assert tally.reason == "312 NO_ROUTE"


def test_an_end_is_asked_for_once_and_a_wait_hears_of_it() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Stop() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.asked
        assert select.select([stop], [], [], 0)[0] == [stop]
        assert signal.getsignal(signal.SIGINT) is before


def test_arguments_of_consumers_have_types() -> None:
    given = ["x-priority=-3", "x-stream-offset=first", "x-odd=true", "x-text=1.5"]
    assert given_arguments(given) == {
        "x-priority": -3, "x-stream-offset": "first", "x-odd": True, "x-text": "1.5",
    }  # fmt: skip
    with pytest.raises(CommandError, match="write NAME=VALUE"):
        given_arguments(["x-priority"])


def test_properties_are_persistent_unless_told_otherwise() -> None:
    assert given_properties([], []) == {"delivery_mode": 2}
    assert given_properties(["delivery_mode=1"], ["a=b"]) == {
        "delivery_mode": 1, "headers": {"a": "b"},
    }  # fmt: skip


def test_output_stops_before_it_is_too_much(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    output = Output(body_line, bytes_max=5)
    taken = [
        output.take(Message(m.BasicDeliver(), {}, body, len(body))) for body in (b"abc", b"def")
    ]
    output.flush()
    assert taken == [True, False]


def test_a_terminal_obeys_nothing_of_a_body() -> None:
    body = b"\x1b]0;mine\x07caf\xc3\xa9\r\n\xff\x9b2J"
    line = terminal_line(Message(m.BasicDeliver(), {}, body, len(body)))
    assert line.decode() == "\\x1b]0;mine\\x07caf\u00e9\\r\n\\xff\\x9b2J\n"


def test_a_terminal_obeys_nothing_of_what_a_broker_says() -> None:
    refusal = m.ChannelClose(404, "no queue \x1b[2J\x1b]52;c;eA==\x07", 60, 20)
    with broker([said(CHANNEL, m.BasicQosOk()), said(CHANNEL, refusal)]) as (url, _):
        done = fedq("consume", "q", "--url", url)
    assert done.exit_code == 1
    assert "no queue \\x1b[2J\\x1b]52;c;eA==\\x07" in done.sentence
    assert "\x1b" not in done.err


def test_a_form_says_how_long_a_body_is_that_was_cut() -> None:
    form = message_form(Message(m.BasicDeliver(redelivered=True), {}, b"abcdef", 900), 3)
    assert (form["body"], form["body_bytes"], form["redelivered"]) == ("abc", 900, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("publish", "q", "body", "--lines"),
        ("publish", "q", "body", "--file", "x"),
        ("publish", "q", "body", "--max-bytes", "3"),
        ("publish", "q", "--file", "/none/such"),
        ("publish", "q", "body", "--property", "priority=300"),
        ("publish", "q", "body", "--url", "http://127.0.0.1"),
        ("consume", "q", "--raw", "--json"),
        ("consume", "q", "--ack", "none", "--max-bytes", "3"),
        ("consume", "q", "--argument", "noequals"),
    ],
)
def test_what_means_nothing_is_refused_before_anybody_is_asked(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    done = fedq(*arguments)
    assert done.exit_code == 2
    assert done.sentence


def test_a_broker_that_takes_nothing_is_exit_code_8() -> None:
    confirming = said(CHANNEL, m.ConfirmSelectOk())
    blocked = said(0, m.ConnectionBlocked("low on memory"))
    with broker([confirming, blocked]) as (url, _):
        done = fedq("publish", "q", "x", "--count", "5", "--timeout", "0.3", "--url", url, "--json")
    assert done.exit_code == 8
    assert "connection.blocked: low on memory" in done.err
    assert done.value["unconfirmed"] == done.value["published"]


def test_a_broker_that_takes_messages_again_is_waited_for() -> None:
    # Each publish is a write of its own, as the window is one.
    confirming = said(CHANNEL, m.ConfirmSelectOk())
    first = said(0, m.ConnectionBlocked("low on disk")) + said(CHANNEL, m.BasicAck(1))
    with broker([confirming, first]) as (url, heard):
        done = fedq(
            "publish", "q", "x", "--count", "2", "--window", "1", "--timeout", "0.2", "--url", url
        )
        assert len(heard) == 5
    assert done.exit_code == 8
    again = first + said(0, m.ConnectionUnblocked())
    with broker(
        [confirming, again, said(CHANNEL, m.BasicAck(2)), said(0, m.ConnectionCloseOk())]
    ) as (url, _):
        done = fedq("publish", "q", "x", "--count", "2", "--window", "1", "--url", url)
    assert (done.exit_code, done.out) == (0, "2 messages confirmed, 2 bytes\n")


def test_a_broker_that_says_nothing_is_exit_code_3() -> None:
    with broker([said(CHANNEL, m.ConfirmSelectOk())]) as (url, _):
        done = fedq("publish", "q", "x", "--timeout", "0.2", "--url", url)
    assert done.exit_code == 3
    assert "has confirmed nothing for 0.2 s" in done.sentence


def test_a_consumer_settles_once_all_is_written_and_it_is_cancelled() -> None:
    begun = [said(CHANNEL, m.BasicQosOk()), said(CHANNEL, m.BasicConsumeOk("fedq"))]
    delivered = said(CHANNEL, m.BasicDeliver("fedq", 1, False, "", "q"))
    delivered += content_frames(CHANNEL, encode_properties({}), b"one", 131_072)
    begun[1] += delivered
    ending = [said(CHANNEL, m.BasicCancelOk("fedq")), said(0, m.ConnectionCloseOk())]
    with broker([*begun, *ending]) as (url, heard):
        done = fedq("consume", "q", "--count", "1", "--url", url)
    assert (done.exit_code, done.out) == (0, "one\n")
    cancel, rest = b"\x00\x3c\x00\x1e", b"".join(heard[6:])
    assert cancel in heard[5]
    assert said(CHANNEL, m.BasicAck(1, multiple=True)) in rest


def consuming(delivered: bytes) -> list[bytes]:
    """A broker that answers to a consumer, and delivers this."""
    return [said(CHANNEL, m.BasicQosOk()), said(CHANNEL, m.BasicConsumeOk("fedq")) + delivered]


@pytest.mark.parametrize(
    ("delivered", "sentence"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "sent what is no AMQP"),
        (said(CHANNEL, m.BasicDeliver()) + b"\x03\0\1\0\0\0\1x\xce", "without a header"),
        (said(CHANNEL, m.QueueDeclareOk("x", 1, 1)), "QueueDeclareOk, out of turn"),
        (said(CHANNEL, m.ChannelClose(405, "locked", 0, 0)), "closed the channel: 405 locked"),
        (said(CHANNEL, m.BasicCancel("fedq")), "cancelled the consumer"),
    ],
)
def test_what_a_broker_may_not_say_ends_the_command_with_a_sentence(
    delivered: bytes, sentence: str
) -> None:
    with broker(consuming(delivered)) as (url, _):
        done = fedq("consume", "q", "--url", url)
    assert done.exit_code == 1
    assert sentence in done.sentence


def test_a_body_that_is_longer_than_wanted_is_not_kept() -> None:
    delivered = said(CHANNEL, m.BasicDeliver("fedq", 1, False, "", "q"))
    delivered += content_frames(CHANNEL, encode_properties({}), bytes(500_000), 131_072)
    ending = [said(CHANNEL, m.BasicCancelOk("fedq")), said(0, m.ConnectionCloseOk())]
    with broker([*consuming(delivered), *ending]) as (url, heard):
        done = fedq("consume", "q", "--max-bytes", "1000", "--url", url)
    assert (done.exit_code, done.out) == (0, "")
    assert said(CHANNEL, m.BasicAck(1, multiple=True)) not in b"".join(heard)


def test_a_broker_that_says_a_stream_is_none_has_its_message_back() -> None:
    delivered = said(CHANNEL, m.BasicDeliver("fedq", 1, False, "", "q"))
    delivered += content_frames(CHANNEL, encode_properties({}), b"one", 131_072)
    with broker(consuming(delivered)) as (url, heard):
        done = fedq("tail", "q", "--url", url)
    assert done.exit_code == 1
    assert "'q' is no stream" in done.sentence
    assert len(heard) == 5
