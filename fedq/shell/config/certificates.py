"""Makes an authority and the certificates of its nodes and clients, and reads those of others.

In: directories and names. Out: PEM files, or the names a certificate speaks for. A node's
certificate carries its identity as the subject alternative name `URI:fedq:node:<id>`, beside the
host names and addresses where it is reached, and is good for both ends of a connection. A client's
names its user as common name and DNS name, and comes from another authority: whatever the cluster's
own authority has signed opens the admin port.

Invariants: private keys (P-256) are readable by their owner only, from the moment the file
exists; nothing that exists is overwritten; files appear whole or not at all.
"""

import datetime
import ipaddress
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedq.core.ids import NodeId
from fedq.shell.config.values import CertificateFiles, LoginFrom

AUTHORITY_CERTIFICATE: Final = "ca.pem"
AUTHORITY_KEY: Final = "ca.key"
IDENTITY_PREFIX: Final = "fedq:node:"

_AUTHORITY_LIFE: Final = datetime.timedelta(days=3650)
_NODE_LIFE: Final = datetime.timedelta(days=825)
#: Clocks of machines that were just set up differ.
_SKEW: Final = datetime.timedelta(minutes=10)


class CertificateError(Exception):
    """A certificate cannot be made or cannot work; the text says which and what to do."""


def identity_uri(node: NodeId) -> str:
    """The subject alternative name that makes a certificate a node's."""
    return IDENTITY_PREFIX + node


