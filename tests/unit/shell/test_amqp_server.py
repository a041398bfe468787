"""The listeners: what clients do reaches the node once each, and what it wants reaches them."""

import asyncio
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fedq.core.ids import ConnectionId, NodeId
from fedq.shell import amqp_server, listeners
from fedq.shell.amqp_server import AmqpServer
from fedq.shell.certificates import make_authority, make_node_certificate
from fedq.shell.node_config import ClientTls, ConfigError, Listener, NodeConfig
from tests.unit.shell.fakes import FakeNode, run, until

HOST = "127.0.0.1"
C1 = ConnectionId(1)
CONFIG = NodeConfig(NodeId("n1"), Path(), (Listener(HOST, 0),))


def feed(method: Callable[..., bool | None], *args: object) -> None:
    """An input without turns."""
    method(*args)


async def hears_nothing(reader: asyncio.StreamReader) -> bool:
    """Whether the connection ends, in whatever way, without a byte."""
    try:
        return await reader.read() == b""
    except (ConnectionError, ssl.SSLError):
        return True


class Served:
    """A server with a fake node behind it."""

    def __init__(self, connections_max: int = 100) -> None:
        self.node = FakeNode()
        self.server = AmqpServer(self.node, feed, connections_max)
        self.port = 0


@asynccontextmanager
async def served(
    connections_max: int = 100, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Served]:
    one = Served(connections_max)
    (bound,) = listeners.bind(CONFIG, "amqp.listen[0]", Listener(HOST, 0))
    one.port = bound.getsockname()[1]
    await one.server.listen(bound, tls)
    try:
        yield one
    finally:
        one.server.stop_listening()
        one.server.abort_all()
        await until(lambda: one.server.connections == 0)


def test_a_client_comes_speaks_and_goes() -> None:
    async def scenario() -> None:
        async with served() as one:
            _, writer = await asyncio.open_connection(HOST, one.port)
            own = writer.get_extra_info("sockname")
            writer.write(b"AMQP")
            await until(lambda: one.node.of("on_bytes"))
            writer.close()
            await until(lambda: one.node.of("on_disconnected"))
            assert one.node.inputs == [
                ("on_connected", C1, f"127.0.0.1:{own[1]}", True),
                ("on_bytes", C1, b"AMQP"),
                ("on_disconnected", C1),
            ]

    run(scenario())


def test_parts_reach_the_client_in_order_whatever_their_size() -> None:
    async def scenario() -> None:
        async with served() as one:
            reader, writer = await asyncio.open_connection(HOST, one.port)
            await until(lambda: one.node.of("on_connected"))
            large = bytes(range(256)) * 1_000
            one.server.write(C1, [b"a"])
            one.server.write(C1, [b"b", b"c"])
            one.server.write(C1, [b"d", large, b"e"])
            wanted = b"abcd" + large + b"e"
            assert await reader.readexactly(len(wanted)) == wanted
            writer.close()

    run(scenario())


def test_a_closed_client_gets_the_reason_though_it_still_sends() -> None:
    async def scenario() -> None:
        async with served() as one:
            reader, writer = await asyncio.open_connection(HOST, one.port)
            await until(lambda: one.node.of("on_connected"))
            one.server.set_reading(C1, False)
            # More than the kernel takes: the server has not read it when it closes.
            writer.write(bytes(4_000_000))
            one.server.write(C1, [b"close: you are too loud"])
            one.server.close(C1)
            assert await reader.read() == b"close: you are too loud"
            before = len(one.node.of("on_bytes"))
            writer.close()
            await until(lambda: one.node.of("on_disconnected"))
            assert len(one.node.of("on_bytes")) == before, "bytes after the close are discarded"
            assert one.node.names().count("on_disconnected") == 1

    run(scenario())


def test_a_closed_client_that_lingers_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp_server, "linger_s", 0.05)

    async def scenario() -> None:
        async with served() as one:
            with socket.create_connection((HOST, one.port)):
                await until(lambda: one.node.of("on_connected"))
                # More than the buffers take, and nobody reads.
                one.server.write(C1, [bytes(20_000_000)])
                one.server.close(C1)
                await until(lambda: one.node.of("on_disconnected"))
                assert one.server.connections == 0

    run(scenario())


def test_a_client_that_does_not_read_is_reported_and_recovers() -> None:
    async def scenario() -> None:
        async with served() as one:
            reader, writer = await asyncio.open_connection(HOST, one.port)
            await until(lambda: one.node.of("on_connected"))
            size = 30_000_000
            one.server.write(C1, [bytes(size)])
            assert one.node.of("on_writable") == [(C1, False)]
            await reader.readexactly(size)
            await until(lambda: len(one.node.of("on_writable")) == 2)
            assert one.node.of("on_writable")[1] == (C1, True)
            writer.close()

    run(scenario())


