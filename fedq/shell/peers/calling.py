"""The callers at the port of peers: the name that each says and proves, and its introduction.

In: the metadata of a call, and what TLS says of its other end. Out: the introduction, of a caller
whose name is proven (by its certificate, where there are certificates); `UnprovenError` with a
sentence otherwise. Whether such a node is let in is the business of who asks.
"""

from collections.abc import Iterable

import grpc.aio

from fedq.core.ids import NodeId
from fedq.shell.peers.channel import HELLO_METADATA, NODE_METADATA, proven_identities
from fedq.shell.peers.hello import Hello, decode_hello
from fedq.shell.peers.malformed import MalformedFrameError

Context = grpc.aio.ServicerContext[bytes, bytes]


class UnprovenError(Exception):
    """The caller does not say, or prove, who it is; the text says what is wrong."""

    def __init__(self, sentence: str, caller: str) -> None:
        super().__init__(sentence)
        self.caller = caller


def caller_of(context: Context, *, is_secure: bool) -> Hello:
    """The introduction of the caller; raises `UnprovenError`."""
    metadata = context.invocation_metadata() or ()
    name = _proven_name(context, metadata, is_secure)
    introductions = [value for key, value in metadata if key == HELLO_METADATA]
    if len(introductions) != 1 or not isinstance(introductions[0], bytes):
        raise UnprovenError("run the same release of fedq on all nodes", name)
    try:
        hello = decode_hello(bytes(introductions[0]))
    except MalformedFrameError as error:
        raise UnprovenError(str(error), name) from error
    if hello.node != name:
        raise UnprovenError(f"{name!r} introduces itself as {hello.node!r}", name)
    return hello


def _proven_name(
    context: Context, metadata: Iterable[tuple[str, str | bytes]], is_secure: bool
) -> NodeId:
    names = [str(value) for key, value in metadata if key == NODE_METADATA]
    if len(names) != 1:
        raise UnprovenError(f"say who you are in the metadata entry {NODE_METADATA}", "a caller")
    name = names[0]
    if is_secure and name not in proven_identities(context.auth_context()):
        raise UnprovenError(f"your certificate does not speak for {name!r}; make one for it", name)
    return NodeId(name)
