"""Who answers a peer proves its name, for one call and one caller."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import x25519

from fedq.core.ids import Incarnation, NodeId
from fedq.shell.config.certificates import CertificateError, make_authority, make_node_certificate
from fedq.shell.config.values import CertificateFiles
from fedq.shell.peers.hello import Hello, Process, Proof
from fedq.shell.peers.proof import PeerProof

N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[NodeId, CertificateFiles]:
    directory = tmp_path_factory.mktemp("certificates")
    make_authority(directory)
    return {name: make_node_certificate(directory, name, ["localhost"]) for name in (N1, N2, N3)}


def hello(node: NodeId, number: int = 1) -> Hello:
    return Hello(node, Process(Incarnation(number), "0123456789abcdef", 0), {})


def test_an_answer_is_believed_from_its_own_node_alone(
    files: dict[NodeId, CertificateFiles],
) -> None:
    one, two, three = (PeerProof(files[name]) for name in (N1, N2, N3))
    asked = one.asking(hello(N1))
    assert one.doubt(asked, two.proven(asked, hello(N2)), N2) is None
    assert "fedq:node:n3" in str(one.doubt(asked, three.proven(asked, hello(N2)), N2))
    assert "does not prove" in str(one.doubt(asked, hello(N2), N2))


def test_what_was_signed_for_another_call_proves_nothing(
    files: dict[NodeId, CertificateFiles],
) -> None:
    one, two = PeerProof(files[N1]), PeerProof(files[N2])
    asked = one.asking(hello(N1))
    theirs = asked._replace(node=N3)
    others = [
        # Of another call of the same process, of another process, and what n2 signs for n3.
        two.proven(one.asking(hello(N1)), hello(N2)),
        two.proven(asked._replace(process=hello(N1, 2).process), hello(N2)),
        two.proven(theirs, hello(N2)),
        # Another process of n2 than the one that is spoken of.
        two.proven(asked, hello(N2, 5))._replace(process=hello(N2).process),
    ]
    for answer in others:
        assert "does not have the key" in str(one.doubt(asked, answer, N2))


@pytest.mark.parametrize("certificate", [b"\x30\x00", b"no certificate", b"\x00" * 500])
def test_a_proof_may_be_anything(files: dict[NodeId, CertificateFiles], certificate: bytes) -> None:
    one = PeerProof(files[N1])
    asked = one.asking(hello(N1))
    answer = hello(N2)._replace(proof=Proof(certificate, b""))
    assert "none of a node" in str(one.doubt(asked, answer, N2))


def test_another_authority_proves_nothing(
    files: dict[NodeId, CertificateFiles], tmp_path: Path
) -> None:
    make_authority(tmp_path)
    one, foreign = PeerProof(files[N1]), PeerProof(make_node_certificate(tmp_path, N2, ["n2"]))
    asked = one.asking(hello(N1))
    assert "of another authority" in str(one.doubt(asked, foreign.proven(asked, hello(N2)), N2))


def test_a_key_that_signs_nothing_is_refused(
    files: dict[NodeId, CertificateFiles], tmp_path: Path
) -> None:
    key = tmp_path / "n1.key"
    key.write_bytes(
        x25519.X25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    with pytest.raises(CertificateError, match="proves nothing to peers"):
        PeerProof(CertificateFiles(files[N1].authority, files[N1].certificate, key))
