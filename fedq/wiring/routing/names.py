"""Names of server-named queues: they carry their node's id, so replies find it without the map.

`amq.gen-<node>-<number>-<salt>`, of letters, digits, `-` and `_` alone, as clients expect: other
bytes of a node id stand as `_` and two hexadecimal digits. Earlier versions made names
`amq.gen-<node>.<number>-<salt>`, and direct replies still have the like:
`amq.rabbitmq.reply-to.<node>.<number>-<salt>`.
Number and salt are hexadecimal. The salt (say, random bits) keeps names of earlier processes from
coming back, and from being guessed.
"""

import re
from typing import Final

from fedq.core import limits
from fedq.core.ids import NodeId

PREFIX: Final = "amq.gen-"
REPLY_PREFIX: Final = "amq.rabbitmq.reply-to."
_ODD: Final = re.compile(rb"[^A-Za-z0-9-]")
_ESCAPED: Final = re.compile(rb"_([0-9a-f]{2})")


def server_name(node: NodeId, number: int, salt: int) -> str:
    """The name of the node's `number`-th server-named queue."""
    return _name(f"{PREFIX}{_escaped(node)}-", number, salt)


def reply_name(node: NodeId, number: int, salt: int) -> str:
    """The name under which a channel of the node gets direct replies."""
    return _name(f"{REPLY_PREFIX}{node}.", number, salt)


def _name(prefix: str, number: int, salt: int) -> str:
    assert number >= 0
    assert salt >= 0
    name = f"{prefix}{number:x}-{salt:x}"
    assert len(name.encode()) <= limits.NAME_BYTES_MAX, "node ids must be shorter"
    return name


def node_of(name: str) -> NodeId | None:
    """The node that made this name; None if no node did. It need not be a member (any more)."""
    prefix = next((p for p in (PREFIX, REPLY_PREFIX) if name.startswith(p)), None)
    if prefix is None:
        return None
    front, _, salt = name[len(prefix) :].rpartition("-")
    with_dot = "." in front
    node, _, number = front.rpartition("." if with_dot else "-")
    if not (node and _is_hexadecimal(number) and _is_hexadecimal(salt)):
        return None
    return NodeId(node) if with_dot else _unescaped(node)


def _escaped(node: NodeId) -> str:
    return _ODD.sub(lambda found: b"_%02x" % found[0][0], node.encode()).decode()


def _unescaped(text: str) -> NodeId | None:
    """The node id of an escaped text; None if there is none."""
    try:
        node = NodeId(
            _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), text.encode()).decode()
        )
    except UnicodeError:
        return None
    return node if _escaped(node) == text else None


def _is_hexadecimal(text: str) -> bool:
    return bool(text) and all(digit in "0123456789abcdef" for digit in text)
