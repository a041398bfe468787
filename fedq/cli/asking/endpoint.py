"""Which node a command asks, and how it talks to it.

In: the shared options. Out: an `Endpoint`, or a `CommandError` (exit code 2) that says which option
is wrong.
"""

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc

from fedq.cli.terminal import options
from fedq.cli.terminal.failure import USAGE, CommandError
from fedq.core.addresses import split_address
from fedq.shell.config import admin_token
from fedq.shell.config import file as config_file
from fedq.shell.config.values import (
    ConfigError,
    NodeConfig,
    is_loopback,
    is_wildcard,
    join_address,
)

#: The environment variable that holds a token; not an option, which others could see.
TOKEN_VARIABLE: Final = "FEDQ_TOKEN"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The PEM files of TLS; `certificate` and `key` go together, and are None if none is shown."""

    authority: Path
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An admin service: "host:port", how long to wait for it, TLS or not."""

    address: str
    timeout_s: float
    tls: TlsFiles | None = None
    #: Whom to ask instead if nobody is reached there, in order.
    others: tuple[str, ...] = ()
    #: The asked node's data directory, if it is known.
    data: Path | None = None

    def token(self) -> str:
        """The token that opens the admin port of a node on this machine; "" if there is none."""
        host, port = self.host_and_port
        if self.tls is not None or not is_loopback(host):
            return ""
        if given := os.environ.get(TOKEN_VARIABLE, ""):
            return given
        if self.data is None:
            return admin_token.find(port)
        try:
            return admin_token.read(self.data)
        except OSError as error:
            raise CommandError(
                f"{self.data / admin_token.TOKEN_NAME} cannot be read: {error.strerror}; run this "
                "as the user that runs the node",
                USAGE,
            ) from error

    @property
    def host_and_port(self) -> tuple[str, int]:
        """The address in two parts."""
        return split_address(self.address)

    def credentials(self) -> grpc.ChannelCredentials | None:
        """The credentials to talk TLS with; None: no TLS."""
        if self.tls is None:
            return None
        return grpc.ssl_channel_credentials(
            _read("--ca", self.tls.authority),
            None if self.tls.key is None else _read("--key", self.tls.key),
            None if self.tls.certificate is None else _read("--cert", self.tls.certificate),
        )


def choose(
    node: options.NodeOption = None,
    config: options.ConfigOption = None,
    ca: options.AuthorityOption = None,
    cert: options.CertificateOption = None,
    key: options.KeyOption = None,
    timeout: options.TimeoutOption = 5.0,
    data: options.DataOption = None,
) -> Endpoint:
    """The endpoint that the options mean; what is said explicitly wins over the configuration."""
    if (cert is None) != (key is None):
        raise CommandError("--cert and --key go together; give both", USAGE)
    if cert is not None and ca is None and config is None:
        raise CommandError("--cert needs --ca, the certificate of the cluster's authority", USAGE)
    address, tls = options.DEFAULT_NODE, None
    if config is not None:
        address, tls, of_node = _of_configuration(config)
        data = data or (None if node else of_node)
    if ca is not None:
        tls = TlsFiles(ca)
    if cert is not None and tls is not None:
        tls = TlsFiles(tls.authority, cert, key)
    addresses = [each.strip() for each in (node or address).split(",")]
    try:
        for each in addresses:
            split_address(each)
    except ValueError as error:
        raise CommandError(f"--node: {error}", USAGE) from error
    return Endpoint(addresses[0], timeout, tls, tuple(addresses[1:]), data)


def asking_a_node(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of `choose` after its own, and the `Endpoint` they mean first."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    shared = list(inspect.signature(choose, eval_str=True).parameters.values())

    def chosen(**given: object) -> None:
        # Typer has checked each value against the annotations that both lists share.
        meant: dict[str, Any] = {one.name: given.pop(one.name) for one in shared}
        command(choose(**meant), **given)

    chosen.__name__, chosen.__doc__ = command.__name__, command.__doc__
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own + shared]
    chosen.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    chosen.__annotations__ = {one.name: one.annotation for one in parameters}
    return chosen


def load_configuration(path: Path | None) -> NodeConfig:
    """A node's configuration; its errors are the command's (exit code 2)."""
    try:
        return config_file.load(path)
    except ConfigError as error:
        raise CommandError(str(error), USAGE) from error


def admin_address(config: NodeConfig) -> str:
    """Where this machine reaches the admin service of a node with that configuration."""
    assert config.admin is not None
    host = "127.0.0.1" if is_wildcard(config.admin.host) else config.admin.host
    return join_address(host, config.admin.port)


def _of_configuration(path: Path) -> tuple[str, TlsFiles | None, Path]:
    config = load_configuration(path)
    if config.admin is None:
        raise CommandError(
            f"{path}: the node has no admin listener; add `admin` or name another node", USAGE
        )
    files = config.certificates
    # As the node itself does: on loopback nobody is asked for a certificate.
    if files is None or is_loopback(config.admin.host):
        return admin_address(config), None, config.data
    tls = TlsFiles(files.authority, files.certificate, files.key)
    return admin_address(config), tls, config.data


def _read(option: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CommandError(f"{option}: {path} cannot be read: {error.strerror}", USAGE) from error
