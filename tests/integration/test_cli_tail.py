"""`fedq tail` against a node of fedq, and a RabbitMQ where there is one."""

import json
import re

import pytest

from tests.integration.harness import Cluster
from tests.integration.stock import Address, connect
from tests.integration.test_cli_publishing import END_S, address, begin, declare, run, waiting
from tests.integration.waiting import until
from tests.unit.cli.command import fedq

__all__ = ["address"]
pytestmark = pytest.mark.slow


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


def test_too_few_within_the_time_are_a_failure_if_so_many_were_wanted(address: Address) -> None:
    declare(address, "log", 1, x_queue_type="stream")
    done = run(address, "tail", "log", "--count", "2", "--from", "first", "--timeout", "0.3")
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
