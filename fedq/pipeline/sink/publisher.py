"""Publishes blocks of rows with confirms, by whichever node serves, until all are confirmed.

Input: blocks of encoded publishes, each with the number of its rows. Output: nothing, once all is
confirmed; `PipelineError` for a row that was refused, and for what no node takes for the time that
was given. What is not confirmed when a connection breaks is sent again, in order, block by block.

    publish -> blocks, at most BYTES_MAX of them -> connection -> confirms -> blocks go

`connection.blocked` holds the sending for as long as it lasts.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from fedq.amqp import methods
from fedq.amqp.methods import Method
from fedq.pipeline.failure import PipelineError
from fedq.pipeline.patience import Patience
from fedq.pipeline.sink.connection import Connection, ConnectionLost

#: What is sent and not confirmed, at most, but for one block.
BYTES_MAX: Final = 16 * 1024 * 1024
#: A node that owes confirms says something, or takes some of what is sent, within this time.
SILENCE_S: Final = 30.0
#: So many blocks go one by one after a row was refused: a queue remembers some of the refused.
_CAREFUL_BLOCKS: Final = 32

logger = logging.getLogger(__name__)


class _Block:
    """Publishes that are not all confirmed."""

    __slots__ = ("count", "data", "last_tag", "sent")

    def __init__(self, data: bytes, count: int) -> None:
        self.data = data
        self.count = count
        #: Bytes of it that are sent on the present connection, and the tag of its last row there.
        self.sent = 0
        self.last_tag = 0


class Publisher:
    """Publishes blocks, in order; belongs to one thread."""

    def __init__(
        self, openers: list[Callable[[], Connection]], retry_s: float, bytes_max: int = BYTES_MAX
    ) -> None:
        """`openers`: one for each node; the first that lets this publisher in is used."""
        self._openers = deque(openers)
        self._patience = Patience(retry_s)
        self._bytes_max = bytes_max
        self._connection: Connection | None = None
        self._blocks: deque[_Block] = deque()
        self._bytes = 0
        #: Blocks that are still to go one by one.
        self._careful = 0
        self._forget_connection()

    def _forget_connection(self) -> None:
        """What is known of a connection before it is opened."""
        #: Blocks that are wholly sent, and the tag of the last row in them.
        self._sent_blocks = 0
        self._sent_tag = 0
        #: Up to which tag all rows are confirmed, and single ones beyond.
        self._confirmed = 0
        self._beyond: set[int] = set()
        self._is_blocked = False
        #: When the node last showed that it lives; and how many bytes its host had not taken when
        #: that was asked last.
        self._heard = time.monotonic()
        self._on_its_way = 0

    @property
    def frame_bytes_max(self) -> int:
        """What a frame may have at the node that lets this publisher in."""
        while self._connection is None:
            try:
                self._open()
            except ConnectionLost as lost:
                self._on_lost(lost)
        return self._connection.frame_bytes_max

    def publish(self, data: bytes, count: int) -> None:
        """Publishes rows; returns when there is room for more."""
        self._blocks.append(_Block(data, count))
        self._bytes += len(data)
        self._work(self._bytes_max)

    def finish(self) -> None:
        """Returns when all rows are confirmed."""
        self._work(0)

    def close(self) -> None:
        """Closes the connection; what is not confirmed may have been taken, or not."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _work(self, left_max: int) -> None:
        """Sends and reads until at most so many bytes are not confirmed."""
        while True:
            try:
                if self._connection is None:
                    self._open()
                assert self._connection is not None, "it was opened"
                self._read(self._connection)
                self._send(self._connection)
                if self._bytes <= left_max:
                    return
                self._wait(self._connection)
            except ConnectionLost as lost:
                self._on_lost(lost)

    def _open(self) -> None:
        """Opens a connection to the next node that lets this publisher in."""
        reasons: list[str] = []
        for _ in range(len(self._openers)):
            try:
                connection = self._openers[0]()
            except ConnectionLost as lost:
                reasons.append(str(lost))
                self._openers.rotate(-1)
                continue
            self._connection = connection
            self._forget_connection()
            for block in self._blocks:
                block.sent = 0
            return
        raise ConnectionLost("; ".join(reasons))

    def _on_lost(self, lost: ConnectionLost) -> None:
        """Goes on elsewhere, after a while; raises PipelineError if that has been tried enough."""
        if self._connection is not None:
            logger.warning("%s: what is not confirmed is published again elsewhere", lost)
            self._connection.close()
            self._connection = None
            self._openers.rotate(-1)
        self._patience.wait(str(lost))

    def _send(self, connection: Connection) -> None:
        """Sends what there is room for."""
        while self._wants_to_send:
            block = self._blocks[self._sent_blocks]
            if not block.sent and not self._owes:
                # From now on the node has something to say.
                self._heard = time.monotonic()
            view = memoryview(block.data)
            while block.sent < len(view):
                size = connection.send(view[block.sent :])
                if not size:
                    return
                block.sent += size
                self._heard, self._on_its_way = time.monotonic(), connection.on_its_way()
            self._sent_tag += block.count
            block.last_tag = self._sent_tag
            self._sent_blocks += 1

    @property
    def _wants_to_send(self) -> bool:
        """Whether there is a block that may go out now."""
        if self._is_blocked or self._sent_blocks >= len(self._blocks):
            return False
        return not self._careful or not self._sent_blocks

    @property
    def _owes(self) -> bool:
        """Whether the node has rows that it has not confirmed."""
        return self._sent_tag > self._confirmed or (
            self._sent_blocks < len(self._blocks) and self._blocks[self._sent_blocks].sent > 0
        )

    def _read(self, connection: Connection) -> None:
        """Takes what the node says."""
        while came := connection.receive():
            self._heard = time.monotonic()
            for method in came:
                self._on_method(method)
        while self._sent_blocks and self._blocks[0].last_tag <= self._confirmed:
            self._bytes -= len(self._blocks.popleft().data)
            self._sent_blocks -= 1
            self._careful = max(0, self._careful - 1)
            # Single rows are no progress: they are confirmed again and again where one is refused.
            self._patience.reset()

    def _wait(self, connection: Connection) -> None:
        if self._is_blocked or not self._owes:
            self._heard = time.monotonic()
        left = self._heard + SILENCE_S - time.monotonic()
        if left <= 0:
            # What was sent may be on its way for long, if that is narrow: that is no silence.
            before, self._on_its_way = self._on_its_way, connection.on_its_way()
            if self._on_its_way < before:
                self._heard = time.monotonic()
                return
            raise ConnectionLost(
                f"{connection.address}: the node has confirmed nothing for {SILENCE_S:g} s"
            )
        connection.wait(wants_to_send=self._wants_to_send, seconds=left)

    def _on_method(self, method: Method) -> None:
        match method:
            case methods.BasicAck(tag, multiple):
                self._on_ack(tag, multiple)
            case methods.BasicReturn(_, text, exchange, key):
                raise PipelineError(
                    f"no queue takes what is published to exchange {exchange!r} with routing key "
                    f"{key!r} ({text}): bind one, or say mandatory=false to drop such rows"
                )
            case methods.BasicNack():
                # The queue knows which rows it has refused of a name: they may come again.
                self._careful = _CAREFUL_BLOCKS
                raise ConnectionLost(
                    f"{self._address()}: a queue refused a row (basic.nack): it is full"
                )
            case methods.ConnectionBlocked(reason):
                logger.warning("the node takes nothing for now: %s", reason)
                self._is_blocked = True
            case methods.ConnectionUnblocked():
                self._is_blocked = False

    def _address(self) -> str:
        return "" if self._connection is None else self._connection.address

    def _on_ack(self, tag: int, multiple: bool) -> None:
        if multiple:
            if tag > self._confirmed:
                self._confirmed = tag
                if self._beyond:
                    self._beyond = {each for each in self._beyond if each > tag}
        elif tag > self._confirmed:
            self._beyond.add(tag)
        while self._beyond and self._confirmed + 1 in self._beyond:
            self._confirmed += 1
            self._beyond.discard(self._confirmed)