def test_back_pressure_stops_reading() -> None:
    async def scenario() -> None:
        async with served() as one:
            _, writer = await asyncio.open_connection(HOST, one.port)
            await until(lambda: one.node.of("on_connected"))
            one.server.set_reading(C1, False)
            one.server.set_reading(C1, False)
            writer.write(b"later")
            # A whole round trip of another client: the first one's bytes have long arrived.
            _, second = await asyncio.open_connection(HOST, one.port)
            second.write(b"now")
            await until(lambda: one.node.of("on_bytes"))
            assert one.node.of("on_bytes") == [(2, b"now")]
            one.server.set_reading(C1, True)
            await until(lambda: len(one.node.of("on_bytes")) == 2)
            assert one.node.of("on_bytes")[1] == (C1, b"later")
            writer.close()
            second.close()

    run(scenario())


def test_clients_beyond_the_limit_are_turned_away(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with served(connections_max=1) as one:
            _, first = await asyncio.open_connection(HOST, one.port)
            await until(lambda: one.node.of("on_connected"))
            reader, second = await asyncio.open_connection(HOST, one.port)
            assert await hears_nothing(reader)
            second.close()
            first.close()
            await until(lambda: one.server.connections == 0)
            _, third = await asyncio.open_connection(HOST, one.port)
            await until(lambda: len(one.node.of("on_connected")) == 2)
            third.close()

    with caplog.at_level(logging.WARNING):
        run(scenario())
    assert "raise limits.connections" in caplog.text


@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "TLS"])
def test_clients_that_vanish_at_any_moment_do_no_harm(tmp_path: Path, is_secure: bool) -> None:
    make_authority(tmp_path)
    files = make_node_certificate(tmp_path, NodeId("n1"), [HOST])
    tls = listeners.client_tls(CONFIG, "amqp", ClientTls(files.certificate, files.key))
    trusting = ssl.create_default_context(cafile=str(files.authority))
    reset = struct.pack("ii", 1, 0)

    async def scenario() -> None:
        async with served(tls=tls if is_secure else None) as one:

            def use(connection: ConnectionId, *_: object) -> None:
                one.server.write(connection, [bytes(300_000)])
                one.server.set_reading(connection, connection % 2 == 0)
                one.server.write(connection, [b"a", b"b"])
                one.server.set_reading(connection, True)
                if connection % 3 == 0:
                    one.server.close(connection)

            def use_all() -> None:
                for number in range(1, 31):
                    use(ConnectionId(number))

            one.node.on("on_bytes", use)
            one.node.on("on_writable", use)
            one.node.on("on_disconnected", use)
            for number in range(30):
                _, writer = await asyncio.open_connection(
                    HOST, one.port, ssl=trusting if is_secure else None
                )
                writer.write(b"x" * 1_000)
                raw = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                for _ in range(number % 5):
                    await asyncio.sleep(0)
                    use_all()
                writer.transport.abort()
                use_all()
            await until(lambda: one.server.connections == 0)
            gone = one.node.of("on_disconnected")
            assert sorted(gone) == sorted((one_of[0],) for one_of in one.node.of("on_connected"))

    failures: list[object] = []

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context))
        await scenario()

    run(watched())
    assert not failures


def test_clients_speak_tls(tmp_path: Path) -> None:
    make_authority(tmp_path)
    files = make_node_certificate(tmp_path, NodeId("n1"), [HOST])
    context = listeners.client_tls(CONFIG, "amqp", ClientTls(files.certificate, files.key))
    trusting = ssl.create_default_context(cafile=str(files.authority))

    async def scenario() -> None:
        async with served(tls=context) as one:
            reader, writer = await asyncio.open_connection(HOST, one.port, ssl=trusting)
            writer.write(b"AMQP")
            await until(lambda: one.node.of("on_bytes"))
            one.server.write(C1, [b"hello"])
            one.server.close(C1)
            assert await reader.read() == b"hello"
            await until(lambda: one.node.of("on_disconnected"))
            writer.close()

    run(scenario())


def test_a_listener_with_an_authority_demands_certificates(tmp_path: Path) -> None:
    make_authority(tmp_path)
    files = make_node_certificate(tmp_path, NodeId("n1"), [HOST])
    tls = ClientTls(files.certificate, files.key, files.authority)
    context = listeners.client_tls(CONFIG, "amqp", tls)
    without = ssl.create_default_context(cafile=str(files.authority))
    with_one = ssl.create_default_context(cafile=str(files.authority))
    with_one.load_cert_chain(files.certificate, files.key)

    async def scenario() -> None:
        async with served(tls=context) as one:
            # With TLS 1.3 the refusal follows the handshake that the client believes in.
            reader, refused = await asyncio.open_connection(HOST, one.port, ssl=without)
            assert await hears_nothing(reader)
            refused.close()
            assert not one.node.inputs, "nobody unknown reaches the node"
            _, writer = await asyncio.open_connection(HOST, one.port, ssl=with_one)
            await until(lambda: one.node.of("on_connected"))
            writer.close()

    run(scenario())


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"amqp\.port: 127\.0\.0\.1:{port} is in use"):
            listeners.bind(CONFIG, "amqp", Listener(HOST, port))


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match="no address of this machine"):
        listeners.bind(CONFIG, "amqp", Listener("192.0.2.1", 0))


def test_a_damaged_certificate_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("nonsense")
    with pytest.raises(ConfigError, match=r"amqp\.tls\.certificate: .*in PEM form"):
        listeners.client_tls(CONFIG, "amqp", ClientTls(wrong, wrong))
