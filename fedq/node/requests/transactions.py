"""tx.select, tx.commit and tx.rollback (AMQP 0-9-1 1.9): atomic on one shared fragment.

Between select and commit a channel's publishes and settlements wait with it. A commit that
concerns one shared fragment, and queues of this node alone, takes effect as one event of that
fragment: its copies and its journal have all of it or nothing. (The queues of this node alone
live in its memory: if it dies, nobody sees what they had.) What concerns more is refused by a
channel error, and nothing of it takes effect (docs/adr/0018).
"""

from collections import deque
from collections.abc import Callable
from functools import partial
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
from fedq.amqp.spec import BASIC_NACK
from fedq.channels.confirms import ConfirmGroup
from fedq.core.errors import PRECONDITION_FAILED, ChannelViolation
from fedq.core.ids import FragmentId, QueueKey, Target
from fedq.node.consuming.settle_flow import SettleFlow, refuse_return
from fedq.node.consuming.waking import wake_consumers
from fedq.node.publishing.outlets import Outlets, Reach
from fedq.node.publishing.returns import give_back
from fedq.node.records.answers import Answers
from fedq.node.records.client_state import Channel, Owner, Transaction
from fedq.node.records.settling import ACKNOWLEDGED, Settlements, positions_of
from fedq.node.records.state import NodeState
from fedq.node.records.transaction_limits import forget
from fedq.proxy.publisher import Settled
from fedq.wiring.routing.route import Route

#: What a publish or a settlement of a commit costs, in units of work.
_STEP_WORK: Final = 1


class Committing:
    """A commit on its way; hears when it is safe."""

    __slots__ = ("answers", "channel")

    def __init__(self, answers: Answers, channel: Channel) -> None:
        self.answers = answers
        self.channel = channel

    def on_committed(self) -> None:
        """Takes note that all of the commit took effect."""
        self.answers.finish(self.channel, TxCommitOk())


