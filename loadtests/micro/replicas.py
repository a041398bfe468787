"""Claim: a backup takes in a live record by its head: far below a microsecond a message.

Read: what it costs when the messages are taken out of the record at once, as a new primary must.
"""

from fedq.core import message
from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.fragments.replica import Replica
from fedq.journal.records import encode_enqueue, encode_settle
from loadtests.micro.timing import Case

BATCH = 200
FRAGMENT = FragmentId(1)
ORIGIN = Origin(NodeId("n1"), Incarnation(1))
ROUTE = message.make_route("", "orders")
BODIES = [message.encode(1, ROUTE, b"\x10\x00\x02", b"%016d" % number) for number in range(BATCH)]


def record(number: int) -> bytes:
    """A batch, and that the batch before it is gone; encoded beforehand, as by the primary."""
    first = 1 + number * (BATCH + 1)
    gone = encode_settle(FRAGMENT, 1, first + BATCH, [(first - BATCH - 1, first - 2)])
    return encode_enqueue(FRAGMENT, 1, first, ORIGIN, first, BODIES) + gone


RECORDS = [record(number) for number in range(1, 11)]


def follow(reads: bool) -> None:
    """A copy takes in the batches; `reads`: and their messages one by one."""
    copy = Replica(FRAGMENT, durable=True)
    for data in RECORDS:
        copy.apply(data)
        if reads:
            copy.in_order()


CASES = [
    Case("backup, a message in a batch", len(RECORDS) * BATCH, lambda: follow(False)),
    Case("backup, the same and read", len(RECORDS) * BATCH, lambda: follow(True)),
]
