"""Looks at the network: ports, names, and who is there. Nothing is said to anybody but hello."""

import datetime
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from typing import Final

from cryptography import x509

from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, TlsFiles
from fedq.cli.doctor.findings import Finding, error, ok, warning
from fedq.cli.terminal.failure import CommandError
from fedq.core.addresses import split_address
from fedq.shell.clients.listeners import check_free
from fedq.shell.config.certificates import IDENTITY_PREFIX
from fedq.shell.config.values import (
    CertificateFiles,
    ConfigError,
    Listener,
    NodeConfig,
    is_loopback,
)
from fedq.shell.pb import admin_pb2 as pb

#: How long a peer has to answer.
_PATIENCE_S: Final = 2.0
#: The number of a start is in whole seconds, and a question takes a while.
_APART_S: Final = 3.0


def ports(config: NodeConfig) -> Iterator[Finding]:
    """Whether the node can listen where it should."""
    yield from _free(config, _listeners(config))


def worker_ports(config: NodeConfig) -> Iterator[Finding]:
    """Whether a further worker of a host can listen where it does so alone."""
    own = (("peer", config.peer), ("metrics", config.metrics))
    listeners = [(key, listener) for key, listener in own if listener is not None]
    yield from _free(config, listeners, f" of {config.node}")


def _free(
    config: NodeConfig, listeners: Iterable[tuple[str, Listener]], whose: str = ""
) -> Iterator[Finding]:
    for key, listener in listeners:
        try:
            check_free(config, key, listener)
        except ConfigError as wrong:
            yield error("ports", str(wrong), "if this node runs already, all is well")
        else:
            yield ok("ports", f"{key}{whose}: {listener.host}:{listener.port} is free")


def _listeners(config: NodeConfig) -> Iterator[tuple[str, Listener]]:
    yield from config.client_listeners
    if config.peer_listener is not None:
        yield f"peers.{config.node}" if config.peer is None else "peer", config.peer_listener
    if config.admin is not None:
        yield "admin", config.admin


def names(config: NodeConfig) -> Iterator[Finding]:
    """Whether the names of hosts in the configuration stand for addresses."""
    own = [config.peer_address, config.amqp_address]
    hosts = {split_address(each)[0]: each in own for each in (*_others(config), *own) if each}
    for host, is_own in hosts.items():
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as wrong:
            text = f"{host} has no address ({wrong.strerror or wrong})"
            if is_own:
                yield error("names", text, "correct the name of this host, or the DNS")
            else:
                yield warning("names", text, "correct it, or start that host: it is asked again")
            continue
        addresses = ", ".join(dict.fromkeys(str(each[4][0]) for each in found))
        if addresses != host:
            yield ok("names", f"{host} is {addresses}")
    if hosts and is_loopback(split_address(own[0])[0] if own[0] else ""):
        far = [host for host in hosts if not is_loopback(host)]
        if far:
            yield error(
                "names", f"others are to reach this node at {own[0]}, which leads them to "
                f"themselves, and {far[0]} is another machine",
                f"name this host's address in peers.{config.node}",
            )  # fmt: skip


def _others(config: NodeConfig) -> list[str]:
    peers = [address for name, address in config.peers.items() if name != config.node]
    return [*peers, *config.join]


def peers(config: NodeConfig) -> Iterator[Finding]:
    """Whether other nodes are there, and prove their names."""
    named = [(name, place) for name, place in config.peers.items() if name != config.node]
    others = [*named, *[("", place) for place in config.join]]
    for name, place in others:
        who = f"{name} at {place}" if name else place
        try:
            proven = _hello(place, config.certificates)
        except (ssl.SSLError, ssl.CertificateError) as wrong:
            yield error(
                "peers", f"{who} does not prove to be of this cluster: {wrong}",
                "give all nodes certificates of one authority (fedq certs)",
            )  # fmt: skip
        except OSError as wrong:
            yield warning(
                "peers", f"{who} is not reached ({wrong.strerror or wrong})",
                "start it if it is not running; else open its port on the way there",
            )  # fmt: skip
        else:
            yield _judged(who, name, proven)
    if not others:
        yield ok("peers", "there are none to reach")


def _judged(who: str, name: str, proven: list[str] | None) -> Finding:
    """What an answer is worth; `proven`: the names of its certificate."""
    if proven is None or not name:
        return ok("peers", f"{who} answers")
    if name in proven:
        return ok("peers", f"{who} answers, and proves its name")
    return error(
        "peers", f"{who} proves to be {', '.join(proven) or 'no node'}",
        "correct its address, or its certificate",
    )  # fmt: skip


def _hello(place: str, files: CertificateFiles | None) -> list[str] | None:
    """The names that a peer proves; None: without certificates nobody does.

    Raises `OSError` and `ssl.SSLError`.
    """
    with socket.create_connection(split_address(place), _PATIENCE_S) as plain:
        if files is None:
            return None
        context = ssl.create_default_context(cafile=files.authority)
        # Who it is the certificate says, by another name than the host's.
        context.check_hostname = False
        context.load_cert_chain(files.certificate, files.key)
        context.set_alpn_protocols(["h2"])
        with context.wrap_socket(plain) as secure:
            data = secure.getpeercert(binary_form=True)
    return [] if data is None else _identities(data)


def _identities(data: bytes) -> list[str]:
    try:
        found = x509.load_der_x509_certificate(data).extensions
        uris = found.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return []
    given: list[str] = uris.get_values_for_type(x509.UniformResourceIdentifier)
    return [uri.removeprefix(IDENTITY_PREFIX) for uri in given if uri.startswith(IDENTITY_PREFIX)]


def clocks(config: NodeConfig, member: str) -> Iterator[Finding]:
    """How far the clocks of a running cluster are from this one's; `member`: an admin address.

    A node tells the number of its start, which is not below its clock's seconds then, and how long
    ago that was; so each clock is known to a second or two.
    """
    files = config.certificates
    is_near = is_loopback(split_address(member)[0])
    tls = None if files is None or is_near else TlsFiles(
        files.authority, files.certificate, files.key
    )  # fmt: skip
    try:
        with asking(Endpoint(member, _PATIENCE_S, tls)) as asker:
            before = time.time()
            reply = asker.ask(asker.stub.Members, pb.MembersRequest())
            now = (before + time.time()) / 2
    except CommandError as wrong:
        yield warning("clock", f"the members were not asked: {wrong.sentence}", "see --member")
        return
    for each in reply.members:
        if each.HasField("figures"):
            yield apart(each.node, each.incarnation + each.figures.uptime_ms / 1_000 - now)


def apart(node: str, seconds: float) -> Finding:
    """What to say of a clock that is so many seconds ahead."""
    if abs(seconds) <= _APART_S:
        return ok("clock", f"{node}: its clock and this one are within {_APART_S:g} s")
    which = "ahead of" if seconds > 0 else "behind"
    more = ", or it was started more often than once a second" if seconds > 0 else ""
    return warning(
        "clock", f"{node}: its clock is {_span(abs(seconds))} {which} this one{more}",
        "set both by NTP",
    )  # fmt: skip


def _span(seconds: float) -> str:
    return str(datetime.timedelta(seconds=round(seconds)))
