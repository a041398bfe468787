"""`fedq publish`, `consume` and `tail` against a node of fedq, and a RabbitMQ if there is one.

In this process as far as nothing has to be interrupted; as processes where it has.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.differential import brokers
from tests.integration.harness import Cluster, environment
from tests.integration.stock import Address, connect, pika
from tests.integration.waiting import patient, until
from tests.unit.cli.command import Outcome, fedq

pytestmark = pytest.mark.slow

END_S = patient(30.0)
#: Where something comes, it is not so long in coming; what a test waits out in vain.
IDLE = f"{patient(0.4):g}"


@pytest.fixture(scope="module", params=["fedq", "rabbitmq"])
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Address]:
    """A broker: its commands know no difference."""
    if request.param == "fedq":
        node: Cluster = request.getfixturevalue("lone_node")
        yield node.addresses()[0]
        return
    if brokers.reference_missing():
        pytest.skip(brokers.reference_missing())
    with brokers.rabbit(tmp_path_factory.mktemp("rabbit")) as side:
        yield side.places["a"]


def run(address: Address, command: str, *arguments: str) -> Outcome:
    return fedq(command, *arguments, "--url", address.url)


@contextmanager
def begin(address: Address, command: str, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """The command as a process that a test can talk to; it ends with the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "fedq", command, *arguments, "--url", address.url],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def declare(address: Address, name: str, count: int = 0, **arguments: object) -> None:
    """A fresh queue with so many messages."""
    connection = connect(address)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_delete(name)
    given = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.queue_declare(name, durable=True, arguments=given)
    for number in range(count):
        channel.basic_publish("", name, str(number).encode())
    connection.close()


def waiting(address: Address, name: str) -> list[tuple[bytes, bool]]:
    """The bodies in a queue, and whether they were delivered before; it is empty then."""
    connection = connect(address)
    channel = connection.channel()
    found: list[tuple[bytes, bool]] = []
    while True:
        method, _, body = channel.basic_get(name, auto_ack=True)
        if method is None:
            connection.close()
            return found
        found.append((body, method.redelivered))


def bodies(address: Address, name: str) -> list[bytes]:
    return [body for body, _ in waiting(address, name)]


def depth(address: Address, name: str) -> int:
    connection = connect(address)
    count = connection.channel().queue_declare(name, passive=True).method.message_count
    connection.close()
    return int(count)


# --- publishing -----------------------------------------------------------------------------------


def test_a_body_is_published_as_often_as_told(address: Address) -> None:
    declare(address, "in")
    done = run(address, "publish", "in", "hello", "--count", "600", "--window", "50", "--json")
    assert done.exit_code == 0
    told = done.value
    assert (told["published"], told["confirmed"], told["bytes"]) == (600, 600, 3000)
    assert bodies(address, "in") == [b"hello"] * 600


def test_messages_are_no_faster_than_told(address: Address) -> None:
    declare(address, "in")
    told = run(address, "publish", "in", "x", "--count", "5", "--rate", "50", "--json").value
    assert told["confirmed"] == 5
    assert told["seconds"] >= 4 / 50


def test_each_line_of_a_file_is_a_message(address: Address, tmp_path: Path) -> None:
    declare(address, "in")
    file = tmp_path / "lines"
    file.write_bytes(b"one\n\nthree\r\nfour \xff\nlast without an end")
    done = run(address, "publish", "in", "--lines", "--file", str(file))
    assert done.out == "5 messages confirmed, 33 bytes\n"
    assert bodies(address, "in") == [b"one", b"", b"three", b"four \xff", b"last without an end"]


def test_lines_are_published_as_they_come(address: Address) -> None:
    declare(address, "in")
    with begin(address, "publish", "in", "--lines", "--json") as process:
        assert process.stdin is not None
        process.stdin.write(b"first\nbegun")
        process.stdin.flush()
        until("the first line is there", lambda: depth(address, "in") == 1, END_S)
        out, err = process.communicate(b" and ended\n", timeout=END_S)
        assert (process.returncode, err) == (0, b"")
        assert json.loads(out)["confirmed"] == 2
        assert bodies(address, "in") == [b"first", b"begun and ended"]


