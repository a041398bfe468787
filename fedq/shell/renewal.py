"""New certificates, taken up without a restart once their files have changed.

In: the files of each TLS listener, and those for peers and the admin port, looked at every few
seconds (their times and sizes). Out: what is in them is in use from then on, for handshakes and
dials that begin, and a log line. Invariant: files that cannot work together, are half written, or
have ended change nothing; a WARNING says so once.
"""

import asyncio
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from fedq.shell.clients import listeners
from fedq.shell.config.certificates import CertificateError
from fedq.shell.config.values import CertificateFiles, ClientTls, ConfigError, NodeConfig
from fedq.shell.peers.certificates import NodeCertificates

LOOK_EVERY_S: Final = 10.0

logger = logging.getLogger(__name__)

#: Of each file: when it was changed, and how long it is.
_Stamp = tuple[tuple[int, int], ...]


class Renewable(Protocol):
    """Files that are in use."""

    files: CertificateFiles | ClientTls

    def take_up(self, config: NodeConfig) -> str:
        """Takes up what is in the files now, and says who is shown it; raises `ConfigError`."""


class RenewableListener:
    """One listener: the key of its configuration, its files, and the TLS made of them."""

    __slots__ = ("_files", "context", "files", "key")

    def __init__(self, key: str, files: ClientTls, context: ssl.SSLContext) -> None:
        self.key = key
        self.files: CertificateFiles | ClientTls = files
        self._files = files
        self.context = context

    def take_up(self, config: NodeConfig) -> str:
        """Takes up the listener's certificates; raises `ConfigError`."""
        # On trial first: a context that has half of it would serve nobody.
        listeners.client_tls(config, self.key, self._files)
        listeners.load(self.context, config, self.key, self._files)
        return f"{self.key}: clients are"


class RenewableNode:
    """What peers and administrators are shown."""

    __slots__ = ("_certificates", "files")

    def __init__(self, files: CertificateFiles, certificates: NodeCertificates) -> None:
        self.files: CertificateFiles | ClientTls = files
        self._certificates = certificates

    def take_up(self, config: NodeConfig) -> str:
        """Takes up the node's certificates; raises `ConfigError`."""
        try:
            self._certificates.renew(config.node)
        except CertificateError as error:
            raise config.error("certificates", str(error)) from error
        return "certificates: peers and the admin port's callers are"


class Renewal:
    """Looks for files that have changed, until `stop`."""

    __slots__ = ("_config", "_every_s", "_loop", "_next", "_stamps")

    def __init__(
        self, config: NodeConfig, renewables: Sequence[Renewable], every_s: float = LOOK_EVERY_S
    ) -> None:
        self._config = config
        self._stamps = [(each, _stamp(each.files)) for each in renewables]
        self._every_s = every_s
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_later(every_s, self._look)

    def stop(self) -> None:
        """Stops looking."""
        self._next.cancel()

    def _look(self) -> None:
        self._next = self._loop.call_later(self._every_s, self._look)
        for index, (each, before) in enumerate(self._stamps):
            stamp = _stamp(each.files)
            if stamp != before:
                self._stamps[index] = (each, stamp)
                self._renew(each)

    def _renew(self, each: Renewable) -> None:
        try:
            who = each.take_up(self._config)
        except ConfigError as error:
            logger.warning("the changed certificate is not taken up: %s", error)
            return
        logger.info("%s shown the new certificate %s", who, each.files.certificate)


def _stamp(files: CertificateFiles | ClientTls) -> _Stamp:
    return tuple(_stamp_of(each) for each in (files.certificate, files.key, files.authority))


def _stamp_of(path: Path | None) -> tuple[int, int]:
    if path is None:
        return (0, 0)
    try:
        found = path.stat()
    except OSError:
        # It is being replaced, or gone: either way another one is there later.
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
