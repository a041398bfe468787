"""What becomes of deliveries: from delivery tags to the fragments that messages came from.

    basic.ack/nack/reject --> deliveries by tag --> fragment of this node | Settle to its primary
                                                --> the channel's transaction
    a channel ends, basic.recover --> all of its deliveries, as a chore --> the same

Changes channels' unacked windows, fragments of this node, `settlements`; sends to peers.
"""

from collections.abc import Callable, Sequence
from typing import Final

from fedq.amqp.settlements import Settle as Settled
from fedq.amqp.spec import BASIC, BASIC_ACK
from fedq.channels.unacked import Part
from fedq.core.errors import (
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    ChannelViolation,
    ConnectionViolation,
)
from fedq.core.ids import FragmentId, QueueKey
from fedq.core.peer_messages import Settle
from fedq.fragments.fragment import Fragment
from fedq.node.consuming.keeping_up import note_back
from fedq.node.consuming.waking import wake_consumers
from fedq.node.records.client_state import Channel, Consumer, Transaction
from fedq.node.records.settling import (
    ACKNOWLEDGED,
    REJECTED,
    REQUEUED,
    Settlements,
    positions_of,
    settle_in,
)
from fedq.node.records.state import NodeState
from fedq.node.records.streams.stream_readers import READ, as_read
from fedq.node.records.transaction_limits import check_room
from fedq.wiring.cluster_map.queue_arguments import name_of

#: What a settled message costs, in units of work: one that comes back or dies, one that goes.
_RETURN_WORK: Final = 2
_GOING_SHIFT: Final = 3
#: Spans of a window that are looked at in a unit of work.
_SPANS_PER_UNIT: Final = 16

Lanes = dict[FragmentId, Settlements]