def make_authority(directory: Path) -> tuple[Path, Path]:
    """Writes a new cluster authority; returns (certificate, private key).

    Whoever has the key can admit nodes to the cluster. Raises `CertificateError` if one exists.
    """
    certificate_path, key_path = directory / AUTHORITY_CERTIFICATE, directory / AUTHORITY_KEY
    _refuse_existing(certificate_path, key_path)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedq cluster authority")])
    certificate = (
        _begin(name, name, key.public_key(), _AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(directory, key_path, _key_bytes(key), mode=0o600)
    _write(directory, certificate_path, _certificate_bytes(certificate), mode=0o644)
    return certificate_path, key_path


def make_node_certificate(
    directory: Path, node_id: NodeId, hosts: Iterable[str], workers: Iterable[NodeId] = ()
) -> CertificateFiles:
    """Writes `<node_id>.pem` and `.key`, signed by the authority in the same directory.

    `hosts`: names and addresses under which others reach this one; `workers`: other
    nodes of its host that have the same key. Raises `CertificateError` when there is no authority,
    or the node has a certificate already.
    """
    speaks_for = dict.fromkeys((node_id, *workers))
    names: list[x509.GeneralName] = [
        x509.UniformResourceIdentifier(identity_uri(each)) for each in speaks_for
    ]
    names += [_host_name(host) for host in dict.fromkeys(hosts)]
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return _issue(directory, node_id, names, uses)


def make_client_certificate(directory: Path, user: str) -> CertificateFiles:
    """Writes `<user>.pem` and `.key`, signed by the directory's authority, made if there is none.

    Raises `CertificateError` when the authority is a cluster's, or the user has one already.
    """
    if any(_identities(_load_certificate(path)) for path in sorted(directory.glob("*.pem"))):
        raise CertificateError(
            f"{directory} has certificates of nodes, and what its authority signs opens the admin "
            "port; use another directory for clients"
        )
    if not (directory / AUTHORITY_CERTIFICATE).exists():
        make_authority(directory)
    return _issue(directory, user, [_host_name(user)], [ExtendedKeyUsageOID.CLIENT_AUTH])


def _issue(
    directory: Path, name: str, names: list[x509.GeneralName], uses: list[x509.ObjectIdentifier]
) -> CertificateFiles:
    authority, authority_key = _load_authority(directory)
    certificate_path, key_path = directory / f"{name}.pem", directory / f"{name}.key"
    _refuse_existing(certificate_path, key_path)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    certificate = (
        _begin(subject, authority.subject, key.public_key(), _NODE_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    _write(directory, key_path, _key_bytes(key), mode=0o600)
    _write(directory, certificate_path, _certificate_bytes(certificate), mode=0o644)
    return CertificateFiles(directory / AUTHORITY_CERTIFICATE, certificate_path, key_path)


def _load_authority(directory: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        authority = x509.load_pem_x509_certificate((directory / AUTHORITY_CERTIFICATE).read_bytes())
        key = serialization.load_pem_private_key((directory / AUTHORITY_KEY).read_bytes(), None)
    except OSError as error:
        raise CertificateError(
            f"{error.filename} cannot be read ({error.strerror}); make an authority first"
        ) from error
    except (ValueError, TypeError) as error:
        raise CertificateError(f"{directory}: the authority's files are damaged") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{directory / AUTHORITY_KEY} is no key that fedq made")
    return authority, key


def login_name(data: bytes, login_from: LoginFrom) -> str | None:
    """The user that a certificate (DER) names; None if it has no such name.

    Several common names are joined by commas; of alternative names the first DNS name counts:
    RabbitMQ's rules. A distinguished name is written as RFC 4514 says: `CN=robot,O=example`.
    """
    try:
        certificate = x509.load_der_x509_certificate(data)
        if login_from is LoginFrom.DISTINGUISHED_NAME:
            return certificate.subject.rfc4514_string() or None
        if login_from is LoginFrom.COMMON_NAME:
            common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            return ",".join(str(name.value) for name in common) or None
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return None
    hosts = names.get_values_for_type(x509.DNSName)
    return str(hosts[0]) if hosts else None


def check_node_certificate(files: CertificateFiles, node_id: NodeId) -> None:
    """Raises `CertificateError` when the files cannot prove to peers that this is `node_id`."""
    authority = _load_certificate(files.authority)
    certificate = _load_certificate(files.certificate)
    try:
        key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    except OSError as error:
        raise CertificateError(f"{files.key} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise CertificateError(f"{files.key} is no unencrypted private key in PEM form") from error
    if key.public_key() != certificate.public_key():
        raise CertificateError(f"{files.key} is not the key of {files.certificate}")
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError) as error:
        raise CertificateError(
            f"{files.certificate} was not signed by {files.authority}; make a new one with it"
        ) from error
    now = datetime.datetime.now(datetime.UTC)
    for path, one in ((files.authority, authority), (files.certificate, certificate)):
        if not one.not_valid_before_utc <= now <= one.not_valid_after_utc:
            raise CertificateError(
                f"{path} is valid from {one.not_valid_before_utc:%Y-%m-%d} to "
                f"{one.not_valid_after_utc:%Y-%m-%d}; make a new one, or set the clock right"
            )
    identities = _identities(certificate)
    if identity_uri(node_id) not in identities:
        raise CertificateError(
            f"{files.certificate} speaks for {', '.join(identities) or 'no node'}, not for "
            f"{node_id}; make one for this node"
        )


def check_not_ended(path: Path, now: datetime.datetime) -> None:
    """Raises `CertificateError` if a certificate in the file is not valid then, or is none."""
    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise CertificateError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CertificateError(f"{path} is no certificate in PEM form") from error
    for one in found:
        begin, end = one.not_valid_before_utc, one.not_valid_after_utc
        if not begin <= now <= end:
            raise CertificateError(
                f"{path} has a certificate that is valid from {begin:%Y-%m-%d} to {end:%Y-%m-%d}: "
                "clients that look at it turn away. Replace it, or set the clock right"
            )


def _identities(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    uris: list[str] = names.get_values_for_type(x509.UniformResourceIdentifier)
    return [uri for uri in uris if uri.startswith(IDENTITY_PREFIX)]


def _load_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise CertificateError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CertificateError(f"{path} is no certificate in PEM form") from error


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not host or not host.isascii():
            raise CertificateError(
                f"{host!r} is no host name; write international names in ASCII"
            ) from None
        return x509.DNSName(host)


def _begin(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, life: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _certificate_bytes(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _refuse_existing(*paths: Path) -> None:
    for path in paths:
        if path.exists():
            raise CertificateError(f"{path} exists; remove it first if it should be replaced")


def _write(directory: Path, path: Path, data: bytes, *, mode: int) -> None:
    """Writes a file whole or not at all, with its mode from the start."""
    temporary = directory / f".{path.name}.new"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except OSError as error:
        raise CertificateError(f"{path} cannot be written: {error.strerror}") from error
