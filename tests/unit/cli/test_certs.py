"""`fedq certs`, and TLS between the command line and a node that demands it."""

import stat
from pathlib import Path

import grpc
import pytest

from fedq.admin.access_answers import AccessAnswers
from fedq.admin.own_process import OwnProcess
from fedq.admin.service import AdminService
from fedq.core.ids import NodeId
from fedq.node.views.shovel_view import ShovelView
from fedq.shell.config.certificates import CertificateError, check_node_certificate
from fedq.shell.config.values import CertificateFiles
from fedq.shell.durations import Durations
from fedq.shell.peers.channel import open_channel, server_credentials
from tests.unit.admin.served import LoopThread, SharedMap, a_cluster
from tests.unit.cli.command import fedq


@pytest.fixture
def files(tmp_path: Path) -> CertificateFiles:
    """An authority and a certificate for n1, made as a user would."""
    place = str(tmp_path / "certs")
    assert fedq("certs", "init", "--dir", place).exit_code == 0
    value = fedq("certs", "node", "n1", "localhost", "127.0.0.1", "--dir", place, "--json").value
    return CertificateFiles(*(Path(value[name]) for name in ("authority", "certificate", "key")))


def test_a_node_certificate_proves_the_node(files: CertificateFiles) -> None:
    check_node_certificate(files, NodeId("n1"))
    assert stat.S_IMODE(files.key.stat().st_mode) == 0o600


def test_a_host_s_certificate_proves_each_of_its_workers(tmp_path: Path) -> None:
    place = str(tmp_path)
    fedq("certs", "init", "--dir", place)
    value = fedq("certs", "node", "n1", "--workers", "3", "--dir", place, "--json").value
    own = CertificateFiles(*(Path(value[name]) for name in ("authority", "certificate", "key")))
    for name in ("n1", "n1.2", "n1.3"):
        check_node_certificate(own, NodeId(name))
    with pytest.raises(CertificateError, match=r"not for n1\.4"):
        check_node_certificate(own, NodeId("n1.4"))


def test_what_exists_is_not_overwritten(files: CertificateFiles) -> None:
    place = str(files.key.parent)
    before = files.key.read_bytes()
    again = fedq("certs", "init", "--dir", place)
    assert again.exit_code == 1
    assert "exists; remove it first" in again.sentence
    assert fedq("certs", "node", "n1", "--dir", place).exit_code == 1
    assert files.key.read_bytes() == before


def test_a_node_needs_an_authority_and_a_name(tmp_path: Path) -> None:
    none = fedq("certs", "node", "n1", "--dir", str(tmp_path))
    assert none.exit_code == 1
    assert "make an authority first" in none.sentence
    bad = fedq("certs", "node", "../n1", "--dir", str(tmp_path))
    assert bad.exit_code == 2
    assert "is no node name" in bad.sentence
    assert list(tmp_path.parent.glob("n1*")) == []


def test_the_printed_lines_belong_into_node_yaml(tmp_path: Path) -> None:
    place = str(tmp_path)
    fedq("certs", "init", "--dir", place)
    done = fedq("certs", "node", "n2", "--dir", place)
    assert f"  certificate: {tmp_path / 'n2.pem'}\n" in done.out
    assert "certificates:\n" in done.out


def test_a_client_certificate(tmp_path: Path) -> None:
    place = str(tmp_path / "clients")
    done = fedq("certs", "client", "robot", "--dir", place)
    assert done.exit_code == 0
    assert f"  authority: {tmp_path / 'clients' / 'ca.pem'}\n" in done.out
    assert "login_from: common_name" in done.out
    value = fedq("certs", "client", "other", "--dir", place, "--json").value
    assert stat.S_IMODE(Path(value["key"]).stat().st_mode) == 0o600
    bad = fedq("certs", "client", "a/b", "--dir", place)
    assert bad.exit_code == 2
    assert "cannot be put into a certificate" in bad.sentence


def test_clients_need_an_authority_of_their_own(files: CertificateFiles) -> None:
    refused = fedq("certs", "client", "robot", "--dir", str(files.key.parent))
    assert refused.exit_code == 1
    assert "use another directory for clients" in refused.sentence


def test_asking_a_node_that_demands_certificates(files: CertificateFiles, tmp_path: Path) -> None:
    (overview,) = a_cluster(["n1"]).values()

    async def start() -> tuple[grpc.aio.Server, int, AdminService]:
        shared = SharedMap()
        access = AccessAnswers(shared, shared.ask)
        service = AdminService(
            overview, lambda _, address: open_channel(address, files), access, lambda *_: None,
            overview.close, lambda *_: None, Durations(), OwnProcess(lambda: "", lambda: None),
            ShovelView(shared.map),
        )  # fmt: skip
        server = grpc.aio.server()
        service.add_to(server)
        port = server.add_secure_port("127.0.0.1:0", server_credentials(files))
        await server.start()
        return server, port, service

    with LoopThread.running():
        server, port, service = LoopThread.run(start())
        try:
            at = f"127.0.0.1:{port}"
            tls = ["--ca", str(files.authority), "--cert", str(files.certificate)]
            tls += ["--key", str(files.key)]
            shown = fedq("cluster", "status", "--json", "--node", at, *tls)
            plain = fedq("cluster", "status", "--node", at, "--timeout", "2")
            nameless = fedq("cluster", "status", "--node", at, "--timeout", "2", *tls[:2])
            missing = fedq("cluster", "status", "--node", at, "--ca", str(tmp_path / "nothing"))
            stranger_place = str(tmp_path / "other")
            fedq("certs", "init", "--dir", stranger_place)
            stranger = fedq(
                "cluster",
                "status",
                "--node",
                at,
                "--timeout",
                "2",
                "--ca",
                f"{stranger_place}/ca.pem",
            )
        finally:
            LoopThread.run(service.close())
            LoopThread.run(server.stop(None))
    assert shown.value["node"] == "n1"
    assert plain.exit_code == 3
    assert "it may want TLS: give --ca, --cert and --key" in plain.sentence
    assert nameless.exit_code == 3
    assert "it may want a certificate: give --cert and --key" in nameless.sentence
    assert missing.exit_code == 2
    assert missing.sentence.startswith("--ca: ")
    assert stranger.exit_code == 3


def test_tls_options_that_do_not_fit_are_usage_errors(files: CertificateFiles) -> None:
    alone = fedq("cluster", "status", "--cert", str(files.certificate))
    assert (alone.exit_code, alone.sentence) == (2, "--cert and --key go together; give both")
    pair = ["--cert", str(files.certificate), "--key", str(files.key)]
    without = fedq("cluster", "status", *pair)
    assert without.exit_code == 2
    assert "--cert needs --ca" in without.sentence
