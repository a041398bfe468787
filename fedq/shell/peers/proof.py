"""Proves to a dialing node who answers: a signature made for this one call.

In: this node's certificate files and the introductions of both ends. Out: the answer with a proof,
or the sentence why an answer proves nothing. TLS alone shows that the other end belongs to the
cluster, and that its certificate names the host; on hosts that members share that is any member.

Invariant: what is signed names both processes and the caller's random number, and a node signs
only for a caller whose own certificate speaks for its name. So no member can have another one sign
what it could show to a third.
"""

import datetime
import os
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa

from fedq.core.ids import NodeId
from fedq.shell.config.certificates import CertificateError, identity_uri
from fedq.shell.config.values import CertificateFiles
from fedq.shell.peers.hello import Hello, Proof

_NONCE_BYTES: Final = 16
_PURPOSE: Final = b"fedq answers a peer, 1"

_PrivateKey = (
    ec.EllipticCurvePrivateKey
    | rsa.RSAPrivateKey
    | ed25519.Ed25519PrivateKey
    | ed448.Ed448PrivateKey
)


class PeerProof:
    """The key and certificate of one node, and the authority that it trusts."""

    __slots__ = ("_authorities", "_certificate", "_key")

    def __init__(self, files: CertificateFiles) -> None:
        """Reads files that were checked; raises `CertificateError` for a key that cannot sign."""
        self.renew(files)

    def renew(self, files: CertificateFiles) -> None:
        """Renews, as `__init__`, from other files; if they cannot be used nothing changes."""
        authorities = x509.load_pem_x509_certificates(files.authority.read_bytes())
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        key = serialization.load_pem_private_key(files.key.read_bytes(), None)
        if not isinstance(key, _PrivateKey):
            raise CertificateError(
                f"{files.key} is of a kind that proves nothing to peers; make an EC (P-256), RSA "
                "or Ed25519 key and a certificate for it"
            )
        self._authorities = authorities
        self._certificate = certificate.public_bytes(serialization.Encoding.DER)
        self._key: _PrivateKey = key

    def asking(self, mine: Hello) -> Hello:
        """How this node introduces itself in one call."""
        return mine._replace(nonce=os.urandom(_NONCE_BYTES))

    def proven(self, caller: Hello, answer: Hello) -> Hello:
        """The answer to a caller that has proven its name, with the proof of this node's."""
        signature = _sign(self._key, _signed_content(caller, answer))
        return answer._replace(proof=Proof(self._certificate, signature))

    def doubt(self, asked: Hello, answer: Hello, peer: NodeId) -> str | None:
        """Why the answer does not prove that it comes from `peer`; None: it does."""
        if answer.proof is None:
            return "what answers there does not prove who it is"
        try:
            certificate = x509.load_der_x509_certificate(answer.proof.certificate)
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            speaks_for = names.value.get_values_for_type(x509.UniformResourceIdentifier)
            is_trusted = any(_has_issued(each, certificate) for each in self._authorities)
            _verify(certificate, answer.proof.signature, _signed_content(asked, answer))
        except InvalidSignature:
            return "what answers there does not have the key of the certificate that it shows"
        except (ValueError, TypeError, x509.ExtensionNotFound) as error:
            return f"what answers there shows a certificate that is none of a node: {error}"
        now = datetime.datetime.now(datetime.UTC)
        if not is_trusted:
            return "what answers there shows a certificate of another authority"
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            return "what answers there shows a certificate that is not valid now"
        if identity_uri(peer) not in speaks_for:
            return f"what answers there has a certificate for {', '.join(speaks_for) or 'nobody'}"
        return None


def _signed_content(caller: Hello, answer: Hello) -> bytes:
    parts = [_PURPOSE, caller.nonce]
    for one in (caller, answer):
        number, start, _ = one.process
        parts += [one.node.encode(), str(number).encode(), start.encode()]
    return b"".join(len(part).to_bytes(4) + part for part in parts)


def _sign(key: _PrivateKey, content: bytes) -> bytes:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(content, ec.ECDSA(hashes.SHA256()))
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(content, _rsa_padding(), hashes.SHA256())
    return key.sign(content)


def _verify(certificate: x509.Certificate, signature: bytes, content: bytes) -> None:
    """Raises `InvalidSignature`, or `ValueError` for a key that signs nothing."""
    key = certificate.public_key()
    if isinstance(key, ec.EllipticCurvePublicKey):
        key.verify(signature, content, ec.ECDSA(hashes.SHA256()))
    elif isinstance(key, rsa.RSAPublicKey):
        key.verify(signature, content, _rsa_padding(), hashes.SHA256())
    elif isinstance(key, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        key.verify(signature, content)
    else:
        raise ValueError("its key is of a kind that signs nothing")


def _has_issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _rsa_padding() -> padding.PSS:
    return padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH)
