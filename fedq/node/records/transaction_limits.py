"""How much a transaction may hold: it waits in memory with its channel until it is committed.

Input: a channel whose transaction has just grown. Output: nothing, or `ChannelViolation` 406, upon
which the channel closes and the transaction is forgotten. The bytes are those of all channels of
the connection together.
"""

from fedq.core.errors import PRECONDITION_FAILED, ChannelViolation
from fedq.core.limits import TRANSACTION_BYTES_MAX, TRANSACTION_STEPS_MAX
from fedq.node.records.client_state import Channel, Transaction


def grow(channel: Channel, transaction: Transaction, size: int) -> None:
    """Counts bytes that the transaction holds more."""
    transaction.size += size
    channel.client.transaction_bytes += size


def forget(channel: Channel, transaction: Transaction) -> None:
    """Counts what an ended transaction held no more."""
    channel.client.transaction_bytes -= transaction.size
    transaction.size = 0


def check_room(channel: Channel, transaction: Transaction, class_id: int, method_id: int) -> None:
    """Raises `ChannelViolation` 406, in the method's name, if the transaction is too large."""
    steps = len(transaction.publishes) + transaction.settled
    size = channel.client.transaction_bytes
    if size > TRANSACTION_BYTES_MAX or steps > TRANSACTION_STEPS_MAX:
        text = (
            f"a transaction holds at most {TRANSACTION_STEPS_MAX} steps, and all of one connection "
            f"{TRANSACTION_BYTES_MAX} bytes: commit more often"
        )
        raise ChannelViolation(PRECONDITION_FAILED, text, class_id, method_id)
