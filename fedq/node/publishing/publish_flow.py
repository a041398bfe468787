"""A channel's publishes: checked, routed, numbered for confirms, and sent to every queue.

    channel's run -> what needs a look of its own -> route -> `fedq.node.publishing.outlets`

Runs of publishes with one route, or with routes of one exchange that lead to the same queues, are
handled as a whole. Raises the violations of basic.publish.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from fedq.amqp.content import decode_properties
from fedq.amqp.named_publishes import PUBLISHER, NamedReader
from fedq.amqp.publishes import PublishRun
from fedq.amqp.rewriting import routing_keys, with_properties
from fedq.amqp.spec import BASIC, BASIC_PUBLISH
from fedq.core.errors import (
    ACCESS_REFUSED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    ChannelViolation,
    ConnectionViolation,
)
from fedq.core.ids import QueueKey, Target
from fedq.core.limits import WORK_PER_TURN
from fedq.core.message import (
    FLAG_BAD_EXPIRATION,
    FLAG_COPIES,
    FLAG_DIRECT_REPLY,
    FLAG_NAMED,
    FLAG_USER,
    FLAGS_OF_NOTE,
    split,
    split_route,
)
from fedq.core.publish_messages import RUN_WORK
from fedq.core.versions import NAMED_PUBLISHERS
from fedq.node.publishing.blocking import Blocking
from fedq.node.publishing.fan_out import run_max
from fedq.node.publishing.messages import delayed, properties_of
from fedq.node.publishing.outlets import Outlets
from fedq.node.publishing.piles import Piles
from fedq.node.publishing.returns import give_back
from fedq.node.records.client_state import Channel, Client
from fedq.node.records.state import NodeState
from fedq.node.records.transaction_limits import check_room, grow
from fedq.wiring.cluster_map.topic_permissions import refusal_text
from fedq.wiring.routing.route import Route

MANDATORY, IMMEDIATE = 1, 2
#: The tag of users that may publish under any user's name.
IMPERSONATOR: Final = "impersonator"
#: A message for a queue, or a queue for a run, is this part of a unit of work: to hand both to the
#: consumers is charged where it is done.
_PILED_SHIFT: Final = 3
#: What the end of a turn does for a queue that got anything, in units of work (as a shift); it is
#: charged with the first run of a batch, whose queues most others share.
_QUEUE_SHIFT: Final = 2
#: A name to look at is this part of one; runs of publishers with names that are taken at a time.
_NAMED_SHIFT: Final = 2
_RUNS_MAX: Final = 32
#: Exchanges for which a client's permission is remembered, as long as the map stays as it is.
PERMITTED_MAX: Final = 1_000

Batch: TypeAlias = list[PublishRun]


class PublishFlow:
    """Takes the publishes of channels and sends them to every queue."""

    __slots__ = (
        "blocking", "may_publish", "may_publish_topic", "names", "outlets", "piles", "state"
    )  # fmt: skip

    def __init__(
        self, state: NodeState, outlets: Outlets, blocking: Blocking,
        may_publish: Callable[[Client, str], bool],
        may_publish_topic: Callable[[Client, str, str], bool | None],
    ) -> None:  # fmt: skip
        self.state = state
        self.outlets = outlets
        self.blocking = blocking
        #: Whether a client's user may write to an exchange.
        self.may_publish = may_publish
        #: And with a routing key; None: with all keys.
        self.may_publish_topic = may_publish_topic
        self.names = NamedReader()
        #: What is being piled up; empty between two calls.
        self.piles = Piles()

    def on_publishes(self, channel: Channel, batch: Batch) -> Batch:
        """Takes a run of publishes of one channel, handed over; raises for those refused.

        Returns what is left for the next turn: this one has done so much already.
        """
        client, state = channel.client, self.state
        client.publishes = True
        if state.memory_full:
            self.blocking.hold_for(client, state.me)
        try:
            try:
                return self._take_batch(channel, batch)
            finally:
                self.outlets.deliver_piles(channel, self.piles)
                if state.router.walked:
                    # Their own client's share pays, not who publishes next.
                    self._charge_walks()
        except Exception:
            # What has not set out goes with its connection, and not with the next one's publishes.
            self.piles = Piles()
            raise

    def _take_batch(self, channel: Channel, batch: Batch) -> Batch:
        """Takes a batch as `on_publishes` does. In `piles` is what is still to be delivered.

        Publishes are piled up as long as they go to shared queues alone: each queue then gets its
        own in one piece, and all of them are one confirm group. What goes another way goes behind
        all piles.
        """
        piles, place, ahead = self.piles, 0, None
        work, router, parted = self.state.work, self.state.router, self.state.parted
        tracer = self.state.tracer
        room = work.room
        while place < len(batch):
            if router.walked:
                room = self._charge_walks()
            if room <= 0 and place:
                return batch[place:]
            runs = 0
            if batch[place][1] & FLAG_NAMED:
                runs = self._look_at_names(channel, batch, place)
                room = work.room
            route, bits, messages = batch[place]
            if not bits & ~MANDATORY:
                targets = self._route(channel, messages[0], route, ahead)
                if _may_pile(channel, targets, bits, len(messages)):
                    count, queues = len(messages), len(targets.queues)
                    first = 0 if place else queues << _QUEUE_SHIFT
                    cost = 1 + first + ((1 + count) * queues >> _PILED_SHIFT)
                    cost += runs * queues * RUN_WORK
                    parts: tuple[Target, ...] = targets.queues
                    if parted:
                        parts = self.outlets.parts(targets.queues, messages[0])
                    left = messages[:0]
                    if cost > room and count > 1:
                        most = max(1, (room - first << _PILED_SHIFT) // queues)
                        cost = 1 + first + ((1 + most) * queues >> _PILED_SHIFT)
                        messages, left = messages[:most], messages[most:]
                    work.spend(cost)
                    room -= cost
                    if tracer is not None:
                        tracer.on_accepted(channel, messages, parts, (), route)
                    piles.add(messages, parts)
                    place, ahead = place + 1, None
                    if left:
                        return [(route, bits, left), *batch[place:]]
                    continue
            self.outlets.deliver_piles(channel, piles)
            if len(messages) > 1 or bits & ~MANDATORY:
                left = self._publish_alike(channel, route, bits, messages)
                place, ahead = place + 1, None
                if left:
                    return [(route, bits, left), *batch[place:]]
                room = work.room
                continue
            run, ahead = [messages[0]], None
            if not targets.private and not (parted and self.outlets.is_parted(targets)):
                ahead = self._add_neighbours(channel.client, batch, place, targets, run)
            place += len(run)
            self._publish_run(channel, run, targets, bits & MANDATORY != 0)
            room = work.room
        return []

    def _look_at_names(self, channel: Channel, batch: Batch, place: int) -> int:
        """Looks at a run of publishers with names: raises for the first message, if that is wrong.

        What is right before a wrong one becomes a run of its own, and goes on its way. Returns in
        how many runs of their publishers those are that go on.
        """
        route, bits, messages = batch[place]
        if not self.state.all_speak(NAMED_PUBLISHERS):
            text = (
                f"publishers with names ('{PUBLISHER}') need all nodes to speak version "
                f"{NAMED_PUBLISHERS}: update those that do not, or publish without a name"
            )
            raise ChannelViolation(PRECONDITION_FAILED, text, BASIC, BASIC_PUBLISH)
        count, runs, fault = self.names.look_at(messages, _RUNS_MAX)
        self.state.work.spend(runs + (len(messages) >> _NAMED_SHIFT))
        if fault and not count:
            raise ChannelViolation(PRECONDITION_FAILED, fault, BASIC, BASIC_PUBLISH)
        right = route, bits & ~FLAG_NAMED, messages[:count]
        rest = (route, bits, messages[count:])
        batch[place : place + 1] = [right, rest] if count < len(messages) else [right]
        if not channel.is_named:
            channel.is_named = True
            # What it published before was nobody's, and may be anywhere.
            channel.sticky.clear()
        return runs

    def _charge_walks(self) -> int:
        """Charges what routing has cost; returns what this turn may still do."""
        work, router = self.state.work, self.state.router
        work.spend(router.walked)
        router.walked = 0
        return work.room

    def _add_neighbours(
        self, client: Client, batch: Batch, place: int, targets: Route, run: list[bytes]
    ) -> Route | None:
        """Adds to the run, which begins at this place, those right behind it that go the same way.

        Their routing keys differ, their exchange does not, so their client may publish to it,
        unless that depends on the key. Returns where the next one goes, as far as that is known by
        now.
        """
        route, bits, _ = batch[place]
        exchange, route_of = route[: 1 + route[0]], self.state.router.route
        if client.permitted.get(exchange) != self.state.map.version:
            return None
        for following in range(place + 1, len(batch)):
            route, other_bits, messages = batch[following]
            if other_bits != bits or len(messages) > 1 or not route.startswith(exchange):
                return None
            others = route_of(client.vhost, route, properties_of(messages[0]))
            if others is not targets:
                return others
            run.append(messages[0])
        return None

    def _publish_alike(
        self, channel: Channel, route: bytes, bits: int, messages: list[bytes]
    ) -> list[bytes]:
        """Takes publishes with one route; returns what is left for the next turn."""
        is_mandatory = bits & MANDATORY != 0
        start, end = 0, len(messages)
        while start < end:
            if start and self._charge_walks() <= 0:
                return messages[start:]
            message = messages[start]
            if bits & ~MANDATORY:
                message, targets = self._look_at(channel, message, route, bits)
            else:
                targets = self._route(channel, message, route)
            if end - start == 1 or bits & FLAGS_OF_NOTE or not targets.by_route_alone:
                self._publish_run(channel, [message], targets, is_mandatory)
                start += 1
                continue
            run = messages[start:] if start else messages
            if targets.private:
                run = run[: run_max(targets.private, message, self.state.work.room)]
            self._publish_run(channel, run, targets, is_mandatory)
            start += len(run)
        return []

    def _route(
        self, channel: Channel, message: bytes, route: bytes, targets: Route | None = None
    ) -> Route:
        """The targets of a publish, unless known, which its client must be allowed to reach."""
        client = channel.client
        if targets is None:
            targets = self.state.router.route(client.vhost, route, properties_of(message))
        if targets is None:
            exchange, _ = split_route(route)
            self._permit(channel, exchange)
            raise _no_exchange(client.vhost, exchange)
        version, permitted = self.state.map.version, client.permitted
        named = route[: 1 + route[0]]
        if permitted.get(named) != version and permitted.get(route) != version:
            exchange, key = split_route(route)
            self._permit(channel, exchange)
            if self._permit_topic(channel, exchange, key):
                named = route
                # What that cost is seen before the next publish of the batch.
                self.state.router.walked += 1
            if len(permitted) >= PERMITTED_MAX:
                permitted.clear()
            permitted[named] = version
        return targets

    def look_ahead(self, channel: Channel, route: bytes) -> None:
        """Looks at a publish that has begun: raises what its end would, for exchange and client."""
        client, named = channel.client, route[: 1 + route[0]]
        if client.permitted.get(named) == self.state.map.version:
            return
        exchange, key = split_route(route)
        self._permit(channel, exchange)
        if exchange and QueueKey(client.vhost, exchange) not in self.state.map.exchanges:
            raise _no_exchange(client.vhost, exchange)
        self._permit_topic(channel, exchange, key)

    def _permit(self, channel: Channel, exchange: str) -> None:
        client = channel.client
        if exchange and self.state.router.is_internal(client.vhost, exchange):
            text = f"cannot publish to internal exchange '{exchange}' in vhost '{client.vhost}'"
            raise ChannelViolation(ACCESS_REFUSED, text, BASIC, BASIC_PUBLISH)
        if not self.may_publish(client, exchange):
            text = (
                f"access to exchange '{exchange or 'amq.default'}' in vhost '{client.vhost}' "
                f"refused for user '{client.user}'"
            )
            raise ChannelViolation(ACCESS_REFUSED, text, BASIC, BASIC_PUBLISH)

    def _permit_topic(self, channel: Channel, exchange: str, key: str) -> bool:
        """Checks a routing key; returns whether others of that exchange need a look, too."""
        client = channel.client
        verdict = self.may_publish_topic(client, exchange, key)
        if verdict is False:
            text = refusal_text(exchange, key, client.vhost, client.user)
            raise ChannelViolation(ACCESS_REFUSED, text, BASIC, BASIC_PUBLISH)
        return verdict is not None

    # --- what needs a look of its own --------------------------------------------------------

    def _look_at(
        self, channel: Channel, message: bytes, route: bytes, bits: int
    ) -> tuple[bytes, Route]:
        """Looks at a publish with something unusual: perhaps changed, and its targets."""
        if bits & IMMEDIATE:
            raise ConnectionViolation(NOT_IMPLEMENTED, "immediate=true", BASIC, BASIC_PUBLISH)
        vhost = channel.client.vhost
        exchange, key = split_route(route)
        self._permit(channel, exchange)
        if exchange and QueueKey(vhost, exchange) not in self.state.map.exchanges:
            raise _no_exchange(vhost, exchange)
        self._permit_topic(channel, exchange, key)
        if bits & FLAG_USER:
            self._check_user(channel, message)
        if bits & FLAG_BAD_EXPIRATION:
            raise _bad_expiration(message)
        if bits & FLAG_DIRECT_REPLY:
            message = _with_reply_queue(channel, message)
        if not bits & FLAG_COPIES:
            return message, self._route(channel, message, route)
        keys = routing_keys(message, key)
        if keys is None:
            text = "the headers CC and BCC must be arrays of routing keys"
            raise ChannelViolation(PRECONDITION_FAILED, text, BASIC, BASIC_PUBLISH)
        self.state.work.spend(len(keys))
        self._permit_copies(channel, exchange, keys)
        targets = self.state.router.route_keys(vhost, exchange, keys, properties_of(message))
        if targets is None:
            raise _no_exchange(vhost, exchange)
        return message, targets

    def _permit_copies(self, channel: Channel, exchange: str, keys: list[str]) -> None:
        """Checks all keys of one publish, as far as a turn goes: it cannot be left for the next."""
        work = self.state.work
        before = work.left
        for key in keys:
            if not self._permit_topic(channel, exchange, key):
                return
            if before - work.left > WORK_PER_TURN:
                text = "CC and BCC have too many new topics for one message: publish several"
                raise ChannelViolation(PRECONDITION_FAILED, text, BASIC, BASIC_PUBLISH)

    def _check_user(self, channel: Channel, message: bytes) -> None:
        """Checks who a publisher says it is, unless its user has RabbitMQ's tag for relays."""
        claimed, user = decode_properties(split(message)[1]).get("user_id"), channel.client.user
        known = self.state.map.users.get(user)
        if claimed == user or (known is not None and IMPERSONATOR in known.tags):
            return
        raise ChannelViolation(
            PRECONDITION_FAILED,
            f"user_id property set to '{claimed!s}' but authenticated user was '{user}'",
            BASIC,
            BASIC_PUBLISH,
        )

    # --- on their way ------------------------------------------------------------------------

    def _publish_run(
        self, channel: Channel, messages: list[bytes], targets: Route, mandatory: bool
    ) -> None:
        if targets.delayed:
            messages = delayed(messages)
        counts = self.state.counts
        counts.received += len(messages)
        transaction = channel.transaction
        if transaction is not None:
            transaction.publishes += [(message, targets, mandatory) for message in messages]
            grow(channel, transaction, sum(map(len, messages)))
            check_room(channel, transaction, BASIC, BASIC_PUBLISH)
            return
        vhost = channel.client.vhost
        if self.state.tracer is not None:
            self.state.tracer.on_accepted(channel, messages, targets.queues, targets.private)
        queues, nodes = len(targets.queues), len(targets.nodes)
        self.state.work.spend(1 + nodes + ((1 + len(messages)) * queues >> _PILED_SHIFT))
        reach = self.outlets.reach(targets, messages[0], channel.sticky, channel.spread)
        group = None
        if channel.confirms is not None:
            group = channel.confirms.open(len(messages), reach.waiting)
        reached = self.outlets.deliver(vhost, messages, reach, group, channel, mandatory)
        if reached:
            return
        if not mandatory:
            counts.unroutable += len(messages)
            return
        for message in messages:
            give_back(self.state, channel, message)


