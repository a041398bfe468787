"""New certificates of AMQP listeners, taken up without a restart once their files have changed.

In: the files of each TLS listener, looked at every few seconds (their times and sizes). Out: the
listener's TLS with what is in them, for handshakes from then on, and a log line. Invariant: files
that cannot work together, are half written, or have ended change nothing; a WARNING says so once.
"""

import asyncio
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fedq.shell import listeners
from fedq.shell.node_config import ClientTls, ConfigError, NodeConfig

LOOK_EVERY_S: Final = 10.0

logger = logging.getLogger(__name__)

#: Of each file: when it was changed, and how long it is.
_Stamp = tuple[tuple[int, int], ...]


class Renewable:
    """One listener: the key of its configuration, its files, and the TLS made of them."""

    __slots__ = ("context", "files", "key", "stamp")

    def __init__(self, key: str, files: ClientTls, context: ssl.SSLContext) -> None:
        self.key = key
        self.files = files
        self.context = context
        self.stamp = _stamp(files)


class Renewal:
    """Looks until `stop`."""

    __slots__ = ("_config", "_every_s", "_listeners", "_loop", "_next")

    def __init__(
        self, config: NodeConfig, renewables: Sequence[Renewable], every_s: float = LOOK_EVERY_S
    ) -> None:
        self._config = config
        self._listeners = renewables
        self._every_s = every_s
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_later(every_s, self._look)

    def stop(self) -> None:
        """Looks no more."""
        self._next.cancel()

    def _look(self) -> None:
        self._next = self._loop.call_later(self._every_s, self._look)
        for listener in self._listeners:
            stamp = _stamp(listener.files)
            if stamp != listener.stamp:
                listener.stamp = stamp
                self._renew(listener)

    def _renew(self, listener: Renewable) -> None:
        config, key, files = self._config, listener.key, listener.files
        try:
            # On trial first: a context that has half of it would serve nobody.
            listeners.client_tls(config, key, files)
            listeners.load(listener.context, config, key, files)
        except ConfigError as error:
            logger.warning("the changed certificate is not taken up: %s", error)
            return
        logger.info("%s: clients are shown the new certificate %s", key, files.certificate)


def _stamp(files: ClientTls) -> _Stamp:
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
