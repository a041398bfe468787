"""Questions of members to each other, with proof of both names (docs/adr/0045).

In: calls of one member to another's port of peers, where there are certificates. Out: the same
calls, answered only to a node of the cluster whose certificate speaks for the name that it says,
and believed only with a signature made for that one call, as on `fedq.shell.peers.stream`.

Invariants: what does not prove its name gets UNAUTHENTICATED, and no handler sees it; an answer
without a proof is thrown away before anybody reads it.
"""

from collections.abc import Awaitable, Callable, Collection, Container
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio

from fedq.core.ids import NodeId
from fedq.shell.config.admin_token import NOT_HERE, refusal
from fedq.shell.peers.certificates import NodeCertificates
from fedq.shell.peers.channel import HELLO_METADATA, SERVICE, open_channel, proven_identities
from fedq.shell.peers.desk import PeerDesk
from fedq.shell.peers.hello import Hello, decode_hello, encode_hello
from fedq.shell.peers.malformed import MalformedFrameError

Metadata: TypeAlias = "Collection[tuple[str, str | bytes]]"
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]]"
_Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

_UNPROVEN: Final = "only a member that proves its name is answered here: ask the admin port"


def _introduction(metadata: Metadata) -> Hello | None:
    """The introduction that came with a call or an answer; None: none that can be read."""
    found = [value for key, value in metadata if key == HELLO_METADATA]
    if len(found) != 1 or not isinstance(found[0], bytes):
        return None
    try:
        return decode_hello(found[0])
    except MalformedFrameError:
        return None


class ProofGuard(grpc.aio.ServerInterceptor):
    """The answering end: lets pass what members ask, once they have proven who they are.

    The streams of the Peer service see to that themselves.
    """

    def __init__(self, desk: PeerDesk, peers: Container[NodeId], methods: Collection[str]) -> None:
        """`peers`: the other nodes, as they are at any time.

        `methods`: what members ask each other, by "/service/method".
        """
        self._desk = desk
        self._peers = peers
        self._methods = methods
        self._prefix = f"/{SERVICE}/"

    async def intercept_service(
        self, continuation: _Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> "_Handler | None":
        """Finds the handler of a call, or one that refuses it."""
        method = handler_call_details.method
        if method.startswith(self._prefix):
            return await continuation(handler_call_details)
        if method not in self._methods:
            return refusal(NOT_HERE)
        caller = _introduction(handler_call_details.invocation_metadata or ())
        handler = await continuation(handler_call_details)
        answer = None if handler is None else handler.unary_unary
        if handler is None or answer is None or caller is None or caller.node not in self._peers:
            return refusal(_UNPROVEN)
        return grpc.unary_unary_rpc_method_handler(
            self._proven(caller, answer),
            handler.request_deserializer,
            handler.response_serializer,
        )

    def _proven(self, caller: Hello, answer: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        async def prove_and_answer(request: Any, context: _Context) -> Any:
            if caller.node not in proven_identities(context.auth_context()):
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, _UNPROVEN)
            mine = self._desk.answer_to(caller)._replace(agreed={})
            await context.send_initial_metadata(((HELLO_METADATA, encode_hello(mine)),))
            return await answer(request, context)

        return prove_and_answer


class AskingPeer(grpc.aio.UnaryUnaryClientInterceptor):
    """The asking end: says who asks, and believes nobody but the one who is asked."""

    def __init__(self, desk: PeerDesk, peer: NodeId) -> None:
        self._desk = desk
        self._peer = peer

    async def intercept_unary_unary(
        self,
        continuation: Callable[..., Awaitable[Any]],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        """Makes the call; raises `AioRpcError` (UNAUTHENTICATED) when the answer proves nothing."""
        mine = self._desk.asking()._replace(agreed={})
        metadata = grpc.aio.Metadata(*(client_call_details.metadata or ()))
        metadata.add(HELLO_METADATA, encode_hello(mine))
        given = client_call_details
        details = grpc.aio.ClientCallDetails(
            given.method, given.timeout, metadata, given.credentials, given.wait_for_ready
        )
        call = await continuation(details, request)
        said: Any = await call.initial_metadata()
        answer = _introduction(tuple(said or ()))
        if answer is None and await call.code() is not grpc.StatusCode.OK:
            # How it failed says more than its missing introduction.
            return call
        # Whatever it says of itself is in what has to be signed.
        doubt = self._desk.doubt(mine, answer or mine, self._peer)
        if doubt is None:
            return call
        call.cancel()
        raise grpc.aio.AioRpcError(
            grpc.StatusCode.UNAUTHENTICATED, grpc.aio.Metadata(), grpc.aio.Metadata(), doubt
        )


def channel_for_questions(
    certificates: NodeCertificates | None, desk: PeerDesk, peer: NodeId, address: str
) -> grpc.aio.Channel:
    """A channel to the other member, on which both ends prove their names if they can."""
    if certificates is None:
        return open_channel(address, None)
    return certificates.open_channel(address, [AskingPeer(desk, peer)])
