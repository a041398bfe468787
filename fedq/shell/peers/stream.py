"""The dialing end of one stream to a peer: dials until it is up, then writes what it is handed.

In: frames of a link, or bytes. Out: gRPC messages in the same order, and word of the stream going
up and down.
One task serves a stream for the whole life of the node; a frame costs no task of its own.

Invariants: `on_up` and `on_down` alternate, except that `on_down` is repeated for each attempt
that fails; a frame handed over while the stream is down is discarded, and those waiting when it
breaks, too; what waits is bounded in bytes.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import grpc
import grpc.aio

from fedq.core import limits
from fedq.core.ids import NodeId
from fedq.core.peer_messages import PeerFrame
from fedq.shell.peers.channel import HELLO_METADATA, LINK_METHOD, NODE_METADATA
from fedq.shell.peers.desk import PeerDesk
from fedq.shell.peers.hello import Hello, Process, decode_hello, encode_hello
from fedq.shell.peers.malformed import MalformedFrameError
from fedq.shell.peers.send_queue import FrameSendQueue

#: What one stream may have waiting; the node's own windows keep it far below.
QUEUE_BYTES_MAX: Final = limits.PEER_WINDOW_BYTES_MAX + limits.RECORD_BYTES_MAX
#: How long one attempt may take from dialing to the peer's welcome.
_WELCOME_S: Final = 2.0
#: Between attempts; longer when the peer refuses for a reason that time alone does not cure.
_RETRY_S: Final = 0.05
_RETRY_REFUSED_S: Final = 1.0
#: And longer the longer a peer has been away, up to a second: many dead ones cost a core otherwise.
_SHARE_OF_ABSENCE: Final = 1 / 20
#: How often a stream that is to end is asked whether all has left.
_DRAIN_S: Final = 0.005
#: A peer that keeps failing for the same reason is logged once, and again after so many attempts.
_LOG_EVERY: Final = 1_000

_LASTING = (
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.NOT_FOUND,
)

logger = logging.getLogger(__name__)

Call = grpc.aio.StreamStreamCall[bytes, bytes]


class _StreamFailed(Exception):
    """The stream ended; the text says why."""

    def __init__(self, reason: str, *, is_lasting: bool = False) -> None:
        super().__init__(reason)
        self.is_lasting = is_lasting


class PeerStream:
    """One outgoing stream to one peer."""

    __slots__ = (
        "_call", "_channel", "_desk", "_failing_s", "_failures", "_frames", "_hurry", "_kind",
        "_last_reason", "_log_level", "_method", "_on_down", "_on_taken", "_on_up", "_peer",
        "_queue", "_queue_bytes", "_up", "_wake", "_writing",
    )  # fmt: skip

    def __init__(
        self,
        channel: Callable[[], grpc.aio.Channel],
        method: str,
        desk: PeerDesk,
        peer: NodeId,
        on_up: Callable[[Process], None],
        on_down: Callable[[], Awaitable[None]],
        on_taken: Callable[[str], None],
    ) -> None:
        """`channel`: for an attempt that begins. `on_up`: with the process that answered.

        `on_taken`: the peer says for good that another process has this node's name.
        """
        self._channel = channel
        self._method = method
        # Both streams to a peer share its fate; one of them is enough for an operator's log.
        self._kind = "link" if method == LINK_METHOD else "raft stream"
        self._log_level = logging.INFO if method == LINK_METHOD else logging.DEBUG
        self._desk = desk
        self._peer = peer
        self._on_up = on_up
        self._on_down = on_down
        self._on_taken = on_taken
        self._frames = FrameSendQueue()
        self._queue: deque[bytes] = deque()
        self._queue_bytes = 0
        self._wake = asyncio.Event()
        self._up = False
        #: A frame is on its way into the stream.
        self._writing = False
        self._call: Call | None = None
        self._failures = 0
        #: Since when attempts have failed; None: it was up.
        self._failing_s: float | None = None
        #: The next attempt is to begin without a pause.
        self._hurry = asyncio.Event()
        self._last_reason = ""

    @property
    def is_up(self) -> bool:
        """Whether the peer has admitted the stream and it has not broken since."""
        return self._up

    def send(self, data: bytes) -> bool:
        """Hands over bytes; False when the stream is down or too much waits already."""
        if not self._up or (self._queue and self._queue_bytes + len(data) > QUEUE_BYTES_MAX):
            return False
        self._queue.append(data)
        self._queue_bytes += len(data)
        self._wake.set()
        return True

    def send_frames(self, frames: Iterable[PeerFrame]) -> bool:
        """Hands over frames of a link; False when the stream is down or too much waits already."""
        waiting = self._frames
        if not self._up or waiting.bytes_waiting > QUEUE_BYTES_MAX:
            return False
        for frame in frames:
            waiting.add(frame)
        self._wake.set()
        return True

    def say_last(self, frame: PeerFrame) -> None:
        """Says the last frame there is: of those before it, what waits is void."""
        self._frames.clear()
        self.send_frames([frame])

    async def drained(self) -> None:
        """Returns when nothing waits to be written, or the stream is down."""
        while self._up and (self._frames.bytes_waiting or self._writing):  # noqa: ASYNC110
            await asyncio.sleep(_DRAIN_S)

    def break_off(self) -> None:
        """Ends the stream as if it had broken; it is dialed again."""
        if self._call is not None:
            self._call.cancel()

    def dial_anew(self) -> None:
        """Dials at once: the peer is somewhere else."""
        self._failing_s = None
        self._hurry.set()
        self.break_off()

    async def serve(self) -> None:
        """Dials and writes until cancelled."""
        task = asyncio.current_task()
        assert task is not None, "served by a task"
        # gRPC swallows a cancellation that comes while it prepares a call; the task remembers it.
        while not task.cancelling():
            try:
                await self._serve_once()
            except _StreamFailed as failure:
                self._note(failure)
                retry_s = _RETRY_REFUSED_S if failure.is_lasting else self._pause_s()
            await self._on_down()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(retry_s):
                    await self._hurry.wait()
            self._hurry.clear()

    def _pause_s(self) -> float:
        """How long to wait after one more attempt has failed."""
        now_s = asyncio.get_running_loop().time()
        if self._failing_s is None:
            self._failing_s = now_s
        absence_s = (now_s - self._failing_s) * _SHARE_OF_ABSENCE
        return min(max(absence_s, _RETRY_S), _RETRY_REFUSED_S)

    async def _serve_once(self) -> None:
        """One attempt; always ends in `_StreamFailed` or cancellation."""
        open_call: grpc.aio.StreamStreamMultiCallable[bytes, bytes]
        open_call = self._channel().stream_stream(self._method)
        mine = self._desk.asking()
        call = open_call(
            metadata=((NODE_METADATA, mine.node), (HELLO_METADATA, encode_hello(mine)))
        )
        self._call = call
        try:
            process = await self._expect_hello(call, mine)
            self._up = True
            self._failures = 0
            self._failing_s = None
            self._last_reason = ""
            call.add_done_callback(lambda _: self._wake.set())
            logger.log(self._log_level, "%s to %s is up", self._kind, self._peer)
            self._on_up(process)
            await self._write_all(call)
            raise await self._ended(call)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            raise await self._ended(call) from error
        except asyncio.CancelledError as error:
            # gRPC raises this for a cancelled call, too; then the task itself goes on.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise _StreamFailed("this node broke it off") from error
        finally:
            self._up = self._writing = False
            self._frames.reset()
            self._queue.clear()
            self._queue_bytes = 0
            self._call = None
            call.cancel()

    async def _expect_hello(self, call: Call, mine: Hello) -> Process:
        try:
            # Not `wait_for`: in Python 3.11 it loses a cancellation that comes with the answer.
            async with asyncio.timeout(_WELCOME_S):
                answer = await call.read()
        except TimeoutError as error:
            raise _StreamFailed(f"no answer within {_WELCOME_S:g} seconds") from error
        if not isinstance(answer, bytes):
            raise await self._ended(call)
        try:
            hello = decode_hello(answer)
        except MalformedFrameError as error:
            raise _StreamFailed(str(error), is_lasting=True) from error
        if hello.node != self._peer:
            raise _StreamFailed(
                f"{hello.node} answers at its address; correct `peers` in the file",
                is_lasting=True,
            )
        doubt = self._desk.doubt(mine, hello, self._peer)
        if doubt is not None:
            raise _StreamFailed(doubt, is_lasting=True)
        unfit = self._desk.unfit(hello)
        if unfit is not None:
            raise _StreamFailed(unfit, is_lasting=True)
        self._frames.version = min(self._desk.hello.speaks[1], hello.speaks[1])
        self._desk.answered(hello)
        return hello.process

    async def _write_all(self, call: Call) -> None:
        queue, wake, frames = self._queue, self._wake, self._frames
        while not call.done():
            await wake.wait()
            wake.clear()
            while queue:
                data = queue.popleft()
                await call.write(data)
                # Only now, so that what gRPC holds back counts as waiting.
                self._queue_bytes -= len(data)
            while (joined := frames.take()) is not None:
                self._writing = True
                await call.write(joined)
                self._writing = False

    def _note(self, failure: _StreamFailed) -> None:
        self._failures += 1
        reason, level = str(failure), self._log_level
        if failure.is_lasting and level == logging.INFO:
            level = logging.WARNING
        if reason != self._last_reason or self._failures % _LOG_EVERY == 0:
            self._last_reason = reason
            logger.log(level, "no %s to %s: %s", self._kind, self._peer, reason)

    async def _ended(self, call: Call) -> _StreamFailed:
        """Why the call ended, in words."""
        if not call.done():
            return _StreamFailed("the stream broke")
        code = await call.code()
        details = await call.details()
        if code is grpc.StatusCode.ALREADY_EXISTS:
            self._on_taken(str(details))
        if code is grpc.StatusCode.NOT_FOUND:
            self._desk.dismissed_by(self._peer, str(details))
        return _StreamFailed(f"{code.name}: {details}", is_lasting=code in _LASTING)
