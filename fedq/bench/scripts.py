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
from fedq.bench.columns import TAG_BYTES
from fedq.bench.opening import Step
from fedq.bench.plan import Kind
from fedq.bench.topology import Topology

#: The system has about 28,000 ports for connections from one address to another.
CONNECTIONS_PER_SOURCE: Final = 25_000
_SOURCES: Final = 5


def tag_of(index: int) -> bytes:
    """The consumer tag of the subscriber with this number on its connection."""
    return b"%0*x" % (TAG_BYTES, index)


def _open_channel() -> Step:
    return Step(CHANNEL, methods.ChannelOpen(), methods.ChannelOpenOk)


def producer_steps(has_confirms: bool) -> list[Step]:
    """A channel, in confirm mode if asked for."""
    steps = [_open_channel()]
    if has_confirms:
        steps.append(Step(CHANNEL, methods.ConfirmSelect(), methods.ConfirmSelectOk))
    return steps


def consumer_steps(queue: str, prefetch: int | None) -> list[Step]:
    """A consumer of a queue that exists; `prefetch` None acknowledges automatically."""
    steps = [_open_channel()]
    if prefetch:
        qos = methods.BasicQos(prefetch_count=prefetch)
        steps.append(Step(CHANNEL, qos, methods.BasicQosOk))
    consume = methods.BasicConsume(queue, tag_of(0).decode(), no_ack=prefetch is None)
    steps.append(Step(CHANNEL, consume, methods.BasicConsumeOk))
    return steps


def subscriber_steps(topology: Topology, subscribers: Sequence[int]) -> list[Step]:
    """For each subscriber a queue of its own, bound to the exchange and consumed."""
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
    """The exchange, the shared queues and their bindings."""
    plan = topology.plan
    is_durable = plan.is_durable or plan.is_persistent
    steps = [_open_channel()]
    if topology.exchange:
        exchange = methods.ExchangeDeclare(
            topology.exchange, topology.exchange_type, durable=is_durable
        )
        steps.append(Step(CHANNEL, exchange, methods.ExchangeDeclareOk))
    if plan.kind is Kind.FANOUT:
        return steps
    arguments: FieldTable = dict(plan.queue_arguments)
    for index in range(plan.queue_count):
        queue = topology.queue(index)
        declare = methods.QueueDeclare(queue, durable=is_durable, arguments=arguments)
        steps.append(Step(CHANNEL, declare, methods.QueueDeclareOk))
        if plan.kind is Kind.TOPICS:
            steps += (
                Step(
                    CHANNEL,
                    methods.QueueBind(queue, topology.exchange, pattern),
                    methods.QueueBindOk,
                )
                for pattern in topology.bindings_of(index)
            )
    return steps


def deleting_steps(topology: Topology) -> list[Step]:
    """Takes away what `declaring_steps` made."""
    plan = topology.plan
    steps = [_open_channel()]
    if plan.kind is not Kind.FANOUT:
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
