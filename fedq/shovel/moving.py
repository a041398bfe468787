"""One session of a shovel: what comes of the source goes to the destination, and is settled.

In: two open connections, a shovel. Out: counts; it returns when the shovel has moved all that it
was to move, and raises `ShovelError` when an end is lost. Invariants: with `on-confirm` exactly
those messages are acknowledged at the source that the destination has confirmed, however the
session ends; no message is kept here: the source has it until then. What the destination refuses
goes back to the source, after a pause. As long as the destination takes nothing, nothing is read.
"""

import asyncio
import time
from typing import Final, NamedTuple

from fedq.amqp import method_types as m
from fedq.amqp.client_side import Arrived
from fedq.amqp.uris import parse_uri
from fedq.amqp.values import Encoded, FieldTable, TableValue, Timestamp, encoded_items
from fedq.core.errors import NOT_FOUND
from fedq.core.ids import NodeId, QueueKey
from fedq.shovel.peer import Peer, ShovelError
from fedq.wiring.cluster_map.shovel_definitions import (
    NO_ACK,
    ON_CONFIRM,
    ON_PUBLISH,
    QUEUE_LENGTH,
    Shovel,
    ends_shown,
)

#: How long nothing is published after the destination has refused something.
REFUSED_PAUSE_S: Final = 1.0
#: How far a source may go beyond the prefetch: RabbitMQ sends streams in chunks.
_EXCESS_MAX: Final = 65_536
#: Of a message that may have been moved before.
REDELIVERED: Final = "x-fedq-redelivered"
FORWARDED: Final = "x-shovelled"
#: Of earlier ones in that header: shovels may go round.
_HOPS_MAX: Final = 100
FORWARDED_AT: Final = "x-shovelled-timestamp"
#: By these headers a broker sends further copies; one that is moved has had its.
_COPIES: Final = ("CC", "BCC")
_COPIES_BEFORE: Final = "x-fedq-"
#: Of the consumer, the only one of its channel.
_TAG: Final = "fedq-shovel"


class Moved:
    """What a shovel has moved, over all its sessions."""

    __slots__ = ("bytes", "messages", "unsettled")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        self.unsettled = 0


class Whose(NamedTuple):
    """The shovel and the node that a session is of."""

    key: QueueKey
    node: NodeId


