"""Looks at files: certificates, secrets, and whose the data directory is. Nothing is changed."""

import datetime
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fedq.cli.doctor.findings import Finding, error, ok, warning
from fedq.core.errors import NodeFailure
from fedq.shell.clients.listeners import client_tls
from fedq.shell.config.certificates import CertificateError, check_node_certificate
from fedq.shell.config.expiry import files_of, warnings_of
from fedq.shell.config.secret_files import open_to_all
from fedq.shell.config.values import ConfigError, NodeConfig
from fedq.shell.disk.stopped_store import StoreError, held
from fedq.shell.identity import ForeignDirectory, IdentityFile

_CERTIFICATES: Final = "certificates"
_DATA: Final = "data directory"


def certificates(config: NodeConfig) -> Iterator[Finding]:
    """Whether each certificate proves what it should, and for how long it does."""
    broken = [*_of_node(config), *_of_listeners(config)]
    yield from broken
    files = files_of(config)
    soon = warnings_of(files, datetime.datetime.now(datetime.UTC))
    if not broken:
        for sentence in soon:
            yield warning(_CERTIFICATES, sentence, "replace it; a running node takes it up itself")
    if not files:
        yield ok(_CERTIFICATES, "none are named, and none are needed on loopback")
    elif not broken and not soon:
        yield ok(_CERTIFICATES, f"{len(files)} files, valid for more than 30 days")


def _of_node(config: NodeConfig) -> Iterator[Finding]:
    if config.certificates is None:
        return
    try:
        check_node_certificate(config.certificates, config.node)
    except CertificateError as wrong:
        yield error(
            _CERTIFICATES, str(wrong), f"make one: fedq certs node {config.node} HOST (on the "
            "machine with the authority's key)",
        )  # fmt: skip


def _of_listeners(config: NodeConfig) -> Iterator[Finding]:
    for key, listener in config.client_listeners:
        if listener.tls is None:
            continue
        try:
            client_tls(config, key, listener.tls)
        except ConfigError as wrong:
            yield error(_CERTIFICATES, str(wrong), f"correct {key}.tls")


def secrets(config: NodeConfig) -> Iterator[Finding]:
    """Whether others on this machine can read what only the node should."""
    found = list(open_to_all(config))
    for sentence in found:
        yield warning("secrets", sentence, "let nobody but the node's user read it")
    if not found:
        yield ok("secrets", "no file with a secret can be read by everybody")


def data_directory(config: NodeConfig) -> Iterator[Finding]:
    """Whether the data directory is this node's, can be written, and is free."""
    data = config.data
    if not data.exists():
        place = nearest(data)
        if not os.access(place, os.W_OK | os.X_OK):
            yield error(
                _DATA, f"{data} is not there, and {place} cannot be written by this user",
                "run this as the node's user; make the directory, and give it to that user",
            )  # fmt: skip
        else:
            yield ok(_DATA, f"{data} is not there yet: the node begins with nothing")
        return
    if not data.is_dir() or not os.access(data, os.R_OK | os.W_OK | os.X_OK):
        yield error(
            _DATA, f"{data} is no directory that this user can write",
            "run this as the node's user, or choose another directory",
        )  # fmt: skip
        return
    yield from _whose(config)
    yield from _in_use(data)


def _whose(config: NodeConfig) -> Iterator[Finding]:
    voters = [*config.peers] or [config.node]
    try:
        IdentityFile(config.data, config.node, voters, joins=bool(config.join), notes_voters=False)
    except ForeignDirectory as wrong:
        yield error(_DATA, str(wrong), f"correct {wrong.key} in the configuration")
    except NodeFailure as wrong:
        yield error(_DATA, str(wrong), "see docs/OPERATING.md, on data directories")
    else:
        yield ok(_DATA, f"{config.data} is that of node {config.node}, or new")


def _in_use(data: Path) -> Iterator[Finding]:
    if not (data / "journal").is_dir():
        return
    try:
        with held(data):
            pass
    except StoreError as wrong:
        yield warning(_DATA, str(wrong), "if that is this node: its ports are taken, too")
    except OSError as wrong:
        yield error(_DATA, f"{data} cannot be read: {wrong.strerror}", "run as the node's user")


def nearest(path: Path) -> Path:
    """The path, or the nearest directory above it that is there."""
    path = path.absolute()
    return next(each for each in (path, *path.parents) if each.is_dir())
