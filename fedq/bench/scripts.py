"""The requests by which each kind of client becomes ready, as steps for `fedq.bench.opening`.

In: a topology. Out: steps; everything is on channel 1 of a connection of its own. Consumer tags
have `TAG_BYTES` bytes, so that all deliveries of one message to one connection are equally long.
"""

import ipaddress
from collections.abc import Sequence
from typing import Final

from fedq.amqp import methods
from fedq.amqp.values import FieldTable
from fedq.bench.blocks import CHANNEL
from fedq.bench.cut import TAG_BYTES
from fedq.bench.opening import Step
from fedq.bench.plan import Kind
from fedq.bench.topology import Topology

#: The system has about 28,000 ports for connections from one address to another.
CONNECTIONS_PER_SOURCE: Final = 25_000
_SOURCES: Final = 5
_BINDING_CONNECTIONS: Final = 32


def tag_of(index: int) -> bytes:
    """The consumer tag of the subscriber with this number on its connection."""
    return b"%0*x" % (TAG_BYTES, index)


def _open_channel() -> Step:
    return Step(CHANNEL, methods.ChannelOpen(), methods.ChannelOpenOk)


def producer_steps(has_confirms: bool) -> list[Step]:
    """Steps of a producer: a channel, in confirm mode if asked for."""
    steps = [_open_channel()]
    if has_confirms:
        steps.append(Step(CHANNEL, methods.ConfirmSelect(), methods.ConfirmSelectOk))
    return steps


def consumer_steps(topology: Topology, index: int) -> list[Step]:
    """Steps of a consumer of the queue with this number, which it declares if it is exclusive."""
    steps = [_open_channel()]
    queue, prefetch = topology.queue(index), topology.plan.prefetch
    if topology.plan.is_exclusive:
        steps.append(_declare_queue(topology, index))
        steps += _bindings_of(topology, index)
    if prefetch:
        qos = methods.BasicQos(prefetch_count=prefetch)
        steps.append(Step(CHANNEL, qos, methods.BasicQosOk))
    arguments: FieldTable = dict(topology.plan.consumer_arguments)
    consume = methods.BasicConsume(
        queue, tag_of(0).decode(), no_ack=prefetch is None, arguments=arguments
    )
    steps.append(Step(CHANNEL, consume, methods.BasicConsumeOk))
    return steps


def subscriber_steps(topology: Topology, subscribers: Sequence[int]) -> list[Step]:
    """Steps of subscribers: for each a queue of its own, bound to the exchange and consumed."""
    steps = [_open_channel()]
    for index, subscriber in enumerate(subscribers):
        queue = topology.private_queue(subscriber)
        declare = methods.QueueDeclare(queue, exclusive=True)
        consume = methods.BasicConsume(queue, tag_of(index).decode(), no_ack=True)
        steps += (
            Step(CHANNEL, declare, methods.QueueDeclareOk),
            Step(CHANNEL, methods.QueueBind(queue, topology.exchange), methods.QueueBindOk),
            Step(CHANNEL, consume, methods.BasicConsumeOk),
        )
    return steps


def declaring_steps(topology: Topology) -> list[Step]:
    """Steps that declare the exchange and the queues that are not somebody's own."""
    plan = topology.plan
    steps = [_open_channel()]
    if topology.exchange:
        exchange = methods.ExchangeDeclare(
            topology.exchange, topology.exchange_type, durable=plan.has_durable_queues
        )
        steps.append(Step(CHANNEL, exchange, methods.ExchangeDeclareOk))
    if topology.has_shared_queues:
        steps += (_declare_queue(topology, index) for index in range(plan.queue_count))
    return steps


def binding_scripts(topology: Topology) -> list[list[Step]]:
    """The bindings of shared queues, dealt to several connections: one alone would take long."""
    if not topology.has_shared_queues or topology.plan.kind is not Kind.TOPICS:
        return []
    steps = [
        step for index in range(topology.plan.queue_count) for step in _bindings_of(topology, index)
    ]
    hands = min(_BINDING_CONNECTIONS, len(steps))
    return [[_open_channel(), *steps[hand::hands]] for hand in range(hands)]


def _declare_queue(topology: Topology, index: int) -> Step:
    plan = topology.plan
    arguments: FieldTable = dict(plan.queue_arguments)
    declare = methods.QueueDeclare(
        topology.queue(index), durable=plan.has_durable_queues, exclusive=plan.is_exclusive,
        arguments=arguments,
    )  # fmt: skip
    return Step(CHANNEL, declare, methods.QueueDeclareOk)


def _bindings_of(topology: Topology, index: int) -> list[Step]:
    if topology.plan.kind is not Kind.TOPICS:
        return []
    queue, exchange = topology.queue(index), topology.exchange
    return [
        Step(CHANNEL, methods.QueueBind(queue, exchange, pattern), methods.QueueBindOk)
        for pattern in topology.bindings_of(index)
    ]


def deleting_steps(topology: Topology) -> list[Step]:
    """Steps that take away what `declaring_steps` made."""
    plan = topology.plan
    steps = [_open_channel()]
    if topology.has_shared_queues:
        steps += (
            Step(CHANNEL, methods.QueueDelete(topology.queue(index)), methods.QueueDeleteOk)
            for index in range(plan.queue_count)
        )
    if topology.exchange:
        delete = methods.ExchangeDelete(topology.exchange)
        steps.append(Step(CHANNEL, delete, methods.ExchangeDeleteOk))
    return steps


def source_of(topology: Topology, connection: int) -> str:
    """The address to connect from, where one has too few ports; "" leaves it to the system."""
    host = topology.target(connection).host
    targets = len(topology.plan.targets)
    if connection // targets < CONNECTIONS_PER_SOURCE or not _is_loopback(host):
        return ""
    return f"127.0.0.{1 + connection // targets // CONNECTIONS_PER_SOURCE % _SOURCES}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network("127.0.0.0/8")
    except ValueError:
        return host == "localhost"