class Session:
    """A session between two connections."""

    __slots__ = (
        "_dest", "_extra", "_is_ended", "_left", "_moved", "_next", "_pause_until", "_pending",
        "_published", "_settled", "_shovel", "_source", "_whose",
    )  # fmt: skip

    def __init__(
        self, whose: Whose, shovel: Shovel, source: Peer, dest: Peer, moved: Moved
    ) -> None:
        self._whose = whose
        self._shovel = shovel
        self._source = source
        self._dest = dest
        self._moved = moved
        #: Number of a publish -> the delivery that it was, and its size; in order.
        self._pending: dict[int, tuple[int, int]] = {}
        self._next = 1
        #: How many more are to be published; None: all that come.
        self._left: int | None = None
        #: Deliveries beyond those that are to be moved: they go back as the session ends.
        self._extra: list[int] = []
        self._pause_until = 0.0
        #: With `on-publish`: the last delivery that is published and not acknowledged; 0: none.
        self._published = 0
        #: Whether no more can arrive of what the source takes for moved: of `no-ack` alone.
        self._is_ended = shovel.ack_mode != NO_ACK
        self._settled = asyncio.Event()

    async def run(self) -> None:
        """Returns when all is moved that was to be; raises `ShovelError`."""
        moved_before = self._moved.messages
        after = self._shovel.delete_after
        if isinstance(after, int):
            self._left = max(0, after - moved_before)
        if self._shovel.ack_mode == ON_CONFIRM:
            await self._dest.call(m.ConfirmSelect(), m.ConfirmSelectOk)
        if self._left != 0 and await self._consume():
            await self._move()
        await self._source.say_goodbye()
        await self._dest.say_goodbye()

    # --- the source -------------------------------------------------------------------------------

    async def _consume(self) -> bool:
        """Begins to consume; False: there is nothing to be moved."""
        shovel, source = self._shovel, self._source
        queue = shovel.src_queue
        if queue:
            declared = await source.call(m.QueueDeclare(queue, passive=True), m.QueueDeclareOk)
            if shovel.delete_after == QUEUE_LENGTH:
                self._left = declared.message_count
        else:
            declared = await source.call(m.QueueDeclare(exclusive=True), m.QueueDeclareOk)
            queue = declared.queue
            bind = m.QueueBind(queue, shovel.src_exchange, shovel.src_key)
            await source.call(bind, m.QueueBindOk)
        if self._left == 0:
            return False
        if shovel.ack_mode != NO_ACK:
            prefetch = min(shovel.prefetch, self._left or shovel.prefetch)
            await source.call(m.BasicQos(0, prefetch), m.BasicQosOk)
        consume = m.BasicConsume(
            queue, _TAG, no_ack=shovel.ack_mode == NO_ACK, arguments=shovel.src_consumer_arguments
        )
        source.tell(consume)
        return True

    async def _move(self) -> None:
        tasks = [
            asyncio.create_task(each) for each in (self._take(), self._hear(), self._settle_all())
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            done = [task for task in tasks if task.done()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            # An end that is lost is told, whatever else happened at once.
            task.result()

    async def _settle_all(self) -> None:
        """Returns once all that was to be moved is settled."""
        while self._left != 0 or self._pending or self._published or not self._is_ended:
            self._settled.clear()
            await self._settled.wait()

    async def _take(self) -> None:
        source, dest = self._source, self._dest
        while True:
            while (arrived := source.taken()) is not None:
                if isinstance(arrived.method, m.BasicCancelOk):
                    self._is_ended = True
                if not isinstance(arrived.method, m.BasicDeliver):
                    continue
                if self._left == 0 and self._shovel.ack_mode != NO_ACK:
                    self._extra.append(arrived.method.delivery_tag)
                    continue
                await self._pause()
                self._publish(arrived, arrived.method)
                await dest.drain()
            if self._published:
                source.tell(m.BasicAck(self._published, multiple=True))
                self._published = 0
            self._settled.set()
            await source.read()

    async def _pause(self) -> None:
        left = self._pause_until - time.monotonic()
        if left > 0:
            await asyncio.sleep(left)

    def _publish(self, arrived: Arrived, delivery: m.BasicDeliver) -> None:
        shovel = self._shovel
        exchange, key = delivery.exchange, delivery.routing_key
        if shovel.dest_queue is not None:
            exchange, key = "", shovel.dest_queue
        elif shovel.dest_exchange is not None:
            exchange = shovel.dest_exchange
        if shovel.dest_key is not None and shovel.dest_queue is None:
            key = shovel.dest_key
        changed = arrived._replace(properties=self._properties(arrived, delivery))
        to_queue = shovel.dest_queue is not None
        # Of an exchange nobody hears, as of every publisher's; a queue that is gone must not cost.
        self._dest.publish(exchange, key, changed, mandatory=to_queue)
        if self._left:
            self._left -= 1
            if not self._left and not self._is_ended:
                # What is under way is nowhere else: it is published before the shovel ends.
                self._source.tell(m.BasicCancel(_TAG))
        if shovel.ack_mode == ON_PUBLISH:
            self._published = delivery.delivery_tag
        if shovel.ack_mode == ON_CONFIRM:
            self._pending[self._next] = (delivery.delivery_tag, arrived.size)
            self._moved.unsettled = len(self._pending)
            self._next += 1
            if len(self._pending) > shovel.prefetch + _EXCESS_MAX:
                raise ShovelError("the source sends more than it was asked for")
        else:
            self._count(1, arrived.size)

    def _properties(self, arrived: Arrived, delivery: m.BasicDeliver) -> dict[str, TableValue]:
        found = dict(arrived.properties)
        # Who published it is none of the destination's users, which would refuse it.
        found.pop("user_id", None)
        said = found.get("headers")
        headers: FieldTable = dict(said) if isinstance(said, dict) else {}
        if self._shovel.dest_queue is not None:
            for name in _COPIES:
                if name in headers:
                    headers[f"{_COPIES_BEFORE}{name.lower()}"] = headers.pop(name)
        if delivery.redelivered:
            headers[REDELIVERED] = True
        if self._shovel.adds_headers:
            before = headers.get(FORWARDED)
            rows = encoded_items(before, _HOPS_MAX) if isinstance(before, Encoded) else []
            headers[FORWARDED] = [self._forwarded(), *rows]
        if self._shovel.adds_time:
            headers[FORWARDED_AT] = Timestamp(int(time.time()))
        if headers or isinstance(said, dict):
            found["headers"] = headers
        return found

    def _forwarded(self) -> FieldTable:
        shovel = self._shovel
        source, destination = ends_shown(shovel)
        return {
            "shovelled-by": str(self._whose.node), "shovel-type": "dynamic",
            "shovel-name": self._whose.key.name, "shovel-vhost": self._whose.key.vhost,
            "src-uri": _shown(shovel.src_uris[0]), "dest-uri": _shown(shovel.dest_uris[0]),
            "source": source, "destination": destination,
        }  # fmt: skip

    # --- the destination --------------------------------------------------------------------------

    async def _hear(self) -> None:
        """Settles at the source what the destination says of its publishes."""
        source, dest = self._source, self._dest
        while True:
            confirmed: list[int] = []
            refused: list[int] = []
            try:
                while (arrived := dest.taken()) is not None:
                    match arrived.method:
                        case m.BasicAck(number, multiple):
                            confirmed += self._taken_back(number, multiple, is_confirmed=True)
                        case m.BasicNack(number, multiple):
                            refused += self._taken_back(number, multiple, is_confirmed=False)
                        case m.BasicReturn():
                            raise ShovelError("the destination's queue is gone")
                        case _:
                            raise ShovelError("the destination answered out of turn")
            finally:
                # Before the others: what is acknowledged together takes in all that came before.
                source.tell(*[m.BasicNack(tag, requeue=True) for tag in refused])
                self._acknowledge(confirmed)
            if refused:
                if self._left is not None:
                    self._left += len(refused)
                    source.tell(*[m.BasicNack(tag, requeue=True) for tag in self._extra])
                    self._extra.clear()
                self._pause_until = time.monotonic() + REFUSED_PAUSE_S
            self._settled.set()
            await dest.read()

    def _taken_back(self, number: int, multiple: bool, *, is_confirmed: bool) -> list[int]:
        """The deliveries whose publishes these were."""
        tags = []
        if multiple:
            numbers = []
            for each in self._pending:
                if each > number:
                    break
                numbers.append(each)
        else:
            numbers = [number] if number in self._pending else []
        for each in numbers:
            tag, size = self._pending.pop(each)
            tags.append(tag)
            if is_confirmed:
                self._count(1, size)
        self._moved.unsettled = len(self._pending)
        return tags

    def _acknowledge(self, confirmed: list[int]) -> None:
        """Acknowledges these deliveries, and no other; those before all others with one method."""
        if not confirmed:
            return
        confirmed.sort()
        oldest = next(iter(self._pending.values()), None)
        through = confirmed[-1] if oldest is None else oldest[0] - 1
        together = [tag for tag in confirmed if tag <= through]
        if together:
            self._source.tell(m.BasicAck(together[-1], multiple=True))
        rest = confirmed[len(together) :]
        if rest:
            self._source.tell(*[m.BasicAck(tag) for tag in rest])

    def _count(self, messages: int, size: int) -> None:
        self._moved.messages += messages
        self._moved.bytes += size


def _shown(uri: str) -> str:
    parsed = parse_uri(uri)
    return parsed if isinstance(parsed, str) else parsed.shown


def is_missing(error: ShovelError) -> bool:
    """Whether a broker said that something is not there."""
    return f": {NOT_FOUND} " in str(error)