def test_ctrl_c_ends_a_pipe_and_tells_what_is_safe(address: Address) -> None:
    declare(address, "in")
    with begin(address, "publish", "in", "--lines") as process:
        assert process.stdin is not None
        process.stdin.write(b"first\nbegun")
        process.stdin.flush()
        until("the first line is there", lambda: depth(address, "in") == 1, END_S)
        process.send_signal(signal.SIGINT)
        assert process.wait(END_S) == 130
        assert process.stderr is not None
        assert b"ended: 1 messages are confirmed, of 0 nothing is known" in process.stderr.read()


def test_a_large_body_comes_out_as_it_went_in(address: Address, tmp_path: Path) -> None:
    declare(address, "in")
    file = tmp_path / "body"
    file.write_bytes(os.urandom(3_000_000))
    assert run(address, "publish", "in", "--file", str(file)).exit_code == 0
    with begin(address, "consume", "in", "--count", "1", "--raw") as process:
        out, _ = process.communicate(timeout=END_S)
        assert process.returncode == 0
        assert out == file.read_bytes()


def test_what_reaches_no_queue_is_exit_code_6(address: Address) -> None:
    done = run(address, "publish", "nowhere-at-all", "hello", "--count", "3", "--window", "1")
    assert done.exit_code == 6
    assert "1 of 1 messages to queue 'nowhere-at-all' reached no queue: 312 NO_ROUTE" in (
        done.sentence
    )
    assert run(address, "publish", "nowhere-at-all", "x", "--allow-unroutable").exit_code == 0


def test_what_a_full_queue_refuses_is_exit_code_7(address: Address) -> None:
    declare(address, "in", x_max_length=2, x_overflow="reject-publish")
    done = run(address, "publish", "in", "x", "--count", "9", "--window", "1", "--json")
    assert done.exit_code == 7
    assert (done.value["confirmed"], done.value["refused"]) == (2, 1)
    assert "basic.nack" in done.err


def test_a_node_that_is_short_of_disk_is_exit_code_8(tmp_path: Path) -> None:
    with Cluster(tmp_path, names=("full",), more={"limits": {"disk_free_bytes": 1 << 50}}) as node:
        place = node.addresses()[0]
        declare(place, "in")
        # More than it reads at once: what a client sends first is taken before it is told to wait.
        count = 20_000
        words = ("publish", "in", "x", "--count", f"{count}", "--timeout", "1.5", "--json")
        # It looks at its disk twice a second, and may take some before its first look.
        tries: list[Outcome] = []

        def has_failed() -> bool:
            tries.append(run(place, *words))
            return tries[-1].exit_code != 0

        until("it has looked", has_failed, END_S)
        done = tries[-1]
        assert done.exit_code == 8
        assert "takes no messages at present (connection.blocked: low on disk" in done.err
        assert done.value["confirmed"] < count


def test_an_exchange_that_is_not_there_is_said(address: Address) -> None:
    done = run(address, "publish", "key", "x", "--exchange", "none-such")
    assert done.exit_code == 1
    assert "404 NOT_FOUND" in done.sentence


# --- consuming ------------------------------------------------------------------------------------


def test_exactly_so_many_are_taken_and_no_other_is_touched(address: Address) -> None:
    declare(address, "out", 10)
    done = run(address, "consume", "out", "--count", "4", "--prefetch", "3")
    assert (done.exit_code, done.out) == (0, "0\n1\n2\n3\n")
    assert waiting(address, "out") == [(str(n).encode(), False) for n in range(4, 10)]


