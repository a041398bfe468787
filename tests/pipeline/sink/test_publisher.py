"""The publisher: every row once, whatever happens on the way, or a sentence."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from fedq.amqp import methods
from fedq.core.ids import NodeId
from fedq.pipeline import patience
from fedq.pipeline.failure import PipelineError
from fedq.pipeline.places import TlsPaths
from fedq.pipeline.sink import publisher as publishing
from fedq.pipeline.sink.connection import Connection, ConnectionLost
from fedq.pipeline.sink.encoding import Encoder, front_of
from fedq.pipeline.sink.publisher import Publisher
from fedq.shell.config.certificates import (
    make_authority,
    make_client_certificate,
    make_node_certificate,
)
from tests.pipeline.sink.broker import Broker, Message, Tell, broker, returned

COUNT = 200
FRONT = front_of("", "q", {"delivery_mode": 2}, None)
LIMIT = 131_072


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_PAUSE_S", 0.001)
    monkeypatch.setattr(patience, "_PAUSE_MAX_S", 0.01)


def blocks(count: int = COUNT, name: str = "job/0") -> Iterator[tuple[bytes, int]]:
    """Rows in blocks of ten."""
    encoder = Encoder(LIMIT, name, is_mandatory=True)
    for at in range(0, count, 10):
        yield encoder.encode(FRONT, [b"%d" % each for each in range(at, at + 10)], at + 1), 10


def publish(*brokers: Broker, retry_s: float = 30, bytes_max: int = 4_000) -> None:
    publisher = Publisher([each.opener() for each in brokers], retry_s, bytes_max)
    try:
        for data, count in blocks():
            publisher.publish(data, count)
        publisher.finish()
    finally:
        publisher.close()


def bodies(each: Broker) -> list[int]:
    return [int(message.body) for message in each.taken]


@pytest.mark.parametrize("is_multiple", [True, False])
def test_rows_are_published_in_order_and_confirmed(is_multiple: bool) -> None:
    with broker() as only:
        only.is_multiple = is_multiple
        publish(only)
        assert bodies(only) == list(range(COUNT))
        assert only.came == COUNT
        message = only.taken[0]
        assert (message.exchange, message.key, message.is_mandatory) == ("", "q", True)
        assert message.properties == {
            "delivery_mode": 2,
            "headers": {"x-fedq-publisher": "job/0", "x-fedq-sequence": 1},
        }


def test_a_broken_connection_is_opened_again_and_what_is_in_doubt_is_repeated() -> None:
    def breaks(message: Message, tell: Tell) -> bool:
        if only.came in (55, 120):
            tell.hang_up()
        return True

    with broker(breaks) as only:
        publish(only)
        assert only.connections == 3
        assert only.came > COUNT
        assert bodies(only) == list(range(COUNT))


def test_a_node_that_goes_is_left_for_another_one() -> None:
    def goes(message: Message, tell: Tell) -> bool:
        if first.came == 50:
            tell.close(methods.ConnectionClose(320, "the node is stopping"), 0)
        return first.came < 50

    with broker(goes) as first, broker() as second:
        publish(first, second)
        assert second.connections == 1
        assert sorted({*bodies(first), *bodies(second)}) == list(range(COUNT))


def test_a_row_that_is_refused_comes_again() -> None:
    def refuses(message: Message, tell: Tell) -> bool:
        if only.came == 31:
            tell.tag += 1
            tell.say(methods.BasicNack(tell.tag))
            return False
        return only.came < 31 or only.connections > 1

    with broker(refuses) as only:
        publish(only)
        assert bodies(only) == list(range(COUNT))


def test_a_row_that_is_always_refused_is_not_tried_for_ever() -> None:
    def refuses(message: Message, tell: Tell) -> bool:
        if message.body == b"31":
            tell.tag += 1
            tell.say(methods.BasicNack(tell.tag))
            return False
        return True

    with (
        broker(refuses) as only,
        pytest.raises(
            PipelineError, match=r"a queue refused a row .*: it is full \(tried for 0\.2 s"
        ),
    ):
        publish(only, retry_s=0.2)


def test_a_row_that_no_queue_takes_is_an_error_that_names_its_way() -> None:
    def returns(message: Message, tell: Tell) -> bool:
        if only.came == 10:
            returned(message, tell)
        return True

    with (
        broker(returns) as only,
        pytest.raises(PipelineError, match=r"exchange '' with routing key 'q' .* mandatory=false"),
    ):
        publish(only)


def test_a_node_that_is_blocked_gets_nothing_until_it_says_so() -> None:
    def blocks_once(message: Message, tell: Tell) -> bool:
        if only.came == 30:
            tell.say(methods.ConnectionBlocked("low on memory"), 0)
        return True

    with broker(blocks_once) as only:
        publisher = Publisher([only.opener()], 30, 1 << 20)
        rows = list(blocks())
        for data, count in rows[:3]:
            publisher.publish(data, count)
        # What it has is confirmed all the same.
        publisher.finish()
        for data, count in rows[3:]:
            publisher.publish(data, count)
        assert only.came == 30
        only.say(methods.ConnectionUnblocked())
        publisher.finish()
        publisher.close()
        assert bodies(only) == list(range(COUNT))


def test_a_node_may_be_blocked_from_the_first_moment_on() -> None:
    with broker() as only:
        only.greets = methods.ConnectionBlocked("low on memory")
        publisher = Publisher([only.opener()], 30, 1 << 20)
        for data, count in blocks():
            publisher.publish(data, count)
        assert only.came == 0
        only.say(methods.ConnectionUnblocked())
        publisher.finish()
        publisher.close()
        assert bodies(only) == list(range(COUNT))


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (methods.ConnectionClose(530, "NOT_ALLOWED - no vhost 'x'"), "530 NOT_ALLOWED - no vhost"),
        (methods.ConnectionClose(403, "ACCESS_REFUSED"), "403 ACCESS_REFUSED"),
    ],
)
def test_what_will_not_get_better_is_an_error_at_once(
    method: methods.ConnectionClose, sentence: str
) -> None:
    with broker(opens=method) as only, pytest.raises(PipelineError, match=sentence):
        publish(only)
    assert only.connections == 1


def test_an_exchange_that_is_not_there_is_an_error() -> None:
    def closes(message: Message, tell: Tell) -> bool:
        tell.close(methods.ChannelClose(404, "NOT_FOUND - no exchange 'x'"))
        return False

    with broker(closes) as only, pytest.raises(PipelineError, match="404 NOT_FOUND - no exchange"):
        publish(only)


def test_nobody_is_tried_for_ever() -> None:
    with broker(opens=methods.ConnectionClose(320, "stopping")) as only:
        with pytest.raises(PipelineError, match=r"320 stopping .*tried for 0\.1 s: retryTimeout"):
            publish(only, retry_s=0.1)
        assert only.connections > 1


def test_a_node_that_says_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "SILENCE_S", 0.05)

    def silent(message: Message, tell: Tell) -> bool:
        tell.tag = 0
        return False

    with broker(silent) as first, broker() as second:
        publish(first, second)
        assert bodies(second) == list(range(COUNT))


class _Narrow:
    """A connection on which a second takes as many bytes as it says; time passes in `wait`."""

    address, frame_bytes_max = "narrow", LIMIT

    def __init__(self, per_s: int, buffer: int, ends: int = 1 << 62) -> None:
        self.now = 0.0
        self.taken = 0
        self._per_s, self._buffer, self._ends = per_s, buffer, ends
        self._sent = 0
        self._rows = 0

    def send(self, data: memoryview) -> int:
        size = min(len(data), self._buffer - self.on_its_way())
        self._sent += size
        return size

    def on_its_way(self) -> int:
        return self._sent - self.taken

    def receive(self) -> list[methods.Method]:
        done = self.taken and self.taken == self._sent and not self._rows
        self._rows += bool(done)
        return [methods.BasicAck(1, multiple=False)] if done else []

    def wait(self, *, wants_to_send: bool, seconds: float) -> None:
        passed = 1.0 if wants_to_send else min(seconds, 40.0)
        self.now += passed
        self.taken = min(self._sent, self.taken + int(passed * self._per_s), self._ends)

    def close(self) -> None:
        """There is nothing to close."""


@pytest.mark.parametrize("buffer", [5_000, 100_000])
def test_a_row_may_be_on_its_way_for_long_as_long_as_some_of_it_goes(
    buffer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it waits here, or was all taken by this host: before, it was given up after 30 s."""
    only = _Narrow(500, buffer)
    monkeypatch.setattr("fedq.pipeline.sink.publisher.time.monotonic", lambda: only.now)
    publisher = Publisher([lambda: cast("Connection", only)], 5)
    publisher.publish(bytes(100_000), 1)
    publisher.finish()
    assert only.taken == 100_000
    assert only.now >= 100_000 / 500


