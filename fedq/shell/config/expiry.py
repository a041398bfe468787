"""Certificates that end soon, or have ended: said at the start and daily, before others notice.

In: the PEM files of a configuration. Out: a WARNING for each certificate in them that ends within
30 days. Invariant: nothing is refused here; whether a certificate is good enough, those decide who
are shown it.
"""

import asyncio
import datetime
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cryptography import x509

from fedq.shell.config.values import NodeConfig

WARN_BEFORE: Final = datetime.timedelta(days=30)
_DAY_S: Final = 24 * 60 * 60.0

logger = logging.getLogger(__name__)


def files_of(config: NodeConfig) -> list[Path]:
    """Every certificate file that a node uses, each once."""
    files: dict[Path, None] = {}
    if config.certificates is not None:
        files |= dict.fromkeys((config.certificates.certificate, config.certificates.authority))
    for _, listener in config.client_listeners:
        if listener.tls is not None:
            files[listener.tls.certificate] = None
            if listener.tls.authority is not None:
                files[listener.tls.authority] = None
    return list(files)


def warnings_of(files: Iterable[Path], now: datetime.datetime) -> list[str]:
    """A sentence for each certificate that has ended, ends soon, or cannot be read."""
    found: list[str] = []
    for path in files:
        try:
            certificates = x509.load_pem_x509_certificates(path.read_bytes())
        except (OSError, ValueError) as error:
            found.append(f"the certificate {path} cannot be read: {error}")
            continue
        for each in certificates:
            end = each.not_valid_after_utc
            if end <= now:
                found.append(
                    f"the certificate {path} ended on {end:%Y-%m-%d}: who checks it turns away; "
                    "replace it: a new one is taken up by itself"
                )
            elif end - now <= WARN_BEFORE:
                found.append(
                    f"the certificate {path} ends on {end:%Y-%m-%d}, in {(end - now).days} days: "
                    "replace it: a new one is taken up by itself"
                )
    return found


class ExpiryWatch:
    """Looks for certificates that end soon, now and once a day, until `stop`."""

    __slots__ = ("_files", "_loop", "_next")

    def __init__(self, files: list[Path], loop: asyncio.AbstractEventLoop) -> None:
        self._files = files
        self._loop = loop
        self._next: asyncio.Handle = loop.call_soon(self._look)

    def stop(self) -> None:
        """Stops looking."""
        self._next.cancel()

    def _look(self) -> None:
        for line in warnings_of(self._files, datetime.datetime.now(datetime.UTC)):
            logger.warning("%s", line)
        self._next = self._loop.call_later(_DAY_S, self._look)
