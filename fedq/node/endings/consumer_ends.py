"""basic.cancel, and whatever else takes consumers from their queues (AMQP 0-9-1 1.8.3.5).

Deliveries of what was published before come before the answer, and after it nothing is missing from
the queue that was on its way to the one that left. A queue that goes with its last consumer has
gone, everywhere, before its consumer hears the answer.

Changes hubs, private queues; marks queues; asks primaries.
"""

from collections.abc import Callable, Iterable

from fedq.amqp.method_types import BasicCancel, BasicCancelOk
from fedq.core.ids import FragmentId, QueueKey
from fedq.core.peer_messages import CALL_COUNT, CALL_LEFT
from fedq.node.consuming.consume_flow import ConsumeFlow
from fedq.node.copies.asking import Asking
from fedq.node.copies.dispatching import Dispatching
from fedq.node.endings.private_ends import PrivateEnds
from fedq.node.records.answers import Answers
from fedq.node.records.client_state import Channel, Consumer
from fedq.node.records.state import NodeState
from fedq.proxy.calls import Totals
from fedq.proxy.hub import Hub


class ConsumerEnds:
    """Takes consumers from their queues."""

    __slots__ = ("answers", "asking", "consuming", "dispatching", "private_ends", "state")

    def __init__(
        self, state: NodeState, answers: Answers, consuming: ConsumeFlow, asking: Asking,
        dispatching: Dispatching, private_ends: PrivateEnds,
    ) -> None:  # fmt: skip
        self.state = state
        self.answers = answers
        self.consuming = consuming
        self.asking = asking
        self.dispatching = dispatching
        self.private_ends = private_ends

    def cancel(self, channel: Channel, request: BasicCancel) -> None:
        """Carries out basic.cancel; an unknown tag is no error (1.8.3.5)."""
        answer = None if request.no_wait else BasicCancelOk(request.consumer_tag)
        consumer = channel.consumers.get(request.consumer_tag)
        if consumer is None:
            if answer is not None:
                self.answers.reply(channel, answer)
            return
        if consumer.cursors is not None:
            self.remove([consumer])
            self._cancelled(channel, answer)
            return
        hub = self.state.hubs.get(consumer.queue)
        sources = list(hub.sources) if hub is not None else []
        until_ms = self._leave_until_ms()
        if self._has_sent(sources):
            # What was published or given back here may be on its way there, and back.
            self.answers.wait(channel)
            self.consuming.settling.flush_settlements()
            self.asking.ask(
                CALL_COUNT, sources, lambda _: self._cancel(consumer, answer, until_ms), until_ms
            )
        else:
            self._cancel(consumer, answer, until_ms)

    def _has_sent(self, fragments: list[FragmentId]) -> bool:
        """Whether a fragment elsewhere may get messages of this node that it has not had yet."""
        publishers, settlements = self.state.publishers, self.state.marks.settlements
        return any(
            fragment in settlements
            or (fragment in publishers and publishers[fragment].bytes_unconfirmed > 0)
            for fragment in fragments
        )

    def _leave_until_ms(self) -> int:
        """Until when who leaves now waits for others; what is to go goes later, if it must."""
        return self.state.now_ms + self.state.settings.leave_wait_ms

    def _cancel(self, consumer: Consumer, answer: BasicCancelOk | None, until_ms: int) -> None:
        """Cancels a consumer; deliveries of what was published before come before the answer."""
        channel, queue = consumer.channel, consumer.queue
        if consumer.hub is None:
            # Its queue, or its channel, has gone meanwhile.
            self._cancelled(channel, answer)
            return
        self.dispatching.catch_up(queue)
        self.remove([consumer])
        hub = self.state.hubs.get(queue)
        if hub is not None and hub.sources and not hub.size:
            self.answers.wait(channel)
            fragments = list(hub.sources)
            self._when_quiet(
                fragments, lambda: self._left(channel, queue, answer, until_ms), until_ms
            )
        else:
            self._left(channel, queue, answer, until_ms)

    def _left(
        self, channel: Channel, queue: QueueKey, answer: BasicCancelOk | None, until_ms: int
    ) -> None:
        # No function of its own name within another: compiled, the two would keep each other alive.
        self._when_left(channel, {queue: None}, lambda: self._cancelled(channel, answer), until_ms)

    def _cancelled(self, channel: Channel, answer: BasicCancelOk | None) -> None:
        if answer is not None:
            self.answers.reply(channel, answer)
        if channel.waiting:
            self.answers.finish(channel, None)

    def when_left(
        self, channel: Channel, queues: dict[QueueKey, None], action: Callable[[], None]
    ) -> None:
        """Runs the action when queues without consumers have gone everywhere; the channel waits.

        Of `queues`, which consumers have left, those count that go with their last consumer. Not
        for ever: where nobody can say so within the time of a failover, they go later.
        """
        self._when_left(channel, queues, action, self._leave_until_ms())

    def _when_left(
        self, channel: Channel, queues: dict[QueueKey, None], action: Callable[[], None],
        until_ms: int,
    ) -> None:  # fmt: skip
        first = self._going(queues)
        if first:
            self.answers.wait(channel)
        self._ask_left(first, action, until_ms)

    def when_gone(self, queues: dict[QueueKey, None], action: Callable[[], None]) -> None:
        """Runs the action, perhaps at once, when queues without consumers have gone everywhere.

        Of `queues`, those count that go with their last consumer, and have none any more.
        """
        self._ask_left(self._going(queues), action, self._leave_until_ms())

    def _ask_left(self, first: list[FragmentId], action: Callable[[], None], until_ms: int) -> None:
        if first:
            self.asking.ask(
                CALL_LEFT, first, lambda _: self.answers.when_everywhere(action, until_ms), until_ms
            )
        else:
            action()

    def _going(self, queues: dict[QueueKey, None]) -> list[FragmentId]:
        """The fragments that decide whether such queues go."""
        state = self.state
        first: list[FragmentId] = []
        for queue in queues if state.serving else ():
            info, hub = state.map.queues.get(queue), state.hubs.get(queue)
            if info is not None and info.auto_delete and (hub is None or not hub.count):
                first.append(info.fragments[0])
        return first

    def _when_quiet(
        self, fragments: list[FragmentId], action: Callable[[], None], until_ms: int
    ) -> None:
        """Runs the action when fragments elsewhere, which may still send, know of a cancel.

        When they answer a question, those messages have come, and gone back; when they answer
        another one, they have them again. So after cancel-ok nothing is missing from the queue.
        """
        self.asking.ask(
            CALL_COUNT, fragments, lambda _: self._came_back(fragments, action, until_ms), until_ms
        )

    def _came_back(
        self, fragments: list[FragmentId], action: Callable[[], None], until_ms: int
    ) -> None:
        self.consuming.settling.flush_settlements()
        self.asking.ask(CALL_COUNT, fragments, lambda _: action(), until_ms)

    def remove(self, consumers: Iterable[Consumer]) -> int:
        """Removes consumers; an auto-delete queue of this node goes with its last one.

        Returns of how many queues.
        """
        queues = self.consuming.remove(consumers)
        for queue, highest in queues.items():
            hub = self.state.hubs.get(queue)
            # Others here are not the next ones for what is on its way to one that left.
            if hub is not None and hub.sources and (hub.single or hub.outranks(highest)):
                self._hand_over(hub, queue)
            private = self.state.private.get(queue)
            if private is not None and private.auto_delete and not private.hub.size:
                self.private_ends.end(private)
        return len(queues)

    def _hand_over(self, hub: Hub[Consumer], queue: QueueKey) -> None:
        """Hands over once the fragments elsewhere answer: what they sent before has come then."""

        def heard(_: Totals) -> None:
            # What came in this turn, before this word, was sent before, too.
            self.consuming.give_back_surplus(hub)
            hub.changing -= 1
            self.state.marks.queues[queue] = None

        hub.changing += 1
        self.asking.ask(CALL_COUNT, list(hub.sources), heard)
