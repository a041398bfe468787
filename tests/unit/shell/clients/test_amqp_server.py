"""The listeners: what clients do reaches the node once each, and what it wants reaches them."""

import asyncio
import contextlib
import gc
import itertools
import logging
import random
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from fedq.core.ids import ConnectionId, NodeId
from fedq.core.limits import SURPLUS_CLIENTS_MAX
from fedq.shell.clients import amqp_server, listeners, reading
from fedq.shell.config.certificates import make_authority, make_node_certificate
from fedq.shell.config.values import ClientTls, ConfigError, Listener
from tests.unit.shell.fakes import run, until
from tests.unit.shell.serving import C1, CONFIG, HOST, Served, hears_nothing, served

CROWD = range(1, 5)
#: What the event loop reads at most at once, and a little more.
READ_BYTES = 256 * 1024


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
            one.server.writers.write(C1, [b"a"])
            one.server.writers.write(C1, [b"b", b"c"])
            one.server.writers.write(C1, [b"d", large, b"e"])
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
            one.server.writers.write(C1, [b"close: you are too loud"])
            one.server.close(C1, client_first=False)
            assert await reader.read() == b"close: you are too loud"
            before = len(one.node.of("on_bytes"))
            writer.close()
            await until(lambda: one.node.of("on_disconnected"))
            assert len(one.node.of("on_bytes")) == before, "bytes after the close are discarded"
            assert one.node.names().count("on_disconnected") == 1

    run(scenario())


def test_a_closed_client_that_lingers_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp_server, "LINGER_S", 0.05)

    async def scenario() -> None:
        async with served() as one:
            with socket.create_connection((HOST, one.port)):
                await until(lambda: one.node.of("on_connected"))
                # More than the buffers take, and nobody reads.
                one.server.writers.write(C1, [bytes(20_000_000)])
                one.server.close(C1, client_first=False)
                await until(lambda: one.node.of("on_disconnected"))
                assert one.server.connections == 0

    run(scenario())


def test_a_client_that_said_goodbye_hangs_up_first() -> None:
    async def scenario() -> None:
        async with served() as one:
            reader, writer = await asyncio.open_connection(HOST, one.port)
            await until(lambda: one.node.of("on_connected"))
            one.server.writers.write(C1, [b"close-ok"])
            one.server.close(C1, client_first=True)
            assert await reader.readexactly(8) == b"close-ok"
            end = asyncio.ensure_future(reader.read())
            # A whole round trip of another client: the end would have been here by now.
            _, second = await asyncio.open_connection(HOST, one.port)
            second.write(b"now")
            await until(lambda: one.node.of("on_bytes"))
            assert not end.done()
            second.close()
            writer.close()
            assert await end == b""
            await until(lambda: one.server.connections == 0, amqp_server.FAREWELL_S / 2)

    run(scenario())


def test_a_client_that_said_goodbye_and_stays_sees_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(amqp_server, "FAREWELL_S", 0.05)

    async def scenario() -> None:
        async with served() as one:
            reader, writer = await asyncio.open_connection(HOST, one.port)
            await until(lambda: one.node.of("on_connected"))
            one.server.close(C1, client_first=True)
            assert await reader.read() == b""
            writer.close()
            await until(lambda: one.server.connections == 0)

    run(scenario())


def test_a_client_that_does_not_read_is_reported_and_recovers() -> None:
    async def scenario() -> None:
        async with served() as one:
            reader, writer = await asyncio.open_connection(HOST, one.port)
            await until(lambda: one.node.of("on_connected"))
            size = 30_000_000
            one.server.writers.write(C1, [bytes(size)])
            assert one.node.of("on_writable") == [(C1, False)]
            assert 10_000_000 < one.server.bytes_waiting() <= size
            await reader.readexactly(size)
            await until(lambda: len(one.node.of("on_writable")) == 2)
            assert one.server.bytes_waiting() == 0
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
    monkeypatch.setattr(reading, "READ_BYTES_PER_TURN_MAX", 1)

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
    monkeypatch.setattr(reading, "TURN_BYTES_MAX", READ_BYTES + 1)

    async def scenario() -> None:
        async with crowd(4) as (one, sent):
            wanted = sum(map(len, sent))
            await until(lambda: sum(len(one.received(ConnectionId(n))) for n in CROWD) == wanted)
            for turn in one.turns():
                assert sum(len(chunk) for _, chunk in turn) <= 2 * READ_BYTES
            for number in CROWD:
                assert one.received(ConnectionId(number)) == sent[number - 1]

    run(scenario())


