"""Addresses, "host:port", and names of nodes: what is one, wherever it comes from.

In: text of a configuration, of another node, or of the map. Out: its parts, or a sentence about
what is wrong. What passes here may be dialled: a resolver takes it for a name, if not for one that
it knows.
"""

import ipaddress
import re
from typing import Final

#: A node's name, which is a file's name and a label of metrics, too.
NODE_NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
#: A host name's longest form, in bytes (RFC 1035).
_HOST_BYTES_MAX: Final = 253

_NODE_NAME: Final = re.compile(NODE_NAME_PATTERN)
#: Resolvers take underscores, and names of containers have them.
_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")


def is_node_name(text: str) -> bool:
    """Whether a node may have this name."""
    return _NODE_NAME.match(text) is not None and not text.endswith("\n")


def split_address(address: str) -> tuple[str, int]:
    """(host, port) of "host:port" or "[v6 host]:port"; raises `ValueError` with a sentence."""
    host, colon, digits = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{_shown(address)} is ambiguous; write an IPv6 address as [address]:port")
    if not colon or not host or not digits.isascii() or not digits.isdigit():
        raise ValueError(f"{_shown(address)} is no address; write host:port")
    if len(digits) > len("65535") or not 0 < int(digits) <= 65_535:
        raise ValueError(f"{digits[:9]} is no port; give a number from 1 to 65535")
    if not _is_host(host):
        raise ValueError(f"{_shown(address)} is no address: {_shown(host)} is no name of a host")
    return host, int(digits)


def is_address(text: str) -> bool:
    """Whether it is an address that may be dialled."""
    try:
        split_address(text)
    except ValueError:
        return False
    return True


def _is_host(host: str) -> bool:
    if ":" in host:
        try:
            return ipaddress.ip_address(host).version == 6
        except ValueError:
            return False
    labels = host.removesuffix(".").split(".")
    return len(host) <= _HOST_BYTES_MAX and all(map(_LABEL.fullmatch, labels))


def _shown(text: str) -> str:
    """Whatever somebody sent, as a part of a sentence."""
    return repr(text if len(text) <= 80 else f"{text[:80]}...")
