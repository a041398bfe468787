"""A node's certificates for peers and administrators, as they were taken up last.

In: the files of `certificates`, looked at again by `fedq.shell.renewal`. Out: what servers show in
handshakes from then on, channels that are opened from then on, and proofs of this node's name.
Connections that are there stay. Invariant: files that do not fit change nothing.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import grpc
import grpc.aio

from fedq.core.ids import NodeId
from fedq.shell.config.certificates import CertificateError, check_node_certificate
from fedq.shell.config.values import CertificateFiles
from fedq.shell.peers.channel import CHANNEL_OPTIONS, Options
from fedq.shell.peers.proof import PeerProof


class _Pem(NamedTuple):
    authority: bytes
    certificate: bytes
    key: bytes


class NodeCertificates:
    """The certificates of one node, and the channels that are made with them."""

    __slots__ = ("_files", "_pem", "proof", "version")

    def __init__(self, files: CertificateFiles) -> None:
        """Reads files that were checked; raises `CertificateError`."""
        self._files = files
        self._pem = _read(files)
        self.proof = PeerProof(files)
        #: How often others have been taken up.
        self.version = 0

    def renew(self, node: NodeId) -> None:
        """Takes up what is in the files now; raises `CertificateError`."""
        check_node_certificate(self._files, node)
        pem = _read(self._files)
        self.proof.renew(self._files)
        self._pem = pem
        self.version += 1

    def server_credentials(self) -> grpc.ServerCredentials:
        """The credentials of one server, which admits only certificates of the same authority."""
        # The types leave out that None means: as before.
        return grpc.dynamic_ssl_server_credentials(
            self._shown(),
            self._fetcher(),  # type: ignore[arg-type]
            require_client_authentication=True,
        )

    def _fetcher(self) -> Callable[[], grpc.ServerCertificateConfiguration | None]:
        """What gRPC calls before each handshake, in a thread of its own: it must not fail."""
        shown = self.version

        def fetch() -> grpc.ServerCertificateConfiguration | None:
            nonlocal shown
            version = self.version
            if version == shown:
                return None
            shown = version
            return self._shown()

        return fetch

    def _shown(self) -> grpc.ServerCertificateConfiguration:
        pem = self._pem
        return grpc.ssl_server_certificate_configuration(
            [(pem.key, pem.certificate)], pem.authority
        )

    def open_channel(
        self, address: str, interceptors: Sequence[grpc.aio.ClientInterceptor] = (),
        host: str = "",
    ) -> grpc.aio.Channel:  # fmt: skip
        """A channel to another node, as `fedq.shell.peers.channel.open_channel`.

        `host`: what its certificate has to name, where the address does not say so.
        """
        pem = self._pem
        credentials = grpc.ssl_channel_credentials(pem.authority, pem.key, pem.certificate)
        options: Options = [("grpc.ssl_target_name_override", host)] if host else []
        return grpc.aio.secure_channel(
            address, credentials, [*CHANNEL_OPTIONS, *options], interceptors=interceptors
        )


def _read(files: CertificateFiles) -> _Pem:
    try:
        return _Pem(
            files.authority.read_bytes(), files.certificate.read_bytes(), files.key.read_bytes()
        )
    except OSError as error:
        raise CertificateError(f"{error.filename} cannot be read: {error.strerror}") from error
