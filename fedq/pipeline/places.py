"""Where pipelines find nodes: urls with users and passwords, and files for TLS.

Input: the text of the option `url`, and what its urls are to look like. Output: a `NodeUrl` for
each node; `OptionError` for what is none. Passwords are in no error.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from fedq.pipeline.failure import OptionError

#: Where a node's admin port is, if nothing else is said.
PORT_DEFAULT: Final = 15_692
PLAIN: Final = "fedq"
SECURE: Final = "fedqs"
#: Urls that one option may name.
URLS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Scheme:
    """What the urls of an option begin with, and where nodes listen if a url does not say it."""

    plain: str
    secure: str
    port: int
    secure_port: int

    @property
    def form(self) -> str:
        """What a url is to look like, for people."""
        return (
            f"{self.plain}://USER:PASSWORD@HOST:PORT, or {self.secure}:// with TLS; several with "
            "commas"
        )


#: The admin ports of nodes.
ADMIN: Final = Scheme(PLAIN, SECURE, PORT_DEFAULT, PORT_DEFAULT)
#: Where AMQP clients go.
AMQP: Final = Scheme("amqp", "amqps", 5672, 5671)


@dataclass(frozen=True, slots=True)
class NodeUrl:
    """A port of a node, and who asks there."""

    host: str
    port: int
    user: str
    password: str
    is_secure: bool

    @property
    def address(self) -> str:
        """As "host:port", for gRPC and for people."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What goes with each call: user and password."""
        pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return (("authorization", f"Basic {pair}"),)

    def __repr__(self) -> str:
        return f"NodeUrl({self.user}@{self.address})"


@dataclass(frozen=True, slots=True)
class TlsPaths:
    """The PEM files of TLS: whom to trust, and what this end shows."""

    authority: str = ""
    certificate: str = ""
    key: str = ""

    def read(self) -> tuple[bytes, bytes, bytes]:
        """What is in the files; raises OptionError for what cannot be read."""
        found: list[bytes] = []
        for option, path in zip(("authority", "certificate", "key"), self.paths, strict=True):
            try:
                found.append(Path(path).read_bytes())
            except OSError as error:
                raise OptionError(
                    f"tls.{option}: {path} cannot be read: {error.strerror}"
                ) from None
        return found[0], found[1], found[2]

    @property
    def paths(self) -> tuple[str, str, str]:
        """All three of them."""
        return self.authority, self.certificate, self.key


def urls_of(text: str, scheme: Scheme = ADMIN) -> tuple[NodeUrl, ...]:
    """The urls of an option, at least one; raises OptionError."""
    urls = tuple(_url_of(part.strip(), scheme) for part in text.split(",") if part.strip())
    if not urls:
        raise OptionError(f"url: say where fedq is: {scheme.form}")
    if len(urls) > URLS_MAX:
        raise OptionError(f"url: {len(urls)} urls: at most {URLS_MAX}")
    if len({url.is_secure for url in urls}) > 1:
        raise OptionError(
            f"url: either all begin with {scheme.plain}://, or all with {scheme.secure}://"
        )
    return urls


def check_tls(urls: Sequence[NodeUrl], tls: TlsPaths) -> None:
    """Raises OptionError unless the files that are named are those that are needed."""
    given = [bool(path) for path in tls.paths]
    if urls[0].is_secure and not all(given):
        raise OptionError(f"{SECURE}:// needs tls.authority, tls.certificate and tls.key")
    if not urls[0].is_secure and any(given):
        raise OptionError(f"tls.… is for {SECURE}://; the urls begin with {PLAIN}://")


def _url_of(text: str, scheme: Scheme) -> NodeUrl:
    refused = OptionError(f"url: a node is written as {scheme.form}")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise refused from None
    if parts.scheme not in (scheme.plain, scheme.secure):
        raise refused
    if not parts.hostname or not parts.username or parts.password is None:
        raise refused
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise refused
    user, password = unquote(parts.username), unquote(parts.password)
    is_secure = parts.scheme == scheme.secure
    if port is None:
        port = scheme.secure_port if is_secure else scheme.port
    return NodeUrl(parts.hostname, port, user, password, is_secure)
