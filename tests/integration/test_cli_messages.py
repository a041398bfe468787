"""`fedq queue purge | delete | peek | publish | move` against a real node."""

import base64

import pytest

from tests.integration.harness import Cluster
from tests.integration.stock import Address, connect, pika
from tests.unit.cli.command import Outcome, fedq

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address(lone_node: Cluster) -> Address:
    return lone_node.addresses()[0]


def queue_command(address: Address, *arguments: str) -> Outcome:
    return fedq("queue", *arguments, "--url", address.url)


def declare(address: Address, name: str, count: int = 0, arguments: object = None) -> None:
    """A fresh queue with so many messages."""
    connection = connect(address)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_delete(name)
    channel.queue_declare(name, durable=True, arguments=arguments)
    for number in range(count):
        channel.basic_publish("", name, str(number).encode())
    connection.close()


def bodies(address: Address, name: str) -> list[bytes]:
    """What is in the queue; it is empty then."""
    connection = connect(address)
    channel = connection.channel()
    found: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(name, auto_ack=True)
        if method is None:
            connection.close()
            return found
        found.append(body)


def test_purge_and_delete_tell_how_many_went(address: Address) -> None:
    declare(address, "orders", 3)
    assert queue_command(address, "purge", "orders").out == "3 messages of orders removed\n"
    declare(address, "orders", 2)
    done = queue_command(address, "delete", "orders", "--if-empty")
    assert done.exit_code == 1
    assert "406" in done.sentence
    assert queue_command(address, "delete", "orders", "--json").value["removed"] == 2
    gone = queue_command(address, "purge", "orders")
    assert gone.exit_code == 1
    assert "404 NOT_FOUND" in gone.sentence


def test_what_is_peeked_at_stays(address: Address) -> None:
    declare(address, "orders", 3)
    told = queue_command(address, "peek", "orders", "--limit", "2", "--json").value
    assert [message["body"] for message in told["messages"]] == ["0", "1"]
    assert [message["redelivered"] for message in told["messages"]] == [False, False]
    again = queue_command(address, "peek", "orders", "--json").value["messages"]
    assert [message["redelivered"] for message in again] == [True, True, False]
    assert "ROUTING KEY" in queue_command(address, "peek", "orders").out
    assert bodies(address, "orders") == [b"0", b"1", b"2"]


def test_a_body_that_is_no_text_is_shown_as_base64_and_cut(address: Address) -> None:
    declare(address, "orders")
    connection = connect(address)
    headers = {"n": 1, "deep": {"list": [True, None, b"\xff"]}}
    properties = pika.BasicProperties(content_type="application/x-odd", headers=headers)
    connection.channel().basic_publish("", "orders", b"\xff" * 300, properties)
    connection.close()
    told = queue_command(address, "peek", "orders", "--body-bytes", "4", "--json").value
    (message,) = told["messages"]
    assert base64.b64decode(message["body_base64"]) == b"\xff" * 4
    assert message["body_bytes"] == 300
    assert message["properties"]["content_type"] == "application/x-odd"
    assert message["properties"]["headers"]["n"] == 1


def test_a_message_is_published_with_its_properties(address: Address) -> None:
    declare(address, "orders")
    done = queue_command(
        address, "publish", "orders", "hello", "--property", "content_type=text/plain",
        "--property", "priority=4", "--header", "why=test",
    )  # fmt: skip
    assert done.out == "5 bytes confirmed\n"
    (message,) = queue_command(address, "peek", "orders", "--json").value["messages"]
    assert message["body"] == "hello"
    assert message["properties"] == {
        "content_type": "text/plain", "priority": 4, "delivery_mode": 2, "headers": {"why": "test"},
    }  # fmt: skip


def test_what_reaches_no_queue_is_said(address: Address) -> None:
    done = queue_command(address, "publish", "nowhere-at-all", "hello")
    assert done.exit_code == 1
    assert "reached no queue: 312 NO_ROUTE" in done.sentence


@pytest.mark.parametrize("option", ["--property=priority=300", "--property=x", "--header=noequals"])
def test_odd_options_are_refused_before_anything_is_sent(address: Address, option: str) -> None:
    assert queue_command(address, "publish", "orders", "hello", option).exit_code == 2


def test_messages_move_with_their_properties_and_in_order(address: Address) -> None:
    declare(address, "dead", 5)
    declare(address, "orders")
    done = queue_command(address, "move", "dead", "orders", "--limit", "2")
    assert done.out == "2 messages moved from dead to orders\n"
    assert queue_command(address, "move", "dead", "orders", "--json").value == {"moved": 3}
    assert bodies(address, "orders") == [b"0", b"1", b"2", b"3", b"4"]
    assert bodies(address, "dead") == []


def test_what_does_not_fit_stays_where_it_was(address: Address) -> None:
    declare(address, "dead", 3)
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    declare(address, "orders", arguments=full)
    done = queue_command(address, "move", "dead", "orders")
    assert done.exit_code == 1
    assert "1 messages were moved; then the broker refused" in done.sentence
    assert bodies(address, "dead") == [b"1", b"2"]
    assert queue_command(address, "move", "dead", "dead").exit_code == 2


def test_nobody_there_is_exit_code_3() -> None:
    done = fedq("queue", "purge", "q", "--url", "amqp://127.0.0.1:1")
    assert done.exit_code == 3
    assert "no broker reached at 127.0.0.1:1" in done.sentence


def test_a_wrong_password_is_told(address: Address) -> None:
    url = f"amqp://guest:wrong@{address.host}:{address.port}"
    done = fedq("queue", "purge", "q", "--url", url)
    assert done.exit_code == 1
    assert "403 ACCESS_REFUSED" in done.sentence
