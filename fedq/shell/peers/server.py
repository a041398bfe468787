"""The accepting end of the streams between nodes: takes in what other nodes send.

In: calls of the Peer service. Out: the node's `on_peer` through `Turn.input`, and frames for the
Raft log. Invariants: only a node of the cluster that has proven its name (by its certificate, when
there are certificates), and whose settings and process are let in (`fedq.shell.peers.desk`),
reaches a decoder; of each peer at most one stream of a kind is listened to, the newest; bytes that
are no frame end the stream with INVALID_ARGUMENT.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Container
from typing import NamedTuple, NoReturn, Protocol

import grpc
import grpc.aio

from fedq.core.ids import NodeId
from fedq.core.peer_messages import PeerFrame
from fedq.shell.log_lines.rare_lines import RareLines
from fedq.shell.peers.calling import Context, UnprovenError, caller_of
from fedq.shell.peers.channel import SERVICE
from fedq.shell.peers.codec import decode_raft
from fedq.shell.peers.desk import PeerDesk, Refusal
from fedq.shell.peers.hello import Hello, encode_hello
from fedq.shell.peers.malformed import MalformedFrameError
from fedq.shell.peers.reader import FrameReader

logger = logging.getLogger(__name__)


class PeerInputs(Protocol):
    """What the server calls of a node."""

    def on_peer(self, frame: PeerFrame) -> None:
        """Takes a frame from a peer whose name is proven."""


class Feed(Protocol):
    """`Turn.input`, as far as it is needed here."""

    def __call__(self, method: Callable[..., None], *args: object) -> None:
        """Calls a method of the node inside the turn at hand."""


class PeerSink(NamedTuple):
    """The places where what peers send goes."""

    node: PeerInputs
    feed: Feed
    #: A frame of the Raft log.
    receive_raft: Callable[[NodeId, bytes], None]


class PeerServer:
    """The Peer service of one node, to be added to a gRPC server."""

    __slots__ = (
        "_desk",
        "_endings",
        "_is_secure",
        "_node_id",
        "_peers",
        "_rare",
        "_readers",
        "_said",
        "_sink",
        "_streams",
    )

    def __init__(
        self, desk: PeerDesk, peers: Container[NodeId], sink: PeerSink, *, is_secure: bool
    ) -> None:
        """`peers`: the other nodes, as they are at any time.

        `is_secure`: callers have certificates, and must be who they prove to be.
        """
        self._desk = desk
        self._node_id = desk.hello.node
        self._peers = peers
        self._sink = sink
        self._is_secure = is_secure
        #: The newest stream of each kind and peer.
        self._streams: dict[tuple[str, NodeId], Context] = {}
        #: Of the links that are listened to.
        self._readers: dict[FrameReader, None] = {}
        self._endings: dict[asyncio.Task[None], None] = {}
        #: The last sentence with which each peer was turned away.
        self._said: dict[NodeId, str] = {}
        #: The lines about calls that are refused, which anybody may cause.
        self._rare = RareLines(logger, asyncio.get_running_loop().time)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Registers with `server`, which must not have been started yet."""
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "Link": grpc.stream_stream_rpc_method_handler(self._link),
            "Raft": grpc.stream_stream_rpc_method_handler(self._raft),
        }
        handler = grpc.method_handlers_generic_handler(SERVICE, handlers)
        server.add_generic_rpc_handlers((handler,))

    def bytes_begun(self) -> int:
        """The bytes that have come of frames that are not complete."""
        return sum(reader.bytes_begun for reader in self._readers)

    async def _link(self, _: object, context: Context) -> None:
        reader = FrameReader()
        self._readers[reader] = None

        def take(peer: NodeId, data: bytes) -> None:
            frame = reader.take(data)
            if frame is None:
                return
            if frame.sender != peer:
                raise MalformedFrameError(f"a frame of {frame.sender} in the stream of {peer}")
            self._sink.feed(self._sink.node.on_peer, frame)

        try:
            await self._listen("link", context, take)
        finally:
            del self._readers[reader]

    async def _raft(self, _: object, context: Context) -> None:
        def take(peer: NodeId, data: bytes) -> None:
            self._sink.receive_raft(peer, decode_raft(data))

        await self._listen("raft", context, take)

    async def _listen(
        self, kind: str, context: Context, take: Callable[[NodeId, bytes], None]
    ) -> None:
        hello = await self._admit(context)
        peer, process = hello.node, hello.process
        older = self._streams.get((kind, peer))
        self._streams[kind, peer] = context
        if older is not None:
            self._begin_to_end(older, "the peer dialed again")
        try:
            await context.write(encode_hello(self._desk.answer_to(hello)))
            while isinstance(data := await context.read(), bytes):
                if self._streams.get((kind, peer)) is not context:
                    # Whatever still comes from a stream that was replaced comes too late.
                    return
                if not self._desk.heard(peer, process):
                    return
                take(peer, data)
        except MalformedFrameError as error:
            self._rare.warn("closing the %s stream of %s: %s", kind, peer, error)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            if self._streams.get((kind, peer)) is context:
                del self._streams[kind, peer]

    def _on_ended(self, ending: asyncio.Task[None]) -> None:
        """Takes the end of an older stream that was told to end, or has ended by itself."""
        del self._endings[ending]
        if not ending.cancelled() and (error := ending.exception()) is not None:
            logger.info("an older stream of a peer has ended by itself: %s", _why_not_ended(error))

    async def _admit(self, context: Context) -> Hello:
        """Lets a caller in, by its proven name; aborts the call otherwise."""
        try:
            hello = caller_of(context, is_secure=self._is_secure)
        except UnprovenError as error:
            await self._refuse(context, str(error), error.caller)
        peer = hello.node
        elsewhere = self._desk.note_cluster(hello)
        if peer not in self._peers or peer == self._node_id:
            gone = self._desk.forgotten(peer)
            if gone is not None:
                await context.abort(grpc.StatusCode.NOT_FOUND, gone)
            stranger = (
                f"{peer!r} is no peer of {self._node_id}; name it under `peers` in its file, or "
                "let it join the cluster"
            )
            await self._refuse(context, elsewhere or stranger, peer)
        misplaced = self._desk.misplaced(hello)
        if misplaced is not None:
            # It was forgotten, and another one of its name was let in.
            self._rare.warn("refused %r at %s: %s", peer, context.peer(), misplaced)
            await context.abort(grpc.StatusCode.NOT_FOUND, misplaced)
        refusal = self._desk.judge(hello)
        if refusal is not None:
            await self._turn_away(context, refusal, peer)
        return hello

    def drop(self, peer: NodeId) -> None:
        """Ends what a node still sends that is no peer any more."""
        for kind in ("link", "raft"):
            stream = self._streams.pop((kind, peer), None)
            if stream is not None:
                self._begin_to_end(stream, "this node is of the cluster no more")

    def _begin_to_end(self, stream: Context, reason: str) -> None:
        """Ends a stream; not awaited: one whose host is silent may take its time to end."""
        ending = asyncio.create_task(_end(stream, reason))
        self._endings[ending] = None
        ending.add_done_callback(self._on_ended)

    async def _turn_away(self, context: Context, refusal: Refusal, caller: NodeId) -> NoReturn:
        """Aborts a call that has to wait, to be corrected, or to end."""
        code = grpc.StatusCode.UNAVAILABLE
        if refusal.is_final:
            code = grpc.StatusCode.ALREADY_EXISTS
        elif refusal.is_lasting:
            code = grpc.StatusCode.FAILED_PRECONDITION
        # It tries again and again: once is enough.
        if code is not grpc.StatusCode.UNAVAILABLE and refusal.sentence != self._said.get(caller):
            self._said[caller] = refusal.sentence
            self._rare.error("refused %r at %s: %s", caller, context.peer(), refusal.sentence)
        await context.abort(code, refusal.sentence)
        raise AssertionError("a call goes on that was aborted")

    async def _refuse(self, context: Context, text: str, caller: str) -> NoReturn:
        self._rare.warn("refused %r at %s: %s", caller[:255], context.peer(), text)
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, text)
        raise AssertionError("a call goes on that was aborted")


def _why_not_ended(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


async def _end(stream: Context, reason: str) -> None:
    """Ends a stream that another handler reads."""
    if not stream.done():
        # `abort` ends the stream, and then the handler that called it; that is not this one.
        with contextlib.suppress(grpc.aio.AbortError):
            await stream.abort(grpc.StatusCode.ABORTED, reason)
