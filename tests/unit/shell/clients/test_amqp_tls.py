"""Clients that come over TLS, and clients that come and do not log in."""

import asyncio
import contextlib
import datetime
import gc
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from fedq.amqp.content import Body
from fedq.core.ids import ConnectionId, NodeId
from fedq.core.limits import FAILED_LOGINS_TOLD, KIB, MIB
from fedq.shell.clients import amqp_server, listeners
from fedq.shell.config import certificates
from fedq.shell.config.certificates import (
    make_authority,
    make_client_certificate,
    make_node_certificate,
)
from fedq.shell.config.values import ClientTls, ConfigError, LoginFrom
from fedq.shell.host.resources import resident_bytes
from fedq.shell.renewal import RenewableListener, Renewal
from tests.unit.shell.fakes import run, until
from tests.unit.shell.serving import C1, CONFIG, HOST, hears_nothing, served


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
            one.server.writers.write(C1, [b"hello"])
            one.server.close(C1, client_first=False)
            assert await reader.read() == b"hello"
            await until(lambda: one.node.of("on_disconnected"))
            writer.close()

    run(scenario())


def test_who_does_not_read_over_tls_holds_little_of_a_long_message(tmp_path: Path) -> None:
    """Before, each of them held an encrypted copy of all of it, and the node was not told."""
    make_authority(tmp_path)
    files = make_node_certificate(tmp_path, NodeId("n1"), [HOST])
    tls = listeners.client_tls(CONFIG, "amqp", ClientTls(files.certificate, files.key))
    trusting = ssl.create_default_context(cafile=str(files.authority))
    body = memoryview(bytes(range(256)) * (16 * MIB // 256))
    parts: list[Body] = [body[at : at + 128 * KIB] for at in range(0, len(body), 128 * KIB)]

    async def scenario() -> None:
        async with served(tls=tls) as one:
            clients = [
                await asyncio.open_connection(HOST, one.port, ssl=trusting) for _ in range(10)
            ]
            await until(lambda: len(one.node.of("on_connected")) == 10)
            connections = [ConnectionId(number) for number in range(1, 11)]
            before = resident_bytes()
            for connection in connections:
                one.server.writers.write(connection, list(parts))
            told = one.node.of("on_writable")
            assert sorted(told) == [(connection, False) for connection in connections]
            assert resident_bytes() - before < 2 * len(body), "of ten that were copies of it"
            one.server.close(ConnectionId(1), client_first=False)
            reader, writer = clients[0]
            assert await reader.read() == body, "it comes whole before the end"
            reader, writer = clients[1]
            assert await reader.readexactly(len(body)) == body
            await until(lambda: one.node.of("on_writable")[10:] == [(ConnectionId(2), True)])
            for _, writer in clients:
                writer.transport.abort()
            await until(lambda: one.server.connections == 0)

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


async def turned_away(tls: listeners.ClientSecurity, context: ssl.SSLContext) -> None:
    """The handshake ends, but the node hears of nobody."""
    async with served(tls=tls) as one:
        reader, writer = await asyncio.open_connection(HOST, one.port, ssl=context)
        assert await hears_nothing(reader)
        writer.close()
        await until(lambda: one.server.connections == 0)
        assert not one.node.inputs


def test_a_certificate_of_another_authority_is_turned_away(tmp_path: Path) -> None:
    tls, _ = secured(tmp_path, certificate_required=False)
    stranger = make_client_certificate(tmp_path / "others", "robot")
    context = ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.pem"))
    context.load_cert_chain(stranger.certificate, stranger.key)

    run(turned_away(tls, context))


def test_a_certificate_that_has_ended_is_turned_away_and_the_log_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tls, _ = secured(tmp_path, certificate_required=False)
    context = ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.pem"))
    monkeypatch.setattr("fedq.shell.config.certificates._NODE_LIFE", datetime.timedelta(seconds=-1))
    ended = make_client_certificate(tmp_path / "clients", "late")
    context.load_cert_chain(ended.certificate, ended.key)

    caplog.set_level("INFO")
    run(turned_away(tls, context))
    assert "certificate has expired" in caplog.text


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
    monkeypatch.setattr(amqp_server, "TLS_HANDSHAKE_S", 0.2)
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
def test_who_does_not_log_in_makes_room(tmp_path: Path, is_secure: bool) -> None:
    tls = secured(tmp_path)[0] if is_secure else None

    async def scenario() -> None:
        async with served(tls=tls, lobby_max=3) as one:
            one.server.lobby.safe_s = one.server.lobby.sweep_s = 0.0
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


# --- certificates that end, and new ones ----------------------------------------------------------


def ended(directory: Path, monkeypatch: pytest.MonkeyPatch) -> ClientTls:
    """A listener's files whose certificate ended two days ago."""
    make_authority(directory)
    with monkeypatch.context() as patched:
        patched.setattr(certificates, "_NODE_LIFE", datetime.timedelta(days=-2))
        patched.setattr(certificates, "_SKEW", datetime.timedelta(days=10))
        files = make_node_certificate(directory, NodeId("n1"), [HOST])
    return ClientTls(files.certificate, files.key)


def test_a_listener_does_not_start_with_a_certificate_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ended(tmp_path, monkeypatch)
    with pytest.raises(ConfigError, match="clients that look at it turn away") as caught:
        listeners.client_tls(CONFIG, "amqp.listen[0]", files)
    assert caught.value.key == "amqp.listen[0].tls.certificate"
    assert "allow_expired: true" in str(caught.value)
    listeners.client_tls(CONFIG, "amqp.listen[0]", replace(files, allows_expired=True))


def test_new_certificates_are_shown_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_authority(tmp_path)
    first = make_node_certificate(tmp_path, NodeId("n1"), [HOST])
    second = make_node_certificate(tmp_path, NodeId("n2"), [HOST])
    files = ClientTls(first.certificate, first.key)
    security = listeners.client_tls(CONFIG, "amqp.listen[0]", files)
    trusting = ssl.create_default_context(cafile=str(first.authority))

    async def scenario() -> None:
        async def shown(port: int) -> str:
            _, writer = await asyncio.open_connection(HOST, port, ssl=trusting)
            certificate = writer.get_extra_info("ssl_object").getpeercert()
            writer.close()
            return str(certificate["subject"])

        async with served(tls=security) as one:
            renewable = RenewableListener("amqp.listen[0]", files, security.context)
            renewal = Renewal(CONFIG, [renewable], every_s=0.01)
            assert "n1" in await shown(one.port)
            first.certificate.write_bytes(second.certificate.read_bytes())
            # Without its key yet: nothing changes.
            await until(lambda: "is not taken up" in caplog.text)
            assert "n1" in await shown(one.port)
            first.key.write_bytes(second.key.read_bytes())
            await until(lambda: "shown the new certificate" in caplog.text)
            assert "n2" in await shown(one.port)
            renewal.stop()

    with caplog.at_level("INFO"):
        run(scenario())


def test_failed_handshakes_are_told_with_their_address_but_not_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_authority(tmp_path)
    files = make_node_certificate(tmp_path, NodeId("n1"), [HOST])
    tls = listeners.client_tls(CONFIG, "amqp", ClientTls(files.certificate, files.key))

    async def scenario() -> None:
        async with served(tls=tls) as one:
            for _ in range(20):
                reader, writer = await asyncio.open_connection(HOST, one.port)
                writer.write(b"AMQP\x00\x00\x09\x01" * 4)
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                writer.close()
            await until(lambda: one.server.failed_handshakes.total == 20)

    run(scenario())
    told = [record.getMessage() for record in caplog.records if "handshake" in record.getMessage()]
    assert len(told) == FAILED_LOGINS_TOLD
    assert all(f"handshake of {HOST}:" in line for line in told)


def test_handshakes_that_fail_leave_nothing_behind(tmp_path: Path) -> None:
    """Nor to a garbage collector: what it has met alive it never looks for again."""
    make_authority(tmp_path)
    files = make_node_certificate(tmp_path, NodeId("n1"), [HOST])
    tls = listeners.client_tls(CONFIG, "amqp", ClientTls(files.certificate, files.key))

    async def scenario() -> None:
        async with served(tls=tls) as one:

            async def fail(count: int) -> None:
                for _ in range(count):
                    reader, writer = await asyncio.open_connection(HOST, one.port)
                    writer.write(bytes(100))
                    assert await hears_nothing(reader)
                    writer.close()
                await until(lambda: one.server.connections == 0)

            await fail(10)
            gc.collect()
            before = len(gc.get_objects())
            await fail(100)
            assert len(gc.get_objects()) - before < 50

    gc.collect()
    gc.disable()
    try:
        run(scenario())
    finally:
        gc.enable()
