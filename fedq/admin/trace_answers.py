"""Traces and the firehose: begun, ended and listed.

Inputs: this node's view of the map, a way to have it changed, requests. Outputs: replies, or
AdminError. The stream of a trace is declared first; a trace that cannot be is refused before.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import orjson

from fedq.admin.access_answers import AccessAnswers, name_of, refusal_of
from fedq.admin.refusal import invalid
from fedq.core.ids import Incarnation, NodeId, QueueKey
from fedq.core.limits import NAME_BYTES_MAX
from fedq.core.policy import SEGMENT_BYTES
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.operations import DeclareQueue, Operation
from fedq.wiring.cluster_map.operations_tracing import (
    SAMPLE_MAX,
    SetFirehose,
    StartTrace,
    StopTrace,
)
from fedq.wiring.cluster_map.queue_arguments import refuse_declaration, shape_of
from fedq.wiring.cluster_map.state import DEFAULT_VHOST

#: What the stream of a trace keeps, unless told.
STREAM_BYTES: Final = 1 << 30
STREAM_BYTES_MIN: Final = 1 << 20
STREAM_BYTES_MAX: Final = 1 << 50
#: A stream lets go of whole segments: it is to have so many.
_SEGMENTS: Final = 8
_STREAM_PREFIX: Final = "fedq.trace."

Change: TypeAlias = Callable[[Operation, float], Awaitable[bool]]


class TraceAnswers:
    """Answers about traces. Belongs to one event loop."""

    __slots__ = ("_change", "_overview", "_process")

    def __init__(
        self, process: Callable[[], tuple[NodeId, Incarnation]], access: AccessAnswers
    ) -> None:
        """`process`: which one this is."""
        self._process = process
        self._overview = access.overview
        self._change: Change = access.change

    async def start(self, request: pb.StartTraceRequest, timeout_s: float) -> pb.StartTraceReply:
        """Begins a trace, and declares its stream if that is not there."""
        deadline_s = time.monotonic() + timeout_s
        wanted = _wanted(request.trace)
        refused = self._overview.refuse_trace(wanted)
        if refused is not None:
            raise refusal_of(refused)
        key = QueueKey(wanted.stream_vhost, wanted.stream)
        declaration = self._declaration(key, request)
        if not self._overview.has_queue(key):
            await self._change(declaration, timeout_s)
        created = await self._change(wanted, max(0.0, deadline_s - time.monotonic()))
        return pb.StartTraceReply(created=created, trace=_shown(wanted))

    def _declaration(self, key: QueueKey, request: pb.StartTraceRequest) -> DeclareQueue:
        size = request.max_bytes or STREAM_BYTES
        if not STREAM_BYTES_MIN <= size <= STREAM_BYTES_MAX:
            raise invalid(f"max_bytes is not between {STREAM_BYTES_MIN} and {STREAM_BYTES_MAX}")
        arguments: dict[str, int | str] = {
            "x-queue-type": "stream",
            "x-max-length-bytes": size,
            "x-stream-max-segment-size-bytes": min(SEGMENT_BYTES, size // _SEGMENTS),
        }
        if request.max_age:
            arguments["x-max-age"] = request.max_age
        wrong = refuse_declaration(key, arguments, durable=True, exclusive=False, auto_delete=False)
        if wrong is not None:
            raise invalid(wrong.text)
        text = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS).decode()
        shape = shape_of(arguments)
        node, _ = self._process()
        return DeclareQueue(
            key.vhost, key.name, True, False, text, node, 1, shape.replicas, shape.mode
        )

    async def stop(self, request: pb.StopTraceRequest, timeout_s: float) -> pb.StopTraceReply:
        """Ends a trace."""
        await self._change(StopTrace(name_of("name", request.name)), timeout_s)
        return pb.StopTraceReply()

    async def list(self) -> pb.ListTracesReply:
        """All traces, and where the firehose is on."""
        traces = [
            StartTrace(
                name, each.vhost, each.exchange, each.queue, each.sample, each.stream_vhost,
                each.stream,
            )
            for name, each in self._overview.traces()
        ]  # fmt: skip
        return pb.ListTracesReply(traces=map(_shown, traces), firehose=self._overview.firehose())

    async def set_firehose(
        self, request: pb.SetFirehoseRequest, timeout_s: float
    ) -> pb.SetFirehoseReply:
        """Switches the firehose of a virtual host."""
        operation = SetFirehose(name_of("vhost", request.vhost), request.on)
        return pb.SetFirehoseReply(changed=await self._change(operation, timeout_s))


def _wanted(trace: pb.Trace) -> StartTrace:
    name = name_of("name", trace.name)
    sample = trace.sample or 1
    if sample > SAMPLE_MAX:
        raise invalid(f"sample is more than {SAMPLE_MAX}")
    stream = trace.stream or f"{_STREAM_PREFIX}{name}"
    home = trace.stream_vhost or trace.vhost or DEFAULT_VHOST
    for what, text in (
        ("vhost", trace.vhost),
        ("exchange", trace.exchange),
        ("queue", trace.queue),
        ("stream_vhost", home),
        ("stream", stream),
    ):
        if len(text.encode()) > NAME_BYTES_MAX:
            raise invalid(f"{what} is longer than {NAME_BYTES_MAX} bytes")
    return StartTrace(name, trace.vhost, trace.exchange, trace.queue, sample, home, stream)


def _shown(trace: StartTrace) -> pb.Trace:
    return pb.Trace(
        name=trace.name, vhost=trace.vhost, exchange=trace.exchange, queue=trace.queue,
        sample=trace.sample, stream_vhost=trace.stream_vhost, stream=trace.stream,
    )  # fmt: skip
