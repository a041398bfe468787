"""The listeners: what clients do reaches the node once each, and what it wants reaches them."""

import asyncio
import contextlib
import itertools
import logging
import random
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from fedq.core.ids import ConnectionId, NodeId
from fedq.shell import amqp_server, listeners
from fedq.shell.amqp_server import AmqpServer
from fedq.shell.certificates import (
    make_authority,
    make_client_certificate,
    make_node_certificate,
)
from fedq.shell.node_config import ClientTls, ConfigError, Listener, LoginFrom, NodeConfig
from fedq.shell.turn import Turn
from tests.unit.shell.fakes import FakeNode, Recorder, run, until

HOST = "127.0.0.1"
C1 = ConnectionId(1)
CROWD = range(1, 5)
#: What the event loop reads at most at once, and a little more.
READ_BYTES = 256 * 1024
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
    """A server with a fake node behind it, if wanted in turns."""

    def __init__(
        self, connections_max: int = 100, in_turns: bool = False, lobby_max: int = 100
    ) -> None:
        self.node = FakeNode()
        self.turn = Turn(self.node, now_ms=lambda: 0, on_fatal=pytest.fail)
        self.server = AmqpServer(
            self.node, self.turn.input if in_turns else feed, connections_max, lobby_max
        )
        lanes = Recorder().outlets()
        self.turn.connect(lanes._replace(set_reading=self.server.set_reading))
        self.port = 0

    def turns(self) -> list[list[tuple[object, bytes]]]:
        """What each turn with bytes took in: connections and chunks."""
        found: list[list[tuple[object, bytes]]] = [[]]
        for one in self.node.inputs:
            if one[0] == "end_turn":
                found.append([])
            elif one[0] == "on_bytes" and isinstance(one[2], bytes):
                found[-1].append((one[1], one[2]))
        return [turn for turn in found if turn]

    def received(self, connection: ConnectionId) -> bytes:
        """All that the node was handed of a connection."""
        chunks = [chunk for turn in self.turns() for by, chunk in turn if by == connection]
        return b"".join(chunks)

    def has_all(self, connection: ConnectionId, data: bytes) -> bool:
        """Whether the node was handed as many bytes as these."""
        return len(self.received(connection)) >= len(data)

    def has_met(self, connection: ConnectionId) -> bool:
        """Whether the node knows the connection."""
        return any(one[0] == connection for one in self.node.of("on_connected"))


@asynccontextmanager
async def served(
    connections_max: int = 100, tls: listeners.ClientSecurity | None = None,
    in_turns: bool = False, lobby_max: int = 100,
) -> AsyncIterator[Served]:  # fmt: skip
    one = Served(connections_max, in_turns, lobby_max)
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
                ("on_connected", C1, f"127.0.0.1:{own[1]}", True, None),
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


def send_all_that_fits(client: socket.socket) -> bytes:
    """Fills the buffers of the kernel; what fitted."""
    client.setblocking(False)
    block = random.Random(1).randbytes(100_000)
    sent = b""
    with contextlib.suppress(BlockingIOError):
        while len(sent) < 3_000_000:
            sent += block[: client.send(block)]
    return sent


@asynccontextmanager
async def crowd(count: int) -> AsyncIterator[tuple[Served, list[bytes]]]:
    """Clients that have sent more than one read takes, before the node reads any of it."""
    async with served(in_turns=True) as one:
        with contextlib.ExitStack() as sockets:
            sent: list[bytes] = []
            for number in range(1, count + 1):
                client = sockets.enter_context(socket.create_connection((HOST, one.port)))
                await until(partial(one.has_met, ConnectionId(number)))
                one.server.set_reading(ConnectionId(number), False)
                sent.append(send_all_that_fits(client))
            assert min(map(len, sent)) > 2 * READ_BYTES
            for number in range(1, count + 1):
                one.server.set_reading(ConnectionId(number), True)
            yield one, sent


