"""Sockets to listen on and TLS for them, made early so that a wrong setting stops the start.

In: a configuration. Out: bound sockets, TLS contexts, or a `ConfigError` that names the key.
Invariant: a bound socket does not listen yet; whoever connects is still refused.
"""

import datetime
import errno
import socket
import ssl
from typing import Final, NamedTuple

from fedq.shell.config.certificates import CertificateError, check_not_ended, login_name
from fedq.shell.config.values import (
    ClientTls,
    ConfigError,
    Listener,
    LoginFrom,
    NodeConfig,
    is_wildcard,
    join_address,
)

#: Options of sockets. A port is one process's; or others of the same user that say so, too, may
#: listen there, and the kernel spreads clients over them. Who holds it for those lets no other one
#: in, not even while none of them listens.
ALONE: Final = (socket.SO_REUSEADDR,)
SHARED: Final = (socket.SO_REUSEADDR, socket.SO_REUSEPORT)
_HELD: Final = (socket.SO_REUSEPORT,)


def bind(
    config: NodeConfig, key: str, listener: Listener, options: tuple[int, ...] = ALONE
) -> list[socket.socket]:
    """A socket for each address of the listener's host, all with one port."""
    bound: list[socket.socket] = []
    port = listener.port
    try:
        found = socket.getaddrinfo(
            listener.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, place in dict.fromkeys((info[0], info[4]) for info in found):
            bound.append(_bind_one(family, (place[0], port, *place[2:]), options))
            port = bound[0].getsockname()[1]
    except OSError as error:
        if bound and error.errno == errno.EADDRNOTAVAIL:
            # A name like localhost may stand for an IPv6 address that this machine has not.
            return bound
        for one in bound:
            one.close()
        raise _explained(config, key, listener, error) from error
    return bound


def reachable(host: str) -> str:
    """The host as others may call it when it means every address of this machine."""
    return socket.gethostname() if is_wildcard(host) else host


def url_of(listener: Listener, port: int) -> str:
    """The URL by which clients reach a listener that is bound to this port."""
    scheme = "amqps" if listener.tls else "amqp"
    return f"{scheme}://{join_address(reachable(listener.host), port)}"


def check_free(config: NodeConfig, key: str, listener: Listener) -> None:
    """Raises `ConfigError` if nobody could listen there now."""
    for one in bind(config, key, listener):
        one.close()


def hold(config: NodeConfig, key: str, listener: Listener) -> list[socket.socket]:
    """Sockets that never listen, and keep a port for those that share it.

    Raises `ConfigError` if anybody listens there, or holds it.
    """
    check_free(config, key, listener)
    try:
        return bind(config, key, listener, _HELD)
    except ConfigError:
        # What is left of connections of before, to a node that did not share, is in the way.
        return bind(config, key, listener, SHARED)


def _bind_one(family: int, place: tuple[object, ...], options: tuple[int, ...]) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        for option in options:
            one.setsockopt(socket.SOL_SOCKET, option, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(place)
    except OSError:
        one.close()
        raise
    return one


def _explained(config: NodeConfig, key: str, listener: Listener, error: OSError) -> ConfigError:
    place = join_address(listener.host, listener.port)
    if error.errno == errno.EADDRINUSE:
        return config.error(
            f"{key}.port", f"{place} is in use; stop the other process or choose another port"
        )
    if error.errno == errno.EACCES:
        return config.error(
            f"{key}.port", f"{place} needs privileges; choose a port of 1024 or above"
        )
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return config.error(
            f"{key}.host", f"{listener.host} is no address of this machine; correct it"
        )
    return config.error(key, f"cannot listen on {place}: {error.strerror or error}")


class ClientSecurity(NamedTuple):
    """How an AMQP listener speaks TLS, and what of a client's certificate names its user."""

    context: ssl.SSLContext
    login_from: LoginFrom = LoginFrom.DISTINGUISHED_NAME

    def name_of(self, connection: ssl.SSLObject) -> str | None:
        """The user that the verified certificate of a client names; None if it showed none."""
        if self.context.verify_mode == ssl.CERT_NONE:
            return None
        data = connection.getpeercert(binary_form=True)
        return None if data is None else login_name(data, self.login_from)


def check_valid(config: NodeConfig, key: str, files: ClientTls) -> None:
    """Raises `ConfigError` for a certificate that has ended, if that is not allowed."""
    if files.allows_expired:
        return
    now = datetime.datetime.now(datetime.UTC)
    for name, path in (("certificate", files.certificate), ("authority", files.authority)):
        if path is None:
            continue
        try:
            check_not_ended(path, now)
        except CertificateError as error:
            raise config.error(
                f"{key}.tls.{name}", f"{error}; or say `allow_expired: true` beside it"
            ) from error


def client_tls(config: NodeConfig, key: str, files: ClientTls) -> ClientSecurity:
    """The TLS of an AMQP listener (TLS 1.2 and later)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Renegotiation would let a client ask for handshake after handshake, at our cost.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    load(context, config, key, files)
    check_valid(config, key, files)
    if files.authority is not None:
        required = files.certificate_required
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return ClientSecurity(context, files.login_from)


def load(context: ssl.SSLContext, config: NodeConfig, key: str, files: ClientTls) -> None:
    """Handshakes from now on are made with what is in the files. Raises `ConfigError`."""
    try:
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as error:
        raise config.error(
            f"{key}.tls.certificate",
            f"{files.certificate} and {files.key} are no certificate and its unencrypted key "
            f"in PEM form: {error.strerror or error}",
        ) from error
    if files.authority is not None:
        try:
            context.load_verify_locations(files.authority)
        except (OSError, ssl.SSLError) as error:
            raise config.error(
                f"{key}.tls.authority", f"{files.authority} is no certificate in PEM form"
            ) from error
