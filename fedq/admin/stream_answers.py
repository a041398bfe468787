"""What tools outside hear of streams: where they are, and ranges of them (docs/adr/0076).

Inputs: requests of a user that is known, this node's view of its streams, a way to have it scan.
Outputs: replies and chunks, or AdminError. Permissions are looked at anew for each chunk. At most
`STREAM_READS_MAX` reads have a chunk in hand at a time, `STREAM_READS_PER_USER_MAX` of one user, so
that readers who take nothing leave room for those of others; who has no room waits, in order.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TypeAlias

import grpc

from fedq.admin.bounds import (
    CHUNK_BYTES_DEFAULT,
    CHUNK_BYTES_MAX,
    CHUNK_BYTES_MIN,
    CHUNK_WAIT_MS,
    STREAM_NUMBER_MAX,
    STREAM_READS_MAX,
    STREAM_READS_PER_USER_MAX,
    STREAM_TIMES_MAX,
)
from fedq.admin.messages import text
from fedq.admin.read_room import ReadRoom, readable
from fedq.admin.refusal import AdminError, invalid, not_found, unavailable
from fedq.admin.stream_chunks import chunks_of
from fedq.amqp.route_filtering import RouteFilter, fault_of_routes
from fedq.core.ids import FragmentId, QueueKey
from fedq.node.records.streams.scans import Scan, Scanned
from fedq.node.views.stream_view import StreamFragment, StreamOverview
from fedq.shell.pb import streams_pb2 as pb

#: Has the node do something with a scan of a stream.
TellScan: TypeAlias = Callable[[QueueKey, Scan], None]


class StreamAnswers:
    """Answers about streams. Belongs to one event loop."""

    __slots__ = ("_ask", "_done", "_overview", "_room")

    def __init__(self, overview: StreamOverview, ask: TellScan, done: TellScan) -> None:
        """`ask`: begins a scan; `done`: what it gathered is handed over, or nobody waits."""
        self._overview = overview
        self._ask = ask
        self._done = done
        self._room = ReadRoom(STREAM_READS_MAX, STREAM_READS_PER_USER_MAX)

    def describe(self, user: str, request: pb.DescribeRequest) -> pb.DescribeReply:
        """The fragments of a stream, and what is there of those that this node serves."""
        if len(request.times) > STREAM_TIMES_MAX:
            raise invalid(f"{len(request.times)} times: ask for at most {STREAM_TIMES_MAX} at once")
        for each in request.times:
            _check_number("time", each)
        key = self._key(user, request.vhost, request.stream)
        fragments = self._overview.fragments(key, request.times)
        if fragments is None:
            raise self._no_stream(key)
        return pb.DescribeReply(node=self._overview.me, fragments=map(_described, fragments))

    async def read(self, user: str, request: pb.ReadRequest) -> AsyncGenerator[pb.Chunk, None]:
        """What is committed between two offsets of a fragment, in pieces of chunks."""
        size = request.chunk_bytes or CHUNK_BYTES_DEFAULT
        if not CHUNK_BYTES_MIN <= size <= CHUNK_BYTES_MAX:
            raise invalid(f"chunks of {size} bytes: ask for {CHUNK_BYTES_MIN} to {CHUNK_BYTES_MAX}")
        _check_number("begin", request.begin)
        _check_number("end", request.end)
        if request.begin > request.end:
            raise invalid(f"begin is {request.begin}, behind the end, {request.end}")
        wanted = _routes_of(request)
        at = request.begin
        while True:
            key = self._key(user, request.vhost, request.stream)
            fragment, base = self._fragment(key, request.fragment)
            if at >= request.end:
                return
            async with self._room.place(user):
                scan = _Scan(fragment, base + at, base + request.end, size, wanted)
                try:
                    self._ask(key, scan.scan)
                    found = await scan.heard()
                    if found is None:
                        raise self._elsewhere(key, request.fragment, fragment)
                    for chunk in chunks_of(found, base):
                        yield chunk
                finally:
                    self._done(key, scan.scan)
            at = found.next - base

    # --- what is asked for ------------------------------------------------------------------------

    def _key(self, user: str, vhost: str, stream: str) -> QueueKey:
        """The stream, if the user may read it; raises AdminError."""
        return readable(self._overview, user, vhost, stream, "stream")

    def _fragment(self, key: QueueKey, number: int) -> tuple[FragmentId, int]:
        """The fragment, and the position of its offset 0; raises AdminError."""
        found = self._overview.fragment(key, number)
        if found is not None:
            return found
        fragments = self._overview.fragments(key, ())
        if fragments is None:
            raise self._no_stream(key)
        raise not_found(
            f"stream '{text(key.name)}' has no fragment {number}: it has {len(fragments)}"
        )

    def _no_stream(self, key: QueueKey) -> AdminError:
        if not self._overview.has_queue(key):
            return not_found(
                f"no stream '{text(key.name)}' in vhost '{text(key.vhost)}'; `fedq queue list` "
                "shows the queues there are"
            )
        return AdminError(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"queue '{text(key.name)}' is no stream (x-queue-type: stream): streams alone can be "
            "read by offsets",
        )

    def _elsewhere(self, key: QueueKey, number: int, fragment: FragmentId) -> AdminError:
        """Why this node reads nothing of the fragment."""
        if self._overview.fragments(key, ()) is None:
            return self._no_stream(key)
        home = self._overview.home(fragment)
        if home is None or home == self._overview.me:
            return unavailable(
                f"nobody serves fragment {number} of '{text(key.name)}' at present: ask again"
            )
        return AdminError(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"fragment {number} of '{text(key.name)}' is served by {home}: ask that node",
            (("fedq-home", home),),
        )


class _Scan:
    """A scan, and its answer to come."""

    __slots__ = ("_answer", "scan")

    def __init__(
        self, fragment: FragmentId, begin: int, end: int, size: int, wanted: RouteFilter | None
    ) -> None:
        loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Scanned | None] = loop.create_future()
        self.scan = Scan(fragment, begin, end, size, self._on_answer, wanted)

    def _on_answer(self, found: Scanned | None) -> None:
        # Nobody may wait any more.
        if not self._answer.done():
            self._answer.set_result(found)

    async def heard(self) -> Scanned | None:
        """What was gathered; raises AdminError when that takes too long."""
        try:
            async with asyncio.timeout(CHUNK_WAIT_MS / 1_000):
                return await self._answer
        except TimeoutError as error:
            raise unavailable(
                "what was asked for is not there yet, or cannot be read at present: ask again"
            ) from error


def _described(fragment: StreamFragment) -> pb.Fragment:
    """A fragment, as it is told."""
    served = fragment.served
    return pb.Fragment(
        number=fragment.number,
        home=fragment.home or "",
        served=None
        if served is None
        else pb.Served(
            first=served.first,
            next=served.next,
            ranges=[pb.OffsetRange(first=low, last=high) for low, high in served.ranges],
            since=served.since,
        ),
    )


def _routes_of(request: pb.ReadRequest) -> RouteFilter | None:
    """The routes that are wanted; None: all; raises AdminError."""
    if not request.HasField("routes"):
        return None
    routes = request.routes
    wanted = RouteFilter(
        tuple(routes.exchanges), tuple(routes.routing_keys), tuple(routes.routing_key_prefixes)
    )
    fault = fault_of_routes(wanted)
    if fault is not None:
        raise invalid(f"routes: {fault}")
    return wanted


def _check_number(what: str, number: int) -> None:
    if number > STREAM_NUMBER_MAX:
        raise invalid(f"{what} is {number}: at most {STREAM_NUMBER_MAX}")