@pytest.mark.parametrize("node_resumes", [False, True])
def test_a_busy_connection_is_read_a_bounded_number_of_times_in_a_turn(
    monkeypatch: pytest.MonkeyPatch, node_resumes: bool
) -> None:
    monkeypatch.setattr(amqp_server, "read_bytes_per_turn_max", 1)

    async def scenario() -> None:
        async with crowd(2) as (one, sent):

            def resume(connection: ConnectionId, _: bytes) -> None:
                one.server.set_reading(connection, False)
                one.server.set_reading(connection, True)
                one.node.out.reading[connection] = True

            if node_resumes:
                one.node.on("on_bytes", resume)
            for number, data in enumerate(sent, 1):
                connection = ConnectionId(number)
                await until(partial(one.has_all, connection, data))
                assert one.received(connection) == data
            for turn in one.turns():
                readers = [connection for connection, _ in turn]
                assert len(readers) == len(dict.fromkeys(readers)), "one read of each"

    run(scenario())


def test_a_turn_ends_when_all_connections_together_have_brought_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(amqp_server, "turn_bytes_max", READ_BYTES + 1)

    async def scenario() -> None:
        async with crowd(4) as (one, sent):
            passes: list[int] = []

            def look() -> None:
                passes.append(len(one.turns()))
                asyncio.get_running_loop().call_soon(look)

            look()
            wanted = sum(map(len, sent))
            await until(lambda: sum(len(one.received(ConnectionId(n))) for n in CROWD) == wanted)
            for turn in one.turns():
                assert sum(len(chunk) for _, chunk in turn) <= 2 * READ_BYTES
            steps = [after - before for before, after in itertools.pairwise(passes)]
            assert max(steps) >= 2, "turns that are full do not wait for the event loop"
            for number in CROWD:
                assert one.received(ConnectionId(number)) == sent[number - 1]

    run(scenario())


def test_the_end_of_a_turn_does_not_resume_what_the_node_has_paused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(amqp_server, "read_bytes_per_turn_max", 1)

    async def scenario() -> None:
        async with crowd(2) as (one, sent):

            def press_back(connection: ConnectionId, _: bytes) -> None:
                if connection == C1:
                    one.node.out.reading[C1] = False

            one.node.on("on_bytes", press_back)
            await until(partial(one.has_all, ConnectionId(2), sent[1]))
            assert len(one.received(C1)) <= READ_BYTES
            one.node.on("on_bytes", lambda *_: None)
            one.server.set_reading(C1, True)
            await until(partial(one.has_all, C1, sent[0]))
            assert one.received(C1) == sent[0]

    run(scenario())


def test_a_connection_closed_while_it_is_held_sees_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(amqp_server, "read_bytes_per_turn_max", 1)

    async def scenario() -> None:
        async with served() as one:
            reader, writer = await asyncio.open_connection(HOST, one.port)

            def refuse(connection: ConnectionId, _: bytes) -> None:
                # The event loop calls this after the read that had the connection held.
                asyncio.get_running_loop().call_soon(one.server.close, connection)

            one.node.on("on_bytes", refuse)
            writer.write(bytes(4_000_000))
            assert await reader.read() == b""
            writer.close()
            # Long before the server loses its patience: what was unread did not stand in the way.
            await until(lambda: one.node.of("on_disconnected"), amqp_server.linger_s / 2)

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


def secured(directory: Path, **more: bool) -> tuple[listeners.ClientSecurity, ssl.SSLContext]:
    """The TLS of a listener whose clients may show a certificate, and of a client with one."""
    own, clients = directory / "certs", directory / "clients"
    make_authority(own)
    files = make_node_certificate(own, NodeId("n1"), [HOST])
    robot = make_client_certificate(clients, "robot")
    tls = ClientTls(
        files.certificate, files.key, robot.authority, login_from=LoginFrom.COMMON_NAME, **more
    )
    client = ssl.create_default_context(cafile=str(files.authority))
    client.load_cert_chain(robot.certificate, robot.key)
    return listeners.client_tls(CONFIG, "amqp", tls), client


