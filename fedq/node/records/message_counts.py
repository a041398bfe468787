"""How many messages a node has had to do with since its start: sums by the run, never by message.

Changed by the flows that take publishes in, deliver, and settle; read by views alone.
"""


class MessageCounts:
    """What clients of this node have published, been confirmed, been delivered and settled."""

    __slots__ = (
        "acknowledged", "confirmed", "delivered", "delivered_settled", "got", "got_nothing",
        "received", "redelivered", "returned", "unroutable",
    )  # fmt: skip

    def __init__(self) -> None:
        #: Publishes that were taken, those of open transactions among them.
        self.received = 0
        #: Publishes that were acknowledged to their publishers.
        self.confirmed = 0
        #: Mandatory ones that went back, and others that went nowhere.
        self.returned = 0
        self.unroutable = 0
        #: Deliveries to consumers; and those of them that count as acknowledged by being sent.
        self.delivered = 0
        self.delivered_settled = 0
        #: Answers to basic.get, with a message and without.
        self.got = 0
        self.got_nothing = 0
        #: Of all deliveries and answers: those marked as redelivered.
        self.redelivered = 0
        #: Deliveries and answers that clients have acknowledged.
        self.acknowledged = 0

    def add_settled(self, count: int) -> None:
        """Adds deliveries that count as acknowledged by being sent."""
        self.delivered += count
        self.delivered_settled += count

    def copy(self) -> "MessageCounts":
        """The sums as they are now."""
        copied = MessageCounts()
        copied.received, copied.confirmed = self.received, self.confirmed
        copied.returned, copied.unroutable = self.returned, self.unroutable
        copied.delivered, copied.delivered_settled = self.delivered, self.delivered_settled
        copied.got, copied.got_nothing = self.got, self.got_nothing
        copied.redelivered, copied.acknowledged = self.redelivered, self.acknowledged
        return copied
