"""Which nodes want a fragment's messages, and how many: the fragment's side of remote consumption.

Inputs: watches (how many consumers a node has), credit (how many messages it takes), the
fragment's ready count. Outputs: what to hand to whom, credit to give back, offers to make.

Two kinds of credit, as design D7 asks. *Standing* credit stays until used: no round trip per
message. Credit given `once` is for messages known to be here; what cannot be served at once goes
back, so that a scarce consumer never waits at an empty fragment while another one is full.

A watcher without credit is *offered* a non-empty fragment, once, until it answers or the fragment
runs empty.
"""

from fedq.core.ids import NodeId


class Takers:
    """The watchers of one fragment and their credit."""

    __slots__ = ("alone", "consumers", "credit", "had_consumers", "offered", "once", "turn")

    def __init__(self) -> None:
        self.consumers: dict[NodeId, int] = {}
        #: The node whose consumer is the only one the queue may have (basic.consume exclusive).
        self.alone: NodeId | None = None
        self.credit: dict[NodeId, int] = {}
        #: Nodes whose credit is to be given back when the fragment is empty.
        self.once: dict[NodeId, None] = {}
        self.offered: dict[NodeId, None] = {}
        #: Whether anybody ever consumed here: auto-delete waits for the first consumer.
        self.had_consumers = False
        self.turn = 0

    def admit(self, node: NodeId, alone: bool) -> bool:
        """Whether `node` may add a consumer, or one that is to be alone; counts it at once.

        Asked again, after a failover, the answer is the same: a node asks for one at a time.
        """
        if alone and self.alone == node:
            return True
        if self.alone is not None or (alone and self.consumers):
            return False
        self.consumers[node] = self.consumers.get(node, 0) + 1
        self.had_consumers = True
        if alone:
            self.alone = node
        return True

    def watch(self, node: NodeId, consumers: int, alone: bool = False) -> None:
        """`node` has this many consumers; without any, its credit is void."""
        if alone:
            self.alone = node
        elif self.alone == node:
            self.alone = None
        if consumers:
            self.consumers[node] = consumers
            self.had_consumers = True
        else:
            self.forget(node)

    def forget(self, node: NodeId) -> None:
        """The node is gone, or consumes no more."""
        if self.alone == node:
            self.alone = None
        self.consumers.pop(node, None)
        self.credit.pop(node, None)
        self.once.pop(node, None)
        self.offered.pop(node, None)

    def grant(self, node: NodeId, amount: int, once: bool) -> None:
        """`node` takes `amount` more messages."""
        self.credit[node] = self.credit.get(node, 0) + amount
        self.offered.pop(node, None)
        if once:
            self.once[node] = None

    def shares(self, ready: int) -> list[tuple[NodeId, int]]:
        """How `ready` messages go to the nodes with credit: fairly, in turn; charges them."""
        wanting = [node for node, amount in self.credit.items() if amount > 0]
        if not wanting or not ready:
            return []
        self.turn = (self.turn + 1) % len(wanting)
        wanting = wanting[self.turn :] + wanting[: self.turn]
        shares: dict[NodeId, int] = {}
        # Again while there is credit: who took less than its part leaves it to the others.
        while ready and wanting:
            for index, node in enumerate(wanting):
                fair = -(-ready // (len(wanting) - index))
                share = min(self.credit[node], fair)
                if share:
                    shares[node] = shares.get(node, 0) + share
                    self.credit[node] -= share
                    ready -= share
            wanting = [node for node in wanting if self.credit[node] > 0]
        return list(shares.items())

    def give_back(self) -> list[tuple[NodeId, int]]:
        """The fragment is empty: credit to return, and offers are forgotten."""
        self.offered.clear()
        back = [(node, amount) for node in self.once if (amount := self.credit.pop(node, 0))]
        self.once.clear()
        return back

    def offers(self) -> list[NodeId]:
        """The fragment has messages left: watchers to tell that were not told yet."""
        new = [
            node
            for node in self.consumers
            if not self.credit.get(node) and node not in self.offered
        ]
        self.offered.update(dict.fromkeys(new))
        return new
