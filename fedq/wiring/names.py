"""Names of server-named queues: they carry their node's id, so replies find it without the map.

`amq.gen-<node>.<number>-<salt>`; for direct replies `amq.rabbitmq.reply-to.<node>.<number>-<salt>`.
A node id may itself hold dots; number and salt never do. The salt (say, random bits) keeps names of
earlier processes from coming back, and from being guessed.
"""

from typing import Final

from fedq.core import limits
from fedq.core.ids import NodeId

PREFIX: Final = "amq.gen-"
REPLY_PREFIX: Final = "amq.rabbitmq.reply-to."


def server_name(node: NodeId, number: int, salt: int) -> str:
    """The name of the node's `number`-th server-named queue."""
    return _name(PREFIX, node, number, salt)


def reply_name(node: NodeId, number: int, salt: int) -> str:
    """The name under which a channel of the node gets direct replies."""
    return _name(REPLY_PREFIX, node, number, salt)


def _name(prefix: str, node: NodeId, number: int, salt: int) -> str:
    assert number >= 0
    assert salt >= 0
    name = f"{prefix}{node}.{number:x}-{salt:x}"
    assert len(name.encode()) <= limits.name_bytes_max, "node ids must be shorter"
    return name


def node_of(name: str) -> NodeId | None:
    """The node that made this name; None if no node did. It need not be a member (any more)."""
    prefix = next((p for p in (PREFIX, REPLY_PREFIX) if name.startswith(p)), None)
    if prefix is None:
        return None
    node, dot, rest = name[len(prefix) :].rpartition(".")
    number, dash, salt = rest.partition("-")
    if not (node and dot and dash and _is_hexadecimal(number) and _is_hexadecimal(salt)):
        return None
    return NodeId(node)


def _is_hexadecimal(text: str) -> bool:
    return bool(text) and all(digit in "0123456789abcdef" for digit in text)
