"""Whether a message fails where it is tried alone, with all that is ever done with its content.

Input: a message, and the policy of the queue that it was for. Output: the exception, if there is
one. Everything is tried on a fragment that is thrown away. Nothing that lives is touched, so it can
be asked of any message at any time; it is asked only of those that a node failed at.
"""

from typing import Final

from fedq.amqp.content import Body, decode_properties
from fedq.amqp.deliveries import append_deliveries, deliver_suffix
from fedq.amqp.rare_contents import append_delivery, append_get_ok
from fedq.amqp.rewriting import (
    as_stored,
    copies_of,
    cycled_queues,
    dead_letter,
    delay_of,
    stripped_letter,
)
from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.limits import FRAME_BYTES_MAX
from fedq.core.message import route_of, split, split_route
from fedq.core.policy import QueuePolicy
from fedq.fragments.fragment import Fragment
from fedq.fragments.replica import Replica
from fedq.fragments.upkeep import enforcement

_TAKER: Final = NodeId("rehearsal")
_ORIGIN: Final = Origin(_TAKER, Incarnation(1))
_REIGN: Final = 1


def failure_of(message: bytes, policy: QueuePolicy, unix_ms: int) -> Exception | None:
    """What goes wrong with this message alone; None if nothing does."""
    try:
        _handle(message, policy._replace(dead_letter_exchange=""), unix_ms)
    except Exception as error:
        return error
    return None


def _handle(message: bytes, policy: QueuePolicy, unix_ms: int) -> None:
    _read(message, unix_ms)
    fragment = Fragment(
        FragmentId(1), _REIGN, durable=True, recording=True, policy=policy, unix_ms=unix_ms
    )
    fragment.publish(_ORIGIN, 1, [message], False, unix_ms)
    enforcement.fits(fragment, [message])
    _copy(fragment, policy, unix_ms)
    _deliver(fragment, unix_ms)
    fragment.requeue(_TAKER, list(fragment.messages))
    _deliver(fragment, unix_ms)
    fragment.reject(_TAKER, list(fragment.messages))
    _copy(fragment, policy, unix_ms)
    _expire(policy, message, unix_ms)


def _copy(fragment: Fragment, policy: QueuePolicy, unix_ms: int) -> None:
    """Tries copying: a backup follows, and its copy becomes the fragment of the next reign."""
    copy = Replica(FragmentId(1), durable=True)
    for record in fragment.out.records:
        copy.apply(record.data)
    Fragment(
        FragmentId(1), _REIGN + 1, durable=True, recording=True, policy=policy,
        messages=copy.in_order(), notes=copy.notes, unix_ms=unix_ms,
    )  # fmt: skip


def _read(message: bytes, unix_ms: int) -> None:
    """Tries what routing and dead-lettering make of the message."""
    split_route(route_of(message))
    decode_properties(split(message)[1])
    as_stored(message)
    copies_of(message, "CC")
    delay_of(message)
    for make in (dead_letter, stripped_letter):
        cycled_queues(make(message, "rejected", "", "", None, unix_ms // 1_000))


def _deliver(fragment: Fragment, unix_ms: int) -> None:
    """Tries delivering to a consumer, whichever way; a delayed message when it is due."""
    due_ms = enforcement.next_ms(fragment)
    enforcement.wake(fragment, unix_ms if due_ms is None else max(unix_ms, due_ms))
    taken = fragment.take(_TAKER, 1)
    parts: list[Body] = []
    append_deliveries(parts, 1, "", 1, taken.messages, None, FRAME_BYTES_MAX)
    for message in taken.messages:
        append_delivery(parts, 1, "", 1, message, False, FRAME_BYTES_MAX)
        append_get_ok(parts, 1, 1, False, message, 0, FRAME_BYTES_MAX)
        deliver_suffix(1, message, False, FRAME_BYTES_MAX)


def _expire(policy: QueuePolicy, message: bytes, unix_ms: int) -> None:
    """Tries dying where the message waits: of its age, and of the queue's length."""
    fragment = Fragment(FragmentId(1), _REIGN, durable=False, recording=False, policy=policy)
    fragment.publish_private([message], unix_ms)
    enforcement.trim(fragment, 1)
    due_ms = enforcement.expires_ms(fragment)
    if due_ms is not None:
        enforcement.expire(fragment, due_ms + 1, 1)