def test_those_who_send_much_take_turns_and_the_loop_looks_at_others_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many they are, a pass takes in about what a turn has room for, not all of theirs."""
    monkeypatch.setattr(reading, "TURN_BYTES_MAX", 2 * READ_BYTES)

    async def scenario() -> None:
        async with crowd(12) as (one, sent):
            passes: list[int] = []

            def look() -> None:
                passes.append(sum(len(chunk) for turn in one.turns() for _, chunk in turn))
                asyncio.get_running_loop().call_soon(look)

            look()
            wanted = sum(map(len, sent))
            await until(lambda: passes[-1] == wanted)
            steps = [after - before for before, after in itertools.pairwise(passes)]
            # Each: what a turn has room for, one read on top, and looks fall into two passes.
            assert max(steps) <= 6 * READ_BYTES

    run(scenario())


def test_what_was_put_off_of_a_client_is_heard_before_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "TURN_BYTES_MAX", 1)

    async def scenario() -> None:
        waiting: dict[ConnectionId, bytes] = {}
        transports: list[asyncio.Transport] = []
        async with crowd(4) as (one, _):
            await until(lambda: one.server.reading.bytes_put_off)
            for number, client in one.node.clients.items():
                if client.put_off:
                    client.connection_lost(None)
                    assert (number,) not in one.node.of("on_disconnected")
                    waiting[number] = one.received(number) + client.put_off
                    transports.append(client.transport)
            assert waiting
            for number, data in waiting.items():
                await until(partial(one.has_lost, number))
                steps = [each[0] for each in one.node.inputs if each[1:2] == (number,)]
                assert steps[-1] == "on_disconnected"
                assert one.received(number) == data
            for transport in transports:
                transport.abort()
            await asyncio.sleep(0)

    run(scenario())


def test_the_end_of_a_turn_does_not_resume_what_the_node_has_paused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "READ_BYTES_PER_TURN_MAX", 1)

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
    monkeypatch.setattr(reading, "READ_BYTES_PER_TURN_MAX", 1)

    async def scenario() -> None:
        async with served() as one:
            reader, writer = await asyncio.open_connection(HOST, one.port)

            def refuse(connection: ConnectionId, _: bytes) -> None:
                # The event loop calls this after the read that had the connection held.
                asyncio.get_running_loop().call_soon(one.server.close, connection, False)

            one.node.on("on_bytes", refuse)
            writer.write(bytes(4_000_000))
            assert await reader.read() == b""
            writer.close()
            # Long before the server loses its patience: what was unread did not stand in the way.
            await until(lambda: one.node.of("on_disconnected"), amqp_server.LINGER_S / 2)

    run(scenario())


def test_clients_beyond_the_limit_are_turned_away(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with served(connections_max=1) as one:
            # Some beyond the limit hear from the node where to go.
            most = 1 + SURPLUS_CLIENTS_MAX
            there = [await asyncio.open_connection(HOST, one.port) for _ in range(most)]
            await until(lambda: len(one.node.of("on_connected")) == most)
            reader, further = await asyncio.open_connection(HOST, one.port)
            assert await hears_nothing(reader)
            for each in (further, *(writer for _, writer in there)):
                each.close()
            await until(lambda: one.server.connections == 0)
            _, last = await asyncio.open_connection(HOST, one.port)
            await until(lambda: len(one.node.of("on_connected")) == most + 1)
            last.close()

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
                one.server.writers.write(connection, [bytes(300_000)])
                one.server.set_reading(connection, connection % 2 == 0)
                one.server.writers.write(connection, [b"a", b"b"])
                one.server.set_reading(connection, True)
                if connection % 3 == 0:
                    one.server.close(connection, client_first=connection % 2 == 0)

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


@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "TLS"])
def test_clients_that_went_leave_nothing_to_a_garbage_collector(
    tmp_path: Path, is_secure: bool
) -> None:
    """It may never look for them (`fedq.shell.host.process`)."""
    make_authority(tmp_path)
    files = make_node_certificate(tmp_path, NodeId("n1"), [HOST])
    tls = listeners.client_tls(CONFIG, "amqp", ClientTls(files.certificate, files.key))
    trusting = ssl.create_default_context(cafile=str(files.authority))

    def has_heard(one: Served, count: int) -> bool:
        return len(one.node.of("on_bytes")) == count

    def left() -> int:
        return sum(type(each) is amqp_server._Client for each in gc.get_objects())

    async def scenario() -> None:
        async with served(tls=tls if is_secure else None) as one:
            for number in CROWD:
                _, writer = await asyncio.open_connection(
                    HOST, one.port, ssl=trusting if is_secure else None
                )
                writer.write(b"AMQP")
                await until(partial(has_heard, one, number))
                one.server.writers.write(ConnectionId(number), [b"a", b"b"])
                if number % 2:
                    one.server.close(ConnectionId(number), client_first=number % 3 == 0)
                writer.close()
            await until(lambda: len(one.node.of("on_disconnected")) == len(CROWD))
            await until(lambda: not left())

    gc.collect()
    gc.disable()
    try:
        run(scenario())
    finally:
        gc.enable()
