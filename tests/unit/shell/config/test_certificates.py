"""Certificates: what is made works, keys stay private, and what cannot work is said so."""

import datetime
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedq.core.ids import NodeId
from fedq.shell.config.certificates import (
    CertificateError,
    check_node_certificate,
    login_name,
    make_authority,
    make_client_certificate,
    make_node_certificate,
)
from fedq.shell.config.values import CertificateFiles, LoginFrom

N1 = NodeId("n1")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    make_authority(tmp_path)
    return tmp_path


def names_in(path: Path) -> x509.SubjectAlternativeName:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def test_a_node_certificate_speaks_for_the_node_and_its_hosts(directory: Path) -> None:
    hosts = ["node.example.org", "127.0.0.1", "::1", "127.0.0.1"]
    files = make_node_certificate(directory, N1, hosts)
    check_node_certificate(files, N1)
    names = names_in(files.certificate)
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["fedq:node:n1"]
    assert names.get_values_for_type(x509.DNSName) == ["node.example.org"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]


def test_private_keys_are_for_their_owner_only(directory: Path) -> None:
    make_node_certificate(directory, N1, ["localhost"])
    for name in ("ca.key", "n1.key"):
        assert stat.S_IMODE((directory / name).stat().st_mode) == 0o600
    assert not list(directory.glob(".*")), "no half-written file is left over"


def test_nothing_is_overwritten(directory: Path) -> None:
    make_node_certificate(directory, N1, ["localhost"])
    before = {path: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(CertificateError, match=r"ca\.pem exists; remove it first"):
        make_authority(directory)
    with pytest.raises(CertificateError, match=r"n1\.pem exists"):
        make_node_certificate(directory, N1, ["localhost"])
    assert {path: path.read_bytes() for path in directory.iterdir()} == before


def test_without_an_authority_there_is_no_node_certificate(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="make an authority first"):
        make_node_certificate(tmp_path, N1, ["localhost"])


def test_a_damaged_authority_is_named(directory: Path) -> None:
    (directory / "ca.pem").write_text("nonsense")
    with pytest.raises(CertificateError, match="damaged"):
        make_node_certificate(directory, N1, ["localhost"])


def test_a_host_that_is_none_is_refused(directory: Path) -> None:
    with pytest.raises(CertificateError, match="is no host name"):
        make_node_certificate(directory, N1, ["bücher.example"])


def test_the_certificate_of_another_node_is_refused(directory: Path) -> None:
    files = make_node_certificate(directory, NodeId("n2"), ["localhost"])
    with pytest.raises(CertificateError, match="speaks for fedq:node:n2, not for n1"):
        check_node_certificate(files, N1)


def test_the_certificate_of_another_authority_is_refused(directory: Path) -> None:
    files = make_node_certificate(directory, N1, ["localhost"])
    other = directory / "other"
    authority, _ = make_authority(other)
    foreign = CertificateFiles(authority, files.certificate, files.key)
    with pytest.raises(CertificateError, match="was not signed by"):
        check_node_certificate(foreign, N1)


def test_the_key_of_another_certificate_is_refused(directory: Path) -> None:
    one = make_node_certificate(directory, N1, ["localhost"])
    two = make_node_certificate(directory, NodeId("n2"), ["localhost"])
    with pytest.raises(CertificateError, match=r"n2\.key is not the key of .*n1\.pem"):
        check_node_certificate(CertificateFiles(one.authority, one.certificate, two.key), N1)


def test_files_that_are_no_pem_are_refused(directory: Path) -> None:
    files = make_node_certificate(directory, N1, ["localhost"])
    files.key.write_text("nonsense")
    with pytest.raises(CertificateError, match="no unencrypted private key"):
        check_node_certificate(files, N1)
    files.certificate.write_text("nonsense")
    with pytest.raises(CertificateError, match="no certificate in PEM form"):
        check_node_certificate(files, N1)


def test_an_expired_certificate_is_refused(directory: Path) -> None:
    files = make_node_certificate(directory, N1, ["localhost"])
    authority = x509.load_pem_x509_certificate(files.authority.read_bytes())
    authority_key = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), None)
    own_key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    assert isinstance(authority_key, ec.EllipticCurvePrivateKey)
    assert isinstance(own_key, ec.EllipticCurvePrivateKey)
    long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    expired = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(authority.subject)
        .public_key(own_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(long_ago)
        .not_valid_after(long_ago + datetime.timedelta(days=1))
        .sign(authority_key, hashes.SHA256())
    )
    files.certificate.write_bytes(expired.public_bytes(serialization.Encoding.PEM))
    with pytest.raises(CertificateError, match="valid from 2020-01-01 to 2020-01-02"):
        check_node_certificate(files, N1)


# --- clients --------------------------------------------------------------------------------------


def certificate_of(subject: list[tuple[x509.ObjectIdentifier, str]], hosts: list[str]) -> bytes:
    """A self-signed certificate with a subject and DNS names, in DER."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in subject])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1)
    )
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    ("login_from", "name"),
    [
        (LoginFrom.DISTINGUISHED_NAME, "CN=robot,O=example\\, inc"),
        (LoginFrom.COMMON_NAME, "robot"),
        (LoginFrom.SUBJECT_ALTERNATIVE_NAME, "robot.example.org"),
    ],
)
def test_what_a_certificate_names(login_from: LoginFrom, name: str) -> None:
    subject = [(NameOID.ORGANIZATION_NAME, "example, inc"), (NameOID.COMMON_NAME, "robot")]
    assert login_name(certificate_of(subject, ["robot.example.org", "b"]), login_from) == name


@pytest.mark.parametrize("login_from", list(LoginFrom))
def test_a_certificate_may_name_nobody(login_from: LoginFrom) -> None:
    assert login_name(certificate_of([], []), login_from) is None
    assert login_name(b"no certificate", login_from) is None


def test_a_client_certificate_names_its_user_and_no_node(tmp_path: Path) -> None:
    files = make_client_certificate(tmp_path, "robot")
    data = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    der = data.public_bytes(serialization.Encoding.DER)
    assert login_name(der, LoginFrom.COMMON_NAME) == "robot"
    assert login_name(der, LoginFrom.SUBJECT_ALTERNATIVE_NAME) == "robot"
    uses = data.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(uses) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    make_client_certificate(tmp_path, "other")
    with pytest.raises(CertificateError, match=r"robot\.pem exists"):
        make_client_certificate(tmp_path, "robot")
    with pytest.raises(CertificateError, match="speaks for no node"):
        check_node_certificate(files, N1)


def test_the_authority_of_a_cluster_makes_no_client_certificates(directory: Path) -> None:
    make_node_certificate(directory, N1, ["localhost"])
    with pytest.raises(CertificateError, match="use another directory for clients"):
        make_client_certificate(directory, "robot")
