"""Stopping and starting: what is durable and persistent is there again, in whatever order.

Also: a node that was away is brought up to date, and a clean stop tells its clients.
"""

from itertools import permutations
from pathlib import Path

import pytest

from fedq.journal.marks import was_synced
from tests.integration.conftest import Connect
from tests.integration.harness import Cluster, eventually
from tests.integration.stock import PERSISTENT, BlockingChannel, pika
from tests.integration.test_plain_consuming import pump
from tests.integration.test_plain_queues import depth
from tests.integration.waiting import until
from tests.unit.journal.test_failing_records import ODD

pytestmark = pytest.mark.slow

ORDERS = [order for order in permutations("abc") if order[0] != "a"][:3]


def fill(cluster: Cluster, node: str, open_connection: Connect) -> None:
    """Durable and fleeting queues, bindings and messages."""
    connection = open_connection(cluster.nodes[node].amqp)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("orders", "topic", durable=True)
    channel.queue_declare("kept", durable=True)
    channel.queue_bind("kept", "orders", "new.#")
    channel.queue_declare("fleeting")
    for number in range(20):
        channel.basic_publish("orders", f"new.{number}", b"kept %d" % number, PERSISTENT)
    channel.basic_publish("", "kept", b"not persistent")
    channel.basic_publish("", "fleeting", b"gone", PERSISTENT)
    method, _, _ = channel.basic_get("kept")
    channel.basic_ack(method.delivery_tag)
    channel.basic_get("kept")
    connection.close()


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Takes everything that is in the queue."""
    found: list[bytes] = []
    while (answer := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(answer[2])
    return found


def check(cluster: Cluster, node: str, open_connection: Connect) -> None:
    """What must be there after everything stopped, seen from one node."""
    connection = open_connection(cluster.nodes[node].amqp)
    channel = connection.channel()
    channel.confirm_delivery()
    # The routing is there: what is published now arrives as well.
    channel.basic_publish("orders", "new.late", b"late", PERSISTENT, mandatory=True)
    expected = [b"kept %d" % number for number in range(1, 20)] + [b"late"]
    assert bodies(channel, "kept") == expected


def is_gone(cluster: Cluster, node: str, open_connection: Connect, queue: str) -> bool:
    """Whether the node no longer knows the queue."""
    connection = open_connection(cluster.nodes[node].amqp)
    try:
        connection.channel().queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker as error:
        return bool(error.reply_code == 404)
    finally:
        connection.close()
    return False


@pytest.mark.patience(120)
@pytest.mark.parametrize("order", ORDERS, ids="".join)
def test_a_total_stop_keeps_what_is_durable(
    open_connection: Connect, tmp_path: Path, order: tuple[str, ...]
) -> None:
    """All nodes are killed, then start one after the other in any order."""
    with Cluster(tmp_path) as cluster:
        fill(cluster, "a", open_connection)
        cluster.wait_whole("kept")
        for node in cluster.nodes:
            cluster.kill(node)
        for node in order:
            cluster.nodes[node].start()
        for node in order:
            cluster.wait_served(node)
        check(cluster, order[-1], open_connection)


@pytest.mark.patience(90)
def test_a_clean_stop_of_all_keeps_what_is_durable(
    open_connection: Connect, tmp_path: Path
) -> None:
    with Cluster(tmp_path) as cluster:
        fill(cluster, "b", open_connection)
        cluster.wait_whole("kept")
        for node in ("c", "a", "b"):
            assert cluster.terminate(node) == 0
        cluster.start_all()
        check(cluster, "a", open_connection)


@pytest.mark.patience(120)
def test_a_flipped_bit_on_one_disk_loses_nothing(open_connection: Connect, tmp_path: Path) -> None:
    """All nodes are killed, and the one whose journal has rotted starts first."""
    with Cluster(tmp_path) as cluster:
        fill(cluster, "a", open_connection)
        cluster.wait_whole("kept")
        journal = cluster.nodes["a"].directory / "data" / "journal"
        # A journal that is quiet notes within a second what it has.
        eventually("it has said so", lambda: _says_what_it_has(journal))
        for node in cluster.nodes:
            cluster.kill(node)
        newest = max(journal.glob("*.journal"))
        data = bytearray(newest.read_bytes())
        data[len(data) // 2] ^= 1
        newest.write_bytes(data)
        for node in "abc":
            cluster.nodes[node].start()
        for node in "abc":
            cluster.wait_served(node)
        check(cluster, "a", open_connection)
        assert list(journal.glob("*.damaged")), "the damaged file is kept"


@pytest.mark.patience(120)
def test_a_record_that_a_release_fails_at_stops_no_start(
    open_connection: Connect, tmp_path: Path
) -> None:
    """Whoever finds it in its journal, and nobody else, comes up behind."""
    with Cluster(tmp_path) as cluster:
        fill(cluster, "a", open_connection)
        cluster.wait_whole("kept")
        journal = cluster.nodes["a"].directory / "data" / "journal"
        for node in cluster.nodes:
            assert cluster.terminate(node) == 0
        newest = max(journal.glob("*.journal"))
        newest.write_bytes(newest.read_bytes() + ODD)
        for node in "abc":
            cluster.nodes[node].start()
        for node in "abc":
            cluster.wait_served(node)
        check(cluster, "a", open_connection)
        (kept,) = journal.glob("*.damaged")
        assert kept.read_bytes().endswith(ODD)
        assert "fragment 1, position 77" in cluster.nodes["a"].log()


def _says_what_it_has(journal: Path) -> bool:
    """Whether a mark calls half of the newest segment synced."""
    newest = max(journal.glob("*.journal"))
    data = newest.read_bytes()
    return was_synced(data, len(data) // 2, int(newest.stem), None)


@pytest.mark.patience(60)
@pytest.mark.parametrize("names", ["a", "abc"])
def test_a_total_stop_ends_what_is_not_durable(
    open_connection: Connect, tmp_path: Path, names: str
) -> None:
    """`queue.declare` of the specification: only durable queues remain when a server restarts."""
    with Cluster(tmp_path, names=names) as cluster:
        fill(cluster, "a", open_connection)
        for node in cluster.nodes:
            cluster.kill(node)
        cluster.start_all()
        eventually(
            "the fleeting queue is gone",
            lambda: is_gone(cluster, names[-1], open_connection, "fleeting"),
        )


@pytest.mark.patience(60)
@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_a_single_node_keeps_what_is_durable(
    open_connection: Connect, tmp_path: Path, how: str
) -> None:
    with Cluster(tmp_path, names=("alone",)) as cluster:
        fill(cluster, "alone", open_connection)
        getattr(cluster, how)("alone")
        cluster.restart("alone")
        check(cluster, "alone", open_connection)


@pytest.mark.patience(120)
def test_a_killed_node_is_brought_up_to_date(open_connection: Connect, tmp_path: Path) -> None:
    """And then its copy is as good as the other: the first holder may go for good."""
    with Cluster(tmp_path) as cluster:
        fill(cluster, "a", open_connection)
        cluster.wait_whole("kept")
        away = cluster.primary_of("kept")
        survivor = next(name for name in cluster.nodes if name != away)
        cluster.kill(away)

        def publish_more() -> bool:
            connection = open_connection(cluster.nodes[survivor].amqp)
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("", "kept", b"while it was away", PERSISTENT)
            connection.close()
            return True

        eventually("the others serve the queue", publish_more)
        cluster.restart(away)
        cluster.wait_whole("kept")
        # Where another copy was made meanwhile, one of the three goes.
        until("two copies", lambda: len(cluster.fragments("kept")[0]["in_sync"]) == 2)
        fragment = cluster.fragments("kept")[0]
        cluster.kill(str(fragment["primary"]))
        living = cluster.living().amqp

        def is_complete() -> bool:
            connection = open_connection(living)
            count = depth(connection.channel(), "kept")
            connection.close()
            return count >= 21

        eventually("the copy serves everything", is_complete)
        connection = open_connection(living)
        seen = bodies(connection.channel(), "kept")
        connection.close()
        assert [body for body in seen if body.startswith(b"kept ")] == [
            b"kept %d" % number for number in range(1, 20)
        ]
        assert seen.count(b"while it was away") >= 1


@pytest.mark.patience(60)
def test_a_clean_stop_tells_the_clients(open_connection: Connect, tmp_path: Path) -> None:
    """connection.close 320 (CONNECTION_FORCED), not a torn connection."""
    with Cluster(tmp_path, names=("alone",)) as cluster:
        connection = open_connection(cluster.nodes["alone"].amqp)
        channel = connection.channel()
        process = cluster.nodes["alone"].process
        assert process is not None
        process.terminate()

        def is_told() -> int:
            try:
                pump(channel)
            except pika.exceptions.ConnectionClosedByBroker as closed:
                return int(closed.reply_code)
            return 0

        assert until("the client is told", is_told) == 320
        assert process.wait(15) == 0