class Transactions:
    """Answers the transaction requests of channels."""

    __slots__ = ("answers", "outlets", "settling", "state")

    def __init__(
        self, state: NodeState, answers: Answers, settling: SettleFlow, outlets: Outlets
    ) -> None:
        self.state = state
        self.answers = answers
        self.settling = settling
        self.outlets = outlets

    def select(self, channel: Channel, request: TxSelect) -> None:
        """Carries out tx.select; a channel confirms or transacts, not both."""
        if channel.confirms is not None:
            raise _refusal(request, "cannot switch from confirm to tx mode")
        if channel.transaction is None:
            channel.transaction = Transaction()
            self.state.transacting[channel] = None
        self.answers.reply(channel, TxSelectOk())

    def rollback(self, channel: Channel, request: TxRollback) -> None:
        """Carries out tx.rollback: the publishes are forgotten, the deliveries wait again."""
        transaction = self._transaction(channel, request)
        forget(channel, transaction)
        channel.transaction = Transaction()
        self.settling.restore(channel, transaction)
        self.answers.reply(channel, TxRollbackOk())

    def commit(self, channel: Channel, request: TxCommit) -> None:
        """Carries out tx.commit; answered when it is safe."""
        transaction = self._transaction(channel, request)
        for part, outcome in transaction.settles:
            stream = self.settling.stream_of(part) if outcome != ACKNOWLEDGED else None
            if stream is not None:
                raise refuse_return(stream, BASIC_NACK)
        # What is shared cannot be cut: it is one event. Nothing else begins in a turn it fills.
        self.state.work.spend(_STEP_WORK * (len(transaction.publishes) + transaction.settled))
        reaches, ways = self._reaches(channel, transaction)
        try:
            fragment = self._only_fragment(transaction, ways, request)
        except ChannelViolation:
            self.settling.restore(channel, transaction)
            raise
        channel.transaction = Transaction()
        settlements = self._settle_private(channel, transaction, fragment)
        settled = Settled(*map(positions_of, settlements.lanes()[:3]))
        shared: list[bytes] = []
        private: list[tuple[bytes, Reach, bool]] = []
        for (message, _, mandatory), reach in zip(transaction.publishes, reaches, strict=True):
            if reach.publishers:
                shared.append(as_stored(message))
            if reach.private or reach.absent or (mandatory and not reach.publishers):
                private.append((message, reach, mandatory))
        info = self.state.map.fragments.get(fragment) if fragment is not None else None
        place = (info.id, info.queue) if info is not None else None
        done = partial(self._set_out, channel, transaction, place, shared, settled)
        if not private:
            done()
            return
        publishing = _Publishing(self, channel, private, done)
        if not self.state.chores.begin(publishing, publishing):
            self.answers.wait_for_turns(channel)

    def _set_out(
        self, channel: Channel, transaction: Transaction,
        place: tuple[FragmentId, QueueKey] | None, messages: list[bytes], settled: Settled,
    ) -> None:  # fmt: skip
        """Sends what is shared on its way: queues of this node alone have all that is theirs."""
        forget(channel, transaction)
        fragment = self._fragment_left(channel, *place) if place is not None else None
        if place is not None and fragment != place[0]:
            # Positions in a fragment that is no more.
            settled = Settled([], [], [])
            fragment = fragment if messages else None
        if fragment is None:
            if channel.waiting:
                self.answers.finish(channel, TxCommitOk())
            else:
                self.answers.reply(channel, TxCommitOk())
            return
        if not channel.closed:
            self.answers.wait(channel)
        publisher = self.outlets.publisher_of(fragment)
        self.outlets.flush(fragment)
        committing = Committing(self.answers, channel)
        group: ConfirmGroup[Owner] = ConfirmGroup(committing, len(messages), len(messages), 1)
        batch = publisher.add_atomic(messages, settled, group, channel.is_named)
        if self.state.tracer is not None and messages:
            self.state.tracer.on_accepted(channel, messages, (fragment,))
            self.state.tracer.on_routed(channel, fragment, batch.first, len(messages))
        self.outlets.commit(publisher, batch, channel.client)

    def _fragment_left(
        self, channel: Channel, fragment: FragmentId, queue: QueueKey
    ) -> FragmentId | None:
        """The fragment of a commit as it sets out: another one, if it was retired meanwhile.

        Nobody knew by then that it was to get something (docs/adr/0100). None: its queue is gone.
        """
        if fragment in self.state.map.fragments:
            return fragment
        if not self.outlets.is_retired(fragment, queue):
            return None
        return self.outlets.publisher(queue, channel.sticky, channel.spread).fragment_id

    def _transaction(self, channel: Channel, request: Method) -> Transaction:
        if channel.transaction is None:
            raise _refusal(request, "channel is not transactional")
        return channel.transaction

    def _reaches(
        self, channel: Channel, transaction: Transaction
    ) -> tuple[list[Reach], list[Reach]]:
        """Where each of its publishes leads now, and all ways there are: few, whatever goes there.

        Publishes with one route may differ in their routing keys, and so in the fragment of a
        stream.
        """
        sticky, spread, parted = channel.sticky, channel.spread, self.state.parted
        ways: dict[tuple[Route, tuple[Target, ...]], Reach] = {}
        reaches: list[Reach] = []
        for message, targets, _ in transaction.publishes:
            way = targets, self.outlets.parts(targets.queues, message) if parted else ()
            reach = ways.get(way)
            if reach is None:
                left = self._left_of(targets)
                reach = ways[way] = self.outlets.reach(left, message, sticky, spread)
            reaches.append(reach)
        return reaches, list(ways.values())

    def _left_of(self, targets: Route) -> Route:
        """The targets of a publish without queues that were deleted since."""
        known, private = self.state.map.queues, self.state.private_by_id
        return targets._replace(
            queues=tuple(queue for queue in targets.queues if queue in known),
            private=tuple(number for number in targets.private if number in private),
        )

    def _only_fragment(
        self, transaction: Transaction, ways: list[Reach], request: Method
    ) -> FragmentId | None:
        """The shared fragment that is concerned, if any; raises 406 where there are more."""
        fragments: dict[FragmentId, None] = {}
        for reach in ways:
            fragments.update((publisher.fragment_id, None) for publisher in reach.publishers)
        for part, _ in transaction.settles:
            if part.fragment in self.state.map.fragments:
                fragments[part.fragment] = None
        elsewhere = any(reach.nodes for reach in ways)
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
        """Settles deliveries of queues of this node alone; returns what concerns `fragment`."""
        lanes: dict[FragmentId, Settlements] = {}
        for part, outcome in transaction.settles:
            self.settling.note(channel, lanes, part, outcome)
            if self.state.tracer is not None:
                self.state.tracer.on_settled(
                    channel, part.holder, part.fragment, part.positions, outcome
                )
        if channel.prefetch_global:
            wake_consumers(self.state, channel)
        for place, settlements in lanes.items():
            if place != fragment:
                self.settling.settle(place, settlements)
        return (
            lanes.get(fragment, Settlements.none()) if fragment is not None else Settlements.none()
        )

    def publish_private(
        self, channel: Channel, message: bytes, reach: Reach, mandatory: bool
    ) -> None:
        """Publishes a message that goes to queues of this node alone, or nowhere."""
        if reach.private or reach.absent:
            known = self.state.private_by_id
            # Some may be gone since the commit began.
            left = [number for number in reach.private if number in known]
            private = reach._replace(publishers=[], private=left)
            if self.state.tracer is not None:
                self.state.tracer.on_accepted(channel, [message], (), left)
            self.outlets.deliver(channel.client.vhost, [message], private, None, channel)
        if mandatory and not reach.publishers and not reach.private and not channel.closed:
            give_back(self.state, channel, message)


class _Publishing:
    """A chore: the publishes of a commit that go to queues of this node alone, or nowhere.

    It goes on if the client has gone: what it has committed takes effect.
    """

    __slots__ = ("_channel", "_done", "_left", "_transactions")

    def __init__(
        self, transactions: Transactions, channel: Channel,
        publishes: list[tuple[bytes, Reach, bool]], done: Callable[[], None],
    ) -> None:  # fmt: skip
        self._transactions = transactions
        self._channel = channel
        self._done = done
        self._left = deque(publishes)

    def go_on(self) -> bool:
        """Publishes the next messages."""
        transactions, left = self._transactions, self._left
        work = transactions.state.work
        while left:
            message, reach, mandatory = left.popleft()
            transactions.publish_private(self._channel, message, reach, mandatory)
            work.spend(_STEP_WORK)
            if left and work.is_spent:
                return False
        self._done()
        return True


def _refusal(request: Method, text: str) -> ChannelViolation:
    return ChannelViolation(PRECONDITION_FAILED, text, *ids_of(request))
