"""exchange.declare, delete, bind and unbind (AMQP 0-9-1 1.6 and RabbitMQ's exchange bindings).

Exchanges live in the cluster map: changes are proposed, and answered when every live member has
applied them (P6). What is already as asked is answered from this node's copy of the map.
"""

from fedq.amqp.method_types import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
)
from fedq.amqp.methods import ids_of
from fedq.core.errors import (
    ACCESS_REFUSED,
    COMMAND_INVALID,
    NOT_FOUND,
    ConnectionViolation,
    Refused,
)
from fedq.core.ids import QueueKey
from fedq.node.cluster.proposals import Proposals, Result
from fedq.node.endings.channel_ends import ChannelEnds
from fedq.node.records.answers import Answers
from fedq.node.records.client_state import Channel
from fedq.node.records.state import NodeState
from fedq.node.records.tables import arguments_text, refuse_arguments
from fedq.wiring.cluster_map import declarations
from fedq.wiring.cluster_map.operations import (
    Bind,
    DeclareExchange,
    DeleteExchange,
    Unbind,
    WiringOperation,
)
from fedq.wiring.cluster_map.state import Binding
from fedq.wiring.routing.exchange_kinds import EXCHANGE_TYPES


class ExchangeRequests:
    """Answers the exchange requests of channels."""

    __slots__ = ("answers", "ends", "proposals", "state")

    def __init__(
        self, state: NodeState, answers: Answers, ends: ChannelEnds, proposals: Proposals
    ) -> None:
        self.state = state
        self.answers = answers
        self.ends = ends
        self.proposals = proposals

    def declare(self, channel: Channel, request: ExchangeDeclare) -> None:
        """Carries out exchange.declare."""
        key = QueueKey(channel.client.vhost, request.exchange)
        if not request.passive and request.type not in EXCHANGE_TYPES:
            word = "unknown" if request.type else "invalid"
            raise ConnectionViolation(
                COMMAND_INVALID, f"{word} exchange type '{request.type}'", *ids_of(request)
            )
        if not key.name:
            text = "operation not permitted on the default exchange"
            self.ends.refuse(channel, Refused(ACCESS_REFUSED, text), request)
            return
        exists = key in self.state.map.exchanges
        if request.passive:
            if not exists:
                text = f"no exchange '{key.name}' in vhost '{key.vhost}'"
                self.ends.refuse(channel, Refused(NOT_FOUND, text), request)
            elif not request.no_wait:
                self.answers.reply(channel, ExchangeDeclareOk())
            return
        operation = DeclareExchange(
            key.vhost, key.name, request.type, request.durable, request.auto_delete,
            request.internal, arguments_text(request.arguments),
        )  # fmt: skip
        answer = None if request.no_wait else ExchangeDeclareOk()
        if exists:
            # For an exchange that exists, applying only compares: it needs no commit.
            same = declarations.apply(self.state.map, operation)
            if isinstance(same, Refused):
                self.ends.refuse(channel, same, request)
            else:
                self._answer_when_everywhere(channel, answer)
            return
        self._propose(channel, request, operation, answer)

    def delete(self, channel: Channel, request: ExchangeDelete) -> None:
        """Carries out exchange.delete; deleting what is not there is no error (as in RabbitMQ)."""
        operation = DeleteExchange(channel.client.vhost, request.exchange, request.if_unused)
        self._propose(channel, request, operation, None if request.no_wait else ExchangeDeleteOk())

    def bind(self, channel: Channel, request: ExchangeBind) -> None:
        """Carries out exchange.bind."""
        binding = self._binding(channel, request)
        answer = None if request.no_wait else ExchangeBindOk()
        if binding in self.state.map.bindings:
            self._answer_when_everywhere(channel, answer)
            return
        self._propose(channel, request, Bind(*binding), answer)

    def unbind(self, channel: Channel, request: ExchangeUnbind) -> None:
        """Carries out exchange.unbind."""
        answer = None if request.no_wait else ExchangeUnbindOk()
        self._propose(channel, request, Unbind(*self._binding(channel, request)), answer)

    def _binding(self, channel: Channel, request: ExchangeBind | ExchangeUnbind) -> Binding:
        return Binding(
            channel.client.vhost, request.source, "exchange", request.destination,
            request.routing_key, arguments_text(request.arguments),
        )  # fmt: skip

    def _propose(
        self, channel: Channel, request: Method, operation: WiringOperation,
        answer: Method | None,
    ) -> None:  # fmt: skip
        if isinstance(operation, DeclareExchange | Bind) and (
            refused := refuse_arguments(operation.arguments)
        ):
            self.ends.refuse(channel, refused, request)
            return

        def on_result(result: Result) -> None:
            if channel.closed:
                return
            if isinstance(result, Refused):
                self.ends.refuse(channel, result, request)
            else:
                self._answer_when_everywhere(channel, answer)

        self.answers.wait(channel)
        self.proposals.ask(operation, on_result)

    def _answer_when_everywhere(self, channel: Channel, answer: Method | None) -> None:
        self.answers.wait(channel)
        self.answers.when_everywhere(lambda: self.answers.finish(channel, answer))
