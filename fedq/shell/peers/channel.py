"""gRPC between nodes: credentials, options and who is at the other end.

In: certificate files. Out: credentials, option lists, the caller's proven identity. Invariant:
with certificates both ends prove who they are; without, a node listens on loopback only
(`fedq.shell.config.file` sees to it).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import grpc
import grpc.aio

from fedq.core import limits
from fedq.core.ids import NodeId
from fedq.shell.config import certificates
from fedq.shell.config.values import CertificateFiles
from fedq.shell.peers.codec import FRAME_BYTES_MAX

#: Each node says its name in this metadata entry of every call.
NODE_METADATA: Final = "fedq-node"
#: and which of its processes it is, as `fedq.shell.peers.codec.encode_hello` puts it.
HELLO_METADATA: Final = "fedq-hello-bin"
SERVICE: Final = "fedq.peer.v1.Peer"
LINK_METHOD: Final = f"/{SERVICE}/Link"
RAFT_METHOD: Final = f"/{SERVICE}/Raft"

Options = list[tuple[str, int | str]]

_SIZES: Options = [
    ("grpc.max_receive_message_length", FRAME_BYTES_MAX),
    ("grpc.max_send_message_length", FRAME_BYTES_MAX),
]

#: A silent host is noticed after about two seconds; fedq's own heartbeats are the finer measure.
_KEEPALIVE: Options = [
    ("grpc.keepalive_time_ms", 1_000),
    ("grpc.keepalive_timeout_ms", 1_000),
    # Keepalive is a ping, and gRPC by itself waits a minute for its answer.
    ("grpc.http2.ping_timeout_ms", 1_000),
]

CHANNEL_OPTIONS: Options = [
    *_SIZES,
    *_KEEPALIVE,
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
    # How long one attempt to connect may take, TLS included.
    ("grpc.min_reconnect_backoff_ms", 1_000),
    # A peer's name may appear in the DNS only when its host starts.
    ("grpc.dns_min_time_between_resolutions_ms", 500),
    # Peers are direct neighbours; a proxy of the environment must not come between.
    ("grpc.enable_http_proxy", 0),
    # What one channel learned of a dead peer must not slow another one down.
    ("grpc.use_local_subchannel_pool", 1),
]

_SERVER: Options = [
    *_KEEPALIVE,
    # A stranger's connection has so long to become a peer's; those beyond the number are closed.
    ("grpc.server_handshake_timeout_ms", limits.RPC_HANDSHAKE_MS),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 300),
    # Otherwise a second process could take the same port unnoticed.
    ("grpc.so_reuseport", 0),
]

PEER_SERVER_OPTIONS: Options = [
    *_SIZES,
    *_SERVER,
    ("grpc.max_allowed_incoming_connections", limits.PEER_CONNECTIONS_MAX),
]

ADMIN_SERVER_OPTIONS: Options = [
    *_SERVER,
    ("grpc.max_receive_message_length", limits.ADMIN_REQUEST_BYTES_MAX),
    ("grpc.max_send_message_length", FRAME_BYTES_MAX),
    ("grpc.max_allowed_incoming_connections", limits.ADMIN_CONNECTIONS_MAX),
    # Who asks nothing makes room for who does.
    ("grpc.max_connection_idle_ms", 60_000),
]


def server_credentials(files: CertificateFiles) -> grpc.ServerCredentials:
    """Credentials that only admit holders of a certificate of the same authority."""
    return grpc.ssl_server_credentials(
        [(files.key.read_bytes(), files.certificate.read_bytes())],
        root_certificates=files.authority.read_bytes(),
        require_client_auth=True,
    )


def channel_credentials(files: CertificateFiles) -> grpc.ChannelCredentials:
    """Credentials for calling nodes of the same authority."""
    return grpc.ssl_channel_credentials(
        files.authority.read_bytes(), files.key.read_bytes(), files.certificate.read_bytes()
    )


def open_channel(
    address: str,
    files: CertificateFiles | None,
    interceptors: Sequence[grpc.aio.ClientInterceptor] = (),
) -> grpc.aio.Channel:
    """A channel to another node; it connects by itself, and again when it broke."""
    if files is None:
        return grpc.aio.insecure_channel(address, CHANNEL_OPTIONS, interceptors=interceptors)
    return grpc.aio.secure_channel(
        address, channel_credentials(files), CHANNEL_OPTIONS, interceptors=interceptors
    )


def proven_identities(auth_context: Mapping[str, Iterable[bytes]]) -> list[str]:
    """Node names the caller's certificate speaks for; empty without one."""
    prefix = certificates.IDENTITY_PREFIX.encode()
    return [
        NodeId(name[len(prefix) :].decode("utf-8", "replace"))
        for name in auth_context.get("peer_uri", ())
        if name.startswith(prefix)
    ]
