"""Requests: one method for each that a client may make about queues, exchanges and consumers."""

from collections.abc import Callable
from typing import Any, TypeAlias

from fedq.amqp import method_types as m
from fedq.node.cluster.cluster_flow import ClusterFlow
from fedq.node.consuming.room import Consuming
from fedq.node.copies.room import Copies
from fedq.node.endings.room import Endings
from fedq.node.private.room import Private
from fedq.node.publishing.room import Publishing
from fedq.node.records.answers import Answers
from fedq.node.records.client_state import Channel
from fedq.node.records.state import NodeState
from fedq.node.requests.basic_requests import BasicRequests
from fedq.node.requests.direct_reply import DirectReply
from fedq.node.requests.exchange_requests import ExchangeRequests
from fedq.node.requests.queue_requests import QueueRequests
from fedq.node.requests.reader_requests import ReaderRequests
from fedq.node.requests.trains import Trains
from fedq.node.requests.transactions import Transactions
from fedq.node.streams.room import Streams

#: Carries out a request of one type on a channel.
Handler: TypeAlias = Callable[[Channel, Any], None]


class Requests:
    """The parts of this room, each made of those before it."""

    __slots__ = ("handlers", "queues", "trains")

    def __init__(
        self, state: NodeState, answers: Answers, cluster: ClusterFlow, publishing: Publishing,
        consuming: Consuming, private: Private, copies: Copies, endings: Endings, streams: Streams,
    ) -> None:  # fmt: skip
        ends = endings.channels
        replies = DirectReply(state, answers, ends, private.flow, consuming.flow)
        exchanges = ExchangeRequests(state, answers, ends, cluster.proposals)
        trains = self.trains = Trains(state, answers, ends, cluster.proposals, private, copies)
        queues = self.queues = QueueRequests(
            state, answers, ends, cluster.proposals, private, endings.private, copies, replies,
            trains,
        )  # fmt: skip
        readers = ReaderRequests(state, answers, ends, consuming.settling, streams.reading)
        basic = BasicRequests(
            state, answers, ends, queues, consuming, copies.asking, replies, readers
        )
        transactions = Transactions(state, answers, consuming.settling, publishing.outlets)
        #: What carries out each of them.
        self.handlers: dict[type, Handler] = {
            m.QueueDeclare: queues.declare,
            m.QueueBind: queues.bind,
            m.QueueUnbind: queues.unbind,
            m.QueuePurge: queues.purge,
            m.QueueDelete: queues.delete,
            m.ExchangeDeclare: exchanges.declare,
            m.ExchangeDelete: exchanges.delete,
            m.ExchangeBind: exchanges.bind,
            m.ExchangeUnbind: exchanges.unbind,
            m.BasicQos: basic.qos,
            m.BasicConsume: basic.consume,
            m.BasicCancel: endings.consumers.cancel,
            m.BasicGet: basic.get,
            m.BasicRecover: basic.recover,
            m.BasicRecoverAsync: basic.recover,
            m.ChannelFlow: basic.flow,
            m.ChannelClose: ends.close,
            m.ConfirmSelect: basic.confirm_select,
            m.TxSelect: transactions.select,
            m.TxCommit: transactions.commit,
            m.TxRollback: transactions.rollback,
        }
