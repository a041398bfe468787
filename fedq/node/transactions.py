"""tx.select, tx.commit and tx.rollback (AMQP 0-9-1 1.9): atomic on one shared fragment.

Between select and commit a channel's publishes and settlements wait with it. A commit that
concerns one shared fragment, and queues of this node alone, takes effect as one event of that
fragment: its copies and its journal have all of it or nothing. (The queues of this node alone
live in its memory: if it dies, nobody sees what they had.) What concerns more is refused by a
channel error, and nothing of it takes effect (docs/adr/0018).
"""

from typing import Final

from fedq.amqp.method_types import (
    Method,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from fedq.amqp.methods import ids_of
from fedq.amqp.rewriting import as_stored
from fedq.core.errors import PRECONDITION_FAILED, ChannelViolation
from fedq.core.ids import FragmentId
from fedq.node.answers import Answers
from fedq.node.client_state import Channel, Owner, Transaction
from fedq.node.outlets import Outlets, Reach
from fedq.node.relay_flow import give_back
from fedq.node.settle_flow import SettleFlow
from fedq.node.settling import Settlements, positions_of
from fedq.node.state import NodeState
from fedq.node.transaction_limits import forget
from fedq.node.waking import wake_consumers
from fedq.proxy.publisher import Settled
from fedq.sessions.confirms import ConfirmGroup
from fedq.wiring.routes import Route

#: What a publish or a settlement of a commit costs, in units of work.
_STEP_WORK: Final = 1


class Committing:
    """A commit on its way; hears when it is safe."""

    __slots__ = ("answers", "channel")

    def __init__(self, answers: Answers, channel: Channel) -> None:
        self.answers = answers
        self.channel = channel

    def on_committed(self) -> None:
        """All of it took effect."""
        self.answers.finish(self.channel, TxCommitOk())


class Transactions:
    """See the module's docstring."""

    __slots__ = ("answers", "outlets", "settling", "state")

    def __init__(
        self, state: NodeState, answers: Answers, settling: SettleFlow, outlets: Outlets
    ) -> None:
        self.state = state
        self.answers = answers
        self.settling = settling
        self.outlets = outlets

    def select(self, channel: Channel, request: TxSelect) -> None:
        """tx.select; a channel confirms or transacts, not both."""
        if channel.confirms is not None:
            raise _refusal(request, "cannot switch from confirm to tx mode")
        if channel.transaction is None:
            channel.transaction = Transaction()
            self.state.transacting[channel] = None
        self.answers.reply(channel, TxSelectOk())

    def rollback(self, channel: Channel, request: TxRollback) -> None:
        """tx.rollback: the publishes are forgotten, the deliveries wait again."""
        transaction = self._transaction(channel, request)
        forget(channel, transaction)
        channel.transaction = Transaction()
        self.settling.restore(channel, transaction)
        self.answers.reply(channel, TxRollbackOk())

    def commit(self, channel: Channel, request: TxCommit) -> None:
        """tx.commit; answered when it is safe."""
        transaction = self._transaction(channel, request)
        # It cannot be cut: it is one event. Nothing else begins in a turn that it fills.
        self.state.work.spend(_STEP_WORK * (len(transaction.publishes) + transaction.settled))
        reaches = self._reaches(channel, transaction)
        try:
            fragment = self._only_fragment(transaction, reaches, request)
        except ChannelViolation:
            self.settling.restore(channel, transaction)
            raise
        forget(channel, transaction)
        channel.transaction = Transaction()
        settlements = self._settle_private(channel, transaction, fragment)
        messages = self._publish_private(channel, transaction, reaches)
        if fragment is None:
            self.answers.reply(channel, TxCommitOk())
            return
        self.answers.wait(channel)
        publisher = self.outlets.publisher_of(fragment)
        self.outlets.flush(fragment)
        committing = Committing(self.answers, channel)
        group: ConfirmGroup[Owner] = ConfirmGroup(committing, len(messages), len(messages), 1)
        settled = Settled(*map(positions_of, settlements.lanes()[:3]))
        self.outlets.commit(publisher, publisher.add_atomic(messages, settled, group))

    def _transaction(self, channel: Channel, request: Method) -> Transaction:
        if channel.transaction is None:
            raise _refusal(request, "channel is not transactional")
        return channel.transaction

    def _reaches(self, channel: Channel, transaction: Transaction) -> dict[Route, Reach]:
        """Where each of its routes leads now: there are few of them, whatever goes there."""
        sticky, connection = channel.sticky, channel.client.connection
        reaches: dict[Route, Reach] = {}
        for _, targets, _ in transaction.publishes:
            if targets not in reaches:
                left = self._left_of(targets)
                reaches[targets] = self.outlets.reach(left, sticky, connection)
        return reaches

    def _left_of(self, targets: Route) -> Route:
        """The targets of a publish without queues that were deleted since."""
        known, private = self.state.map.queues, self.state.private_by_id
        return targets._replace(
            queues=tuple(queue for queue in targets.queues if queue in known),
            private=tuple(number for number in targets.private if number in private),
        )

    def _only_fragment(
        self, transaction: Transaction, reaches: dict[Route, Reach], request: Method
    ) -> FragmentId | None:
        """The shared fragment that is concerned, if any; raises 406 where there are more."""
        fragments: dict[FragmentId, None] = {}
        for reach in reaches.values():
            fragments.update((publisher.fragment_id, None) for publisher in reach.publishers)
        for part, _ in transaction.settles:
            if part.fragment in self.state.map.fragments:
                fragments[part.fragment] = None
        elsewhere = any(reach.nodes for reach in reaches.values())
        if len(fragments) > 1 or elsewhere:
            queues = {self.state.map.fragments[f].queue.name: None for f in fragments}
            names = ", ".join(sorted(queues)) + (" and queues of other nodes" if elsewhere else "")
            raise _refusal(
                request,
                f"this transaction concerns several queues or fragments ({names[:120]}): a "
                "transaction is atomic on one; use one queue for it, or publisher confirms",
            )
        return next(iter(fragments), None)

    def _settle_private(
        self, channel: Channel, transaction: Transaction, fragment: FragmentId | None
    ) -> Settlements:
        """Deliveries of queues of this node alone are settled; returns what concerns `fragment`."""
        lanes: dict[FragmentId, Settlements] = {}
        for part, outcome in transaction.settles:
            self.settling.note(channel, lanes, part, outcome)
        if channel.prefetch_global:
            wake_consumers(self.state, channel)
        for place, settlements in lanes.items():
            if place != fragment:
                self.settling.settle(place, settlements)
        return (
            lanes.get(fragment, Settlements.none()) if fragment is not None else Settlements.none()
        )

    def _publish_private(
        self, channel: Channel, transaction: Transaction, reaches: dict[Route, Reach]
    ) -> list[bytes]:
        """Publishes to private queues go out; returns, in order, those for the shared fragment."""
        shared: list[bytes] = []
        vhost = channel.client.vhost
        for message, targets, mandatory in transaction.publishes:
            reach = reaches[targets]
            if reach.publishers:
                shared.append(as_stored(message))
            if reach.private or reach.absent:
                private = reach._replace(publishers=[])
                self.outlets.deliver(vhost, [message], private, None, channel)
            if mandatory and not reach.publishers and not reach.private:
                give_back(self.state, channel, message)
        return shared


def _refusal(request: Method, text: str) -> ChannelViolation:
    return ChannelViolation(PRECONDITION_FAILED, text, *ids_of(request))
