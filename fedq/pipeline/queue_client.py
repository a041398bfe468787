"""Reads a queue by reservation from fedq's nodes (protos/queue_readers.proto, docs/adr/0107).

Inputs: urls, a queue, a reader's name, batches. Outputs: what a batch has, in order, complete. Each
call may be repeated, so what breaks on the way is asked again, of whoever leads the fragment by
then, until that has taken too long. `PipelineError` says in a sentence what cannot be done. Blocks;
a client belongs to one thread.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

import grpc

from fedq.pipeline.failure import PipelineError
from fedq.pipeline.patience import Patience
from fedq.pipeline.places import NodeUrl
from fedq.pipeline.queue_options import QueueOptions
from fedq.pipeline.stream_client import ReadChunk, open_channel, passing, whole
from fedq.shell.pb import queue_readers_pb2 as pb
from fedq.shell.pb import queue_readers_pb2_grpc

#: How long a node may take to say where a queue is, or to reserve or settle a batch.
_ANSWER_S: Final = 20.0

#: What a node's refusal says beside its sentence if the queue has no such fragment (any more).
_GONE: Final = "fedq-gone"

Answer = TypeVar("Answer")


class FragmentGoneError(PipelineError):
    """The queue has no such fragment: it was retired, and was empty; or it is another queue."""


class QueuePart(NamedTuple):
    """A fragment of the queue."""

    fragment: int
    #: The node that serves it, and how many messages it has for readers, or had for one.
    home: str
    messages: int


class Reserved(NamedTuple):
    """What is reserved of a fragment: batches behind one, up to another."""

    fragment: int
    after: int
    through: int


class QueueClient:
    """Reads one queue from the nodes at some urls."""

    def __init__(self, options: QueueOptions, instance: str = "") -> None:
        """`instance`: of the process that plans batches; those who read need none."""
        self._options = options
        self._instance = instance
        self._channels: dict[NodeUrl, grpc.Channel] = {}
        #: Which node answers where, and which one serves a fragment, as far as any has said so.
        self.places: dict[str, NodeUrl] = {}
        self.homes: dict[int, str] = {}
        #: Fragments whose node has heard that this process has begun.
        self._begun: dict[int, None] = {}

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

    def describe(self) -> list[QueuePart]:
        """The fragments of the queue; waits for those that nobody serves at present."""
        patience = Patience(self._options.retry_s)
        while True:
            found, missing = self._describe()
            if not missing:
                self.homes = {each.fragment: each.home for each in found}
                return found
            patience.wait(missing)

    def _describe(self) -> tuple[list[QueuePart], str]:
        """What the nodes say, and what is missing, as a sentence ("": nothing)."""
        options = self._options
        request = pb.DescribeRequest(vhost=options.vhost, queue=options.queue)
        found: dict[int, QueuePart] = {}
        homes: dict[int, str] = {}
        silent: list[str] = []
        for url in options.urls:
            try:
                told = self._stub(url).Describe(request, metadata=url.metadata, timeout=_ANSWER_S)
            except grpc.RpcError as error:
                silent.append(passing(error, url))
                continue
            self.places[told.node] = url
            homes = {
                each.fragment: each.home or homes.get(each.fragment, "") for each in told.fragments
            }
            for each in told.fragments:
                if each.served:
                    count = each.ready + each.reserved
                    found[each.fragment] = QueuePart(each.fragment, told.node, count)
            if found.keys() >= homes.keys():
                break
        if not homes:
            return [], silent[0] if silent else "no node answered"
        lacking = [number for number in homes if number not in found]
        if not lacking:
            return [found[number] for number in sorted(homes)], ""
        home = homes[lacking[0]]
        if home and home not in self.places and not silent:
            raise PipelineError(
                f"fragment {lacking[0]} of {options.queue!r} is served by {home!r}, and none of "
                "the urls is that node: add its url"
            )
        why = f"; {silent[0]}" if silent else ""
        return [], f"nobody serves fragment {lacking[0]} of {options.queue!r} at present{why}"

    def reserve(self, fragment: int, after: int, most: int) -> tuple[int, int]:
        """The number of the next batch of a fragment, and how many messages it has.

        All batches up to `after` are settled. Without messages it is `after`: so it is of one that
        was retired since the queue was described.
        """
        options = self._options
        request = pb.ReserveRequest(
            vhost=options.vhost, queue=options.queue, fragment=fragment, reader=options.reader,
            instance=self._instance, begins=fragment not in self._begun, after=after, most=most,
        )  # fmt: skip

        def call(stub: Any, url: NodeUrl) -> pb.ReserveReply:
            reply: pb.ReserveReply = stub.Reserve(request, metadata=url.metadata, timeout=_ANSWER_S)
            return reply

        try:
            reply = self._insist(fragment, call)
        except FragmentGoneError:
            return after, 0
        self._begun[fragment] = None
        return reply.through, reply.messages

    def settle(self, fragment: int, through: int) -> None:
        """Lets all batches up to one leave the queue.

        Of a fragment of which this process has had nothing reserved that is left to the next
        reservation: its node may know the name as that of a process before this one.
        """
        if fragment not in self._begun:
            return
        options = self._options
        request = pb.SettleRequest(
            vhost=options.vhost, queue=options.queue, fragment=fragment, reader=options.reader,
            instance=self._instance, through=through,
        )  # fmt: skip

        def call(stub: Any, url: NodeUrl) -> None:
            stub.Settle(request, metadata=url.metadata, timeout=_ANSWER_S)

        # One that was retired was empty, so all was settled.
        with suppress(FragmentGoneError):
            self._insist(fragment, call)

    def read(self, wanted: Reserved) -> Iterator[ReadChunk]:
        """What is reserved, in order; begun again at the next message that did not come."""
        patience = Patience(self._options.retry_s)
        begin = 0
        while True:
            url = self._home_of(wanted.fragment, patience)
            try:
                for pieces in whole(self._call(url, wanted, begin)):
                    head = pieces[0]
                    patience.reset()
                    if head.ranges:
                        yield _chunk_of(wanted.fragment, pieces)
                    if not head.next:
                        return
                    begin = head.next
                patience.wait(f"{url.address} ended a read before its end")
            except grpc.RpcError as error:
                patience.wait(passing(error, url))
                self.homes.pop(wanted.fragment, None)

    def _call(self, url: NodeUrl, wanted: Reserved, begin: int) -> Iterator[pb.Part]:
        options = self._options
        request = pb.ReadRequest(
            vhost=options.vhost, queue=options.queue, fragment=wanted.fragment,
            reader=options.reader, after=wanted.after, through=wanted.through, begin=begin,
            part_bytes=options.chunk_bytes,
        )  # fmt: skip
        call: Iterator[pb.Part] = self._stub(url).Read(request, metadata=url.metadata)
        return call

    def _insist(self, fragment: int, call: Callable[[Any, NodeUrl], Answer]) -> Answer:
        """The answer of whoever serves a fragment."""
        patience = Patience(self._options.retry_s)
        while True:
            url = self._home_of(fragment, patience)
            try:
                return call(self._stub(url), url)
            except grpc.RpcError as error:
                refusal: Any = error
                if _GONE in dict(refusal.trailing_metadata() or ()):
                    raise FragmentGoneError(f"{url.address}: {refusal.details()}") from None
                patience.wait(passing(error, url))
                self.homes.pop(fragment, None)

    def _home_of(self, fragment: int, patience: Patience) -> NodeUrl:
        """The node that serves a fragment by now."""
        while (url := self.places.get(self.homes.get(fragment, ""))) is None:
            found, missing = self._describe()
            if missing:
                patience.wait(missing)
                continue
            self.homes = {each.fragment: each.home for each in found}
            if fragment not in self.homes:
                raise FragmentGoneError(
                    f"queue {self._options.queue!r} has no fragment {fragment}: the queue seems to "
                    "be another one of that name"
                )
        return url

    def _stub(self, url: NodeUrl) -> Any:
        channel = self._channels.get(url)
        if channel is None:
            channel = self._channels[url] = open_channel(url, self._options.tls)
        return queue_readers_pb2_grpc.QueueReadersStub(channel)  # type: ignore[no-untyped-call]


def _chunk_of(fragment: int, pieces: list[pb.Part]) -> ReadChunk:
    head = pieces[0]
    data = head.data if len(pieces) == 1 else b"".join([piece.data for piece in pieces])
    ranges = [(each.first, each.last) for each in head.ranges]
    return ReadChunk(fragment, ranges, None, head.lengths, data)