def test_json_lines_have_all_of_a_message(address: Address) -> None:
    declare(address, "out")
    run(
        address, "publish", "out", "hi", "--property", "content_type=text/plain",
        "--header", "why=test",
    )  # fmt: skip
    (line,) = run(address, "consume", "out", "--count", "1", "--json").out.splitlines()
    assert json.loads(line) == {
        "exchange": "", "routing_key": "out", "redelivered": False, "body_bytes": 2, "body": "hi",
        "properties": {"content_type": "text/plain", "delivery_mode": 2,
                       "headers": {"why": "test"}},
    }  # fmt: skip


def test_too_few_within_the_time_are_a_failure_if_so_many_were_wanted(address: Address) -> None:
    declare(address, "out", 2)
    done = run(address, "consume", "out", "--count", "5", "--timeout", IDLE)
    assert (done.exit_code, done.out) == (1, "0\n1\n")
    assert "2 of 5 messages came" in done.err
    assert run(address, "consume", "out", "--timeout", "0.1").exit_code == 0
    assert bodies(address, "out") == []


def test_what_is_only_looked_at_goes_back_in_order(address: Address) -> None:
    declare(address, "out", 5)
    done = run(address, "consume", "out", "--count", "3", "--ack", "requeue")
    assert done.out == "0\n1\n2\n"
    assert bodies(address, "out") == [b"0", b"1", b"2", b"3", b"4"]
    assert run(address, "consume", "out", "--ack", "requeue").exit_code == 2


def test_what_is_rejected_is_dead_lettered(address: Address) -> None:
    declare(address, "dead")
    declare(address, "out", 2, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    assert run(address, "consume", "out", "--count", "2", "--ack", "reject").exit_code == 0
    until("they are there", lambda: depth(address, "dead") == 2, END_S)
    assert bodies(address, "dead") == [b"0", b"1"]


def test_no_more_bytes_are_taken_than_told(address: Address) -> None:
    declare(address, "out", 12)
    done = run(address, "consume", "out", "--max-bytes", "5", "--timeout", "5")
    assert (done.exit_code, done.out) == (0, "0\n1\n2\n3\n4\n")
    assert bodies(address, "out")[0] == b"5"


def test_without_acknowledgements_all_that_came_is_written(address: Address) -> None:
    declare(address, "out", 500)
    done = run(address, "consume", "out", "--ack", "none", "--timeout", IDLE)
    assert done.out.split() == [str(number) for number in range(500)]
    assert run(address, "consume", "out", "--ack", "none", "--count", "1").exit_code == 2


def test_ctrl_c_puts_back_what_was_not_written(address: Address) -> None:
    declare(address, "out", 3)
    with begin(address, "consume", "out") as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == [b"0\n", b"1\n", b"2\n"]
        until("all are acknowledged", lambda: depth(address, "out") == 0, END_S)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=END_S)
        assert (process.returncode, out, err) == (130, b"", b"")
        assert bodies(address, "out") == []


def test_a_reader_that_goes_away_costs_nothing(address: Address) -> None:
    declare(address, "out")
    big = "x" * 100_000
    assert run(address, "publish", "out", big, "--count", "20").exit_code == 0
    with begin(address, "consume", "out", "--prefetch", "5") as process:
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(END_S) == 1
        assert process.stderr is not None
        assert process.stderr.read() == b""
        until("the rest is back", lambda: depth(address, "out") >= 10, END_S)


def test_a_queue_that_goes_away_ends_its_consumer(address: Address) -> None:
    declare(address, "out", 1)
    with begin(address, "consume", "out") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"0\n"
        connection = connect(address)
        connection.channel().queue_delete("out")
        connection.close()
        _, err = process.communicate(timeout=END_S)
        assert process.returncode == 1
        assert b"the broker cancelled the consumer" in err


def test_a_stream_is_read_from_its_start(address: Address) -> None:
    declare(address, "log", 3, x_queue_type="stream")
    options = ("--argument", "x-stream-offset=first", "--count", "3", "--json")
    lines = run(address, "consume", "log", *options).out.splitlines()
    assert [json.loads(line)["body"] for line in lines] == ["0", "1", "2"]
    again = run(address, "consume", "log", *options).out.splitlines()
    assert lines == again


