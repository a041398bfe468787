"""Whoever has not logged in costs a node little, for a short while, and hurts nobody else."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import psutil  # type: ignore[import-untyped]
import pytest

from fedq.amqp.frames import frame
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import ChannelOpen, encode_method
from fedq.core.limits import HANDSHAKE_FRAME_BYTES_MAX, HANDSHAKE_MS, KIB
from tests.integration.harness import Cluster, serves
from tests.integration.protocol_cases import GREETED, start_ok
from tests.integration.waiting import until

pytestmark = pytest.mark.slow

#: A handshake, a refusal that nobody agrees to, and a tick or two.
PATIENCE_S = HANDSHAKE_MS / 1_000 + 10


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A node that meets only strangers."""
    with Cluster(tmp_path_factory.mktemp("strangers"), names=("alone",)) as cluster:
        yield cluster


def is_over(client: socket.socket) -> bool:
    """Whether the broker has hung up; what it said is thrown away."""
    client.setblocking(False)
    try:
        while client.recv(65_536):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def memory_of(node: Cluster) -> int:
    process = node.nodes["alone"].process
    assert process is not None
    return int(psutil.Process(process.pid).memory_info().rss)


STRANGERS = {
    "silent": b"",
    "half a header": PROTOCOL_HEADER[:5],
    "no login": PROTOCOL_HEADER,
    "half a login": PROTOCOL_HEADER + start_ok()[:-1],
    "a login and nothing more": GREETED,
    "only heartbeats": PROTOCOL_HEADER + frame(8, 0, b"") * 100,
    "a refusal, unanswered": PROTOCOL_HEADER + start_ok(response=b"\0a\0b"),
    "out of turn, unanswered": GREETED + encode_method(1, ChannelOpen()),
    "garbage": PROTOCOL_HEADER + bytes(range(256)) * 100,
}


def test_nobody_stays_without_logging_in(node: Cluster) -> None:
    address = node.nodes["alone"].amqp
    with ExitStack() as stack:
        there: dict[str, socket.socket] = {}
        for name, words in STRANGERS.items():
            there[name] = stack.enter_context(socket.create_connection(address, timeout=10))
            there[name].sendall(words)

        def is_everybody_gone() -> bool:
            for name in [name for name, client in there.items() if is_over(client)]:
                del there[name]
            return not there

        assert serves(address), "others are served meanwhile"
        until("the node hangs up on all", is_everybody_gone, PATIENCE_S)
    assert serves(address)


def test_dripping_bytes_wins_no_time(node: Cluster) -> None:
    address = node.nodes["alone"].amqp
    words = iter(PROTOCOL_HEADER + start_ok(response=b"\0guest\0" + b"x" * 4_000))
    with socket.create_connection(address, timeout=10) as client:

        def drips_until_cut_off() -> bool:
            if is_over(client):
                return True
            client.send(bytes((next(words),)))
            return False

        until("the node hangs up", drips_until_cut_off, PATIENCE_S)
    assert next(words, None) is not None, "before everything was said"


def test_half_open_connections_are_closed(node: Cluster) -> None:
    address = node.nodes["alone"].amqp
    with socket.create_connection(address, timeout=10) as client:
        client.sendall(PROTOCOL_HEADER)
        client.shutdown(socket.SHUT_WR)
        until("the node hangs up", lambda: is_over(client), 5)


def test_many_strangers_cost_a_bounded_amount_of_memory(node: Cluster) -> None:
    address = node.nodes["alone"].amqp
    count = 400
    before = memory_of(node)
    # The beginning of the largest frame that is read before a login.
    size = HANDSHAKE_FRAME_BYTES_MAX - 8
    words = PROTOCOL_HEADER + b"\x01\x00\x00" + size.to_bytes(4, "big") + bytes(size - 1)
    with ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(address, timeout=10)) for _ in range(count)
        ]
        for client in clients:
            client.sendall(words)
        assert serves(address), "others are served meanwhile"
        held = memory_of(node) - before
        assert held < count * 48 * KIB, f"{held // count} bytes for each"
        until("the node hangs up", lambda: all(map(is_over, clients)), PATIENCE_S)
    assert serves(address)