class SettleFlow:
    """Settles deliveries, by tags of a channel or by positions in a fragment."""

    __slots__ = ("state",)

    def __init__(self, state: NodeState) -> None:
        self.state = state

    def on_settles(self, channel: Channel, batch: list[Settled]) -> list[Settled]:
        """Takes a run of basic.ack, nack and reject; raises 406 for an unknown tag.

        Returns what is left for the next turn: this one has done so much already.
        """
        self.state.risk.begin()
        lanes: Lanes = {}
        work = self.state.work
        left: list[Settled] = []
        unknown: int | None = None
        stream: QueueKey | None = None
        method, is_cut = BASIC_ACK, False
        for index, (method, first, last, multiple, requeue) in enumerate(batch):
            if index and work.is_spent:
                left = batch[index:]
                break
            work.spend(1)
            outcome = ACKNOWLEDGED if method == BASIC_ACK else REQUEUED if requeue else REJECTED
            most = self._most(outcome)
            if multiple:
                through = last if last else channel.unacked.last_tag
                named = channel.unacked.settle_through(last, most)
                unknown = last if named is None else None
                stream = self._take(channel, lanes, named or [], outcome)
                if unknown is None and channel.unacked.has_through(through):
                    left = [(method, through, through, multiple, requeue), *batch[index + 1 :]]
                    is_cut = True
                    break
            else:
                end = min(last, first + most - 1)
                found, unknown = channel.unacked.settle(first, end)
                stream = self._take(channel, lanes, found, outcome)
                if unknown is None and end < last:
                    left = [(method, end + 1, last, multiple, requeue), *batch[index + 1 :]]
                    is_cut = True
                    break
            if unknown is not None or stream is not None:
                break
        if channel.prefetch_global and channel.transaction is None:
            wake_consumers(self.state, channel)
        self._carry_out(lanes)
        self.state.risk.end()
        if stream is not None:
            raise refuse_return(stream, method)
        if unknown is not None:
            text = f"unknown delivery tag {unknown}"
            raise ChannelViolation(PRECONDITION_FAILED, text, BASIC, method)
        if channel.transaction is not None:
            check_room(channel, channel.transaction, BASIC, method)
        if left and left[0][4] and is_cut:
            self.shut(channel)
        elif channel.shut:
            self.open(channel)
        return left

    def _most(self, outcome: int) -> int:
        """How many deliveries may be settled in what is left of the turn; at least one."""
        room = max(1, self.state.work.room)
        return room << _GOING_SHIFT if outcome == ACKNOWLEDGED else max(1, room // _RETURN_WORK)

    def _take(
        self, channel: Channel, lanes: Lanes, parts: list[Part[Consumer | None]], outcome: int
    ) -> QueueKey | None:
        """Takes deliveries out of the channel's window: for their fragments, or its transaction.

        Returns the name of a stream that some of them are of, and cannot return to.
        """
        transaction = channel.transaction
        work, tracer = self.state.work, self.state.tracer
        stream: QueueKey | None = None
        for part in parts:
            count = len(part.positions)
            if transaction is not None:
                transaction.settles.append((part, outcome))
                transaction.settled += count
                work.spend(1)
                continue
            is_going = outcome == ACKNOWLEDGED
            work.spend(1 + (count >> _GOING_SHIFT if is_going else _RETURN_WORK * count))
            self.note(channel, lanes, part, outcome)
            if tracer is not None:
                tracer.on_settled(channel, part.holder, part.fragment, part.positions, outcome)
            if not is_going and part.fragment >= READ:
                stream = self.stream_of(part) or stream
        return stream

    def stream_of(self, part: Part[Consumer | None]) -> QueueKey | None:
        """The stream that deliveries are of; None for those of another queue, or if it is gone."""
        holder = part.holder
        if part.fragment < READ or holder is None:
            return None
        return holder.queue if self.state.is_stream(holder.queue) else None

    def note(
        self, channel: Channel, lanes: Lanes, part: Part[Consumer | None], outcome: int
    ) -> None:
        """Notes settled deliveries: their consumer takes others, their fragment is to know."""
        holder, fragment, positions = part.holder, part.fragment, part.positions
        settlements = lanes.get(fragment)
        if settlements is None:
            settlements = lanes[fragment] = Settlements.none()
        settlements.add(outcome, positions)
        if outcome == ACKNOWLEDGED:
            self.state.counts.acknowledged += len(positions)
        if holder is not None:
            holder.unacked -= len(positions)
            if fragment >= READ:
                # Of a stream: a prefetch of the channel does not count it.
                channel.got -= len(positions)
                if outcome == ACKNOWLEDGED and holder.cursors is not None:
                    note_acknowledged(self.state, holder, as_read(fragment), positions)
            if not holder.unacked and holder.hub is not None:
                holder.hub.note_idle(holder)
            if not channel.prefetch_global:
                self.state.wake(holder)
        else:
            channel.got -= len(positions)

    def _carry_out(self, lanes: Lanes) -> None:
        for fragment, settlements in lanes.items():
            self.settle(fragment, settlements)

    def acknowledge(self, fragment: FragmentId, positions: list[int]) -> None:
        """Acknowledges deliveries."""
        self.settle(fragment, Settlements([positions], [], [], []))

    def return_unseen(self, fragment: FragmentId, positions: list[int]) -> None:
        """Gives back messages of a fragment elsewhere that no consumer here has seen."""
        self.settle(fragment, Settlements([], [], [], [positions]))

    def settle(self, fragment: FragmentId, settlements: Settlements) -> None:
        """Settles deliveries; those of remote fragments gather until the end of the turn."""
        state = self.state
        private = state.private_by_id.get(fragment)
        primary = state.primaries.get(fragment)
        if private is not None:
            private.sole_consumer = None
            settle_in(private.fragment, state.me, settlements)
            state.marks.queues[private.key] = None
        elif primary is not None and fragment not in state.quiet:
            state.at, state.at_what = primary, settlements
            settle_in(primary.fragment, state.me, settlements)
            if primary.windows is not None:
                note_back(primary.windows, state.me, settlements, state.now_ms)
            state.marks.primaries[fragment] = None
            state.marks.queues[primary.queue] = None
        elif fragment in state.map.fragments:
            quiet = state.quiet.get(fragment)
            if quiet is not None:
                gathered = quiet.settled
            else:
                gathered = state.marks.settlements.setdefault(fragment, Settlements.none())
            for lane, positions in zip(gathered.lanes(), settlements.lanes(), strict=True):
                lane.extend(positions)

    def flush_settlements(self) -> None:
        """Sends the gathered settlements, as one message per remote fragment."""
        state = self.state
        settlements, state.marks.settlements = state.marks.settlements, {}
        for fragment, lanes in settlements.items():
            info = state.map.fragments.get(fragment)
            if info is not None and info.primary != state.me:
                hub = state.hubs.get(info.queue)
                idle = 0 if hub is None else hub.idle_count
                gone, requeued, rejected, unseen = map(positions_of, lanes.lanes())
                state.send(
                    info.primary,
                    Settle(fragment, info.reign, gone, requeued, rejected, unseen, idle),
                )

    # --- all that a channel has --------------------------------------------------------------

    def return_all(self, channel: Channel, then: Callable[[], None]) -> bool:
        """Returns what the channel has to its queues; then something else is done.

        The channel ends, or recovers; as long as that goes on it counts among those that hold
        something (`NodeState.leaving`). True if it is done already.
        """
        transaction = channel.transaction
        if transaction is not None and transaction.settles:
            self.restore(channel, transaction)
        if not channel.unacked and not channel.shut:
            then()
            return True
        self.state.leaving[channel] = None
        return self.state.chores.begin(channel.client, Returning(self, channel, then))

    def restore(self, channel: Channel, transaction: Transaction) -> None:
        """Undoes the settlements of a transaction: deliveries wait for acknowledgement again."""
        settles, transaction.settles = transaction.settles, []
        transaction.settled = 0
        channel.unacked.restore(part for part, _ in settles)
        self.state.work.spend(channel.unacked.spans // _SPANS_PER_UNIT)

    def return_some(self, channel: Channel, through: int) -> bool:
        """Returns deliveries up to a tag, as many as the turn has room for.

        True if none is left.
        """
        work, window = self.state.work, channel.unacked
        lanes: Lanes = {}
        if window.has_through(through):
            parts = window.settle_through(through, self._most(REQUEUED)) or []
            for part in parts:
                work.spend(1 + _RETURN_WORK * len(part.positions))
                self.note(channel, lanes, part, REQUEUED)
                if self.state.tracer is not None:
                    self.state.tracer.on_settled(
                        channel, part.holder, part.fragment, part.positions, REQUEUED, "ended"
                    )
            if channel.prefetch_global and not channel.closed:
                wake_consumers(self.state, channel)
            self._carry_out(lanes)
        return not window.has_through(through)

    # --- many at a time keep their order -----------------------------------------------------

    def shut(self, channel: Channel) -> None:
        """Keeps queues from handing out while much of what the channel has returns to them.

        Otherwise those that wait behind the messages of a later piece would come before them (P4).
        """
        if channel.shut is not None:
            return
        shut: dict[FragmentId, Fragment] = {}
        for part in channel.unacked.parts():
            fragment = self._fragment_here(part.fragment)
            if fragment is not None and part.fragment not in shut:
                fragment.shut += 1
                shut[part.fragment] = fragment
        channel.shut = shut
        self.state.work.spend(channel.unacked.spans // _SPANS_PER_UNIT)

    def open(self, channel: Channel) -> None:
        """Lets the queues hand out again: all of it has returned."""
        shut, channel.shut = channel.shut, None
        for number, fragment in (shut or {}).items():
            fragment.shut -= 1
            self.state.mark_fragment(number)

    def _fragment_here(self, number: FragmentId) -> Fragment | None:
        private = self.state.private_by_id.get(number)
        if private is not None:
            return private.fragment
        primary = self.state.primaries.get(number)
        return primary.fragment if primary is not None else None


def note_acknowledged(
    state: NodeState, reader: Consumer, fragment: FragmentId, positions: Sequence[int]
) -> None:
    """Notes how far a reader of a stream has come, if it has a name: that is told with a tick."""
    cursor = reader.cursors.get(fragment) if reader.cursors is not None else None
    readers = state.readers_of(reader.queue, fragment)
    if cursor is None or cursor.named is None or readers is None:
        return
    cursor.named.settle(positions)
    readers.moved[cursor.named] = None
    state.marks.queues[reader.queue] = None


def refuse_return(stream: QueueKey, method: int) -> ConnectionViolation:
    """The refusal of deliveries that would have to return to a stream."""
    text = f"basic.nack and basic.reject not supported by stream queues {name_of(stream)}"
    return ConnectionViolation(NOT_IMPLEMENTED, text, BASIC, method)


class Returning:
    """A chore: what a channel has returns to its queues (`SettleFlow.return_all`)."""

    __slots__ = ("_channel", "_flow", "_then", "_through")

    def __init__(self, flow: SettleFlow, channel: Channel, then: Callable[[], None]) -> None:
        self._flow = flow
        self._channel = channel
        self._then = then
        # What is delivered from now on stays.
        self._through = channel.unacked.last_tag

    def go_on(self) -> bool:
        """Returns the next deliveries."""
        flow, channel = self._flow, self._channel
        while not flow.return_some(channel, self._through):
            if flow.state.work.is_spent:
                flow.shut(channel)
                return False
        flow.open(channel)
        if not channel.leaving:
            flow.state.leaving.pop(channel, None)
        self._then()
        return True