def _may_pile(channel: Channel, targets: Route, bits: int, count: int) -> bool:
    """Whether so many publishes of a route go to the same shared queues, and nowhere else.

    Or one of them nowhere at all, if nobody wants to hear of that.
    """
    if targets.private or targets.nodes or targets.delayed or channel.transaction is not None:
        return False
    if targets.queues:
        return count == 1 or targets.by_route_alone
    return count == 1 and not bits & MANDATORY


def _no_exchange(vhost: str, exchange: str) -> ChannelViolation:
    return ChannelViolation(
        NOT_FOUND, f"no exchange '{exchange}' in vhost '{vhost}'", BASIC, BASIC_PUBLISH
    )


def _bad_expiration(message: bytes) -> ChannelViolation:
    expiration = decode_properties(split(message)[1]).get("expiration")
    return ChannelViolation(
        PRECONDITION_FAILED,
        f"invalid expiration '{str(expiration)[:80]}': give a number of milliseconds from 0 on",
        BASIC,
        BASIC_PUBLISH,
    )


def _with_reply_queue(channel: Channel, message: bytes) -> bytes:
    """Puts the name that leads back to this channel for the pseudo name of direct reply-to."""
    queue: QueueKey | None = channel.reply_queue
    if queue is None:
        raise ChannelViolation(
            PRECONDITION_FAILED, "fast reply consumer does not exist", BASIC, BASIC_PUBLISH
        )
    return with_properties(message, {"reply_to": queue.name})
