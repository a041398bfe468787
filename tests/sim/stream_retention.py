"""What of a stream had to go by its size or age, and what had to stay.

Inputs: what was published and what is left of it, in the order of the stream. Outputs: sentences on
what does not fit. Messages go by whole segments, the oldest first, when another one begins; where
segments end nobody but the primary knows, so what is held is what any segments explain.
"""

from collections.abc import Sequence

from fedq.core.ids import POSITION_BITS
from tests.sim.streams import StreamPlan
from tests.sim.world import MS, SECOND

#: What a message takes in a stream beside its body, at most and at least.
_BESIDE_BODY_BYTES = 120
_BESIDE_BODY_BYTES_MIN = 50
_NUMBER_BYTES = 8
#: Nodes tell the time in milliseconds.
_CLOCK_US = 2 * MS
#: After a failover it is known to a second when something came, and never earlier than it did.
_NOTED_US = SECOND


class Published:
    """A message, and what became of its publish."""

    def __init__(self, number: int, label: str, sent_us: int, body: bytes) -> None:
        self.number = number
        #: The connection that it was sent on: what is sent on one is stored in order.
        self.label = label
        self.sent_us = sent_us
        self.body = body
        self.confirmed_us: int | None = None


def problems_of(
    plan: StreamPlan, left: Sequence[Published], lost: Sequence[Published], first_offset: int
) -> list[str]:
    """What went is the beginning; by size no more than had to go, and all that had to.

    `lost`: what was confirmed and is not there.
    """
    if not plan.retains:
        return []
    oldest: dict[str, int] = {}
    for each in left:
        oldest[each.label] = min(oldest.get(each.label, each.number), each.number)
    found = [
        f"P1: {sent.number} went, and an older one is there"
        for sent in lost
        if sent.number > oldest.get(sent.label, 1 << 60)
    ]
    if not plan.max_bytes:
        return found
    bodies = sum(len(each.body) for each in left)
    largest = _largest(plan)
    most = bodies + len(left) * _BESIDE_BODY_BYTES
    grain = 2 * (plan.segment_bytes + largest + _BESIDE_BODY_BYTES)
    # Where a reign begins says nothing: nobody need have published to the ones before.
    went = lost or first_offset & ((1 << POSITION_BITS) - 1)
    if went and most + grain < plan.max_bytes and not plan.max_age_s:
        found.append(f"{most} bytes are left of {plan.max_bytes} that may be kept")
    batch = max([each.burst for each in plan.publishers]) * (largest + _BESIDE_BODY_BYTES)
    if bodies > plan.max_bytes + grain + batch:
        found.append(f"{bodies} bytes are there, {plan.max_bytes} may be")
    return found


def gone_early(
    lost: Sequence[Published], first: Published, asked_us: int, old_us: int
) -> list[int]:
    """What was too young to go before a reader from the beginning got its first message.

    It was confirmed when that reader asked, stood before that message, and was sent after `old_us`.
    """
    return [
        sent.number
        for sent in lost
        if sent.label == first.label
        and sent.number < first.number
        and sent.confirmed_us is not None
        and sent.confirmed_us < asked_us
        and sent.sent_us > old_us + _CLOCK_US
    ]


def may_have_gone(
    plan: StreamPlan, missed: Sequence[Published], behind: Sequence[Published], at_us: int
) -> bool:
    """Whether a primary may have let messages go by then that are there nevertheless.

    It says so to its copies like all it does, and readers do not wait until they have heard it. So
    what one primary let go the next one may have still, until it lets it go itself.

    `behind`: what may have stood behind them by then.
    """
    if plan.max_age_s:
        old_us = at_us - plan.max_age_s * SECOND
        if all(sent.sent_us <= old_us + _CLOCK_US for sent in missed):
            return True
    if not plan.max_bytes:
        return False
    # The last segment to go was one too many.
    most = sum(len(sent.body) + _BESIDE_BODY_BYTES for sent in behind)
    return most + plan.segment_bytes + _largest(plan) + _BESIDE_BODY_BYTES > plan.max_bytes


def gone_late(
    plan: StreamPlan, left: Sequence[Published], age_us: int, is_faultless: bool
) -> list[int]:
    """What is left though it was too old when the last segment began.

    From a message on, its segment has ended within one grain; and within the last grain of all
    another one has begun. The message has to be gone if the youngest of its segment was too old.
    After a failover, one whose note went with what is gone counts as what is noted next.
    """
    largest = _largest(plan)
    batch = max([each.burst for each in plan.publishers]) * (largest + _BESIDE_BODY_BYTES)
    grain = plan.segment_bytes + largest + _BESIDE_BODY_BYTES + batch
    begun = len(left) - _within(left[::-1], grain)
    begun_us = min([each.sent_us for each in left[begun:]], default=0)
    for at, sent in enumerate(left):
        end = at + _within(left[at:], grain)
        if end > begun:
            break
        times = [each.confirmed_us for each in left[at:end]]
        known = [each for each in times if each is not None]
        if len(known) < len(times):
            continue
        came_us = max(known)
        if not is_faultless:
            noted = (each for each in left[end:] if each.sent_us > came_us + _NOTED_US)
            later = next(noted, None)
            if later is None or later.confirmed_us is None:
                break
            came_us = later.confirmed_us + _NOTED_US
        if begun_us - came_us > age_us + _CLOCK_US:
            return [sent.number]
    return []


def _largest(plan: StreamPlan) -> int:
    """The longest body that anybody sends, with its number."""
    return max(each.body_bytes for each in plan.publishers) + _NUMBER_BYTES


def _within(messages: Sequence[Published], size: int) -> int:
    """How many of these messages have together so many bytes at least; all if they have fewer."""
    for count, each in enumerate(messages, 1):
        size -= len(each.body) + _BESIDE_BODY_BYTES_MIN
        if size <= 0:
            return count
    return len(messages)
