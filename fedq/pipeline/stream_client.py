"""Reads streams from fedq's nodes (protos/streams.proto): where they are, and ranges of them.

Inputs: urls, a stream, spans. Outputs: the states of fragments; chunks of a span, in order,
complete, each row once. What breaks on the way is begun again at the next offset that did not come,
at whoever leads the fragment by then, until nothing has come for the time that was given.
`PipelineError` says in a sentence what cannot be done. Blocks; a client belongs to one thread.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self, TypeVar

import grpc

from fedq.pipeline.failure import DataLossError, PipelineError
from fedq.pipeline.patience import Patience
from fedq.pipeline.places import NodeUrl, TlsPaths
from fedq.pipeline.planning import FragmentState, Span
from fedq.pipeline.pushdown import ALL_ROUTES, Routes
from fedq.shell.pb import streams_pb2 as pb
from fedq.shell.pb import streams_pb2_grpc

#: How long a node may take to say where a stream is.
_DESCRIBE_S: Final = 10.0
#: Goes with what a node refuses; without it the way to the node is broken.
_REFUSED: Final = "fedq-refusal"
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    # A host that is silently gone is noticed.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
#: Refusals that may be over soon.
_PASSING: Final = (
    grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.DEADLINE_EXCEEDED,
)  # fmt: skip
#: What a broken way to a node may look like.
_BROKEN: Final = (
    *_PASSING, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED,
    # More calls than a server takes at a time.
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)  # fmt: skip

logger = logging.getLogger(__name__)


class _Piece(Protocol):
    data: bytes
    data_bytes: int


Piece = TypeVar("Piece", bound=_Piece)


class ReadChunk(NamedTuple):
    """Messages of a fragment, in order, as nodes keep them."""

    fragment: int
    #: Their offsets, in ascending ranges.
    ranges: list[tuple[int, int]]
    #: From which offset on messages came at which time at the latest, in Unix milliseconds; None:
    #: nobody knows.
    times: list[tuple[int, int]] | None
    #: Four bytes for each, big-endian; and the messages, one behind the other.
    lengths: bytes
    data: bytes


class Stream(NamedTuple):
    """Which stream is read, and how."""

    vhost: str
    name: str
    fails_on_loss: bool = True
    #: 0: the node's default.
    chunk_bytes: int = 0
    retry_s: float = 60.0
    #: Messages of other routes may be left out by nodes that can.
    routes: Routes = ALL_ROUTES


class StreamClient:
    """Reads one stream from the nodes at some urls."""

    def __init__(self, urls: Sequence[NodeUrl], tls: TlsPaths, stream: Stream) -> None:
        self._urls = list(urls)
        self._tls = tls
        self._stream = stream
        self._channels: dict[NodeUrl, grpc.Channel] = {}
        #: Which node answers where, as far as any has said so.
        self.places: dict[str, NodeUrl] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        while self._channels:
            self._channels.popitem()[1].close()

    # --- where it is ------------------------------------------------------------------------------

    def describe(self, times: Sequence[int] = ()) -> list[FragmentState]:
        """What is there of each fragment; waits for those that nobody serves at present."""
        patience = Patience(self._stream.retry_s)
        while True:
            states, missing = self._describe(times)
            if not missing:
                return states
            patience.wait(missing)

    def _describe(self, times: Sequence[int]) -> tuple[list[FragmentState], str]:
        """What the nodes say, and what is missing, as a sentence ("": nothing)."""
        request = pb.DescribeRequest(
            vhost=self._stream.vhost, stream=self._stream.name, times=times
        )
        found: dict[int, FragmentState] = {}
        homes: dict[int, str] = {}
        silent: list[str] = []
        count = 0
        for url in self._urls:
            try:
                told = self._stub(url).Describe(
                    request, metadata=url.metadata, timeout=_DESCRIBE_S, wait_for_ready=False
                )
            except grpc.RpcError as error:
                silent.append(passing(error, url))
                continue
            self.places[told.node] = url
            count = len(told.fragments)
            for each in told.fragments:
                homes[each.number] = each.home or homes.get(each.number, "")
                state = _state_of(each, told.node, times)
                known = found.get(each.number)
                # One that was deposed may not know that yet.
                if state is not None and (known is None or known.next < state.next):
                    found[each.number] = state
            if len(found) == count:
                break
        if not homes:
            return [], silent[0] if silent else "no node answered"
        lacking = [number for number in range(count) if number not in found]
        if not lacking:
            return [found[number] for number in range(count)], ""
        return [], self._where(lacking[0], homes.get(lacking[0], ""), silent)

    def _where(self, number: int, home: str, silent: Sequence[str]) -> str:
        """Why nothing is known of a fragment; raises PipelineError if that will not change."""
        if home and home not in self.places and not silent:
            raise PipelineError(
                f"fragment {number} of {self._stream.name!r} is served by {home!r}, and none of "
                "the urls is that node: add its url"
            )
        why = f"; {silent[0]}" if silent else ""
        return f"nobody serves fragment {number} of {self._stream.name!r} at present{why}"

    # --- what is there ----------------------------------------------------------------------------

    def read(self, span: Span) -> Iterator[ReadChunk]:
        """The rows of a span; raises DataLossError for rows that are gone, if that is an error."""
        at, home = span.begin, span.home
        patience = Patience(self._stream.retry_s)
        while at < span.end:
            url = self.places.get(home)
            if url is None:
                home = self._home_of(span.fragment, patience)
                continue
            try:
                for pieces in whole(self._call(url, span, at)):
                    chunk, following = self._taken(span, at, pieces)
                    patience.reset()
                    at = following
                    if chunk is not None:
                        yield chunk
                if at < span.end:
                    patience.wait(f"{url.address} ended a read before its end")
            except grpc.RpcError as error:
                reason = passing(error, url)
                patience.wait(reason)
                home = self._home_of(span.fragment, patience)

    def _call(self, url: NodeUrl, span: Span, at: int) -> Iterator[pb.Chunk]:
        request = pb.ReadRequest(
            vhost=self._stream.vhost, stream=self._stream.name, fragment=span.fragment,
            begin=at, end=span.end, chunk_bytes=self._stream.chunk_bytes,
            routes=_told(self._stream.routes),
        )  # fmt: skip
        call: Iterator[pb.Chunk] = self._stub(url).Read(request, metadata=url.metadata)
        return call

    def _taken(self, span: Span, at: int, pieces: list[pb.Chunk]) -> tuple[ReadChunk | None, int]:
        """What came, and where to go on; None if there were no rows."""
        head = pieces[0]
        ranges = [(each.first, each.last) for each in head.ranges]
        if not at < head.next <= span.end or (ranges and ranges[0][0] < at):
            raise PipelineError(f"fragment {span.fragment}: offset {at} was asked for, not these")
        # A node that leaves nothing out has looked at what it brings.
        looked = [(each.first, each.last) for each in head.looked] or ranges
        self._look_for_loss(span, at, head, looked)
        if not ranges:
            return None, head.next
        data = head.data if len(pieces) == 1 else b"".join([piece.data for piece in pieces])
        times = [(each.offset, each.unix_ms) for each in head.times]
        return ReadChunk(span.fragment, ranges, times, head.lengths, data), head.next

    def _look_for_loss(
        self, span: Span, at: int, head: pb.Chunk, ranges: Sequence[tuple[int, int]]
    ) -> None:
        """Looks whether rows between those that came are gone."""
        for first, behind in (*((low, high + 1) for low, high in ranges), (head.next, head.next)):
            gone = min(first, head.first)
            if at < gone:
                loss = f"offsets {at} to {gone - 1} of fragment {span.fragment} are gone"
                if self._stream.fails_on_loss:
                    raise DataLossError(
                        f"{loss}: retention has passed the reader; with failOnDataLoss=false it "
                        "goes on behind them"
                    )
                logger.warning("%s: retention has passed the reader, which goes on", loss)
            at = behind

    def _home_of(self, fragment: int, patience: Patience) -> str:
        """The node that serves a fragment by now, at one of the urls."""
        while True:
            states, missing = self._describe(())
            if not missing:
                return states[fragment].home
            patience.wait(missing)

    def _stub(self, url: NodeUrl) -> Any:
        channel = self._channels.get(url)
        if channel is None:
            channel = self._channels[url] = open_channel(url, self._tls)
        return streams_pb2_grpc.StreamsStub(channel)  # type: ignore[no-untyped-call]


def open_channel(url: NodeUrl, tls: TlsPaths) -> grpc.Channel:
    """A channel to a node's admin port."""
    if not url.is_secure:
        return grpc.insecure_channel(url.address, _OPTIONS)
    authority, certificate, key = tls.read()
    credentials = grpc.ssl_channel_credentials(authority, key, certificate)
    return grpc.secure_channel(url.address, credentials, _OPTIONS)


