"""What readers of queues hear: batches that are reserved for them (docs/adr/0107).

Inputs: requests of a user that is known, this node's view of its queues, a way to have it work.
Outputs: replies and parts, or AdminError. Permissions are looked at with each call, and anew for
each part. Who reads has a place (`fedq.admin.read_room`).
"""

import asyncio
import struct
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

import grpc

from fedq.admin.bounds import (
    CHUNK_BYTES_DEFAULT,
    CHUNK_BYTES_MAX,
    CHUNK_BYTES_MIN,
    CHUNK_PIECE_BYTES_MAX,
    CHUNK_WAIT_MS,
    READER_INSTANCE_BYTES_MAX,
    STREAM_NUMBER_MAX,
    STREAM_READS_MAX,
    STREAM_READS_PER_USER_MAX,
)
from fedq.admin.calls import heard
from fedq.admin.messages import text
from fedq.admin.read_room import ReadRoom, check_name, readable
from fedq.admin.refusal import AdminError, invalid, not_found, too_often, unavailable
from fedq.core.ids import FragmentId, QueueKey
from fedq.core.limits import QUEUE_READERS_MAX, RESERVED_AT_ONCE_MAX, RESERVED_MAX
from fedq.core.versions import QUEUE_READERS
from fedq.fragments.singly.queue_readers import BATCH_MAX
from fedq.node.records.streams.reservations import (
    DONE,
    ELSEWHERE,
    NAMES_FULL,
    NOT_YET,
    ONE_CONSUMER,
    OVER,
    RESERVE,
    RESERVED_FULL,
    SETTLE,
    TAKEN,
    ReaderCall,
    Reserved,
    ReservedPart,
    ReservedRead,
)
from fedq.node.views.queue_reader_view import QueueReaderView
from fedq.shell.pb import queue_readers_pb2 as pb

_FAILED: Final = grpc.StatusCode.FAILED_PRECONDITION


class Ways(NamedTuple):
    """Has the node do something, each within one of its turns."""

    ask: Callable[[QueueKey, ReaderCall], None]
    read: Callable[[QueueKey, ReservedRead], None]
    #: Nobody waits for the read any more.
    done: Callable[[ReservedRead], None]


