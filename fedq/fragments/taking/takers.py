"""Which nodes want a fragment's messages, and how many: the fragment's side of remote consumption.

Inputs: watches (how many consumers a node has), credit (how many messages it takes), the
fragment's ready count. Outputs: what to hand to whom, credit to give back, offers to make.

Two kinds of credit, as design D7 asks. *Standing* credit stays until used: no round trip per
message. Credit given `once` is for messages known to be here; what cannot be served at once goes
back, so that a scarce consumer never waits at an empty fragment while another one is full.

Credit is given up to a number (`grant`), counted from when the node attached: what is on its way to
the node when it watches anew, so that its credit is void, is not granted a second time.

A watcher without credit is *offered* a non-empty fragment, once, until it answers or the fragment
runs empty.

Credit has a *level*, the priority of the best consumer that it is for: the highest level is served
first (RabbitMQ's consumer priorities). Every consumer of a queue gets a *ticket* from the queue's
first fragment, ascending; where only a single consumer may be active, it is the one with the lowest
ticket, so each fragment knows it without asking anybody.
"""

from collections.abc import Mapping

from fedq.core.ids import NodeId
from fedq.core.limits import TICKETS_GIVEN_MAX


class Takers:
    """The watchers of one fragment and their credit."""

    __slots__ = (
        "_given", "_last_ticket", "alone", "consumers", "credit", "first_served", "had_consumers",
        "levels", "offered", "once", "sent", "single", "tickets",
    )  # fmt: skip

    def __init__(self, single: bool = False, reign: int = 0) -> None:
        """`single`: the queue has a single active consumer. A new reign's tickets are higher."""
        self.single = single
        self._last_ticket = reign << 32
        self.consumers: dict[NodeId, int] = {}
        #: The lowest ticket of each node's consumers.
        self.tickets: dict[NodeId, int] = {}
        #: Tickets that a node may not have heard of yet, ascending; where one consumer is active.
        self._given: dict[NodeId, list[int]] = {}
        #: The level of each node's credit, where it is not 0.
        self.levels: dict[NodeId, int] = {}
        #: The node whose consumer is the only one the queue may have (basic.consume exclusive).
        self.alone: NodeId | None = None
        #: What each node may be sent yet; 0 or less while more was on its way than it wants now.
        self.credit: dict[NodeId, int] = {}
        #: Messages sent to each node since it attached, and credit given back to it.
        self.sent: dict[NodeId, int] = {}
        #: Nodes whose credit is to be given back when the fragment is empty.
        self.once: dict[NodeId, None] = {}
        self.offered: dict[NodeId, None] = {}
        #: Whether anybody ever consumed here: auto-delete waits for the first consumer.
        self.had_consumers = False
        #: With which of those that wanted some the last shares began.
        self.first_served = 0

    def admit(self, node: NodeId, alone: bool) -> int:
        """The ticket of one more consumer of `node`, or of one that is to be alone; 0: refused.

        Asked again, after a failover, the answer is the same: a node asks for one at a time.
        """
        again = alone and self.alone == node
        if not again and (self.alone is not None or (alone and (self.consumers or self.single))):
            return 0
        if not again:
            self.consumers[node] = self.consumers.get(node, 0) + 1
        self.had_consumers = True
        if alone:
            self.alone = node
        self._last_ticket += 1
        self.tickets.setdefault(node, self._last_ticket)
        if self.single:
            given = self._given.setdefault(node, [])
            if len(given) < TICKETS_GIVEN_MAX:
                given.append(self._last_ticket)
        return self._last_ticket

    @property
    def active(self) -> NodeId | None:
        """The node of the single active consumer; None if there is none, or any may be active."""
        if not self.single or not self.tickets:
            return None
        return min(self.tickets, key=self.tickets.__getitem__)

    def may_take(self, node: NodeId) -> bool:
        """Whether the node's consumers may be handed messages at all."""
        return not self.single or self.active == node

    def watch(self, node: NodeId, consumers: int, alone: bool = False, ticket: int = 0) -> None:
        """Notes that `node` has so many consumers, the lowest with `ticket`; its credit is void."""
        if alone:
            self.alone = node
        elif self.alone == node:
            self.alone = None
        self.credit.pop(node, None)
        self.levels.pop(node, None)
        self.once.pop(node, None)
        self.offered.pop(node, None)
        if consumers:
            self.consumers[node] = consumers
            self.had_consumers = True
        else:
            self.consumers.pop(node, None)
        self._last_ticket = max(self._last_ticket, ticket)
        lowest = self._lowest(node, consumers, ticket)
        if lowest:
            self.tickets[node] = lowest
        else:
            self.tickets.pop(node, None)

    def _lowest(self, node: NodeId, consumers: int, ticket: int) -> int:
        """The lowest ticket of a node that says it is this one; 0: it has none.

        It may have said so before it heard which ticket its next consumer has: that one is before
        all that ask later, and nobody else is active meanwhile.
        """
        given = self._given.pop(node, None)
        if given is None or not consumers:
            return ticket
        unheard = [each for each in given if each > ticket]
        if unheard:
            self._given[node] = unheard
        return ticket or (unheard[0] if unheard else 0)

    def attach(self, node: NodeId, consumers: int, alone: bool, ticket: int) -> None:
        """Begins a link to `node`, or a reign: as `watch`, and both count from 0."""
        self.sent.pop(node, None)
        # It asks again for what it has not heard of.
        self._given.pop(node, None)
        self.watch(node, consumers, alone, ticket)

    def forget(self, node: NodeId) -> None:
        """Forgets a node that is gone."""
        self.attach(node, 0, False, 0)

    def grant(self, node: NodeId, through: int, once: bool, level: int = 0) -> None:
        """Lets `node` take messages through number `through` of all that are sent to it.

        `once`: what cannot be used now is to be given back; `level`: of what priority all its
        credit is.
        """
        self.credit[node] = through - self.sent.get(node, 0)
        self.offered.pop(node, None)
        if level:
            self.levels[node] = level
        else:
            self.levels.pop(node, None)
        if once:
            self.once[node] = None
        else:
            self.once.pop(node, None)

    def above(self, level: int) -> bool:
        """Whether a node has credit of a higher level."""
        return any(
            amount > 0 and self.levels.get(node, 0) > level and self.may_take(node)
            for node, amount in self.credit.items()
        )

    def shares(
        self, ready: int, above: int | None = None, rooms: Mapping[NodeId, int] | None = None
    ) -> list[tuple[NodeId, int]]:
        """How `ready` messages go to the nodes with credit; charges them.

        The highest level first; fairly, round robin, within a level. `above`: only higher levels.
        `rooms`: how many more each node may have at most, whatever its credit.
        """
        if not self.credit or not ready:
            return []
        wanting = [
            node for node, amount in self.credit.items() if amount > 0 and self.may_take(node)
        ]
        if rooms is not None:
            wanting = [node for node in wanting if rooms.get(node, 0) > 0]
        if not wanting:
            return []
        if not self.levels and above is None:
            return self._fair_shares(wanting, ready, rooms)
        shares: list[tuple[NodeId, int]] = []
        levels = {self.levels.get(node, 0): None for node in wanting}
        for level in sorted(levels, reverse=True):
            if above is not None and level <= above:
                break
            here = [node for node in wanting if self.levels.get(node, 0) == level]
            given = self._fair_shares(here, ready)
            ready -= sum(amount for _, amount in given)
            shares += given
        return shares

    def _fair_shares(
        self, wanting: list[NodeId], ready: int, rooms: Mapping[NodeId, int] | None = None
    ) -> list[tuple[NodeId, int]]:
        if not ready:
            return []
        first = self.first_served = (self.first_served + 1) % len(wanting)
        wanting = wanting[first:] + wanting[:first]
        shares: dict[NodeId, int] = {}
        left = {
            node: self.credit[node] if rooms is None else min(self.credit[node], rooms[node])
            for node in wanting
        }
        # Again while there is credit: who took less than its part leaves it to the others.
        while ready and wanting:
            for index, node in enumerate(wanting):
                fair = -(-ready // (len(wanting) - index))
                share = min(left[node], fair)
                if share:
                    shares[node] = shares.get(node, 0) + share
                    left[node] -= share
                    self.credit[node] -= share
                    ready -= share
            wanting = [node for node in wanting if left[node] > 0]
        for node, share in shares.items():
            self.sent[node] = self.sent.get(node, 0) + share
        return list(shares.items())

    def return_share(self, node: NodeId, count: int) -> None:
        """Gives a node back the credit for messages of its share that it was not sent."""
        self.credit[node] += count
        self.sent[node] -= count

    def give_back(self) -> list[tuple[NodeId, int]]:
        """The credit to return because the fragment is empty; offers are forgotten."""
        if self.offered:
            self.offered.clear()
        if not self.once:
            return []
        back = [(node, amount) for node in self.once if (amount := self.credit.pop(node, 0)) > 0]
        self.once.clear()
        for node, amount in back:
            self.sent[node] = self.sent.get(node, 0) + amount
        return back

    def offers(self) -> list[NodeId]:
        """The watchers to tell, and not told yet, that the fragment has messages left."""
        new = [
            node
            for node in self.consumers
            if self.credit.get(node, 0) <= 0 and node not in self.offered and self.may_take(node)
        ]
        self.offered.update(dict.fromkeys(new))
        return new
