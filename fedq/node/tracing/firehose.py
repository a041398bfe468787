"""RabbitMQ's firehose: publishes and deliveries go once more to the exchange for that.

In: the taps of the tracer. Out: messages with the bodies of those that they are about, under
`publish.<exchange>` and `deliver.<queue>`, with RabbitMQ's headers, by the ordinary way of routing.
They are transient, and nobody waits for them.
"""

from collections.abc import Mapping
from typing import Final

from fedq.amqp.content import decode_kept_properties, encode_properties, message_flags
from fedq.amqp.rewriting import PROPERTIES_WRITTEN_BYTES_MAX, routing_keys
from fedq.amqp.values import TableValue
from fedq.core.errors import ConnectionViolation
from fedq.core.limits import NAME_BYTES_MAX
from fedq.core.message import FLAG_COPIES, encode, make_route, split_lean, split_route
from fedq.node.publishing.outlets import Outlets, Reach
from fedq.node.records.state import NodeState
from fedq.node.records.tracing.taps import Tap
from fedq.node.records.tracing.tracer import Tracer
from fedq.node.risk import Fault
from fedq.wiring.cluster_map.state import TRACE_EXCHANGE

#: What a tapped message costs, in units of work, and bytes of properties for one, as a shift.
_TAP_WORK: Final = 20
_PROPERTIES_SHIFT: Final = 4
#: How often the log says that some had no room.
_TOLD_EVERY_MS: Final = 10_000


class Firehose:
    """Publishes what was tapped."""

    __slots__ = ("_left_out", "_sticky", "_told_ms", "outlets", "state")

    def __init__(self, state: NodeState, outlets: Outlets) -> None:
        self.state = state
        self.outlets = outlets
        self._sticky = outlets.keep()
        self._left_out = 0
        self._told_ms = -_TOLD_EVERY_MS

    def end_turn(self, tracer: Tracer) -> None:
        """Publishes what was tapped since the last turn ended."""
        taps, work = tracer.taps, self.state.work
        for tap in taps.take():
            # Nobody waits for it, so it takes what is left of the turn, and no more.
            if work.left > 0:
                self._publish(tap)
            else:
                self._left_out += 1
        if taps.lost:
            self._left_out, taps.lost = self._left_out + taps.lost, 0
        if self._left_out and self.state.now_ms - self._told_ms >= _TOLD_EVERY_MS:
            text = f"the firehose left out {self._left_out} messages that had no room in their turn"
            self.state.out.warnings.append(text)
            self._left_out, self._told_ms = 0, self.state.now_ms

    def _publish(self, tap: Tap) -> None:
        state = self.state
        if state.takes_nothing:
            self._left_out += 1
            return
        try:
            found = self._message_of(tap)
        except Exception as error:
            # Nothing has set out: it concerns nobody but who listens.
            state.out.faults.append(Fault("the firehose cannot tell of a message", error))
            return
        if found is None:
            return
        message, reach = found
        roomy = [publisher for publisher in reach.publishers if not publisher.full]
        nodes = [node for node in reach.nodes if not state.peers[node].relays.full]
        if len(roomy) < len(reach.publishers) or len(nodes) < len(reach.nodes):
            self._left_out += 1
        self.outlets.deliver(
            tap.vhost, [message], reach._replace(publishers=roomy, nodes=nodes), None
        )

    def _message_of(self, tap: Tap) -> tuple[bytes, Reach] | None:
        """What the firehose says of a message, and to whom; None: nobody listens."""
        state = self.state
        route, properties, body = split_lean(tap.message)
        exchange, key = split_route(route)
        way = f"publish.{exchange}" if tap.queue is None else f"deliver.{tap.queue}"
        to = make_route(TRACE_EXCHANGE, _short(way))
        state.work.spend(1 + (len(properties) >> _PROPERTIES_SHIFT))
        kept = decode_kept_properties(properties)
        headers = _headers(tap, exchange, _keys(tap.message, key), kept, state.me)
        targets = state.router.route(tap.vhost, to, lambda: {"headers": headers})
        state.work.spend(1 + state.router.walked)
        state.router.walked = 0
        if targets is None or not (targets.queues or targets.private or targets.nodes):
            return None
        state.work.spend(_TAP_WORK)
        encoded = encode_properties({"headers": headers})
        if not _is_readable(encoded):
            headers["properties"] = {}
            encoded = encode_properties({"headers": headers})
        message = encode(0, to, encoded, bytes(body))
        return message, self.outlets.reach(targets, message, self._sticky, 0)


def _headers(
    tap: Tap, exchange: str, keys: list[str], kept: Mapping[str, TableValue], node: str
) -> dict[str, TableValue]:
    headers: dict[str, TableValue] = {
        "exchange_name": exchange,
        "routing_keys": list(keys),
        "properties": dict(kept),
        "node": node,
    }
    if tap.queue is not None:
        headers["redelivered"] = int(tap.redelivered)
    headers["vhost"] = tap.vhost
    headers["connection"] = tap.address
    headers["channel"] = tap.channel
    headers["user"] = tap.user
    if tap.queue is None:
        headers["routed_queues"] = list(tap.queues)
    return headers


def _keys(message: bytes, key: str) -> list[str]:
    """The routing keys of a message: its own, and those of its copies."""
    keys = routing_keys(message, key) if message[0] & FLAG_COPIES else None
    return [key] if keys is None else keys


def _is_readable(properties: bytes) -> bool:
    """Whether readers take properties: they stand two tables deeper here than they came."""
    if len(properties) > PROPERTIES_WRITTEN_BYTES_MAX:
        return False
    try:
        message_flags(properties)
    except ConnectionViolation:
        return False
    return True


def _short(text: str) -> str:
    """As much of a text as a short string takes."""
    data = text.encode("utf-8", "surrogateescape")
    return data[:NAME_BYTES_MAX].decode("utf-8", "surrogateescape")
