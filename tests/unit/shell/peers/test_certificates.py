"""New certificates for peers and the admin port are in use without a restart."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509

from fedq.core.ids import NodeId
from fedq.shell.config.certificates import CertificateError, make_authority, make_node_certificate
from fedq.shell.config.values import CertificateFiles, Listener, NodeConfig
from fedq.shell.peers.certificates import NodeCertificates
from fedq.shell.renewal import RenewableNode, Renewal
from tests.unit.shell.fakes import run, until

N1, N2 = NodeId("n1"), NodeId("n2")
HOST = "127.0.0.1"


def replace(files: CertificateFiles, others: CertificateFiles) -> None:
    """What an operator does, one file after the other."""
    for kind in ("authority", "certificate", "key"):
        getattr(files, kind).write_bytes(getattr(others, kind).read_bytes())


def number_of(pem: bytes) -> int:
    return x509.load_pem_x509_certificate(pem).serial_number


async def greets(_: bytes, __: object) -> bytes:
    return b"hello"


async def serving(certificates: NodeCertificates) -> tuple[grpc.aio.Server, str]:
    server = grpc.aio.server()
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]]
    handlers = {"Greet": grpc.unary_unary_rpc_method_handler(greets)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.Greeter", handlers),))
    port = server.add_secure_port(f"{HOST}:0", certificates.server_credentials())
    await server.start()
    return server, f"{HOST}:{port}"


async def asks(channel: grpc.aio.Channel) -> bytes:
    ask: Any = channel.unary_unary("/t.Greeter/Greet")
    answer: bytes = await ask(b"", timeout=10)
    return answer


async def shown(address: str, files: CertificateFiles) -> int:
    """The number of the certificate that a server shows in a handshake of its own."""
    trusting = ssl.create_default_context(cafile=str(files.authority))
    trusting.load_cert_chain(files.certificate, files.key)
    trusting.set_alpn_protocols(["h2"])
    host, port = address.split(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=trusting)
    certificate = writer.get_extra_info("ssl_object").getpeercert()
    writer.close()
    return int(certificate["serialNumber"], 16)


def test_new_files_are_shown_and_dialed_with_from_then_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_authority(tmp_path / "one")
    files = make_node_certificate(tmp_path / "one", N1, [HOST])
    caller = make_node_certificate(tmp_path / "one", N2, [HOST])
    before = number_of(files.certificate.read_bytes())
    # Of another authority: who has the old certificate only gets in no more.
    make_authority(tmp_path / "two")
    second = make_node_certificate(tmp_path / "two", N1, [HOST])
    third = make_node_certificate(tmp_path / "two", N2, [HOST])
    after = number_of(second.certificate.read_bytes())
    config = NodeConfig(N1, tmp_path, (Listener(HOST, 0),), certificates=files)

    async def scenario() -> None:
        mine, theirs = NodeCertificates(files), NodeCertificates(caller)
        server, address = await serving(mine)
        old = theirs.open_channel(address)
        assert await asks(old) == b"hello"
        assert await shown(address, caller) == before
        renewal = Renewal(config, [RenewableNode(files, mine)], every_s=0.01)
        files.certificate.write_bytes(second.certificate.read_bytes())
        await until(lambda: "is not taken up" in caplog.text)
        assert mine.version == 0, "without its key and authority: nothing changes"
        assert await shown(address, caller) == before
        replace(files, second)
        await until(lambda: "shown the new certificate" in caplog.text)
        assert await shown(address, third) == after
        assert await asks(old) == b"hello", "connections that are there stay"
        async with theirs.open_channel(address) as late:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await asks(late)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        replace(caller, third)
        theirs.renew(N2)
        async with theirs.open_channel(address) as new:
            assert await asks(new) == b"hello"
        await old.close()
        renewal.stop()
        await server.stop(None)

    with caplog.at_level("INFO"):
        run(scenario())


def test_proofs_are_made_with_the_new_key(tmp_path: Path) -> None:
    make_authority(tmp_path)
    files = make_node_certificate(tmp_path, N1, [HOST])
    held = NodeCertificates(files)
    proof = held.proof
    wrong = make_node_certificate(tmp_path, N2, [HOST])
    content = [each.read_bytes() for each in (files.certificate, files.key)]
    files.certificate.write_bytes(wrong.certificate.read_bytes())
    files.key.write_bytes(wrong.key.read_bytes())
    with pytest.raises(CertificateError, match="not for n1"):
        held.renew(N1)
    assert held.version == 0
    files.certificate.write_bytes(content[0])
    files.key.write_bytes(content[1])
    held.renew(N1)
    assert (held.version, held.proof) == (1, proof), "whoever has it goes on with it"