def test_a_certificate_names_its_user(tmp_path: Path) -> None:
    tls, robot = secured(tmp_path, certificate_required=False)
    nameless = ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.pem"))

    async def scenario() -> None:
        async with served(tls=tls) as one:
            for context, name in ((robot, "robot"), (nameless, None)):
                _, writer = await asyncio.open_connection(HOST, one.port, ssl=context)
                own = writer.get_extra_info("sockname")
                await until(lambda: one.server.connections == 1)
                writer.close()
                await until(lambda: one.server.connections == 0)
                assert one.node.of("on_connected")[-1][1:] == (f"127.0.0.1:{own[1]}", True, name)

    run(scenario())


def test_a_certificate_of_another_authority_is_turned_away(tmp_path: Path) -> None:
    tls, _ = secured(tmp_path, certificate_required=False)
    stranger = make_client_certificate(tmp_path / "others", "robot")
    context = ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.pem"))
    context.load_cert_chain(stranger.certificate, stranger.key)

    async def scenario() -> None:
        async with served(tls=tls) as one:
            reader, writer = await asyncio.open_connection(HOST, one.port, ssl=context)
            assert await hears_nothing(reader)
            writer.close()
            await until(lambda: one.server.connections == 0)
            assert not one.node.inputs

    run(scenario())


def test_old_versions_of_tls_are_refused(tmp_path: Path) -> None:
    tls, old = secured(tmp_path)
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1

    async def scenario() -> None:
        async with served(tls=tls) as one:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection(HOST, one.port, ssl=old)
            await until(lambda: one.server.connections == 0)

    run(scenario())


@pytest.mark.parametrize("greeting", [b"", b"\x16\x03\x01\x02\x00\x01", b"AMQP\x00\x00\x09\x01"])
def test_a_tls_handshake_that_stalls_ends_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, greeting: bytes
) -> None:
    monkeypatch.setattr(amqp_server, "_TLS_HANDSHAKE_S", 0.2)
    tls, _ = secured(tmp_path)

    async def scenario() -> None:
        async with served(tls=tls) as one:
            reader, writer = await asyncio.open_connection(HOST, one.port)
            writer.write(greeting)
            # A TLS alert, if anything.
            with contextlib.suppress(ConnectionError):
                assert len(await reader.read()) < 100
            writer.close()
            await until(lambda: one.server.connections == 0)
            assert not one.node.inputs

    run(scenario())


@pytest.mark.parametrize("is_secure", [False, True])
def test_who_does_not_log_in_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_secure: bool
) -> None:
    monkeypatch.setattr(amqp_server, "lobby_safe_s", 0.0)
    monkeypatch.setattr(amqp_server, "_LOBBY_SWEEP_S", 0.0)
    tls = secured(tmp_path)[0] if is_secure else None

    async def scenario() -> None:
        async with served(tls=tls, lobby_max=3) as one:
            silent = [await asyncio.open_connection(HOST, one.port) for _ in range(3)]
            await until(lambda: one.server.connections == 3)
            one.node.opened.add(ConnectionId(2))
            more = [await asyncio.open_connection(HOST, one.port) for _ in range(2)]
            # The second one has logged in, so only the first has to go.
            assert await hears_nothing(silent[0][0])
            await until(lambda: one.server.connections == 4)
            for _, writer in silent + more:
                writer.close()

    run(scenario())


def test_nobody_is_cut_off_before_their_time() -> None:
    async def scenario() -> None:
        async with served(lobby_max=2) as one:
            patient = [await asyncio.open_connection(HOST, one.port) for _ in range(2)]
            await until(lambda: one.server.connections == 2)
            reader, writer = await asyncio.open_connection(HOST, one.port)
            assert await hears_nothing(reader)
            assert one.server.connections == 2
            for _, other in [*patient, (reader, writer)]:
                other.close()

    run(scenario())


def test_thousands_of_silent_clients_do_not_shut_others_out() -> None:
    """What happens to the lobby costs little for each that comes."""

    async def scenario() -> None:
        async with served(connections_max=10_000, lobby_max=50) as one:
            crowd = [await asyncio.open_connection(HOST, one.port) for _ in range(300)]
            await until(lambda: one.server.connections == 50)
            for _, writer in crowd:
                writer.close()
            await until(lambda: one.server.connections == 0)
            _, writer = await asyncio.open_connection(HOST, one.port)
            await until(lambda: one.server.connections == 1)
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