def test_a_row_of_which_nothing_goes_any_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    only = _Narrow(500, 100_000, ends=50_000)
    monkeypatch.setattr("fedq.pipeline.sink.publisher.time.monotonic", lambda: only.now)
    publisher = Publisher([lambda: cast("Connection", only)], 0)
    publisher.publish(bytes(100_000), 1)
    with pytest.raises(PipelineError, match="has confirmed nothing for 30 s"):
        publisher.finish()
    assert only.now < 50_000 / 500 + 2 * 40


def test_what_is_no_amqp_is_told() -> None:
    def talks(message: Message, tell: Tell) -> bool:
        tell.connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        return False

    with broker(talks) as only, pytest.raises(PipelineError, match="this is not AMQP"):
        publish(only)


def test_a_place_where_nobody_listens_is_named() -> None:
    with broker() as gone:
        opener, url = gone.opener(), gone.url
    with pytest.raises(ConnectionLost, match=f"127.0.0.1:{url.port}: "):
        opener()


def test_tls_shows_and_demands_certificates(tmp_path: Path) -> None:
    make_authority(tmp_path)
    own = make_node_certificate(tmp_path, NodeId("a"), ["127.0.0.1"])
    mine = make_client_certificate(tmp_path / "clients", "robot")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(mine.authority))
    context.load_cert_chain(own.certificate, own.key)
    context.verify_mode = ssl.CERT_REQUIRED
    trusted = TlsPaths(str(own.authority), str(mine.certificate), str(mine.key))
    with broker(tls=context) as only:
        publisher = Publisher([only.opener(trusted)], 30, 4_000)
        for data, count in blocks():
            publisher.publish(data, count)
        publisher.finish()
        publisher.close()
        assert bodies(only) == list(range(COUNT))
        strange = TlsPaths(str(mine.authority), str(mine.certificate), str(mine.key))
        with pytest.raises(PipelineError, match=r"look at its certificate, and at tls\.authority"):
            only.opener(strange)()
        with pytest.raises(PipelineError, match="these files cannot be used"):
            only.opener(TlsPaths(str(own.authority), str(own.authority), str(mine.key)))()