class QueueReaderAnswers:
    """Answers readers of queues. Belongs to one event loop."""

    __slots__ = ("_room", "_view", "_ways")

    def __init__(self, view: QueueReaderView, ways: Ways) -> None:
        self._view = view
        self._ways = ways
        self._room = ReadRoom(STREAM_READS_MAX, STREAM_READS_PER_USER_MAX)

    def describe(self, user: str, request: pb.DescribeRequest) -> pb.DescribeReply:
        """The fragments of a queue."""
        found = self._view.queue_fragments(self._key(user, request.vhost, request.queue))
        return pb.DescribeReply(
            node=self._view.me,
            fragments=[
                pb.Fragment(
                    fragment=each.fragment, home=each.home or "", served=each.ready is not None,
                    ready=each.ready or 0, reserved=each.reserved,
                )
                for each in found
            ],
        )  # fmt: skip

    async def reserve(self, user: str, request: pb.ReserveRequest) -> pb.ReserveReply:
        """The next batch of a fragment."""
        key = self._key(user, request.vhost, request.queue)
        check_name("reader", request.reader)
        check_name("instance", request.instance, READER_INSTANCE_BYTES_MAX)
        _check_number("after", request.after, BATCH_MAX - 1)
        if not 1 <= request.most <= RESERVED_AT_ONCE_MAX:
            raise invalid(f"most is {request.most}: ask for 1 to {RESERVED_AT_ONCE_MAX}")
        self._base(key, request.fragment)
        make = partial(
            ReaderCall, RESERVE, FragmentId(request.fragment), request.reader, request.after,
            instance=request.instance, begins=request.begins, most=request.most,
        )  # fmt: skip
        found = await self._called(key, request.reader, make)
        return pb.ReserveReply(through=found.through, messages=found.messages)

    async def settle(self, user: str, request: pb.SettleRequest) -> pb.SettleReply:
        """Lets batches leave the queue."""
        key = self._key(user, request.vhost, request.queue)
        check_name("reader", request.reader)
        check_name("instance", request.instance, READER_INSTANCE_BYTES_MAX)
        _check_number("through", request.through, BATCH_MAX - 1)
        self._base(key, request.fragment)
        make = partial(
            ReaderCall, SETTLE, FragmentId(request.fragment), request.reader, request.through,
            instance=request.instance,
        )  # fmt: skip
        found = await self._called(key, request.reader, make)
        return pb.SettleReply(messages=found.messages)

    async def read(self, user: str, request: pb.ReadRequest) -> AsyncGenerator[pb.Part, None]:
        """What is reserved, of some batches, in pieces of parts."""
        size = request.part_bytes or CHUNK_BYTES_DEFAULT
        if not CHUNK_BYTES_MIN <= size <= CHUNK_BYTES_MAX:
            raise invalid(f"parts of {size} bytes: ask for {CHUNK_BYTES_MIN} to {CHUNK_BYTES_MAX}")
        check_name("reader", request.reader)
        _check_number("after", request.after, BATCH_MAX - 1)
        _check_number("through", request.through, BATCH_MAX - 1)
        _check_number("begin", request.begin, STREAM_NUMBER_MAX)
        if request.after >= request.through:
            raise invalid(f"after is {request.after}, which is not before {request.through}")
        begin = request.begin
        while True:
            key = self._key(user, request.vhost, request.queue)
            base = self._base(key, request.fragment)
            async with self._room.place(user):
                found = await self._part(key, request, base + begin, size)
                if found.verdict != DONE:
                    raise self._refused(key, request.fragment, request.reader, found.verdict)
                for piece in _pieces(found, base):
                    yield piece
            if not found.next:
                return
            begin = found.next - base

    async def _called(
        self, key: QueueKey, reader: str, make: Callable[[Callable[[Reserved], None]], ReaderCall]
    ) -> Reserved:
        """What became of a call, once that is committed; raises AdminError."""
        fragment = 0

        def ask(answer: Callable[[Reserved], None]) -> None:
            nonlocal fragment
            call = make(answer)
            fragment = call.fragment
            self._ways.ask(key, call)

        found = await heard(ask, CHUNK_WAIT_MS / 1_000)
        if found.verdict != DONE:
            raise self._refused(key, fragment, reader, found.verdict)
        return found

    async def _part(
        self, key: QueueKey, request: pb.ReadRequest, begin: int, size: int
    ) -> ReservedPart:
        answer: asyncio.Future[ReservedPart] = asyncio.get_running_loop().create_future()

        def on_answer(part: ReservedPart) -> None:
            # Nobody may wait any more.
            if not answer.done():
                answer.set_result(part)

        read = ReservedRead(
            FragmentId(request.fragment), request.reader, request.after, request.through, begin,
            size, on_answer,
        )  # fmt: skip
        try:
            self._ways.read(key, read)
            async with asyncio.timeout(CHUNK_WAIT_MS / 1_000):
                return await answer
        except TimeoutError as error:
            raise unavailable(
                "what is reserved cannot be read from the disk at present: ask again"
            ) from error
        finally:
            self._ways.done(read)

    # --- what is asked for ------------------------------------------------------------------------

    def _key(self, user: str, vhost: str, queue: str) -> QueueKey:
        """The queue, if the user may read it; raises AdminError."""
        view = self._view
        key = readable(view, user, vhost, queue, "queue")
        if view.is_exclusive(key):
            raise AdminError(
                _FAILED,
                f"queue '{text(queue)}' is exclusive: its connection alone may read it",
            )
        if not view.has_queue(key):
            raise not_found(
                f"no queue '{text(queue)}' in vhost '{text(vhost)}'; `fedq queue list` shows the "
                "queues there are"
            )
        if view.is_stream(key):
            raise AdminError(
                _FAILED, f"'{text(queue)}' is a stream: name it as the stream, not as the queue"
            )
        return key

    def _base(self, key: QueueKey, fragment: int) -> int:
        base = self._view.base(key, fragment)
        if base is None:
            raise AdminError(
                _FAILED,
                f"queue '{text(key.name)}' has no fragment {fragment}: it was retired, or the "
                "queue is another one of that name",
                (("fedq-gone", "1"),),
            )
        return base

    def _refused(self, key: QueueKey, fragment: int, reader: str, verdict: int) -> AdminError:
        """Why a call was not done."""
        queue, name = text(key.name), text(reader)
        if verdict == ELSEWHERE:
            home = self._view.home(FragmentId(fragment))
            if home is None or home == self._view.me:
                return unavailable(f"nobody serves fragment {fragment} of '{queue}' at present")
            return AdminError(
                _FAILED,
                f"fragment {fragment} of '{queue}' is served by {home}: ask that node",
                (("fedq-home", home),),
            )
        if verdict == NOT_YET:
            return unavailable(f"what is next in '{queue}' is not at hand yet: ask again")
        if verdict in (NAMES_FULL, RESERVED_FULL):
            what = f"{QUEUE_READERS_MAX} readers have messages of"
            if verdict == RESERVED_FULL:
                what = f"{RESERVED_MAX} messages, or as many bytes as may be, are reserved of"
            return too_often(
                f"{what} fragment {fragment} of '{queue}': let them be committed, or release those "
                "of a reader that is gone (`fedq queue release`)"
            )
        return AdminError(_FAILED, _REASONS.get(verdict, _OLD).format(queue=queue, name=name))


_OLD: Final = (
    f"not all nodes speak version {QUEUE_READERS}, which reservations of '{{queue}}' need: update "
    "them"
)
_REASONS: Final = {
    TAKEN: "another reader of '{queue}' with the name '{name}' is at it: each needs its own name",
    ONE_CONSUMER: (
        "queue '{queue}' has an exclusive consumer, or a single active one: nothing of it may be "
        "reserved"
    ),
    OVER: (
        "the batch of '{name}' in '{queue}' is over: it was committed, or released, so it cannot "
        "be read again; begin the query with a new checkpoint"
    ),
}


def _pieces(found: ReservedPart, base: int) -> Iterator[pb.Part]:
    """The pieces of a part; `base`: the position of offset 0."""
    messages = found.messages
    data = b"".join(messages)
    yield pb.Part(
        ranges=[pb.Offsets(first=low - base, last=high - base) for low, high in found.ranges],
        lengths=struct.pack(f">{len(messages)}I", *map(len, messages)),
        data=data if len(data) <= CHUNK_PIECE_BYTES_MAX else data[:CHUNK_PIECE_BYTES_MAX],
        data_bytes=len(data),
        next=found.next - base if found.next else 0,
    )
    for at in range(CHUNK_PIECE_BYTES_MAX, len(data), CHUNK_PIECE_BYTES_MAX):
        yield pb.Part(data=data[at : at + CHUNK_PIECE_BYTES_MAX])


def _check_number(what: str, number: int, most: int) -> None:
    if number > most:
        raise invalid(f"{what} is {number}: at most {most}")
