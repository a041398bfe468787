"""queue.declare, bind, unbind, purge and delete (AMQP 0-9-1 1.7), from any node.

A shared queue lives in the cluster map: what changes it is proposed, and answered when every live
member has applied it (P6). A private queue lives here: it is answered here. Counts, purge and
delete concern every fragment (P5).
"""

from functools import partial

from fedq.amqp.method_types import (
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from fedq.core.errors import ACCESS_REFUSED, NOT_FOUND, Refused
from fedq.core.ids import QueueKey
from fedq.core.peer_messages import CALL_COUNT, CALL_DECLARE, CALL_PURGE
from fedq.node.cluster.proposals import Proposals, Result
from fedq.node.copies.emptying import Purging
from fedq.node.copies.room import Copies
from fedq.node.endings.channel_ends import ChannelEnds
from fedq.node.endings.private_ends import PrivateEnds
from fedq.node.private.room import Private
from fedq.node.records.answers import Answers
from fedq.node.records.client_state import Channel
from fedq.node.records.private_queue import PrivateQueue
from fedq.node.records.state import NodeState
from fedq.node.records.tables import arguments_text, refuse_arguments
from fedq.node.records.unserved import refuse_deletion, refuse_unserved
from fedq.node.requests.direct_reply import DirectReply, is_reply_name
from fedq.node.requests.locked_names import LockedNames
from fedq.node.requests.queue_refusals import (
    in_use,
    locked,
    missing,
    refuse_new,
    refuse_new_stream,
    refuse_other,
)
from fedq.node.requests.reader_requests import refuse_method
from fedq.node.requests.trains import Trains
from fedq.proxy.calls import COUNT_MAX, Finish, Totals
from fedq.wiring.cluster_map.operations import (
    Bind,
    Unbind,
    arguments_of,
)
from fedq.wiring.cluster_map.state import Binding
from fedq.wiring.routing.exchange_arguments import refuse_binding
from fedq.wiring.routing.names import node_of, server_name

SALT_BITS = 64


class QueueRequests:
    """Answers the queue requests of channels."""

    __slots__ = (
        "answers", "asking", "dispatching", "ends", "locked", "private", "private_ends",
        "proposals", "registrations", "replies", "state", "trains",
    )  # fmt: skip

    def __init__(
        self, state: NodeState, answers: Answers, ends: ChannelEnds, proposals: Proposals,
        private: Private, private_ends: PrivateEnds, copies: Copies, replies: DirectReply,
        trains: Trains,
    ) -> None:  # fmt: skip
        self.state = state
        self.answers = answers
        self.ends = ends
        self.proposals = proposals
        self.private = private.flow
        self.registrations = private.registrations
        self.private_ends = private_ends
        self.dispatching = copies.dispatching
        self.asking = copies.asking
        self.replies = replies
        self.trains = trains
        self.locked = LockedNames(state, answers)

    # --- which queue is meant ----------------------------------------------------------------

    def find(self, channel: Channel, name: str) -> QueueKey | Refused:
        """The queue that a method names; "" is the channel's last declared one (1.7.2.3.1).

        What came before the method has taken effect there.
        """
        if not name and not channel.last_queue:
            return Refused(NOT_FOUND, "no previously declared queue")
        key = QueueKey(channel.client.vhost, name or channel.last_queue)
        private = self.state.private.get(key)
        if private is not None:
            if private.owner is not channel.client:
                return locked(key)
            self.dispatching.catch_up(key)
            return key
        if key in self.state.map.queues:
            self.dispatching.catch_up(key)
            return key
        if key in self.state.map.claims and not self.registrations.is_ours(key):
            return locked(key)
        # Whether a queue that another node named is still there, only that node knows. If it is,
        # it is another connection's: so it is, while the node lives, for who asks from here.
        if node_of(key.name) in self.state.live_peers():
            return locked(key)
        return missing(key)

    def find_served(self, channel: Channel, name: str) -> QueueKey | Refused:
        """As `find`, of a queue that can be asked something: not all its homes are down."""
        found = self.find(channel, name)
        return found if isinstance(found, Refused) else refuse_unserved(self.state, found) or found

    # --- declare -----------------------------------------------------------------------------

    def declare(self, channel: Channel, request: QueueDeclare) -> None:
        """Carries out queue.declare."""
        self._declare(channel, request, patient=True)

    def _declare(self, channel: Channel, request: QueueDeclare, patient: bool) -> None:
        """`patient`: a name that another node's client has may be free soon."""
        key = QueueKey(channel.client.vhost, request.queue)
        if is_reply_name(request.queue):
            self.replies.declare(channel, request)
        elif request.passive and not request.queue:
            self.ends.refuse(channel, missing(key), request)
        elif request.passive:
            self._declare_same(channel, request)
        elif not request.queue:
            self._declare_new(channel, request, key._replace(name=self._make_name()))
        elif key in self.state.private:
            self._declare_same(channel, request)
        elif key in self.state.map.claims and not self.registrations.is_ours(key):
            if patient:
                self.locked.wait(channel, key, lambda: self._declare(channel, request, False))
            else:
                self._declare_same(channel, request)
        elif key in self.state.map.queues:
            self.trains.declare(channel, request, key)
        else:
            self._declare_new(channel, request, key)

    def _declare_same(self, channel: Channel, request: QueueDeclare) -> None:
        """A queue that is said to be there: by a passive declaration, or by who owns it here."""
        found = self.find(channel, request.queue)
        if isinstance(found, Refused):
            self.ends.refuse(channel, found, request)
            return
        unserved = refuse_unserved(self.state, found) if request.passive else None
        if unserved is not None:
            self.ends.refuse(channel, unserved, request)
            return
        private = self.state.private.get(found)
        if private is not None and not request.passive:
            difference = refuse_other(private, request)
            if difference is not None:
                self.ends.refuse(channel, difference, request)
                return
        self._declared(channel, request, found)

    def _declare_new(self, channel: Channel, request: QueueDeclare, key: QueueKey) -> None:
        refused = (
            refuse_new(key, request)
            or refuse_new_stream(request, self.state.map)
            or self.private.refuse(key, channel.client, request.exclusive)
        )
        if refused is not None:
            self.ends.refuse(channel, refused, request)
        elif not request.exclusive:
            self.trains.declare(channel, request, key)
        elif request.queue:
            self._claim(channel, request, key)
        else:
            self._create_private(channel, request, key)

    def _make_name(self) -> str:
        salt = self.state.salts.number(SALT_BITS)
        return server_name(self.state.me, self.state.private_made + 1, salt)

    def _create_private(
        self, channel: Channel, request: QueueDeclare, key: QueueKey, claimed: bool = False
    ) -> None:
        policy = self.state.policy_by(key, request.arguments)
        private = self.private.create(key, channel.client, policy)
        private.claimed = claimed
        if not claimed:
            self.private.count(private, 1)
        private.auto_delete = request.auto_delete
        private.durable = request.durable
        private.arguments = arguments_text(request.arguments)

        def answer() -> None:
            self._answer_declare(channel, request, key, Totals(0, 0))
            self.answers.finish(channel, None)

        if claimed:
            self.answers.when_everywhere(answer)
        else:
            self._answer_declare(channel, request, key, Totals(0, 0))

    def _claim(self, channel: Channel, request: QueueDeclare, key: QueueKey) -> None:
        def on_result(result: Result) -> None:
            if channel.closed:
                return
            if isinstance(result, Refused):
                self.ends.refuse(channel, result, request)
            elif key in self.state.private:
                # Another channel of this node was first; the map cannot tell the two apart.
                self.answers.finish(channel, None)
                self.declare(channel, request)
            else:
                self._create_private(channel, request, key, claimed=True)

        self.answers.wait(channel)
        self.registrations.claim(key, on_result)

    def _declared(self, channel: Channel, request: QueueDeclare, key: QueueKey) -> None:
        """Answers that the queue exists, with its counts."""
        if channel.closed or (key not in self.state.map.queues and key not in self.state.private):
            self.ends.refuse(channel, missing(key), request)
            return
        channel.last_queue = key.name
        declared = self.state.map.queues.get(key)

        def on_totals(totals: Totals) -> None:
            info = self.state.map.queues.get(key)
            same = info is not None and declared and info.fragments[0] == declared.fragments[0]
            if declared is not None and not same:
                # It ended while its fragments were asked: as if nobody had asked yet.
                self.answers.finish(channel, None)
                self.declare(channel, request)
                return
            self._answer_declare(channel, request, key, totals)
            if channel.waiting:
                self.answers.finish(channel, None)

        private = self.state.private.get(key)
        if private is not None:
            private.used_ms = self.state.now_ms
            on_totals(Totals(private.fragment.ready_count, private.hub.size))
        elif request.no_wait:
            on_totals(Totals(0, 0))
        else:
            self._ask(channel, key, CALL_DECLARE, on_totals)

    def _answer_declare(
        self, channel: Channel, request: QueueDeclare, key: QueueKey, totals: Totals
    ) -> None:
        channel.last_queue = key.name
        if not request.no_wait:
            counts = totals.ready, min(totals.consumers, COUNT_MAX)
            self.answers.reply(channel, QueueDeclareOk(key.name, *counts))

    def _ask(self, channel: Channel, key: QueueKey, verb: int, finish: Finish) -> None:
        """Asks every fragment; the channel waits for the answer."""
        self.answers.wait(channel)
        self.dispatching.catch_up(key)
        self.asking.ask(verb, self.state.map.queues[key].fragments, finish)

    # --- bind and unbind ---------------------------------------------------------------------

    def bind(self, channel: Channel, request: QueueBind) -> None:
        """Carries out queue.bind: answered when publishes anywhere reach the queue."""
        found = self._ends(channel, request.queue, request.exchange)
        if isinstance(found, Refused):
            self.ends.refuse(channel, found, request)
            return
        answer = None if request.no_wait else QueueBindOk()
        key, exchange = found
        arguments = arguments_text(request.arguments)
        routing_key = _routing_key(request, key)
        private = self.state.private.get(key)
        if private is not None:
            source = self.state.map.exchanges[exchange]
            refused = (
                refuse_arguments(arguments)
                or refuse_binding(
                    source.type, arguments_of(source.arguments), routing_key, request.arguments
                )
                or self.state.accounts.refuse_more(channel.client)
            )
            if refused is not None:
                self.ends.refuse(channel, refused, request)
                return
            self.private.bind(private, (exchange, routing_key, arguments))
            self.answers.wait(channel)
            self.private.when_bound(exchange, lambda: self.answers.finish(channel, answer))
            return
        binding = Binding(key.vhost, exchange.name, "queue", key.name, routing_key, arguments)
        if binding in self.state.map.bindings:
            self.answers.wait(channel)
            self.answers.when_everywhere(lambda: self.answers.finish(channel, answer))
            return
        self.propose(channel, request, Bind(*binding), answer)

    def unbind(self, channel: Channel, request: QueueUnbind) -> None:
        """Carries out queue.unbind; what is not there is no error (as in RabbitMQ)."""
        found = self._ends(channel, request.queue, request.exchange)
        if isinstance(found, Refused):
            named = request.queue or channel.last_queue
            if found.reply_code == NOT_FOUND and named:
                self.answers.reply(channel, QueueUnbindOk())
            else:
                self.ends.refuse(channel, found, request)
            return
        key, exchange = found
        arguments = arguments_text(request.arguments)
        routing_key = _routing_key(request, key)
        private = self.state.private.get(key)
        if private is not None:
            self.private.unbind(private, (exchange, routing_key, arguments))
            self.answers.wait(channel)
            self.registrations.when_unmarked(
                exchange,
                lambda: self.answers.when_everywhere(
                    lambda: self.answers.finish(channel, QueueUnbindOk())
                ),
            )
            return
        operation = Unbind(key.vhost, exchange.name, "queue", key.name, routing_key, arguments)
        self.propose(channel, request, operation, QueueUnbindOk())

    def _ends(
        self, channel: Channel, queue: str, exchange: str
    ) -> tuple[QueueKey, QueueKey] | Refused:
        found = self.find(channel, queue)
        if isinstance(found, Refused) and not queue and not channel.last_queue:
            return found
        source = QueueKey(channel.client.vhost, exchange)
        if not exchange:
            return Refused(ACCESS_REFUSED, "operation not permitted on the default exchange")
        if source not in self.state.map.exchanges:
            return Refused(NOT_FOUND, f"no exchange '{exchange}' in vhost '{source.vhost}'")
        return found if isinstance(found, Refused) else (found, source)

    def propose(
        self, channel: Channel, request: Method, operation: Bind | Unbind,
        answer: Method | None,
    ) -> None:  # fmt: skip
        """Proposes a change; the answer goes out when every live member has applied it."""
        if isinstance(operation, Bind) and (refused := refuse_arguments(operation.arguments)):
            self.ends.refuse(channel, refused, request)
            return

        def on_result(result: Result) -> None:
            if channel.closed:
                return
            if isinstance(result, Refused):
                self.ends.refuse(channel, result, request)
            else:
                self.answers.when_everywhere(lambda: self.answers.finish(channel, answer))

        self.answers.wait(channel)
        self.proposals.ask(operation, on_result)

    # --- purge and delete --------------------------------------------------------------------

    def purge(self, channel: Channel, request: QueuePurge) -> None:
        """Carries out queue.purge: what is ready in every fragment."""
        found = self.find_served(channel, request.queue)
        if isinstance(found, Refused):
            self.ends.refuse(channel, found, request)
            return
        if self.state.is_stream(found):
            raise refuse_method("queue.purge", found, request)
        private = self.state.private.get(found)
        if private is not None:
            private.used_ms = self.state.now_ms
            chore = Purging(self.state, private.fragment, partial(self._purged, channel, request))
            if not self.state.chores.begin(channel.client, chore):
                self.answers.wait_for_turns(channel)
            return

        def on_totals(totals: Totals) -> None:
            answer = None if request.no_wait else QueuePurgeOk(totals.ready)
            self.answers.finish(channel, answer)

        self._ask(channel, found, CALL_PURGE, on_totals)

    def _purged(self, channel: Channel, request: QueuePurge, count: int) -> None:
        answer = None if request.no_wait else QueuePurgeOk(count)
        if channel.waiting:
            self.answers.finish(channel, answer)
        elif answer is not None:
            self.answers.reply(channel, answer)

    def delete(self, channel: Channel, request: QueueDelete) -> None:
        """Carries out queue.delete; deleting what is not there is no error (as in RabbitMQ)."""
        found = self.find(channel, request.queue)
        if isinstance(found, Refused):
            if found.reply_code == NOT_FOUND and (request.queue or channel.last_queue):
                if not request.no_wait:
                    self.answers.reply(channel, QueueDeleteOk(0))
            else:
                self.ends.refuse(channel, found, request)
            return
        key = found
        private = self.state.private.get(key)
        if private is not None:
            self._delete_private(channel, request, private)
            return

        if (unserved := refuse_deletion(self.state, key, request.if_empty)) is not None:
            self.ends.refuse(channel, unserved, request)
            return
        if self.state.is_stream(key):
            # As if nobody read it and nothing were in it.
            self.trains.delete(channel, request, key, Totals(0, 0))
            return

        def on_totals(totals: Totals) -> None:
            # Some of it may not be served any more by now.
            refused = refuse_deletion(self.state, key, request.if_empty)
            refused = refused or in_use(key, request, totals)
            if channel.closed:
                return
            if refused is not None:
                self.ends.refuse(channel, refused, request)
                return
            self.trains.delete(channel, request, key, totals)

        self._ask(channel, key, CALL_COUNT, on_totals)

    def _delete_private(
        self, channel: Channel, request: QueueDelete, private: PrivateQueue
    ) -> None:
        totals = Totals(private.fragment.ready_count, private.hub.size)
        refused = in_use(private.key, request, totals)
        if refused is not None:
            self.ends.refuse(channel, refused, request)
            return
        answer = None if request.no_wait else QueueDeleteOk(totals.ready)
        self.answers.wait_for_turns(channel)
        self.private_ends.end(private, partial(self._deleted, channel, private, answer))

    def _deleted(self, channel: Channel, private: PrivateQueue, answer: Method | None) -> None:
        if not private.claimed or channel.closed:
            self.answers.finish(channel, answer)
            return
        self.answers.wait(channel)
        self.registrations.when_released(
            private.key,
            lambda: self.answers.when_everywhere(lambda: self.answers.finish(channel, answer)),
        )


def _routing_key(request: QueueBind | QueueUnbind, key: QueueKey) -> str:
    """The routing key of a binding: without queue and key, the queue's name (1.7.2.3.3)."""
    if not request.queue and not request.routing_key:
        return key.name
    return request.routing_key