def passing(error: grpc.RpcError, url: NodeUrl) -> str:
    """Why a call failed, if it may succeed later; raises PipelineError if it will not."""
    call: Any = error
    code, details = call.code(), call.details() or "no reason was given"
    said: Mapping[str, object] = dict(call.trailing_metadata() or ())
    is_moved = "fedq-home" in said
    if _REFUSED in said and code not in _PASSING and not is_moved:
        raise PipelineError(f"{url.address}: {details}") from None
    if _REFUSED not in said and code not in _BROKEN:
        raise PipelineError(
            f"{url.address}: {code.name.lower()}: {details}: is that the admin port of a node?"
        ) from None
    return f"{url.address}: {details}"


def _told(routes: Routes) -> pb.Routes | None:
    """What a node is told of the routes that are wanted; None: all are."""
    if routes.is_all:
        return None
    keys = routes.keys or ()
    return pb.Routes(
        exchanges=[each.encode() for each in routes.exchanges or ()],
        routing_keys=[each.encode() for each in keys],
        routing_key_prefixes=[routes.prefix.encode()] if routes.prefix and not keys else [],
    )


def _state_of(told: pb.Fragment, node: str, times: Sequence[int]) -> FragmentState | None:
    if not told.HasField("served"):
        return None
    served = told.served
    return FragmentState(
        number=told.number,
        home=node,
        first=served.first,
        next=served.next,
        ranges=tuple((each.first, each.last) for each in served.ranges),
        since=dict(zip(times, served.since, strict=True)),
    )


def whole(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    """The pieces of each chunk."""
    for head in pieces:
        found, size = [head], len(head.data)
        while size < head.data_bytes:
            piece = next(pieces, None)
            if piece is None or not piece.data:
                raise PipelineError("a chunk ended within its messages")
            found.append(piece)
            size += len(piece.data)
        yield found
