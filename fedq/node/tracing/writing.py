"""Writes what was noted for traces to their streams, a batch at a time.

In: the lines of the tracer (`fedq.node.records.tracing.tracer`). Out: messages of this node's own
publishers to the streams, which number them and repeat them after a failover as they do with
clients'.

Invariant: nobody waits for a trace, and memory does not grow with it. What a stream cannot take is
dropped and counted, and the next batch says so.
"""

from typing import Final

from fedq.amqp.content import encode_properties
from fedq.core.limits import PEER_FRAME_BYTES_MAX
from fedq.core.message import FLAG_PERSISTENT, encode, make_route
from fedq.core.trace_records import GAP, VERSION, Head
from fedq.core.trace_records import encode as encode_batch
from fedq.node.publishing.outlets import Outlets
from fedq.node.records.state import NodeState
from fedq.node.records.tracing.trace_lines import TraceLines
from fedq.node.records.tracing.tracer import Tracer
from fedq.wiring.cluster_map.tracing import is_stream

#: A batch is written once its first event is so old, or when so many, or so many bytes, wait.
BATCH_MS: Final = 100
BATCH_EVENTS: Final = 1_000
BATCH_BYTES: Final = PEER_FRAME_BYTES_MAX // 2
#: What a batch costs, in units of work, and each so many bytes of it.
_BATCH_WORK: Final = 10
_BYTES_SHIFT: Final = 12
_CONTENT_TYPE: Final = "application/x-ndjson"


class TraceWriting:
    """Writes the batches of all traces."""

    __slots__ = ("_sticky", "outlets", "state")

    def __init__(self, state: NodeState, outlets: Outlets) -> None:
        self.state = state
        self.outlets = outlets
        self._sticky = outlets.keep()

    def end_turn(self, tracer: Tracer) -> None:
        """Writes the batches that are due."""
        tracer.drain_losses()
        for writing in tracer.writings:
            lines = writing.lines
            if not lines:
                continue
            is_due = self.state.unix_ms - writing.since_ms >= BATCH_MS
            if is_due or len(lines) >= BATCH_EVENTS or writing.size >= BATCH_BYTES:
                self.write(tracer, writing)

    def write(self, tracer: Tracer, writing: TraceLines) -> None:
        """Writes all that waits for a trace, or drops it if its stream cannot take it."""
        state, target = self.state, writing.trace.target
        if state.takes_nothing or not is_stream(state.map, target):
            writing.drop()
            return
        lines, missing = writing.lines, writing.lost
        if missing:
            lines = [tracer.say_to(writing, GAP, missing), *lines]
        size, start, whole = writing.size, 0, len(lines)
        writing.lines, writing.size, writing.lost = [], 0, 0
        while start < whole:
            end = whole
            if whole > 2 * BATCH_EVENTS or size > 2 * BATCH_BYTES:
                end = _end_of(lines, start)
            if not self._publish(writing, lines[start:end] if start or end < whole else lines):
                writing.lost = whole - start if start or not missing else missing + whole - 1
                return
            start = end

    def _publish(self, writing: TraceLines, lines: list[bytes]) -> bool:
        """Publishes a batch; false if this node's window to the stream is full."""
        state, target = self.state, writing.trace.target
        head = Head(
            writing.name, state.me, state.settings.incarnation, writing.batch + 1, state.unix_ms
        )
        message = encode(
            FLAG_PERSISTENT, make_route("", target.name), _properties(head),
            encode_batch(head, lines),
        )  # fmt: skip
        part = self.outlets.parts((target,), message)[0]
        publisher = self.outlets.publisher(part, self._sticky, 0)
        if publisher.full:
            return False
        writing.batch += 1
        publisher.add([message], None)
        state.marks.publishers[publisher.fragment_id] = None
        state.work.spend(_BATCH_WORK + (len(message) >> _BYTES_SHIFT))
        return True


def _end_of(lines: list[bytes], start: int) -> int:
    """Where a batch ends that begins there, of more lines than one batch has."""
    end, size = start, 0
    while end < len(lines) and end - start < BATCH_EVENTS and size < BATCH_BYTES:
        size += len(lines[end]) + 1
        end += 1
    return end


def _properties(head: Head) -> bytes:
    return encode_properties(
        {
            "content_type": _CONTENT_TYPE,
            "delivery_mode": 2,
            "timestamp": head.ms // 1_000,
            "type": f"fedq.trace.{VERSION}",
            "app_id": "fedq",
        }
    )
