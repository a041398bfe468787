"""Declarations and deletions of shared queues that a channel has under way together: a train.

The first request begins a train and makes its channel wait. What comes behind it in the same turn
joins, if nothing this node knows speaks against it; anything else waits in the channel's backlog,
to be answered, or refused, in its place. A train is one command of the map, in order: what comes
behind a request that is refused takes no effect. Its answers go out together, when every live
member has applied it (docs/adr/0110).

Inputs: requests, results of the map, counts of fragments. Outputs: answers, proposals.
"""

from functools import partial
from typing import Final, TypeAlias

from fedq.amqp.method_types import (
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from fedq.core.errors import RESOURCE_ERROR, Refused
from fedq.core.ids import QueueKey
from fedq.core.peer_messages import CALL_COUNT, CALL_DECLARE
from fedq.core.versions import IN_ORDER
from fedq.node.cluster.proposals import TOO_LARGE, InOrder, Proposals, Result
from fedq.node.copies.room import Copies
from fedq.node.endings.channel_ends import ChannelEnds
from fedq.node.private.room import Private
from fedq.node.records.answers import Answers
from fedq.node.records.client_state import Channel
from fedq.node.records.state import NodeState
from fedq.node.records.tables import arguments_text
from fedq.node.records.unserved import refuse_deletion
from fedq.node.requests.direct_reply import is_reply_name
from fedq.node.requests.queue_refusals import in_use, locked, refuse_new, refuse_new_stream
from fedq.proxy.calls import COUNT_MAX, Totals
from fedq.wiring.cluster_map import declarations
from fedq.wiring.cluster_map.operations import DeclareQueue, DeleteQueue, encode_operation
from fedq.wiring.cluster_map.queue_arguments import refuse_declaration, shape_of
from fedq.wiring.cluster_map.state import Ok

#: A turn that applies so many declarations takes a few milliseconds, for which others wait.
REQUESTS_MAX: Final = 32

_Asked: TypeAlias = QueueDeclare | QueueDelete
_NOTHING: Final = Totals(0, 0)


class _Entry:
    """A request of a train, what became of it in the map, and the counts of its answer."""

    __slots__ = ("key", "request", "result", "totals")

    def __init__(self, request: _Asked, key: QueueKey, totals: Totals = _NOTHING) -> None:
        self.request = request
        self.key = key
        self.result: Result | None = None
        self.totals = totals

    @property
    def answer(self) -> Method | None:
        """What the client hears when it took effect; None: it wants no answer."""
        if self.request.no_wait:
            return None
        ready, consumers = self.totals
        if isinstance(self.request, QueueDelete):
            return QueueDeleteOk(ready)
        return QueueDeclareOk(self.key.name, ready, min(consumers, COUNT_MAX))


class _Train:
    __slots__ = ("channel", "command", "entries", "missing", "names", "takes_more")

    def __init__(self, channel: Channel, command: InOrder, takes_more: bool) -> None:
        self.channel = channel
        self.command = command
        self.entries: list[_Entry] = []
        self.names: dict[QueueKey, None] = {}
        self.takes_more = takes_more
        #: Results, or counts, that have not come.
        self.missing = 0

    @property
    def is_open(self) -> bool:
        """Whether a further request may join."""
        return self.takes_more and self.command.is_open and len(self.entries) < REQUESTS_MAX


class Trains:
    """The trains of all channels; a channel has one at most."""

    __slots__ = (
        "_trains", "answers", "asking", "dispatching", "ends", "private", "proposals", "state",
    )  # fmt: skip

    def __init__(
        self, state: NodeState, answers: Answers, ends: ChannelEnds, proposals: Proposals,
        private: Private, copies: Copies,
    ) -> None:  # fmt: skip
        self.state = state
        self.answers = answers
        self.ends = ends
        self.proposals = proposals
        self.private = private.flow
        self.dispatching = copies.dispatching
        self.asking = copies.asking
        #: Those whose results have not all come.
        self._trains: dict[Channel, _Train] = {}

    # --- requests ----------------------------------------------------------------------------

    def declare(self, channel: Channel, request: QueueDeclare, key: QueueKey) -> None:
        """Begins a train with the declaration of a shared queue."""
        if key not in self.state.map.queues:
            operation = encode_operation(self._declaration(request, key))
            self._begin(channel, _Entry(request, key), operation)
            return
        refused = locked(key) if request.exclusive else self._refuse_same(request, key)
        if refused is not None:
            self.ends.refuse(channel, refused, request)
        else:
            self._begin(channel, _Entry(request, key), None)

    def delete(self, channel: Channel, request: QueueDelete, key: QueueKey, totals: Totals) -> None:
        """Begins a train with the deletion of a shared queue that has these messages."""
        operation = encode_operation(DeleteQueue(*key))
        self._begin(channel, _Entry(request, key, totals), operation)

    def is_open(self, channel: Channel) -> bool:
        """Whether the channel has a train that may take another request."""
        train = self._trains.get(channel)
        return train is not None and train.is_open

    def takes(self, channel: Channel, request: Method) -> bool:
        """Lets a request that its client may make join the open train; false: it has to wait."""
        train = self._trains[channel]
        if not isinstance(request, QueueDeclare | QueueDelete) or not request.queue:
            return False
        key = QueueKey(channel.client.vhost, request.queue)
        if key in train.names or key in self.state.private or key in self.state.map.claims:
            return False
        if isinstance(request, QueueDelete):
            return self._takes_deletion(train, request, key)
        return self._takes_declaration(train, request, key)

    def _takes_declaration(self, train: _Train, request: QueueDeclare, key: QueueKey) -> bool:
        if request.passive or request.exclusive or is_reply_name(request.queue):
            return False
        entry = _Entry(request, key)
        if key in self.state.map.queues:
            if self._refuse_same(request, key) is not None:
                return False
            self._add(train, entry, None)
            return True
        if (
            refuse_new(key, request)
            or refuse_new_stream(request, self.state.map)
            or self.private.refuse(key, train.channel.client, exclusive=False, more=train.missing)
        ):
            return False
        return self._joins(train, entry, encode_operation(self._declaration(request, key)))

    def _takes_deletion(self, train: _Train, request: QueueDelete, key: QueueKey) -> bool:
        state = self.state
        queue = state.map.queues.get(key)
        if queue is None or any(number not in state.primaries for number in queue.fragments):
            # What others lead has to be asked first.
            return False
        if refuse_deletion(state, key, request.if_empty) is not None:
            return False
        counted: list[Totals] = [_NOTHING] if state.is_stream(key) else []
        if not counted:
            self.dispatching.catch_up(key)
            self.asking.ask(CALL_COUNT, queue.fragments, counted.append)
        if not counted or in_use(key, request, counted[0]) is not None:
            return False
        entry = _Entry(request, key, counted[0])
        return self._joins(train, entry, encode_operation(DeleteQueue(*key)))

    def _refuse_same(self, request: QueueDeclare, key: QueueKey) -> Refused | None:
        """How a declaration differs from the queue that is there; None if it does not.

        Its arguments may be anything, so nothing is read of them that is not compared.
        """
        known = self.state.map
        # For a queue that exists, applying only compares: it needs no commit.
        same = declarations.apply(
            known,
            DeclareQueue(
                key.vhost, key.name, request.durable, request.auto_delete,
                arguments_text(request.arguments), self.state.me, 1, 1,
            ),
        )  # fmt: skip
        if isinstance(same, Refused):
            return same
        if key not in known.shapes:
            return None
        # Another number of fragments than it was declared with is no difference; no number is.
        return refuse_declaration(
            key, request.arguments, durable=request.durable, exclusive=False,
            auto_delete=request.auto_delete,
        )  # fmt: skip

    def _declaration(self, request: QueueDeclare, key: QueueKey) -> DeclareQueue:
        """What asks for a new queue; `refuse_new` has let its arguments pass."""
        shape = shape_of(request.arguments)
        return DeclareQueue(
            key.vhost, key.name, request.durable, request.auto_delete,
            arguments_text(request.arguments), self.state.me, shape.fragments or 1,
            shape.replicas, shape.mode,
        )  # fmt: skip

    # --- under way ---------------------------------------------------------------------------

    def _begin(self, channel: Channel, entry: _Entry, operation: bytes | None) -> None:
        command = self.proposals.begin_in_order()
        if operation is None:
            # What changes nothing needs no room among the commands; nothing joins it then.
            command = InOrder(is_open=False) if isinstance(command, Refused) else command
        elif not isinstance(command, Refused) and not command.takes(operation):
            command = Refused(RESOURCE_ERROR, TOO_LARGE)
        if isinstance(command, Refused):
            self.ends.refuse(channel, command, entry.request)
            return
        self.answers.wait(channel)
        train = _Train(channel, command, self.state.map.cluster_version >= IN_ORDER)
        self._trains[channel] = train
        self._add(train, entry, operation)

    def _joins(self, train: _Train, entry: _Entry, operation: bytes) -> bool:
        if not train.command.takes(operation):
            return False
        self._add(train, entry, operation)
        return True

    def _add(self, train: _Train, entry: _Entry, operation: bytes | None) -> None:
        """Adds a request; without an operation: it changes nothing."""
        train.entries.append(entry)
        train.names[entry.key] = None
        if operation is not None:
            train.missing += 1
            train.command.add(operation, partial(self._on_result, train, entry))
            return
        entry.result = Ok()
        if len(train.entries) == 1:
            # Else the results of the others are waited for, too.
            self.answers.when_everywhere(partial(self._look_at_known, train))

    def _look_at_known(self, train: _Train) -> None:
        """Goes on with a train that changes nothing; any other waits for a later map."""
        if not train.command.encoded:
            self._look(train)

    def _on_result(self, train: _Train, entry: _Entry, result: Result) -> None:
        entry.result = result
        train.missing -= 1
        if train.missing:
            return
        if isinstance(train.entries[0].result, Refused):
            self._look(train)
        else:
            self.answers.when_everywhere(partial(self._look, train))

    def _look(self, train: _Train) -> None:
        """Counts what was there before, when every live member has applied the train's map."""
        if train.missing or self._trains.get(train.channel) is not train:
            return
        del self._trains[train.channel]
        if train.channel.closed:
            return
        known: list[_Entry] = []
        for entry in train.entries:
            if isinstance(entry.result, Refused):
                break
            if entry.result == Ok() and isinstance(entry.request, QueueDeclare):
                known.append(entry)
        train.missing = len(known)
        if not known:
            self._tell(train)
        for entry in known:
            self._count(train, entry)

    def _count(self, train: _Train, entry: _Entry) -> None:
        queue = self.state.map.queues.get(entry.key)
        if queue is None:
            self._declare_anew(train, entry)
            return
        first = queue.fragments[0]

        def on_totals(totals: Totals) -> None:
            now = self.state.map.queues.get(entry.key)
            if now is None or now.fragments[0] != first:
                # It ended while its fragments were asked: as if nobody had asked yet.
                self._declare_anew(train, entry)
                return
            entry.totals = totals
            self._on_counted(train)

        if entry.request.no_wait:
            on_totals(_NOTHING)
            return
        self.dispatching.catch_up(entry.key)
        self.asking.ask(CALL_DECLARE, queue.fragments, on_totals)

    def _declare_anew(self, train: _Train, entry: _Entry) -> None:
        """Declares a queue once more that was there, and has ended since."""
        assert isinstance(entry.request, QueueDeclare), "only these are counted"
        operation = self._declaration(entry.request, entry.key)

        def on_result(result: Result) -> None:
            entry.result = result
            self.answers.when_everywhere(partial(self._on_counted, train))

        self.proposals.ask(operation, on_result)

    def _on_counted(self, train: _Train) -> None:
        train.missing -= 1
        if not train.missing:
            self._tell(train)

    def _tell(self, train: _Train) -> None:
        """Answers all requests, up to the first that was refused."""
        channel = train.channel
        for entry in train.entries:
            if channel.closed:
                return
            if isinstance(entry.result, Refused):
                self.ends.refuse(channel, entry.result, entry.request)
                return
            if isinstance(entry.request, QueueDeclare):
                channel.last_queue = entry.key.name
            if (answer := entry.answer) is not None:
                self.answers.reply(channel, answer)
        self.answers.finish(channel, None)