def test_a_binary_body_is_base64_in_json(address: Address) -> None:
    declare(address, "out")
    connection = connect(address)
    connection.channel().basic_publish("", "out", b"\xff\xfe", pika.BasicProperties())
    connection.close()
    (line,) = run(address, "consume", "out", "--count", "1", "--json").out.splitlines()
    assert json.loads(line)["body_base64"] == "//4="


def test_nobody_there_is_exit_code_3() -> None:
    for command in (("publish", "q", "x"), ("consume", "q")):
        done = fedq(*command, "--url", "amqp://127.0.0.1:1")
        assert done.exit_code == 3
        assert "no broker reached at 127.0.0.1:1" in done.sentence


# --- following ------------------------------------------------------------------------------------


def test_a_stream_is_followed_from_its_end(address: Address) -> None:
    declare(address, "log", 2, x_queue_type="stream")
    with begin(address, "tail", "log", "--count", "2", "--json") as process:
        connection = connect(address)
        channel = connection.channel()

        def has_ended() -> bool:
            channel.basic_publish("", "log", b"new")
            connection.process_data_events()
            return process.poll() is not None

        until("it has seen two", has_ended, END_S)
        connection.close()
        out, err = process.communicate(timeout=END_S)
        assert (process.returncode, err) == (0, b"")
        told = [json.loads(line) for line in out.splitlines()]
        assert [each["body"] for each in told] == ["new", "new"]
    assert told[0]["offset"] >= 2
    assert told[1]["offset"] == told[0]["offset"] + 1


def test_lines_for_people_say_when_where_and_what(address: Address) -> None:
    declare(address, "log", 2, x_queue_type="stream")
    options = ("--from", "first", "--count", "2", "--body-bytes", "1")
    lines = run(address, "tail", "log", *options).out.splitlines()
    assert [re.sub(r"^[\d:]{8} ", "", line) for line in lines] == [
        "0 (default) log 1 B 0", "1 (default) log 1 B 1",
    ]  # fmt: skip


def test_a_stream_that_grows_too_little_in_the_time_is_a_failure(address: Address) -> None:
    declare(address, "log", 1, x_queue_type="stream")
    done = run(address, "tail", "log", "--count", "2", "--from", "first", "--timeout", IDLE)
    assert done.exit_code == 1
    assert "1 of 2 messages came" in done.err


def test_a_queue_is_not_followed_and_keeps_its_messages(address: Address) -> None:
    declare(address, "orders", 3)
    done = run(address, "tail", "orders", "--timeout", "2")
    assert done.exit_code == 1
    assert "'orders' is no stream" in done.sentence
    assert [body for body, _ in waiting(address, "orders")] == [b"0", b"1", b"2"]


def test_what_is_published_to_a_queue_is_seen_in_the_firehose(lone_node: Cluster) -> None:
    at = lone_node.addresses()[0]
    place = lone_node.nodes["alone"].admin
    admin = ("--node", f"{place.host}:{place.port}")
    declare(at, "orders")
    declare(at, "other")
    assert fedq("trace", "firehose", "on", *admin).exit_code == 0
    with begin(at, "tail", "orders", "--firehose", "--count", "1", "--json") as process:

        def has_ended() -> bool:
            for queue in ("other", "orders"):
                assert run(at, "publish", queue, "hello", "--header", "a=b").exit_code == 0
            return process.poll() is not None

        until("it has seen one", has_ended, END_S)
        out, _ = process.communicate(timeout=END_S)
    fedq("trace", "firehose", "off", *admin)
    told = json.loads(out)
    assert (told["routing_key"], told["body"], told["offset"]) == ("orders", "hello", None)
    assert told["properties"]["headers"] == {"a": "b"}
    assert {body for body, _ in waiting(at, "orders")} == {b"hello"}
