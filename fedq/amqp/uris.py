"""AMQP URIs as RabbitMQ has them: where a client connects, and as whom.

Input: a text that anybody may have written. Output: an `AmqpUri`, or a sentence that says what is
wrong with it and holds nothing of a password. A URI names no file: parameters of RabbitMQ's that
do (`cacertfile`, `certfile`, `keyfile`) are refused. One without a host is local: it leads to the
cluster whose node reads it.
"""

import re
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from fedq.core.limits import NAME_BYTES_MAX

URI_BYTES_MAX: Final = 2_048
#: What stands for a password where URIs are shown.
HIDDEN: Final = "***"
_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_HOST_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-_:")
_FILES: Final = ("cacertfile", "certfile", "keyfile", "password")
_NUMBERS: Final = ("heartbeat", "connection_timeout", "channel_max")
_VERIFY: Final = ("verify_none", "verify_peer")
_NUMBER_MAX: Final = 1 << 31
_IN_BRACKETS: Final = re.compile(r"\[([0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)\](:[0-9]*)?")
_AFTER_PLACE: Final = re.compile(r"[/?#]")
_NO_HOST: Final = "the host of a URI is no name and no address"


class AmqpUri(NamedTuple):
    """Where a URI leads."""

    #: By TLS.
    is_secure: bool
    #: "": the cluster whose node reads it.
    host: str
    port: int
    #: "": it names none.
    user: str
    password: str
    vhost: str
    #: Whether the certificate of the other end is verified; of `amqps` alone.
    is_verified: bool
    #: The name that the certificate has to have; "": that of the host.
    server_name: str

    @property
    def shown(self) -> str:
        """The URI without user and password, as it may stand in answers and logs."""
        return f"{self._scheme}://{self._place}/{quote(self.vhost, safe='')}"

    @property
    def masked(self) -> str:
        """The URI with its user, and something else for its password."""
        login = f"{quote(self.user, safe='')}:{HIDDEN}@" if self.user else ""
        return f"{self._scheme}://{login}{self._place}/{quote(self.vhost, safe='')}"

    @property
    def _scheme(self) -> str:
        return "amqps" if self.is_secure else "amqp"

    @property
    def _place(self) -> str:
        if not self.host:
            return ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self._scheme] else f"{host}:{self.port}"


def parse_uri(text: object) -> AmqpUri | str:
    """Where a URI leads, or what is wrong with it.

    Without a path the virtual host is `/`, without a user it is `guest`, as in RabbitMQ; a local
    one has to name its user.
    """
    if not isinstance(text, str):
        return "a URI should be text, such as amqp://user:password@host:port/vhost"
    if len(text.encode("utf-8", "surrogateescape")) > URI_BYTES_MAX:
        return f"a URI is longer than {URI_BYTES_MAX} bytes"
    if not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
        return "a URI has letters that have to be escaped: write them as %20 and the like"
    if not _are_brackets_an_address(text):
        return f"{_NO_HOST} (elsewhere write %5B for a [, %5D for a ])"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        # Its words may be a part of a password that has a slash in it.
        return (
            "the port of a URI is no number up to 65535, or its host no address (in a user or "
            "password write %2F for a slash, %40 for an @)"
        )
    if parts.scheme not in _PORTS:
        return "a URI begins with amqp:// or amqps://"
    if parts.fragment:
        return "a URI has no #: write it as %23"
    host = (parts.hostname or "").lower()
    refused = _refuse_host(host, parts.netloc)
    if refused is not None:
        return refused
    if port == 0:
        return "the port of a URI is a number from 1 to 65535"
    return _with_login(text, host, port or _PORTS[parts.scheme], parts.scheme == "amqps")


def _are_brackets_an_address(text: str) -> bool:
    """Whether brackets are around an IPv6 address, and nowhere else.

    Releases of Python differ in what they take in brackets, and maps must not.
    """
    if "[" not in text and "]" not in text:
        return True
    place = _AFTER_PLACE.split(text.partition("://")[2], maxsplit=1)[0].rpartition("@")[2]
    found = _IN_BRACKETS.fullmatch(place)
    is_one = text.count("[") == text.count("]") == 1
    return found is not None and is_one and address_of(found[1]) is not None


def _with_login(text: str, host: str, port: int, is_secure: bool) -> AmqpUri | str:
    parts = urlsplit(text)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not user and password:
        return "a URI has a password and no user"
    if password == HIDDEN:
        return f"{HIDDEN} is shown in place of a password: say the password itself"
    if not user and host:
        user, password = "guest", "guest"
    if not user:
        return (
            "a local URI (without a host) has to name a user of this cluster, as whom the shovel "
            "logs in: amqp://user:password@/vhost"
        )
    vhost = unquote(parts.path[1:]) if parts.path[1:] else "/"
    for what, value in (("user", user), ("virtual host", vhost)):
        if len(value.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
            return f"the {what} of a URI is longer than {NAME_BYTES_MAX} bytes"
    if "\0" in user or "\0" in password:
        return "neither user nor password of a URI have zero bytes"
    said = _query(parts.query)
    if isinstance(said, str):
        return said
    is_verified = said.get("verify", "verify_peer") == "verify_peer"
    name = said.get("server_name_indication", "")
    return AmqpUri(is_secure, host, port, user, password, vhost, is_verified, name)


def _refuse_host(host: str, place: str) -> str | None:
    if not host:
        after = place.rpartition("@")[2]
        return None if after == "" else _NO_HOST
    if len(host) > NAME_BYTES_MAX or not _HOST_LETTERS.issuperset(host):
        return _NO_HOST
    if ":" in host and address_of(host) is None:
        return _NO_HOST
    return None


def _query(text: str) -> dict[str, str] | str:
    """The parameters of a URI, or what is wrong with them."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name in _FILES:
            return (
                f"{name} names a file, or opens one: fedq reads no files for a URI; certificates "
                "are verified with the authorities of the node's host"
            )
        if name in _NUMBERS:
            if not value.isdigit() or not value.isascii() or int(value[:11]) >= _NUMBER_MAX:
                return f"{name} of a URI is no number"
        elif name == "verify":
            if value not in _VERIFY:
                return "verify of a URI is verify_none or verify_peer"
        elif name == "auth_mechanism":
            if value.lower() != "plain":
                return "auth_mechanism of a URI is plain: there is no other"
        elif name == "server_name_indication":
            if not value or len(value) > NAME_BYTES_MAX or not _HOST_LETTERS.issuperset(value):
                return "server_name_indication of a URI is no name"
        else:
            return f"{name[:40]!r} is no parameter of a URI that fedq knows"
        found[name] = value
    return found


def address_of(host: str) -> str | None:
    """The one form of the address that a host is, IPv4 even in IPv6; None: it is no address."""
    try:
        found = ip_address(host)
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(found)


def is_near(host: str) -> bool:
    """Whether a host is, by its address or the name `localhost`, this machine or its link.

    Loopback, link-local (where clouds answer machines about themselves), unspecified, multicast.
    """
    if host == "localhost" or host.endswith(".localhost"):
        return True
    known = address_of(host)
    if known is None:
        return False
    address = ip_address(known)
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or address.is_multicast
    )


def with_vhost(text: str, vhost: str) -> str:
    """A URI that was parsed before, for another virtual host."""
    return urlsplit(text)._replace(path=f"/{quote(vhost, safe='')}").geturl()


def local_uri(user: str, password: str, vhost: str) -> str:
    """The local URI of a user."""
    return f"amqp://{quote(user, safe='')}:{quote(password, safe='')}@/{quote(vhost, safe='')}"
