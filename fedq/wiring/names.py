"""Names of server-named queues: they carry their node's id, so replies find it without the map.

`amq.gen-<node>.<number>-<salt>`. A node id may itself hold dots; number and salt never do. The
salt (say, random bits) keeps names of earlier processes from coming back, and from being guessed.
"""

from typing import Final

from fedq.core import limits
from fedq.core.ids import NodeId

PREFIX: Final = "amq.gen-"


def server_name(node: NodeId, number: int, salt: int) -> str:
    """The name of the node's `number`-th server-named queue."""
    assert number >= 0
    assert salt >= 0
    name = f"{PREFIX}{node}.{number:x}-{salt:x}"
    assert len(name.encode()) <= limits.name_bytes_max, "node ids must be shorter"
    return name


def node_of(name: str) -> NodeId | None:
    """The node that made this name; None if no node did. It need not be a member (any more)."""
    if not name.startswith(PREFIX):
        return None
    node, dot, rest = name[len(PREFIX) :].rpartition(".")
    number, dash, salt = rest.partition("-")
    if not (node and dot and dash and _is_hexadecimal(number) and _is_hexadecimal(salt)):
        return None
    return NodeId(node)


def _is_hexadecimal(text: str) -> bool:
    return bool(text) and all(digit in "0123456789abcdef" for digit in text)
